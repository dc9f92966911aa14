//! Groups of blocks: their descriptors, and which blocks the file system keeps for itself.

use super::Ext4;
use super::superblock::crc;
use crate::bytes::{halves, le16, le32};
use crate::{Error, FileMap};

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
    /// file would change something else. Blocks of other files and of the journal are not looked for.
    pub(super) fn refuse_reserved(&self, map: &FileMap, name: &str) -> Result<(), Error> {
        let block = self.superblock.block;
        let mut taken: Vec<(u64, u64, &str)> = self.reserved()?;
        taken.extend(map.extents().iter().map(|one| (one.at / block, (one.at + one.bytes) / block, name)));
        taken.sort_unstable();
        let mut last = (0, 0, "");
        for next in taken {
            let ((begin, end, whose), (_, before, other)) = (next, last);
            // What is the file system's own may meet where copies of the superblock lie.
            if begin < before && [whose, other].contains(&name) {
                let reason = format!("block {begin} belongs to {other} and to {whose}");
                return Err(Error::damaged(name, reason));
            }
            if end > before {
                last = next;
            }
        }
        Ok(())
    }

    /// Blocks that the file system keeps for itself: first, end, and what they are.
    fn reserved(&self) -> Result<Vec<(u64, u64, &'static str)>, Error> {
        let about = &self.superblock;
        let table = about.table_blocks();
        let mut all = vec![(0, about.descriptors_end(), "the superblock and group descriptors")];
        for group in 0..about.groups() {
            let Group { block_bitmap, inode_bitmap, inode_table, .. } = self.group(group)?;
            all.push((block_bitmap, block_bitmap + 1, "a bitmap of blocks"));
            all.push((inode_bitmap, inode_bitmap + 1, "a bitmap of inodes"));
            all.push((inode_table, inode_table.saturating_add(table), "a table of inodes"));
        }
        Ok(all)
    }
}

/// CRC-16 of group descriptors without CRC-32C.
fn crc16(seed: u16, bytes: &[u8]) -> u16 {
    let bit = |crc: u16, _| (crc >> 1) ^ (0xa001 & (crc & 1).wrapping_neg());
    bytes.iter().fold(seed, |crc, byte| (0..8).fold(crc ^ u16::from(*byte), bit))
}
