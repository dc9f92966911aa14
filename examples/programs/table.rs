//! A table of rows of floats, as the host knows it.

use warpbell_examples::{DataFile, Failure};

/// Where a table is, and how large.
pub struct Table {
    /// Its first byte on the SSD.
    pub offset: u64,
    /// Its rows.
    pub rows: u64,
    /// Floats of a row.
    pub dim: u64,
}

impl Table {
    /// Of a file of kind `embeddings`. Kernels may not be sent outside the table: refuses sizes that it has no bytes for.
    pub fn of(data: &DataFile) -> Result<Table, Failure> {
        let (rows, dim) = (data.parameter("rows")?, data.parameter("dim")?);
        let section = data.section("rows")?;
        if !(1..=1 << 16).contains(&dim) || rows == 0 || rows.checked_mul(dim * 4) != Some(section.bytes) {
            let bytes = section.bytes;
            return Err(
                data.refused(format!("{rows} rows of {dim} elements, and the table has {bytes} bytes"))
            );
        }
        Ok(Table { offset: section.offset, rows, dim })
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> u64 {
        self.dim * 4
    }
}
