//! Sizes and durations as users write them: `4k`, `1GB`, `500ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Why a size or duration was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a size.
    #[error("size '{value}': expected a whole number, maybe with k, m, g, t (1024) or kB, MB, GB, TB (1000)")]
    Size {
        /// What was given.
        value: String,
    },
    /// More than 64 bits hold.
    #[error("size '{value}': the limit is {} bytes", u64::MAX)]
    SizeTooLarge {
        /// What was given.
        value: String,
    },
    /// Not a duration.
    #[error("duration '{value}': expected a number with an optional unit ns, us, ms, s, m or h")]
    Duration {
        /// What was given.
        value: String,
    },
    /// Too long.
    #[error("duration '{value}': the limit is {} days", MAX_DURATION.as_secs() / 86_400)]
    DurationTooLong {
        /// What was given.
        value: String,
    },
}

const MAX_DURATION: Duration = Duration::from_secs(365 * 86_400);

/// A number of bytes: `k`, `m`, `g`, `t` (or `KiB` ...) are powers of 1024, `kB`, `MB`, `GB`, `TB` of 1000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || UnitError::Size { value: text.to_owned() };
        let (digits, unit) = split_number(text, false);
        let factor = factor(unit).ok_or_else(wrong)?;
        if digits.is_empty() {
            return Err(wrong());
        }
        let large = || UnitError::SizeTooLarge { value: text.to_owned() };
        let number: u64 = digits.parse().map_err(|_| large())?;
        number.checked_mul(factor).map(ByteSize).ok_or_else(large)
    }
}

/// Bytes of one `unit`; `None` where there is no such unit.
fn factor(unit: &str) -> Option<u64> {
    let (base, prefix) = match unit.len() {
        0 => return Some(1),
        1 if unit.eq_ignore_ascii_case("b") => return Some(1),
        1 => (1024u64, unit),
        2 if unit.ends_with('B') => (1000, &unit[..1]),
        3 if unit.ends_with("iB") => (1024, &unit[..1]),
        _ => return None,
    };
    let power = match prefix {
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" => 3,
        "t" | "T" => 4,
        _ => return None,
    };
    Some(base.pow(power))
}

/// The leading number and what follows it.
fn split_number(text: &str, fraction: bool) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || fraction && c == '.')).unwrap_or(text.len());
    text.split_at(end)
}

impl fmt::Display for ByteSize {
    /// The largest unit of 1024 that divides the size: `4k`, `1g`, `513`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "t"), (30, "g"), (20, "m"), (10, "k")] {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

/// Reads a duration: `3`, `3s`, `1.5s`, `500ms`, `20us`, `1ns`, `2m`, `1h`. A bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let wrong = || UnitError::Duration { value: text.to_owned() };
    let (digits, unit) = split_number(text, true);
    let seconds = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let long = || UnitError::DurationTooLong { value: text.to_owned() };
    let duration = Duration::try_from_secs_f64(number * seconds).map_err(|_| long())?;
    if duration > MAX_DURATION { Err(long()) } else { Ok(duration) }
}

/// Refuses lengths that memory cannot have.
pub(crate) fn checked_len(bytes: u64) -> Result<usize, warpbell_hw::MemoryError> {
    usize::try_from(bytes)
        .map_err(|_| warpbell_hw::MemoryError::Length { len: usize::MAX, max: isize::MAX as usize })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_unit_systems() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512b", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("4KiB", 4096),
            ("4kB", 4000),
            ("1m", 1 << 20),
            ("1MB", 1_000_000),
            ("1g", 1 << 30),
            ("1GB", 1_000_000_000),
            ("2t", 2 << 40),
            ("16777215t", 16_777_215 << 40),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn wrong_sizes_are_named() {
        for text in ["", "k", "-1", "1.5g", "4kb", "4x", "4 k", "0x10", "1kk", "１k", "4kiB2"] {
            assert_eq!(text.parse::<ByteSize>(), Err(UnitError::Size { value: text.into() }), "{text}");
        }
        for text in ["18446744073709551616", "16777216t", "99999999999999999999g"] {
            let error = text.parse::<ByteSize>().unwrap_err();
            assert_eq!(error, UnitError::SizeTooLarge { value: text.into() });
            assert!(error.to_string().contains("18446744073709551615"));
        }
    }

    #[test]
    fn sizes_print_back_and_parse_again() {
        for (bytes, text) in [(0, "0"), (513, "513"), (4096, "4k"), (1 << 30, "1g"), (3 << 40, "3t")] {
            assert_eq!(ByteSize(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(ByteSize(bytes)));
        }
    }

    #[test]
    fn durations() {
        for (text, ms) in
            [("3", 3000), ("3s", 3000), ("1.5s", 1500), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse_duration("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(parse_duration("1ns"), Ok(Duration::from_nanos(1)), "as messages about the least have it");
        for text in ["", "s", "1.2.3s", "3d", "-1", "inf", "nan", "1 s"] {
            assert_eq!(parse_duration(text), Err(UnitError::Duration { value: text.into() }), "{text}");
        }
        for text in ["999999h", "99999999999999999999999999s"] {
            assert_eq!(parse_duration(text), Err(UnitError::DurationTooLong { value: text.into() }));
        }
    }
}
