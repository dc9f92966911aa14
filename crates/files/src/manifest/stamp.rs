//! What proves that a file system is still as it was captured.

mod ext4;
mod log;
mod xfs;

pub use ext4::{Ext4, Ext4Stamp};
pub use log::LogPosition;
use serde::{Deserialize, Serialize};
pub use xfs::{Xfs, XfsStamp};

use super::bytes::read;
use super::{CapturedFile, FileSystemId};
use crate::bytes::{be32, le16};
use crate::{Error, Source};

/// What a change is to, where the file system was not unmounted.
pub const UNCLEAN: &str = "to be replayed: mount and unmount it";

/// A file system's generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stamp {
    /// Of ext4.
    Ext4(Ext4Stamp),
    /// Of XFS.
    Xfs(XfsStamp),
}

/// A difference between a manifest and an SSD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What differs: `mount count`, `/a/b.bin: size`.
    pub what: String,
    /// In the manifest.
    pub was: String,
    /// On the SSD.
    pub is: String,
}

impl Change {
    /// `what`, where its values differ.
    pub fn between<T: PartialEq + ToString>(what: impl Into<String>, was: &T, is: &T) -> Option<Change> {
        (was != is).then(|| Change { what: what.into(), was: was.to_string(), is: is.to_string() })
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} → {}", self.what, self.was, self.is)
    }
}

/// What a file's inode says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Whether it is a regular file.
    pub regular: bool,
    /// Bytes of the file.
    pub size: u64,
    /// When its contents were last written.
    pub modified: (i64, u32),
    /// When the inode last changed.
    pub changed: (i64, u32),
}

impl Inode {
    /// What differs from what was captured.
    pub fn changes(&self, file: &CapturedFile) -> Vec<Change> {
        if !self.regular {
            let (what, was) = (file.path.clone(), "a file".to_owned());
            return vec![Change { what, was, is: "none: its inode is free, or another's".to_owned() }];
        }
        let time = |(seconds, nanoseconds): (i64, u32)| format!("{seconds}.{nanoseconds:09}");
        let what = |word: &str| format!("{}: {word}", file.path);
        [
            Change::between(what("size"), &file.size, &self.size),
            Change::between(what("written at"), &time(file.modified), &time(self.modified)),
            Change::between(what("changed at"), &time(file.changed), &time(self.changed)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// The superblock of a file system.
#[derive(Clone, Debug)]
pub enum Superblock {
    /// Of ext4.
    Ext4(Ext4),
    /// Of XFS.
    Xfs(Xfs),
}

impl Superblock {
    /// The superblock of the file system that begins at byte `base`.
    pub fn read(source: &dyn Source, base: u64) -> Result<Superblock, Error> {
        let head: [u8; 2048] = read(source, base)?;
        if le16(&head, 1024 + 0x38) == ext4::MAGIC {
            return Ext4::parse(&head[1024..], base).map(Superblock::Ext4);
        }
        if be32(&head, 0) == xfs::MAGIC {
            return Xfs::parse(&head, source, base).map(Superblock::Xfs);
        }
        Err(Error::refused(format!("byte {base}"), "neither ext4 nor XFS begins here"))
    }

    /// What the file system calls itself.
    pub fn id(&self) -> &FileSystemId {
        match self {
            Superblock::Ext4(ext4) => &ext4.id,
            Superblock::Xfs(xfs) => &xfs.id,
        }
    }

    /// Its generation now.
    pub fn stamp(&self, source: &dyn Source) -> Result<Stamp, Error> {
        Ok(match self {
            Superblock::Ext4(ext4) => Stamp::Ext4(ext4.stamp.clone()),
            Superblock::Xfs(xfs) => Stamp::Xfs(XfsStamp { log: xfs.log.last(source)? }),
        })
    }

    /// What has changed since `stamp`.
    pub fn changes(&self, source: &dyn Source, stamp: &Stamp) -> Result<Vec<Change>, Error> {
        match (self, stamp) {
            (Superblock::Ext4(ext4), Stamp::Ext4(stamp)) => Ok(ext4.changes(stamp)),
            (Superblock::Xfs(xfs), Stamp::Xfs(stamp)) => xfs.log.changes(source, stamp.log),
            _ => Ok(Vec::new()), // The kinds differ, and so do the UUIDs.
        }
    }

    /// An inode.
    pub fn inode(&self, source: &dyn Source, number: u64) -> Result<Inode, Error> {
        match self {
            Superblock::Ext4(ext4) => ext4.inode(source, number),
            Superblock::Xfs(xfs) => xfs.inode(source, number),
        }
    }
}

#[cfg(test)]
pub mod tests;
