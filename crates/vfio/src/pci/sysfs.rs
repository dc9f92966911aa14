//! The root below which `/sys`, `/proc`, `/dev`, `/run` and `/etc` are read.

use std::fs;
use std::path::{Path, PathBuf};

/// The tree that holds `/sys`, `/proc`, `/dev`, `/run` and `/etc`: the running system's, or a captured one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    /// The running system.
    pub fn system() -> Sysfs {
        Sysfs::at("/")
    }

    /// A tree below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Sysfs {
        Sysfs { root: root.into() }
    }

    /// Whether this is the running system.
    pub fn is_system(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Where the file that the system calls `absolute` lies.
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let absolute = absolute.as_ref();
        self.root.join(absolute.strip_prefix("/").unwrap_or(absolute))
    }

    /// The text of an attribute, without the space around it; nothing where it is absent or empty.
    pub fn text(&self, absolute: impl AsRef<Path>) -> Option<String> {
        let text = fs::read_to_string(self.path(absolute)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// A number in an attribute, decimal or with 0x.
    pub fn number(&self, absolute: impl AsRef<Path>) -> Option<u64> {
        let text = self.text(absolute)?;
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    /// The last part of what a link points to.
    pub fn link_name(&self, absolute: impl AsRef<Path>) -> Option<String> {
        let target = fs::read_link(self.path(absolute)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// The names in a folder, sorted; none where it is absent.
    pub fn names(&self, absolute: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(absolute)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Whether there is something at `absolute`.
    pub fn exists(&self, absolute: impl AsRef<Path>) -> bool {
        fs::symlink_metadata(self.path(absolute)).is_ok()
    }

    /// The name of the node that a path such as `/dev/mapper/vg-root` leads to, or its own.
    pub(super) fn node_name(&self, path: &str) -> Option<String> {
        path.starts_with("/dev/").then_some(())?;
        self.link_name(path).or_else(|| Some(Path::new(path).file_name()?.to_str()?.to_owned()))
    }

    /// The name of the block device that a path such as `/dev/mapper/vg-root` leads to.
    pub(super) fn device_name(&self, path: &str) -> Option<String> {
        let name = self.node_name(path)?;
        self.exists(format!("/sys/class/block/{name}")).then_some(name)
    }
}
