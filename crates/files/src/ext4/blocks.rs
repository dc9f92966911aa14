//! Where the blocks of an inode lie: extent trees, and numbers of blocks as ext2 had them.

use super::Ext4;
use super::inode::Inode;
use super::superblock::crc;
use crate::bytes::{halves, le16, le32};
use crate::{Error, Extent, FileMap};

/// Mark of a node of an extent tree.
const MAGIC: u16 = 0xf30a;
/// Levels of nodes below the inode at most.
const DEPTH_MAX: u16 = 5;
/// An extent of more blocks is unwritten, and has so many less.
const WRITTEN_MAX: u16 = 32_768;
/// Numbers of blocks in the inode, before those of blocks with numbers.
const DIRECT: usize = 12;
/// Extents of a file at most: what is held in memory for it.
const EXTENTS_MAX: usize = 1 << 24;

/// The extents that were found so far, by blocks.
struct Found<'a> {
    inode: &'a Inode,
    block: u64,
    blocks: u64,
    extents: Vec<Extent>,
    /// Blocks that were found, of data and of lists: no more than there are.
    seen: u64,
    /// Offset and length of what was reserved and not written.
    unwritten: Vec<(u64, u64)>,
}

impl Found<'_> {
    fn damaged(&self, reason: impl Into<String>) -> Error {
        Error::damaged(self.inode.name(), reason)
    }

    /// Adds blocks from `first` of the file on, which lie at `at`.
    fn push(&mut self, first: u64, at: u64, count: u64) -> Result<(), Error> {
        self.count(at, count)?;
        let (offset, at, bytes) = (first * self.block, at * self.block, count * self.block);
        if offset >= self.inode.size {
            // What was reserved behind the end of the file.
            return Ok(());
        }
        if let Some(last) = self.extents.last_mut()
            && (last.offset + last.bytes, last.at + last.bytes) == (offset, at)
        {
            last.bytes += bytes;
            return Ok(());
        }
        if self.extents.len() == EXTENTS_MAX {
            return Err(self.damaged(format!("it has more than {EXTENTS_MAX} extents")));
        }
        self.extents.push(Extent { offset, at, bytes });
        Ok(())
    }

    /// Adds blocks that were reserved and not written: they read as zeroes.
    fn reserve(&mut self, first: u64, at: u64, count: u64) -> Result<(), Error> {
        self.count(at, count)?;
        if self.unwritten.len() == EXTENTS_MAX {
            return Err(self.damaged(format!("it has more than {EXTENTS_MAX} unwritten extents")));
        }
        self.unwritten.push((first * self.block, count * self.block));
        Ok(())
    }

    /// Blocks that belong to the file.
    fn count(&mut self, at: u64, count: u64) -> Result<(), Error> {
        if at == 0 || at.checked_add(count).is_none_or(|end| end > self.blocks) {
            let last = self.blocks - 1;
            return Err(self.damaged(format!("it has {count} blocks from block {at} on; the last is {last}")));
        }
        self.seen += count;
        if self.seen > self.blocks {
            return Err(self.damaged(format!("it has more blocks than there are, {}", self.blocks)));
        }
        Ok(())
    }
}

/// Entries of a node: blocks of the file from `first` on up to `end`.
#[derive(Clone, Copy)]
struct Span {
    first: u64,
    end: u64,
}

impl Ext4<'_> {
    /// Where an inode's bytes lie.
    pub(super) fn map(&self, inode: &Inode) -> Result<FileMap, Error> {
        Ok(self.blocks(inode)?.0)
    }

    /// The same, and what was reserved and not written.
    pub(super) fn blocks(&self, inode: &Inode) -> Result<(FileMap, Vec<(u64, u64)>), Error> {
        inode.refuse()?;
        let (block, blocks) = (self.superblock.block, self.superblock.blocks);
        let mut found = Found { inode, block, blocks, extents: Vec::new(), seen: 0, unwritten: Vec::new() };
        if inode.has_extents() {
            let depth = self.node(&mut found, &inode.root, Span { first: 0, end: 1 << 32 }, None)?;
            debug_assert!(depth <= DEPTH_MAX);
        } else {
            self.numbers(&mut found)?;
        }
        Ok((FileMap::new(inode.size, found.extents)?, found.unwritten))
    }

    /// Reads a node and those below it; gives its depth. Of each node the first block is the one that its parent names, so
    /// that none is read twice.
    fn node(&self, found: &mut Found<'_>, node: &[u8], span: Span, depth: Option<u16>) -> Result<u16, Error> {
        let (entries, max, level) = (le16(node, 2), le16(node, 4), le16(node, 6));
        let room = (node.len() - 12) / 12;
        if le16(node, 0) != MAGIC || usize::from(max) > room || entries > max {
            return Err(found.damaged(format!("a node of its extents has {entries} entries of {max}")));
        }
        if level > DEPTH_MAX || depth.is_some_and(|depth| depth != level) {
            return Err(found.damaged(format!("a node of its extents is on level {level}")));
        }
        if entries == 0 && depth.is_some() {
            return Err(found.damaged("a node of its extents is empty"));
        }
        let entries: Vec<&[u8]> = node[12..].chunks_exact(12).take(entries.into()).collect();
        for (index, entry) in entries.iter().enumerate() {
            let first = u64::from(le32(entry, 0));
            let end = entries.get(index + 1).map_or(span.end, |next| le32(next, 0).into());
            let is_placed = if index == 0 { depth.is_none() || first == span.first } else { true };
            if !is_placed || first < span.first || first >= end || end > span.end {
                return Err(
                    found.damaged(format!("its extents are not in order at block {first} of the file"))
                );
            }
            self.below(found, entry, Span { first, end }, level)?;
        }
        Ok(level)
    }

    /// An extent, or what the node below has.
    fn below(&self, found: &mut Found<'_>, entry: &[u8], span: Span, level: u16) -> Result<(), Error> {
        if level == 0 {
            let (count, at) = (le16(entry, 4), halves(le16(entry, 6), le32(entry, 8)));
            let is_written = count <= WRITTEN_MAX;
            let count = u64::from(if is_written { count } else { count - WRITTEN_MAX });
            if count == 0 || span.first + count > span.end {
                let first = span.first;
                return Err(
                    found.damaged(format!("{count} blocks from block {first} of the file overlap others"))
                );
            }
            return if is_written {
                found.push(span.first, at, count)
            } else {
                found.reserve(span.first, at, count)
            };
        }
        let at = halves(le16(entry, 8), le32(entry, 4));
        found.count(at, 1)?;
        let block = self.block(at)?;
        if let Some(seed) = found.inode.seed {
            let end = 12 + 12 * usize::from(le16(&block, 4));
            let sum = block
                .get(..end)
                .zip(block.get(end..end + 4))
                .map(|(all, sum)| (crc(seed, all), le32(sum, 0)));
            if sum.is_none_or(|(is, expected)| is != expected) {
                return Err(found.damaged(format!("the checksum of its extents in block {at} is wrong")));
            }
        }
        self.node(found, &block, span, Some(level - 1)).map(drop)
    }

    /// The blocks of an inode without extents: twelve, and three lists of growing depth.
    fn numbers(&self, found: &mut Found<'_>) -> Result<(), Error> {
        let per_block = self.superblock.block / 4;
        let end = found.inode.size.div_ceil(self.superblock.block);
        let reach = DIRECT as u64 + per_block + per_block.pow(2) + per_block.pow(3);
        if end > reach {
            return Err(found.damaged(format!("it has {end} blocks, and room for {reach}")));
        }
        let mut first = 0;
        for (index, number) in found.inode.root.chunks_exact(4).enumerate() {
            let depth = (index + 1).saturating_sub(DIRECT) as u32;
            self.list(found, le32(number, 0), (first, end), depth)?;
            first += per_block.pow(depth);
        }
        Ok(())
    }

    /// A block of data, or one of numbers: what the file has from block `first` on, of `end` blocks in all.
    fn list(
        &self,
        found: &mut Found<'_>,
        number: u32,
        (mut first, end): (u64, u64),
        depth: u32,
    ) -> Result<(), Error> {
        if number == 0 || first >= end {
            return Ok(());
        }
        if depth == 0 {
            return found.push(first, number.into(), 1);
        }
        found.count(number.into(), 1)?;
        let step = (self.superblock.block / 4).pow(depth - 1);
        for number in self.block(number.into())?.chunks_exact(4) {
            self.list(found, le32(number, 0), (first, end), depth - 1)?;
            first += step;
        }
        Ok(())
    }
}
