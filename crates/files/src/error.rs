//! Why a file cannot be read.

/// Why a file, or the file system around it, cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something that is not understood, or not safe to read: by name.
    #[error("{object}: {reason}")]
    Refused {
        /// What was refused.
        object: String,
        /// Why, and what to do instead.
        reason: String,
    },
    /// Bytes that contradict each other or their checksum.
    #[error("{object} is damaged: {reason}")]
    Damaged {
        /// Which structure, and where it lies.
        object: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A path that leads to no file.
    #[error("{path}: {reason}")]
    Absent {
        /// The path as given.
        path: String,
        /// Which part of it is missing, or not what it should be.
        reason: String,
    },
    /// A value outside its limits.
    #[error("{object} {value}: {limit}")]
    Argument {
        /// What was given.
        object: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        limit: String,
    },
    /// The system refused a file of this machine.
    #[error("{action} {path}: {source}")]
    File {
        /// `opening`, `reading`, or the like.
        action: &'static str,
        /// Which file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The SSD or the image failed.
    #[error("{action} {bytes} bytes at byte {offset}: {source}")]
    Io {
        /// `reading` or `writing`.
        action: &'static str,
        /// Where.
        offset: u64,
        /// How many.
        bytes: u64,
        /// What the SSD or the system says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// A structure that contradicts itself.
    pub fn damaged(object: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Damaged { object: object.into(), reason: reason.into() }
    }

    /// Something that is not read.
    pub fn refused(object: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Refused { object: object.into(), reason: reason.into() }
    }

    /// A file of this machine that the system refused.
    pub fn file(action: &'static str, path: &std::path::Path, source: std::io::Error) -> Error {
        Error::File { action, path: path.display().to_string(), source }
    }

    /// A path that leads to no file.
    pub fn absent(path: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Absent { path: path.into(), reason: reason.into() }
    }
}
