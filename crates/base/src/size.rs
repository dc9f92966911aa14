//! Sizes as people write them: `4096`, `64k`, `1g`, `500MB`.

/// Why a text is no size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Other characters, or none.
    #[error("expected a whole number, maybe with k, m, g, t (1024) or kB, MB, GB, TB (1000)")]
    NotASize,
    /// More than 64 bits hold.
    #[error("the limit is {} bytes", u64::MAX)]
    TooLarge,
}

/// Bytes of one unit, in either case: `k`, `m`, `g`, `t` and `KiB` to `TiB` are powers of 1024, `kB` to `TB` of 1000;
/// `b` and nothing are a byte. `None`: there is no such unit.
pub fn unit_bytes(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let (base, prefix) = match unit.as_str() {
        "" | "b" => return Some(1),
        one if one.len() == 1 => (1024_u64, one),
        other => match other.strip_suffix("ib") {
            Some(prefix) => (1024, prefix),
            None => (1000, other.strip_suffix('b')?),
        },
    };
    let power = ["k", "m", "g", "t"].iter().position(|name| *name == prefix)?;
    Some(base.pow(power as u32 + 1))
}

/// A whole number and the unit behind it, in bytes. There may be blanks between the two.
pub fn bytes(text: &str) -> Result<u64, SizeError> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = unit_bytes(unit.trim()).ok_or(SizeError::NotASize)?;
    if number.is_empty() {
        return Err(SizeError::NotASize);
    }
    // Digits alone that do not fit are too many, not wrong.
    let number: u64 = number.parse().map_err(|_| SizeError::TooLarge)?;
    number.checked_mul(factor).ok_or(SizeError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_unit_systems() {
        for (text, size) in [
            ("0", 0),
            ("512", 512),
            ("512b", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("4 k", 4096),
            ("4KiB", 4096),
            ("4kib", 4096),
            ("4kB", 4000),
            ("4kb", 4000),
            ("1m", 1 << 20),
            ("1MB", 1_000_000),
            ("1g", 1 << 30),
            ("1GB", 1_000_000_000),
            ("2t", 2 << 40),
            ("2TB", 2_000_000_000_000),
            ("16777215t", 16_777_215 << 40),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "k", "-1", "+1", "1.5g", "4x", "0x10", "1kk", "１k", "4kiB2", "1bb", "1ib", "é"] {
            assert_eq!(bytes(text), Err(SizeError::NotASize), "{text}");
        }
        for text in ["18446744073709551616", "16777216t", "99999999999999999999g"] {
            assert_eq!(bytes(text), Err(SizeError::TooLarge), "{text}");
        }
    }
}
