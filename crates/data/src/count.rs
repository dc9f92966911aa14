//! Numbers on the command line.

use warpbell_base::SizeError;

/// Why a text is no such number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// Other characters, or none.
    #[error("expected a whole number, which may end in k, m or g")]
    NotANumber,
    /// Its unit makes it too large.
    #[error("more than 64 bits hold")]
    TooLarge,
}

/// A number such as `100`, `64k`, `1m` or `2g`, in powers of 1024: for sizes of data on command lines.
pub fn count(text: &str) -> Result<u64, CountError> {
    // What is counted need not be bytes: units of bytes say nothing here.
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    if !["", "k", "K", "m", "M", "g", "G"].contains(&unit) {
        return Err(CountError::NotANumber);
    }
    warpbell_base::bytes(text).map_err(|error| match error {
        SizeError::NotASize => CountError::NotANumber,
        SizeError::TooLarge => CountError::TooLarge,
    })
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn units_are_powers_of_1024() {
        for (text, number) in [("0", 0), ("100", 100), ("64k", 65536), ("1M", 1 << 20), ("2g", 2 << 30)] {
            assert_eq!(count(text), Ok(number));
        }
        for text in ["", "k", "-1", "+1", "1.5k", "1kk", "99999999999g", "1t", "é"] {
            assert!(count(text).is_err(), "{text}");
        }
    }
}
