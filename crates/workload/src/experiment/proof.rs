//! What was read, beside what the SSD or file has there: a way that brings other data is none.

use std::fs::File;
use std::os::unix::fs::FileExt;

use warpbell_hw::Lba;

use super::Lab;
use super::host_reads::Shape;
use crate::error::RunError;

/// Where the right data is.
pub(super) enum Original<'a> {
    /// The lab's SSD. A software controller's contents are looked at behind its back: a read of its might be wrong again.
    Ssd(&'a Lab<'a>),
    /// A file, read by way of the page cache.
    File(&'a File),
}

impl Original<'_> {
    /// An error where `got` is not what is there at `offset`.
    pub(super) fn check(&self, way: &str, shape: Shape, offset: u64, got: &[u8]) -> Result<(), RunError> {
        let mut right = vec![0; got.len()];
        self.read(shape, offset, &mut right)?;
        let Some(at) = (0..got.len()).find(|at| got[*at] != right[*at]) else { return Ok(()) };
        Err(RunError::Unmeasurable(format!(
            "{way}: byte {} was read as {:#04x}, and is {:#04x}: wrong data, and no figure",
            offset + at as u64,
            got[at],
            right[at]
        )))
    }

    fn read(&self, shape: Shape, offset: u64, into: &mut [u8]) -> Result<(), RunError> {
        match self {
            Original::Ssd(lab) => {
                let (nsid, lba) = (lab.options.nsid, Lba(offset / shape.block));
                match lab.ssd.soft() {
                    Some(soft) => soft
                        .peek(nsid, lba, into)
                        .map_err(|error| RunError::Unmeasurable(format!("{}: {error}", lab.ssd.name()))),
                    None => Ok(lab.ssd.read(Some(nsid), lba, into)?),
                }
            }
            Original::File(file) => file.read_exact_at(into, offset).map_err(|source| RunError::Stream {
                side: "the file that the operating system reads",
                source,
            }),
        }
    }
}
