//! Writing a captured tree.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use warpbell_vfio::pci::Sysfs;

use super::{CaptureError, Captured};

/// Copies from one tree to another.
pub struct Writer<'a> {
    /// Where from.
    pub from: &'a Sysfs,
    to: Sysfs,
    done: Captured,
}

impl<'a> Writer<'a> {
    /// Into a folder that is new or empty.
    pub fn new(from: &'a Sysfs, folder: &Path) -> Result<Writer<'a>, CaptureError> {
        let failed = |source| CaptureError { path: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        if fs::read_dir(folder).map_err(failed)?.next().is_some() {
            return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, "it is not empty")));
        }
        Ok(Writer { from, to: Sysfs::at(folder), done: Captured::default() })
    }

    /// What was written.
    pub fn done(self) -> Captured {
        self.done
    }

    /// Writes a file.
    pub fn write(&mut self, path: &str, contents: &[u8]) -> Result<(), CaptureError> {
        self.place(path, |place| fs::write(place, contents))?;
        self.done.bytes += contents.len() as u64;
        Ok(())
    }

    /// Copies a file of text as it is; nothing where it is absent or empty.
    pub fn copy(&mut self, path: &str) -> Result<(), CaptureError> {
        match self.from.text(path) {
            Some(text) => self.write(path, format!("{text}\n").as_bytes()),
            None => Ok(()),
        }
    }

    /// Copies the lines of a file that `keep` gives something for.
    pub fn lines(&mut self, path: &str, keep: impl Fn(&str) -> Option<String>) -> Result<(), CaptureError> {
        let Some(text) = self.from.text(path) else { return Ok(()) };
        let kept: String = text.lines().filter_map(keep).map(|line| line + "\n").collect();
        self.write(path, kept.as_bytes())
    }

    /// Copies a link with its target as it is; nothing where there is none.
    pub fn link(&mut self, path: &str) -> Result<(), CaptureError> {
        match fs::read_link(self.from.path(path)) {
            Ok(target) => self.place(path, |place| symlink(target, place)),
            Err(_) => Ok(()),
        }
    }

    /// Makes a folder that is there, so that it is known to be.
    pub fn folder(&mut self, path: &str) -> Result<(), CaptureError> {
        if !self.from.exists(path) {
            return Ok(());
        }
        let place = self.to.path(path);
        fs::create_dir_all(&place).map_err(|source| CaptureError { path: place, source })
    }

    fn place(&mut self, path: &str, put: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), CaptureError> {
        let place = self.to.path(path);
        let parent = place.parent().map_or(Ok(()), fs::create_dir_all);
        parent.and_then(|()| put(&place)).map_err(|source| CaptureError { path: place, source })?;
        self.done.files += 1;
        Ok(())
    }
}
