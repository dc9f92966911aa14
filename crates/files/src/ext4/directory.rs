//! Folders. Hashed ones are read like the others: the blocks of their index look like empty ones, and checksums cover them.

use super::Ext4;
use super::inode::Inode;
use super::superblock::crc;
use crate::bytes::{le16, le32};
use crate::{Error, Extent, FileMap};

/// The entry at the end of a block that has its checksum: its length, and what stands for its kind.
const TAIL: usize = 12;
const TAIL_KIND: u8 = 0xde;
/// Bytes of an entry before its name.
const HEAD: usize = 8;

/// A name in a folder, and the inode that it names.
pub(super) struct Name<'a> {
    pub(super) name: &'a [u8],
    pub(super) inode: u32,
}

impl Ext4<'_> {
    /// Shows all names of a folder, until one is the wanted one.
    pub(super) fn names<T>(
        &self,
        inode: &Inode,
        mut wanted: impl FnMut(Name<'_>) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        let map = self.map(inode)?;
        let block = self.superblock.block;
        for number in blocks(&map, block) {
            let bytes = self.block(number)?;
            let damaged = |reason: &str| {
                Error::damaged(format!("ext4 folder {}, block {number}", inode.number), reason)
            };
            if let Some(seed) = inode.seed
                && !is_whole(&bytes, seed, inode.is_indexed())
            {
                return Err(damaged("its checksum is wrong"));
            }
            let mut at = 0;
            while at < bytes.len() {
                let rest = &bytes[at..];
                if rest.len() < HEAD {
                    return Err(damaged("an entry reaches behind its end"));
                }
                let length = length(rest, block);
                let name = HEAD + usize::from(rest[6]);
                if length < HEAD || !length.is_multiple_of(4) || length > rest.len() || name > length {
                    return Err(damaged(&format!("the entry at {at} has {length} bytes")));
                }
                let entry = Name { name: &rest[HEAD..name], inode: le32(rest, 0) };
                if entry.inode != 0
                    && !entry.name.is_empty()
                    && let Some(found) = wanted(entry)?
                {
                    return Ok(Some(found));
                }
                at += length;
            }
        }
        Ok(None)
    }
}

/// The blocks of a folder. What is cut off at its end is none of it.
fn blocks(map: &FileMap, block: u64) -> impl Iterator<Item = u64> {
    let within = move |extent: &Extent| extent.bytes.min(map.size() - extent.offset) / block;
    map.extents()
        .iter()
        .flat_map(move |extent| (0..within(extent)).map(move |index| extent.at / block + index))
}

/// Bytes of an entry: lengths of 64 KiB do not fit its 16 bits.
fn length(entry: &[u8], block: u64) -> usize {
    let length = le16(entry, 4);
    match length {
        0 | u16::MAX if block == 65_536 => 65_536,
        _ if block == 65_536 => usize::from(length & 0xfffc) | usize::from(length & 3) << 16,
        _ => length.into(),
    }
}

/// Whether the checksum of a folder's block is right: that of entries, or that of an index. Linux leaves what marks the
/// first kind of tail in blocks of entries that it makes an index of, so that both are looked at.
fn is_whole(bytes: &[u8], seed: u32, is_indexed: bool) -> bool {
    let end = bytes.len() - TAIL;
    let tail = &bytes[end..];
    let of_entries =
        le32(tail, 0) == 0 && usize::from(le16(tail, 4)) == TAIL && tail[6] == 0 && tail[7] == TAIL_KIND;
    if of_entries && crc(seed, &bytes[..end]) == le32(tail, 8) {
        return true;
    }
    is_indexed
        && index(bytes).is_some_and(|(covered, tail)| {
            let sum = crc(crc(seed, &bytes[..covered]), &tail[..4]);
            crc(sum, &[0; 4]) == le32(tail, 4)
        })
}

/// What the checksum of a block of an index covers, and its tail.
fn index(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let first = length(bytes, bytes.len() as u64);
    let counts = if first == bytes.len() {
        8
    } else if first == 12 && length(&bytes[12..], bytes.len() as u64) == bytes.len() - 12 && bytes[29] == 8 {
        32
    } else {
        return None;
    };
    let (limit, count) = (usize::from(le16(bytes, counts)), usize::from(le16(bytes, counts + 2)));
    let tail = bytes.get(counts + 8 * limit..counts + 8 * limit + 8)?;
    (count <= limit).then_some((counts + 8 * count, tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u32 = 0x1234_5678;

    /// The root of an index as Linux makes it of a block of entries, whose tail it leaves there.
    fn root() -> Vec<u8> {
        let mut block = vec![0; 1024];
        // "." and "..", then the root's fields, and two entries of 123.
        block[..12].copy_from_slice(&[12, 0, 0, 0, 12, 0, 1, 2, b'.', 0, 0, 0]);
        block[12..24].copy_from_slice(&[2, 0, 0, 0, 0xf4, 3, 2, 2, b'.', b'.', 0, 0]);
        block[28..32].copy_from_slice(&[1, 8, 0, 0]);
        block[32..36].copy_from_slice(&[123, 0, 2, 0]);
        block[36..48].copy_from_slice(&[1, 0, 0, 0, 0x18, 0xb7, 0x12, 0x1d, 5, 0, 0, 0]);
        block[1016..1020].copy_from_slice(&[TAIL as u8, 0, 0, TAIL_KIND]);
        let sum = crc(crc(crc(SEED, &block[..48]), &block[1016..1020]), &[0; 4]);
        block[1020..].copy_from_slice(&sum.to_le_bytes());
        block
    }

    #[test]
    fn an_index_may_have_the_tail_of_the_entries_that_were_there() {
        let block = root();
        assert!(is_whole(&block, SEED, true));
        assert!(!is_whole(&block, SEED, false), "a folder without an index has none");
        assert!(!is_whole(&block, SEED ^ 1, true), "of another folder");
        for at in [0, 28, 40, 47, 1016, 1020] {
            let mut damaged = block.clone();
            damaged[at] ^= 1;
            assert!(!is_whole(&damaged, SEED, true), "byte {at}");
        }
    }
}
