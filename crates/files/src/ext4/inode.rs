//! Inodes: what a file is, and where its blocks are listed.

use super::Ext4;
use super::superblock::crc;
use crate::bytes::{halves, le16, le32};
use crate::{EntryKind, Error};

/// Flags of files that are not read, by name.
const REFUSED: [(u32, &str); 4] = [
    (0x1000_0000, "inline data: its bytes lie in the inode, and not in blocks"),
    (0x800, "encryption: its blocks hold ciphertext"),
    (0x4, "compression: its blocks are not its bytes"),
    (0x4000_0000, "a folder without regard to case"),
];
/// Flags of files that are read and not written, by name.
const ONLY_READ: [(u32, &str); 4] = [
    (0x10, "it is immutable (chattr +i)"),
    (0x20, "it is only appended to (chattr +a)"),
    (0x4000, "its data goes through the journal (chattr +j)"),
    (0x10_0000, "it has a tree of checksums (verity)"),
];
const EXTENTS: u32 = 0x8_0000;
const INDEX: u32 = 0x1000;

/// An inode.
#[derive(Clone, Debug)]
pub(super) struct Inode {
    pub(super) number: u32,
    pub(super) size: u64,
    pub(super) flags: u32,
    /// The 60 bytes of extents, of numbers of blocks, or of a symbolic link's target.
    pub(super) root: [u8; 60],
    /// What checksums of its blocks begin with.
    pub(super) seed: Option<u32>,
    mode: u16,
}

/// An inode that is not what its checksum is of.
#[derive(Debug, thiserror::Error)]
#[error("its checksum is {found:x}, and should be {expected:x}")]
struct ChecksumError {
    found: u32,
    expected: u32,
}

impl Inode {
    pub(super) fn kind(&self) -> EntryKind {
        match self.mode >> 12 {
            0x8 => EntryKind::File,
            0x4 => EntryKind::Directory,
            0xa => EntryKind::Symlink,
            _ => EntryKind::Special,
        }
    }

    pub(super) fn has_extents(&self) -> bool {
        self.flags & EXTENTS != 0
    }

    pub(super) fn is_indexed(&self) -> bool {
        self.flags & INDEX != 0
    }

    /// A symbolic link whose target is in the inode.
    pub(super) fn is_fast_link(&self) -> bool {
        self.kind() == EntryKind::Symlink && self.size < 60 && !self.has_extents()
    }

    /// What it is called in errors.
    pub(super) fn name(&self) -> String {
        format!("ext4 inode {}", self.number)
    }

    /// Why its blocks are not overwritten, if they are not.
    pub(super) fn refuse_writes(&self) -> Result<(), &'static str> {
        match ONLY_READ.iter().find(|(flag, _)| self.flags & flag != 0) {
            Some((_, why)) => Err(why),
            None => Ok(()),
        }
    }

    /// Refuses bytes that do not lie in blocks as they are.
    pub(super) fn refuse(&self) -> Result<(), Error> {
        match REFUSED.iter().find(|(flag, _)| self.flags & flag != 0) {
            Some((_, why)) => Err(Error::refused(self.name(), *why)),
            None => Ok(()),
        }
    }
}

impl Ext4<'_> {
    /// An inode by its number.
    pub(super) fn inode(&self, number: u32) -> Result<Inode, Error> {
        let object = format!("ext4 inode {number}");
        let damaged = |reason: String| Error::damaged(object.as_str(), reason);
        let about = &self.superblock;
        if number == 0 || number > about.inodes {
            return Err(damaged(format!("there are {} inodes, from 1 on", about.inodes)));
        }
        let (group, index) = ((number - 1) / about.inodes_per_group, (number - 1) % about.inodes_per_group);
        let table = self.group(group.into())?.inode_table_in_use()?;
        let at = u64::from(index) * about.inode_bytes as u64;
        let block = table.checked_add(at / about.block);
        let block = self.block(block.ok_or_else(|| damaged(format!("its table is in block {table}")))?)?;
        let begin = (at % about.block) as usize;
        let bytes = &block[begin..begin + about.inode_bytes];
        let seed = about.seed.map(|seed| {
            let seed = crc(seed, &number.to_le_bytes());
            crc(seed, &bytes[0x64..0x68])
        });
        if let Some(seed) = seed {
            check(bytes, seed).map_err(|error| damaged(error.to_string()))?;
        }
        let mode = le16(bytes, 0);
        if mode == 0 {
            return Err(damaged("a name leads to it, and it is not in use".to_owned()));
        }
        let mut root = [0; 60];
        root.copy_from_slice(&bytes[0x28..0x64]);
        let size = halves(le32(bytes, 0x6c), le32(bytes, 4));
        Ok(Inode { number, size, flags: le32(bytes, 0x20), root, seed, mode })
    }
}

/// Compares an inode's checksum: its lower half, and where there is room for it the upper one.
fn check(bytes: &[u8], seed: u32) -> Result<(), ChecksumError> {
    let mut copy = bytes.to_vec();
    let mut expected = u32::from(le16(bytes, 0x7c));
    copy[0x7c..0x7e].fill(0);
    let is_wide = bytes.len() > 128 && le16(bytes, 0x80) >= 4;
    if is_wide {
        expected |= u32::from(le16(bytes, 0x82)) << 16;
        copy[0x82..0x84].fill(0);
    }
    let mask = if is_wide { u32::MAX } else { 0xffff };
    let found = crc(seed, &copy) & mask;
    if found == expected { Ok(()) } else { Err(ChecksumError { found, expected }) }
}
