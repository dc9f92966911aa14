//! XFS: superblock and inodes, as far as a stamp goes.

use serde::{Deserialize, Serialize};

use super::super::bytes::{label, read, uuid};
use super::super::{FileSystemId, Kind};
use super::Inode;
use super::log::{Log, LogPosition};
use crate::bytes::{be16, be32, be64, le32};
use crate::{Error, Source};

pub const MAGIC: u32 = 0x5846_5342; // XFSB

const INCOMPAT_NEEDS_REPAIR: u32 = 0x10;
const INODE: u16 = 0x494E; // IN
const BIG_TIMES: u64 = 0x8;
/// Big times count nanoseconds from here, in seconds before 1970.
const BIG_EPOCH: i64 = 1 << 31;

/// The generation of an XFS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XfsStamp {
    /// The last record of the log: all that changes the file system, other than data that overwrites data, is in a later
    /// one. Overwritten files have new times, which are in the log.
    pub log: LogPosition,
}

/// A superblock of XFS.
#[derive(Clone, Debug)]
pub struct Xfs {
    pub id: FileSystemId,
    pub log: Log,
    base: u64,
    groups: u64,
    group_blocks: u64,
    group_log: u32,
    inodes_log: u32,
    inode_log: u32,
}

impl Xfs {
    /// The superblock at the begin of `bytes`, of a file system that begins at byte `base`.
    pub fn parse(bytes: &[u8], source: &dyn Source, base: u64) -> Result<Xfs, Error> {
        refuse(bytes)?;
        verify(bytes, source, base)?;
        let (block_size, group_blocks) = (be32(bytes, 4), be32(bytes, 84));
        let [group_log, inodes_log, inode_log] = [124, 123, 122].map(|at: usize| u32::from(bytes[at]));
        let (groups, log_start) = (be32(bytes, 88), be64(bytes, 48));
        let fits = block_size.is_power_of_two()
            && (512..=65536).contains(&block_size)
            && group_log < 32
            && u64::from(group_blocks) <= 1 << group_log
            && inodes_log + inode_log == block_size.ilog2();
        if !fits {
            let reason = format!("blocks of {block_size} bytes, {group_blocks} a group of 2^{group_log}");
            return Err(Error::damaged(format!("the superblock of XFS at byte {base}"), reason));
        }
        let (size, group_blocks) = (u64::from(block_size), u64::from(group_blocks));
        let (log_group, log_block) = (log_start >> group_log, log_start & ((1 << group_log) - 1));
        // Groups and their blocks have 32 bits each.
        let placed = log_group < groups.into() && log_block < group_blocks;
        let start = placed.then(|| log_group * group_blocks + log_block);
        let start = start.and_then(|start| start.checked_mul(size)).and_then(|start| start.checked_add(base));
        let start = start.filter(|start| *start < source.bytes()).ok_or_else(|| {
            let reason = format!("its log is in block {log_block} of group {log_group}, of {groups} groups");
            Error::damaged(format!("the superblock of XFS at byte {base}"), reason)
        })?;
        let (kind, uuid, label) = (Kind::Xfs, uuid(&bytes[32..]), label(&bytes[108..120]));
        Ok(Xfs {
            id: FileSystemId { kind, uuid, label, block_size },
            log: Log::new(start, u64::from(be32(bytes, 96)) * size)?,
            base,
            groups: groups.into(),
            group_blocks,
            group_log,
            inodes_log,
            inode_log,
        })
    }

    /// An inode.
    pub fn inode(&self, source: &dyn Source, number: u64) -> Result<Inode, Error> {
        let object = || format!("inode {number} of XFS");
        let group = number.checked_shr(self.group_log + self.inodes_log).unwrap_or(0);
        let block = (number >> self.inodes_log) & ((1 << self.group_log) - 1);
        if group >= self.groups || block >= self.group_blocks {
            return Err(Error::damaged(object(), format!("it is in block {block} of group {group}")));
        }
        let within = (number & ((1 << self.inodes_log) - 1)) << self.inode_log;
        let block = group * self.group_blocks + block;
        let at =
            block.checked_mul(self.id.block_size.into()).and_then(|at| at.checked_add(self.base + within));
        let at = at.ok_or_else(|| Error::damaged(object(), format!("it is in block {block}")))?;
        let bytes: [u8; 176] = read(source, at)?;
        let big = be64(&bytes, 120) & BIG_TIMES != 0;
        let time = |at: usize| match big {
            true => {
                let value = be64(&bytes, at);
                ((value / 1_000_000_000).cast_signed() - BIG_EPOCH, (value % 1_000_000_000) as u32)
            }
            false => (be32(&bytes, at).cast_signed().into(), be32(&bytes, at + 4)),
        };
        Ok(Inode {
            // Where files were removed, there may be other things than inodes now.
            regular: be16(&bytes, 0) == INODE
                && be64(&bytes, 152) == number
                && be16(&bytes, 2) & 0xF000 == 0x8000,
            size: be64(&bytes, 56),
            modified: time(40),
            changed: time(48),
        })
    }
}

fn refuse(bytes: &[u8]) -> Result<(), Error> {
    let refused = |reason: String| Err(Error::refused("XFS", reason));
    match be16(bytes, 100) & 0xF {
        5 => {}
        version => {
            return refused(format!("version {version}, without checksums: version 5 is read (crc=1)"));
        }
    }
    if be32(bytes, 216) & INCOMPAT_NEEDS_REPAIR != 0 {
        return refused("it needs xfs_repair".to_owned());
    }
    if be64(bytes, 16) != 0 {
        return refused("a realtime section: its files lie on another device".to_owned());
    }
    if be64(bytes, 48) == 0 {
        return refused(
            "an external log: what proves that nothing has changed is on another device".to_owned(),
        );
    }
    Ok(())
}

/// The checksum is that of the whole sector, with zeroes in its own place.
fn verify(bytes: &[u8], source: &dyn Source, base: u64) -> Result<(), Error> {
    let size = usize::from(be16(bytes, 102));
    if !(size.is_power_of_two() && (512..=32768).contains(&size)) {
        return Err(Error::damaged("the superblock of XFS", format!("sectors of {size} bytes")));
    }
    let mut sector = vec![0; size];
    source.read_at(base, &mut sector)?;
    let found = le32(&sector, 224);
    sector[224..228].fill(0);
    match crc32c::crc32c(&sector) {
        sum if sum == found => Ok(()),
        sum => Err(Error::damaged(
            "the superblock of XFS",
            format!("its checksum is {found:08x}, and that of its bytes {sum:08x}"),
        )),
    }
}
