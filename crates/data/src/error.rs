//! What can be wrong with data.

use std::io;

/// Why data could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A size outside its limits.
    #[error("{object} {value}: {limit}")]
    Size {
        /// Which, as on the command line.
        object: &'static str,
        /// What was given.
        value: u64,
        /// What is allowed.
        limit: String,
    },
    /// A file that is none of ours, or a damaged one.
    #[error("header: {reason}")]
    Header {
        /// What is wrong with it.
        reason: String,
    },
    /// Something that the file does not have.
    #[error("data of kind {kind}: no {what} '{name}'")]
    Absent {
        /// The file's kind.
        kind: String,
        /// Parameter or section.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The file could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// A size that is not in `limits`.
    pub(crate) fn unless_within(
        object: &'static str,
        value: u64,
        limits: std::ops::RangeInclusive<u64>,
    ) -> Result<(), Error> {
        if limits.contains(&value) {
            return Ok(());
        }
        let limit = format!("must be from {} to {}", limits.start(), limits.end());
        Err(Error::Size { object, value, limit })
    }
}
