//! Addresses of PCI functions.

use std::fmt;
use std::str::FromStr;

/// A PCI function: `domain:bus:device.function`, written in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bdf {
    /// PCI segment.
    pub domain: u16,
    /// Bus number.
    pub bus: u8,
    /// Device number, 0 to 31.
    pub device: u8,
    /// Function number, 0 to 7.
    pub function: u8,
}

impl FromStr for Bdf {
    type Err = ();

    /// Takes `dddd:bb:dd.f` and `bb:dd.f` (domain 0), all in hexadecimal.
    fn from_str(text: &str) -> Result<Bdf, ()> {
        let (rest, function) = text.rsplit_once('.').ok_or(())?;
        let (rest, device) = rest.rsplit_once(':').ok_or(())?;
        let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0000", rest));
        let hex = |digits: &str, width: usize| {
            let well_formed = digits.len() == width && digits.bytes().all(|b| b.is_ascii_hexdigit());
            if well_formed { u16::from_str_radix(digits, 16).map_err(|_| ()) } else { Err(()) }
        };
        let (device, function) = (hex(device, 2)? as u8, hex(function, 1)? as u8);
        if device > 31 || function > 7 {
            return Err(());
        }
        Ok(Bdf { domain: hex(domain, 4)?, bus: hex(bus, 2)? as u8, device, function })
    }
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{}", self.domain, self.bus, self.device, self.function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip_and_may_leave_out_domain_0() {
        for text in ["0000:41:00.0", "10de:0a:1f.7"] {
            assert_eq!(text.parse::<Bdf>().unwrap().to_string(), text);
        }
        assert_eq!("41:00.0".parse::<Bdf>().unwrap().to_string(), "0000:41:00.0");
        for text in ["", "41:00", "0000:41:20.0", "0000:41:00.8", "41:0.0", "+1:00.0"] {
            assert_eq!(text.parse::<Bdf>(), Err(()), "{text}");
        }
    }
}
