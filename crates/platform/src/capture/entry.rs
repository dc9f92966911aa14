//! One path of a captured machine.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

/// Bytes of a row.
const ROW: usize = 32;

/// The most that a file of bytes may have: configuration space of PCIe takes 4 KiB.
const LARGEST: usize = 4096;

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    /// A folder with nothing in it that matters.
    Folder,
    /// A symbolic link, and its target.
    Link(String),
    /// A file of text.
    Text(String),
    /// A file of bytes.
    Bytes(Rows),
}

/// Bytes by rows of 32, as hexadecimal digits by hexadecimal offset. Rows of zeros are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rows {
    length: usize,
    rows: BTreeMap<String, String>,
}

impl Entry {
    pub(super) fn file(contents: &[u8]) -> Entry {
        match std::str::from_utf8(contents) {
            Ok(text) if !text.contains('\0') => Entry::Text(text.to_owned()),
            _ => Entry::Bytes(Rows::of(contents)),
        }
    }
}

impl Rows {
    fn of(contents: &[u8]) -> Rows {
        let rows = contents.chunks(ROW).enumerate().filter(|(_, row)| row.iter().any(|byte| *byte != 0));
        let digits = |row: &[u8]| row.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let rows = rows.map(|(index, row)| (format!("{:03x}", index * ROW), digits(row))).collect();
        Rows { length: contents.len(), rows }
    }

    pub(super) fn contents(&self) -> io::Result<Vec<u8>> {
        let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        if self.length > LARGEST {
            return Err(bad(format!("{} bytes, at most {LARGEST} are taken", self.length)));
        }
        let mut contents = vec![0; self.length];
        for (offset, digits) in &self.rows {
            let place = usize::from_str_radix(offset, 16).ok();
            let filled = place.and_then(|at| fill(contents.get_mut(at..)?, digits));
            filled.ok_or_else(|| bad(format!("row {offset}: {digits:?} are no bytes of {}", self.length)))?;
        }
        Ok(contents)
    }
}

/// Two hexadecimal digits for each byte; nothing if they are none, or too many.
fn fill(place: &mut [u8], digits: &str) -> Option<()> {
    let digits = digits.as_bytes();
    let right = digits.len().is_multiple_of(2) && digits.len() / 2 <= place.len();
    (right && digits.iter().all(u8::is_ascii_hexdigit)).then_some(())?;
    for (byte, pair) in place.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_they_were() {
        for contents in [vec![], vec![0; 64], (0..=255).collect::<Vec<u8>>(), vec![0xff; 33]] {
            let rows = Rows::of(&contents);
            assert_eq!(rows.contents().unwrap(), contents, "{rows:?}");
        }
        let mut zeros = vec![0; 4096];
        zeros[4095] = 1;
        assert_eq!(Rows::of(&zeros).rows.len(), 1);
    }

    #[test]
    fn rows_that_are_none_are_refused() {
        for (offset, digits) in [
            ("000", "0g"),
            ("000", "+f"),
            ("000", "000"),
            ("x", "00"),
            ("03f", "0000"),
            ("000", "é0"),
            ("fffffffffffffff", "00"),
        ] {
            let rows = [(offset.to_owned(), digits.to_owned())].into();
            let error = Rows { length: 64, rows }.contents().unwrap_err();
            assert!(error.to_string().contains(offset), "{error}");
        }
        assert!(Rows { length: LARGEST + 1, rows: BTreeMap::new() }.contents().is_err());
    }
}
