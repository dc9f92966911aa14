//! Groups of blocks: their descriptors, and which blocks the file system keeps for itself.

use super::Ext4;
use super::superblock::crc;
use crate::bytes::{halves, le16, le32};
use crate::{Error, Extent, FileMap};

/// A group's flag: its inodes were never written.
const INODES_UNUSED: u16 = 1;

/// What the descriptor of a group says.
pub(super) struct Group {
    number: u64,
    block_bitmap: u64,
    inode_bitmap: u64,
    inode_table: u64,
    inodes_unused: bool,
}

impl Group {
    /// The first block of its inodes, of which one is in use.
    pub(super) fn inode_table_in_use(&self) -> Result<u64, Error> {
        if self.inodes_unused {
            let reason = "a name leads to an inode of it, and none is in use";
            return Err(Error::damaged(format!("ext4 group {}", self.number), reason));
        }
        Ok(self.inode_table)
    }
}

impl Ext4<'_> {
    /// The descriptor of a group.
    pub(super) fn group(&self, group: u64) -> Result<Group, Error> {
        let about = &self.superblock;
        let damaged = |reason: String| Error::damaged(format!("ext4 group {group}"), reason);
        if group >= about.groups() {
            return Err(damaged(format!("there are {} groups", about.groups())));
        }
        let (block, at) = about.descriptor(group);
        let block = self.block(block)?;
        let bytes = &block[at..at + about.descriptor_bytes];
        let number = (group as u32).to_le_bytes();
        let (found, expected) = match (about.seed, about.group_crc) {
            (Some(seed), _) => {
                let sum = crc(crc(seed, &number), &bytes[..0x1e]);
                (crc(crc(sum, &[0; 2]), &bytes[0x20..]) as u16, le16(bytes, 0x1e))
            }
            (None, true) => {
                let sum = crc16(crc16(u16::MAX, &about.uuid), &number);
                (crc16(crc16(sum, &bytes[..0x1e]), &bytes[0x20..]), le16(bytes, 0x1e))
            }
            (None, false) => (0, 0),
        };
        if found != expected {
            return Err(damaged(format!("its checksum is {found:04x}, and should be {expected:04x}")));
        }
        let place = |low: usize, high: usize| {
            let high = if bytes.len() >= 64 { le32(bytes, high) } else { 0 };
            halves(high, le32(bytes, low))
        };
        let has_flags = about.seed.is_some() || about.group_crc;
        Ok(Group {
            number: group,
            block_bitmap: place(0, 0x20),
            inode_bitmap: place(4, 0x24),
            inode_table: place(8, 0x28),
            inodes_unused: has_flags && le16(bytes, 0x12) & INODES_UNUSED != 0,
        })
    }

    /// Refuses a file that has a block of the file system's own, or one block twice: on a damaged file system a write to the
    /// file would change something else. Blocks of other files, of the journal, and of descriptors that lie in their own
    /// groups (meta_bg) are not looked for.
    pub(super) fn refuse_reserved(&self, map: &FileMap, name: &str) -> Result<(), Error> {
        let about = &self.superblock;
        let blocks = |one: &Extent| (one.at / about.block, (one.at + one.bytes) / about.block);
        let mut own: Vec<(u64, u64)> = map.extents().iter().map(blocks).collect();
        own.sort_unstable();
        let shared = |block: u64, whose: &str| {
            Err(Error::damaged(name, format!("block {block} belongs to {name} and to {whose}")))
        };
        if let Some(twice) = own.windows(2).find(|pair| pair[1].0 < pair[0].1) {
            return shared(twice[1].0, name);
        }
        let check = |begin: u64, count: u64, whose: &str| {
            let next = own.get(own.partition_point(|(_, end)| *end <= begin));
            match next.filter(|(first, _)| *first < begin.saturating_add(count)) {
                Some((first, _)) => shared(begin.max(*first), whose),
                None => Ok(()),
            }
        };
        check(0, about.descriptors_end(), "the superblock and group descriptors")?;
        for group in 0..about.groups() {
            let Group { block_bitmap, inode_bitmap, inode_table, .. } = self.group(group)?;
            check(block_bitmap, 1, "a bitmap of blocks")?;
            check(inode_bitmap, 1, "a bitmap of inodes")?;
            check(inode_table, about.table_blocks(), "a table of inodes")?;
        }
        Ok(())
    }
}

/// CRC-16 of group descriptors without CRC-32C.
fn crc16(seed: u16, bytes: &[u8]) -> u16 {
    let bit = |crc: u16, _| (crc >> 1) ^ (0xa001 & (crc & 1).wrapping_neg());
    bytes.iter().fold(seed, |crc, byte| (0..8).fold(crc ^ u16::from(*byte), bit))
}
