//! What every file system here can do.

use crate::{Error, FileMap, WritableFile};

/// A file system of a source: files by path.
///
/// Paths are absolute, with `/` between names that are bytes other than `/` and NUL; they are taken as UTF-8.
pub trait FileSystem {
    /// What it is, in a word: `ext4`.
    fn kind(&self) -> &'static str;

    /// What is in a folder, or the file itself.
    fn entries(&self, path: &str) -> Result<Vec<Entry>, Error>;

    /// Where a file's bytes lie. Symbolic links are followed.
    fn file(&self, path: &str) -> Result<FileMap, Error>;

    /// A file whose bytes may be overwritten in place. Symbolic links are followed.
    ///
    /// # Errors
    /// A file system, or a file of it, where that would contradict something else that is stored.
    fn writable(&self, path: &str) -> Result<WritableFile, Error> {
        Err(Error::refused(path, format!("files of {} are not written", self.kind())))
    }
}

/// A path that ends with `/` names a folder, as in Linux.
pub(crate) fn no_folder(path: &str) -> Error {
    Error::absent(path, "it is a file, and what ends with / names a folder")
}

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name alone.
    pub name: String,
    /// What it names.
    pub kind: EntryKind,
    /// Bytes of a file; 0 for others.
    pub size: u64,
}

/// What a name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, socket or pipe.
    Special,
}
