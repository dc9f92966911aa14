//! Files whose header says something else than their kind would, for tests.

use std::os::unix::fs::FileExt;

use tempfile::NamedTempFile;
use warpbell_data::{Error, HEADER_BYTES, Kind, generate};

/// Where a header has the bytes of a section.
pub fn bytes_of_section(index: usize) -> usize {
    256 + index * 32 + 24
}

/// A file of that kind, with 64 bits of its header set to `word`, and the checksum that then is right.
pub fn file(kind: &Kind, at: usize, word: u64) -> Result<NamedTempFile, Error> {
    let mut file = NamedTempFile::new()?;
    generate(kind, 1, &mut file)?;
    let mut header = [0; HEADER_BYTES as usize];
    file.as_file().read_exact_at(&mut header, 0)?;
    header[at..at + 8].copy_from_slice(&word.to_le_bytes());
    let (said, sum) = header.split_at_mut(HEADER_BYTES as usize - 8);
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    sum.copy_from_slice(&said.iter().fold(0xcbf2_9ce4_8422_2325, step).to_le_bytes());
    file.as_file().write_all_at(&header, 0)?;
    Ok(file)
}
