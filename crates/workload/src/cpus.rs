//! Processors as users write them, each by itself or from the first to the last: `1`, `0-3`.

use std::str::FromStr;

/// Processors at most: more than Linux knows.
const LIMIT: usize = 1 << 20;

/// A processor, or several that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuRange {
    first: usize,
    last: usize,
}

/// Not a processor, nor a range of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{value}': expected a whole number below {LIMIT}, or FIRST-LAST, such as 0-3")]
pub struct CpuRangeError {
    value: String,
}

impl CpuRange {
    /// All of them.
    pub fn all(self) -> impl Iterator<Item = usize> {
        self.first..=self.last
    }
}

impl FromStr for CpuRange {
    type Err = CpuRangeError;

    fn from_str(text: &str) -> Result<CpuRange, CpuRangeError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last && last < LIMIT => Ok(CpuRange { first, last }),
            _ => Err(CpuRangeError { value: text.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_named_one_by_one_or_from_first_to_last() {
        let all = |text: &str| text.parse().map(|range: CpuRange| range.all().collect::<Vec<_>>());
        assert_eq!(all("5"), Ok(vec![5]));
        assert_eq!(all("0-3"), Ok(vec![0, 1, 2, 3]));
        assert_eq!(all("1048575"), Ok(vec![1_048_575]));
        for text in ["", "-", "-1", "3-", "3-1", "a", "0-1048576", "1-2-3"] {
            let error = all(text).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("'{text}': expected a whole number below 1048576, or FIRST-LAST, such as 0-3")
            );
        }
    }
}
