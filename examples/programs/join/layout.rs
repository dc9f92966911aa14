//! What is where on the SSD.

use warpbell_data::Section;
use warpbell_examples::{DataFile, Failure};

/// One column.
pub struct Side {
    /// Its first byte.
    pub from: u64,
    /// Its rows, of 16 bytes.
    pub rows: u64,
    /// The first byte of its partitions.
    pub to: u64,
}

/// Both columns, their partitions, and the matches.
pub struct Layout {
    pub left: Side,
    pub right: Side,
    /// How many each column is dealt into.
    pub partitions: u64,
    /// The first byte of the matches.
    pub out: u64,
    /// Matches that there is room for, of 24 bytes.
    pub out_rows: u64,
    /// One behind the last byte of all.
    pub end: u64,
}

impl Layout {
    /// Partitions of about `table` left rows, and room for so many matches, and for one at least.
    pub fn new(data: &DataFile, table: u64, matches: u64) -> Result<Layout, Failure> {
        let (left, right) = (rows_of(data, "left")?, rows_of(data, "right")?);
        let mut end = data.room();
        let mut room = |bytes: u64| {
            let first = end;
            end = (first + bytes).next_multiple_of(4096);
            first
        };
        let left = Side { from: left.offset, rows: left.bytes / 16, to: room(left.bytes) };
        let right = Side { from: right.offset, rows: right.bytes / 16, to: room(right.bytes) };
        let (out_rows, partitions) = (matches.max(1), left.rows.div_ceil(table));
        let out = room(out_rows * 24);
        Ok(Layout { left, right, partitions, out, out_rows, end })
    }
}

/// Refuses a column without a row: it would be dealt into no partitions.
fn rows_of(data: &DataFile, name: &str) -> Result<Section, Failure> {
    let section = data.section(name)?;
    let bytes = section.bytes;
    if bytes == 0 || !bytes.is_multiple_of(16) {
        let limit =
            format!("section '{name}' has {bytes} bytes: it must be rows of 16 bytes, and one at least");
        return Err(data.refused(limit));
    }
    Ok(section)
}
