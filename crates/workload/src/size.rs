//! Sizes and durations as users write them: `4k`, `1GB`, `500ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use warpbell_base::SizeError;

/// Why a size or duration was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a size, or too large a one.
    #[error("size '{value}': {error}")]
    Size {
        /// What was given.
        value: String,
        /// What is wrong with it.
        error: SizeError,
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
        let size = warpbell_base::bytes(text);
        size.map(ByteSize).map_err(|error| UnitError::Size { value: text.to_owned(), error })
    }
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
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
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
    fn wrong_sizes_are_named() {
        for (text, error) in [("4x", SizeError::NotASize), ("16777216t", SizeError::TooLarge)] {
            let refused = text.parse::<ByteSize>().unwrap_err();
            assert_eq!(refused, UnitError::Size { value: text.into(), error });
            assert_eq!(refused.to_string(), format!("size '{text}': {error}"));
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
