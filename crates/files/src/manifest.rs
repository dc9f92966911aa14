//! Manifests: what Linux knew of files before their SSD left it.
//!
//! [`capture`] asks the mounted file system where each file lies, and writes it down with a [`Stamp`]. [`Manifest::open`]
//! compares the stamp with the SSD, and refuses a manifest that is stale. The [`Captured`] files that it gives are read by
//! nobody's knowledge of the file system but Linux's own.

mod bytes;
mod capture;
mod captured;
mod extents;
mod place;
mod stamp;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub use capture::{CaptureOptions, Progress, capture};
pub use captured::Captured;
use serde::{Deserialize, Serialize};
pub use stamp::{Change, Ext4Stamp, LogPosition, Stamp, XfsStamp};
pub use verify::{Identity, Sum};

use crate::{Error, Extent, FileMap};

/// The form of manifests that this version writes and reads.
pub const SCHEMA: &str = "warpbell.files/1";

/// Files of one file system, and where they lie in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version that wrote it.
    pub warpbell: String,
    /// The disk that Linux saw.
    pub device: Device,
    /// The partition that the file system is in; none: it has the whole disk.
    pub partition: Option<Partition>,
    /// The file system.
    pub file_system: FileSystemId,
    /// What proves that nothing has changed since.
    pub stamp: Stamp,
    /// The checksum that each file has.
    pub checksum: Checksum,
    /// The files, by path.
    pub files: Vec<CapturedFile>,
    /// Symbolic links to files and folders of the same file system, by path.
    pub links: Vec<Link>,
    /// What was left out.
    pub refused: Vec<Refused>,
}

/// The disk that the file system lies on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Linux's name: `nvme0n1`.
    pub name: String,
    /// Its serial number; disks such as loop devices have none.
    pub serial: Option<String>,
    /// The namespace of an NVMe SSD.
    pub nsid: Option<u32>,
    /// Bytes of the disk.
    pub bytes: u64,
    /// Bytes of a logical block.
    pub block_size: u32,
}

/// A part of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// From 1 on.
    pub number: u32,
    /// Its first byte.
    pub start: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A file system, as it calls itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystemId {
    /// `ext4` or `xfs`.
    pub kind: Kind,
    /// Its UUID.
    pub uuid: String,
    /// Its label; often empty.
    pub label: String,
    /// Bytes of a block.
    pub block_size: u32,
}

/// Which file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// ext4, and what it mounts: ext2 and ext3.
    Ext4,
    /// XFS with checksums (version 5).
    Xfs,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Ext4 => "ext4",
            Kind::Xfs => "XFS",
        })
    }
}

/// Which checksum each file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Checksum {
    /// None: capturing reads no file.
    None,
    /// CRC-32C, which `warpbell digest` prints.
    Crc32c,
    /// SHA-256, which `sha256sum` prints.
    Sha256,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedFile {
    /// Its path from the root of its file system.
    pub path: String,
    /// Its bytes.
    pub size: u64,
    /// The number of its inode.
    pub inode: u64,
    /// When its contents were last written: seconds since 1970, and nanoseconds.
    pub modified: (i64, u32),
    /// When its inode last changed.
    pub changed: (i64, u32),
    /// Whether others share some of its blocks (reflink): they may be read, and never written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// In hexadecimal, of the kind that [`Manifest::checksum`] names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// Where it lies: offset in the file, byte of the namespace, bytes. What no extent holds is zeroes.
    pub extents: Vec<Extent>,
}

/// A symbolic link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Its path.
    pub path: String,
    /// The path that it leads to in the end.
    pub target: String,
}

/// What is not in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Its path.
    pub path: String,
    /// Why.
    pub reason: String,
}

impl Manifest {
    /// The manifest in a file.
    ///
    /// # Errors
    /// A file that cannot be read, or that is no manifest of this schema.
    pub fn load(path: &Path) -> Result<Manifest, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::File {
            action: "reading",
            path: path.display().to_string(),
            source,
        })?;
        Manifest::parse(&text).map_err(|error| Error::refused(path.display().to_string(), error.to_string()))
    }

    /// The manifest that `text` is.
    ///
    /// # Errors
    /// Text that is no manifest of this schema, and extents that contradict each other.
    pub fn parse(text: &str) -> Result<Manifest, Error> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let no_manifest = |error: serde_json::Error| Error::refused("manifest", format!("not one: {error}"));
        let head: Head = serde_json::from_str(text).map_err(no_manifest)?;
        if head.schema != SCHEMA {
            let reason = format!("schema '{}'; this version reads '{SCHEMA}'", head.schema);
            return Err(Error::refused("manifest", reason));
        }
        let manifest: Manifest = serde_json::from_str(text).map_err(no_manifest)?;
        manifest.validate()?;
        Ok(manifest)
    }

    /// As text: one line of JSON.
    ///
    /// # Errors
    /// None in practice.
    pub fn to_json(&self) -> Result<String, Error> {
        let text = serde_json::to_string(self);
        Ok(text.map_err(|error| Error::refused("manifest", error.to_string()))? + "\n")
    }

    /// A file's map.
    ///
    /// # Errors
    /// Extents that contradict each other.
    pub fn map(file: &CapturedFile) -> Result<FileMap, Error> {
        FileMap::new(file.size, file.extents.clone())
            .map_err(|error| Error::refused(file.path.clone(), error.to_string()))
    }

    /// Bytes of the namespace that the file system has: the first, and the one behind the last.
    pub fn place(&self) -> (u64, u64) {
        match self.partition {
            Some(part) => (part.start, part.start.saturating_add(part.bytes)),
            None => (0, self.device.bytes),
        }
    }

    fn validate(&self) -> Result<(), Error> {
        let (first, end) = self.place();
        let mut seen = BTreeSet::new();
        let paths = self.files.iter().map(|file| &file.path).chain(self.links.iter().map(|link| &link.path));
        for path in paths {
            if !path.starts_with('/') || path.split('/').skip(1).any(|name| matches!(name, "" | "." | "..")) {
                return Err(Error::refused("manifest", format!("path '{path}' is not absolute and plain")));
            }
            if !seen.insert(path.as_str()) {
                return Err(Error::refused("manifest", format!("path '{path}' is there twice")));
            }
        }
        for path in &seen {
            let below = format!("{path}/");
            if let Some(found) = seen.range(below.as_str()..).next().filter(|found| found.starts_with(&below))
            {
                let reason = format!("path '{path}' is no folder, and '{found}' lies in it");
                return Err(Error::refused("manifest", reason));
            }
        }
        for file in &self.files {
            let map = Manifest::map(file)?;
            for extent in map.extents() {
                if extent.at < first || extent.at + extent.bytes > end {
                    let reason = format!(
                        "extent of {} bytes at byte {} is outside of the file system, bytes {first} to {end}",
                        extent.bytes, extent.at
                    );
                    return Err(Error::refused(file.path.clone(), reason));
                }
            }
        }
        self.refuse_overlaps()
    }

    /// Two files have no block in common, but for names of one inode, and blocks that reflinks share.
    fn refuse_overlaps(&self) -> Result<(), Error> {
        let mut inodes = BTreeMap::new();
        for file in self.files.iter().filter(|file| !file.shared) {
            inodes.entry(file.inode).or_insert(file);
        }
        let mut all: Vec<(Extent, &str)> = Vec::new();
        for file in inodes.values() {
            all.extend(file.extents.iter().map(|extent| (*extent, file.path.as_str())));
        }
        all.sort_unstable_by_key(|(extent, _)| extent.at);
        match all.windows(2).find(|pair| pair[0].0.at + pair[0].0.bytes > pair[1].0.at) {
            Some(pair) => Err(Error::refused(
                "manifest",
                format!("byte {} belongs to {} and to {}", pair[1].0.at, pair[0].1, pair[1].1),
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
