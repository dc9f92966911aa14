//! Text fields: ASCII, padded with spaces.

/// The text of a field: its printable ASCII prefix without surrounding spaces.
///
/// Some devices pad with NUL instead of spaces; the prefix ends there too.
pub fn ascii(field: &[u8]) -> &str {
    let printable = field.iter().take_while(|byte| matches!(byte, 0x20..=0x7e)).count();
    core::str::from_utf8(&field[..printable]).unwrap_or_default().trim_matches(' ')
}

/// `text` as a field of `N` bytes, padded with spaces; what does not fit or is not printable ASCII is cut off.
pub const fn pad_ascii<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < N && i < bytes.len() && matches!(bytes[i], 0x20..=0x7e) {
        field[i] = bytes[i];
        i += 1;
    }
    field
}
