//! Durations, sizes and rates as people write them.

use std::time::Duration;

/// The longest duration that a plan or a profile may name.
pub(crate) const LONGEST: Duration = Duration::from_secs(3600);

const TIMES: &[(&str, f64)] = &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

/// Splits `1.5 ms` into its number and its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    Some((number, text[digits..].trim()))
}

/// `10us`, `1.5ms`, `2s`: from 1 ns to an hour, to whole nanoseconds.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let factor = TIMES.iter().find(|(name, _)| *name == unit)?.1;
    let nanoseconds = (number * factor).round();
    let longest = LONGEST.as_nanos() as f64;
    (1.0..=longest).contains(&nanoseconds).then(|| Duration::from_nanos(nanoseconds as u64))
}

/// `64k`, `1.5MB`: bytes, 1 or more.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let bytes = number * warpbell_base::unit_bytes(unit)? as f64;
    (1.0..=2f64.powi(63)).contains(&bytes).then_some(bytes as u64)
}

/// `2.4GB/s`: bytes per second.
pub(crate) fn rate(text: &str) -> Option<u64> {
    size(text.trim().strip_suffix("/s")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_limits() {
        assert_eq!(duration("10us"), Some(Duration::from_micros(10)));
        assert_eq!(duration("1.5 ms"), Some(Duration::from_micros(1500)));
        assert_eq!(duration("3600s"), Some(LONGEST));
        for bad in ["", "10", "us", "-1us", "0ns", "0.1ns", "3601s", "1h", "1e3us"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes_and_rates() {
        assert_eq!((size("64k"), size("1.5MB"), size("7")), (Some(65536), Some(1_500_000), Some(7)));
        assert_eq!((rate("2.4GB/s"), rate("1GiB/s")), (Some(2_400_000_000), Some(1 << 30)));
        assert_eq!((size("0"), size("4x"), rate("1GB"), rate("/s")), (None, None, None, None));
    }
}
