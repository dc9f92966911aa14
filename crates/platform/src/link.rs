//! PCIe links: what speed and width come to in bytes.

use std::fmt;

use serde::Serialize;

/// A PCIe link at some speed and width.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Link {
    /// Billions of transfers a second and lane, such as 16.0.
    pub gt_per_s: f64,
    /// Lanes.
    pub width: u32,
}

impl Link {
    /// From the kernel's words, such as `16.0 GT/s PCIe` and `4`. Nothing for `Unknown` and for a link that is down.
    pub fn parse(speed: &str, width: u64) -> Option<Link> {
        let gt_per_s: f64 = speed.split_whitespace().next()?.parse().ok()?;
        let width = u32::try_from(width).ok().filter(|width| (1..=32).contains(width))?;
        (gt_per_s > 0.0).then_some(Link { gt_per_s, width })
    }

    /// Bits of data and bits on the wire, as the encoding of this speed has them. 64 GT/s has fixed-size FLITs: 236 of
    /// 256 bytes are for packets.
    pub fn encoding(self) -> (u32, u32) {
        match self.gt_per_s {
            speed if speed < 8.0 => (8, 10),
            speed if speed < 64.0 => (128, 130),
            _ => (236, 256),
        }
    }

    /// Bytes a second in one direction, after the encoding and before packet headers.
    pub fn bytes_per_s(self) -> u64 {
        let (data, wire) = self.encoding();
        (self.gt_per_s * 1e9 / 8.0 * f64::from(self.width) * f64::from(data) / f64::from(wire)) as u64
    }

    /// Its rate in GB/s (10^9), as people read it.
    pub fn rate(self) -> String {
        rate(self.bytes_per_s())
    }
}

/// `7.88 GB/s`.
pub(crate) fn rate(bytes_per_s: u64) -> String {
    format!("{:.2} GB/s", bytes_per_s as f64 / 1e9)
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GT/s x{}", self.gt_per_s, self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_specification() {
        for (speed, width, text) in [
            ("2.5 GT/s PCIe", 1, "0.25 GB/s"),
            ("5.0 GT/s PCIe", 4, "2.00 GB/s"),
            ("8.0 GT/s PCIe", 4, "3.94 GB/s"),
            ("16.0 GT/s PCIe", 4, "7.88 GB/s"),
            ("32.0 GT/s PCIe", 16, "63.02 GB/s"),
            ("64.0 GT/s PCIe", 16, "118.00 GB/s"),
        ] {
            assert_eq!(Link::parse(speed, width).unwrap().rate(), text, "{speed} x{width}");
        }
    }

    #[test]
    fn a_link_that_is_down_or_unknown_is_none() {
        assert_eq!(Link::parse("Unknown", 4), None);
        assert_eq!(Link::parse("16.0 GT/s PCIe", 0), None);
        assert_eq!(Link::parse("16.0 GT/s PCIe", 255), None);
        assert_eq!(Link::parse("", 4), None);
    }
}
