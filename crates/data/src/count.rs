//! Numbers on the command line.

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
    let shift = match text.as_bytes().last().map(u8::to_ascii_lowercase) {
        Some(b'k') => 10,
        Some(b'm') => 20,
        Some(b'g') => 30,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    let number: u64 = match digits.parse() {
        Ok(number) if digits.bytes().all(|byte| byte.is_ascii_digit()) => number,
        _ => return Err(CountError::NotANumber),
    };
    number.checked_mul(1 << shift).ok_or(CountError::TooLarge)
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
