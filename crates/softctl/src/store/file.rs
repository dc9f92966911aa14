//! Blocks in a file or block device, through pread and pwrite: a file that changes its length under us yields an
//! error, never a signal.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use super::StoreError;
use crate::error::SoftError;

/// Zeros written where the file system cannot make holes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// An open file.
#[derive(Debug)]
pub(crate) struct FileStore {
    file: File,
    /// The file's length when the controller started; what lies behind is the zero tail.
    exact: u64,
    path: PathBuf,
    /// The first thing that the system refused.
    failure: OnceLock<String>,
}

fn open(path: &Path, writable: bool) -> Result<File, SoftError> {
    let action = if writable { "writing" } else { "reading" };
    let failed = |source| SoftError::Open { path: path.to_owned(), action, source };
    let mut options = OpenOptions::new();
    options.read(true).write(writable);
    if writable && std::fs::metadata(path).map_err(failed)?.file_type().is_block_device() {
        // The kernel refuses what is mounted, swap, or a part of an array then (open(2), O_EXCL).
        options.custom_flags(OFlags::EXCL.bits().cast_signed());
    }
    options.open(path).map_err(|source| match source.raw_os_error() {
        Some(code) if code == Errno::BUSY.raw_os_error() => SoftError::Busy { path: path.to_owned() },
        _ => failed(source),
    })
}

/// Keeps other writers away for as long as the file is open.
fn lock(file: &File, path: &Path) -> Result<(), SoftError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => SoftError::Locked { path: path.to_owned() },
        TryLockError::Error(source) => {
            SoftError::Open { path: path.to_owned(), action: "writing alone", source }
        }
    })
}

impl FileStore {
    /// The length of a regular file or block device.
    pub(crate) fn length(path: &Path) -> Result<u64, SoftError> {
        let refused = |source| SoftError::Open { path: path.to_owned(), action: "reading", source };
        // Asked by path first: to open a FIFO would wait for its other end.
        let metadata = std::fs::metadata(path).map_err(refused)?;
        if metadata.file_type().is_block_device() {
            return open(path, false)?.seek(SeekFrom::End(0)).map_err(refused);
        }
        if !metadata.is_file() {
            return Err(SoftError::NotAFile { path: path.to_owned() });
        }
        match metadata.len() {
            0 => Err(SoftError::Empty { path: path.to_owned() }),
            length => Ok(length),
        }
    }

    /// Opens a file, of which the first `exact` bytes count. It is opened for writing only if `writable`, and has no
    /// other writer then.
    pub(crate) fn open(path: &Path, writable: bool, exact: u64) -> Result<FileStore, SoftError> {
        let file = open(path, writable)?;
        if writable {
            lock(&file, path)?;
        }
        Ok(FileStore { file, exact, path: path.to_owned(), failure: OnceLock::new() })
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let stored = self.exact.saturating_sub(offset).min(into.len() as u64) as usize;
        let (stored, tail) = into.split_at_mut(stored);
        tail.fill(0);
        let mut done = 0;
        while done < stored.len() {
            match self.file.read_at(&mut stored[done..], offset + done as u64) {
                Ok(0) => return Err(StoreError::Shrunk { offset: offset + done as u64 }),
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.noted(Err(error)),
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, offset: u64, from: &[u8]) -> Result<(), StoreError> {
        self.noted(self.file.write_all_at(from, offset))
    }

    /// The first thing that the system refused, in words: a status has no room for them.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    fn noted(&self, result: io::Result<()>) -> Result<(), StoreError> {
        result.inspect_err(|error| {
            self.failure.get_or_init(|| format!("{}: {error}", self.path.display()));
        })?;
        Ok(())
    }

    /// Makes a hole, or writes zeros where the file system cannot.
    pub(crate) fn zero(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if len == 0 || rustix::fs::fallocate(&self.file, hole, offset, len).is_ok() {
            return Ok(());
        }
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(ZEROS.len() as u64) as usize;
            self.noted(self.file.write_all_at(&ZEROS[..piece], offset + done))?;
            done += piece as u64;
        }
        Ok(())
    }

    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        self.noted(self.file.sync_data())
    }
}
