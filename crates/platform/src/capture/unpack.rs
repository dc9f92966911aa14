//! Laying a captured machine out in a folder, as the files that it was.
//!
//! A captured machine may come from a stranger: no path and no link may lead out of the folder.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path};

use tempfile::TempDir;
use warpbell_vfio::pci::Sysfs;

use super::entry::Entry;
use super::{Capture, CaptureError};

/// A captured machine in a temporary folder, which goes with this value.
#[derive(Debug)]
pub struct Unpacked {
    sysfs: Sysfs,
    _folder: TempDir,
}

impl Unpacked {
    /// Its files.
    pub fn sysfs(&self) -> &Sysfs {
        &self.sysfs
    }
}

impl Capture {
    /// Into a temporary folder.
    pub fn unpack(&self) -> Result<Unpacked, CaptureError> {
        let failed = |source| CaptureError { path: std::env::temp_dir(), source };
        let folder = tempfile::tempdir().map_err(failed)?;
        self.unpack_into(folder.path())?;
        Ok(Unpacked { sysfs: Sysfs::at(folder.path()), _folder: folder })
    }

    /// Into a folder that is new or empty.
    pub fn unpack_into(&self, folder: &Path) -> Result<(), CaptureError> {
        let failed = |source| CaptureError { path: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        if fs::read_dir(folder).map_err(failed)?.next().is_some() {
            return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, "it is not empty")));
        }
        let is_link = |entry: &Entry| matches!(entry, Entry::Link(_));
        // Links last: until then no path leads through one.
        let files = self.entries.iter().filter(|(_, entry)| !is_link(entry));
        for (path, entry) in files.chain(self.entries.iter().filter(|(_, entry)| is_link(entry))) {
            let below_link =
                |above: &Path| above.to_str().and_then(|above| self.entries.get(above)).is_some_and(is_link);
            let path = Path::new(path);
            let placed = match path.ancestors().skip(1).any(below_link) {
                true => Err(invalid("it lies below a link")),
                false => place(folder, path, entry),
            };
            placed.map_err(|source| CaptureError { path: path.to_owned(), source })?;
        }
        Ok(())
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn place(folder: &Path, path: &Path, entry: &Entry) -> io::Result<()> {
    let outside = || invalid("it leads out of the machine");
    let inner = inner(path).ok_or_else(outside)?;
    let to = folder.join(inner);
    let parent = inner.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder.join(parent))?;
    match entry {
        Entry::Folder => fs::create_dir_all(to),
        Entry::Text(text) => fs::write(to, text),
        Entry::Bytes(rows) => fs::write(to, rows.contents()?),
        Entry::Link(target) => {
            let above = parent.components().count();
            is_inside(target, above).then(|| symlink(target, to)).ok_or_else(outside)?
        }
    }
}

/// The path below the root, if it is written in the one way without detours: else a link above it could go unseen.
fn inner(path: &Path) -> Option<&Path> {
    let inner = path.to_str()?.strip_prefix('/')?;
    inner.split('/').all(|name| !matches!(name, "" | "." | "..")).then(|| Path::new(inner))
}

/// Whether a link with `above` folders above it stays among them: up first, then down alone.
fn is_inside(target: &str, above: usize) -> bool {
    let mut parts = Path::new(target).components().peekable();
    let mut up = 0;
    while parts.next_if_eq(&Component::ParentDir).is_some() {
        up += 1;
    }
    up <= above && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::SCHEMA;

    fn unpack(entries: &[(&str, Entry)]) -> Result<(), CaptureError> {
        let entries = entries.iter().map(|(path, entry)| ((*path).to_owned(), entry.clone())).collect();
        Capture { schema: SCHEMA.to_owned(), entries }.unpack().map(|_| ())
    }

    fn link(target: &str) -> Entry {
        Entry::Link(target.to_owned())
    }

    #[test]
    fn nothing_leads_out_of_the_folder() {
        let text = || Entry::Text("x".to_owned());
        for path in ["/../x", "x", "/a/../../x", "/a/./x", "/a//x", "/", "//x", "/./x", "/x/", "/x/."] {
            let error = unpack(&[(path, text())]).unwrap_err();
            assert_eq!(error.to_string(), format!("{path}: it leads out of the machine"));
        }
        for target in ["/etc", "../../etc", "../b/../../etc", "b/../.."] {
            let error = unpack(&[("/a/link", link(target))]).unwrap_err();
            assert_eq!(error.to_string(), "/a/link: it leads out of the machine");
        }
        unpack(&[("/a/link", link("../b")), ("/a/file", text())]).unwrap();
        let escape =
            [("///p/q/r/x", link("../../..")), ("//p/q/r/x/y", link("..")), ("/y/x/link", link("../a"))];
        assert!(unpack(&escape).is_err());
        for below in [text(), link("c"), Entry::Folder] {
            let error = unpack(&[("/a/b", link("../e")), ("/a/b/c/d", below)]).unwrap_err();
            assert_eq!(error.to_string(), "/a/b/c/d: it lies below a link");
        }
    }
}
