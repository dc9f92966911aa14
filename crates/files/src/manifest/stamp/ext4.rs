//! ext4: superblock and inodes, as far as a stamp goes.

use serde::{Deserialize, Serialize};

use super::super::bytes::{label, read, uuid};
use super::super::{FileSystemId, Kind};
use super::{Change, Inode, UNCLEAN};
use crate::bytes::{halves, le16, le32};
use crate::{Error, Source};

pub const MAGIC: u16 = 0xEF53;

const INCOMPAT_RECOVER: u32 = 0x4;
const INCOMPAT_JOURNAL_DEV: u32 = 0x8;
const INCOMPAT_META_BG: u32 = 0x10;
const INCOMPAT_64BIT: u32 = 0x80;
const RO_COMPAT_METADATA_CSUM: u32 = 0x400;

/// The generation of an ext4.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ext4Stamp {
    /// Mounts for writing: another one since changes it, whatever it wrote.
    pub mount_count: u16,
    /// When it was last mounted for writing, in seconds since 1970.
    pub mounted: u64,
    /// When the superblock was last written: an older one is a copy from before.
    pub written: u64,
    /// Free blocks: what was allocated or freed since, still in the mount that was captured, changes them.
    pub free_blocks: u64,
    /// Free inodes: likewise, files that were made or removed.
    pub free_inodes: u64,
}

/// A superblock of ext4.
#[derive(Clone, Debug)]
pub struct Ext4 {
    pub id: FileSystemId,
    pub stamp: Ext4Stamp,
    base: u64,
    recover: bool,
    descriptors: u64,
    descriptor_size: u64,
    inodes: u64,
    inodes_per_group: u64,
    inode_size: u64,
}

impl Ext4 {
    /// The superblock in `bytes`, of a file system that begins at byte `base`.
    pub fn parse(bytes: &[u8], base: u64) -> Result<Ext4, Error> {
        let incompat = le32(bytes, 0x60);
        refuse(bytes, incompat)?;
        let shift = le32(bytes, 0x18);
        let (inodes_per_group, inode_size) = (le32(bytes, 0x28), inode_size(bytes));
        let sized = |size: u64| size.is_power_of_two() && (128..=65536).contains(&size);
        if shift > 6 || inodes_per_group == 0 || !sized(inode_size) {
            let reason =
                format!("block size 2^{shift} KiB, {inodes_per_group} inodes a group of {inode_size} bytes");
            return Err(Error::damaged(format!("the superblock of ext4 at byte {}", base + 1024), reason));
        }
        let block_size = 1024 << shift;
        let wide = incompat & INCOMPAT_64BIT != 0;
        let high = |at: usize| u64::from(bytes[at]) << 32;
        let stamp = Ext4Stamp {
            mount_count: le16(bytes, 0x34),
            mounted: u64::from(le32(bytes, 0x2C)) | high(0x275),
            written: u64::from(le32(bytes, 0x30)) | high(0x274),
            free_blocks: u64::from(le32(bytes, 0x0C))
                | if wide { u64::from(le32(bytes, 0x158)) << 32 } else { 0 },
            free_inodes: le32(bytes, 0x10).into(),
        };
        let (kind, uuid, label) = (Kind::Ext4, uuid(&bytes[0x68..]), label(&bytes[0x78..0x88]));
        Ok(Ext4 {
            id: FileSystemId { kind, uuid, label, block_size },
            stamp,
            base,
            recover: incompat & INCOMPAT_RECOVER != 0,
            descriptors: (u64::from(le32(bytes, 0x14)) + 1) * u64::from(block_size),
            descriptor_size: if wide { u64::from(le16(bytes, 0xFE)).max(64) } else { 32 },
            inodes: le32(bytes, 0).into(),
            inodes_per_group: inodes_per_group.into(),
            inode_size,
        })
    }

    /// What has changed since `then`.
    pub fn changes(&self, then: &Ext4Stamp) -> Vec<Change> {
        let now = &self.stamp;
        let journal = |recover| if recover { UNCLEAN } else { "empty" };
        let mut changes = vec![
            Change::between("mount count", &then.mount_count, &now.mount_count),
            Change::between("mounted at", &then.mounted, &now.mounted),
            Change::between("free blocks", &then.free_blocks, &now.free_blocks),
            Change::between("free inodes", &then.free_inodes, &now.free_inodes),
            Change::between("journal", &journal(false), &journal(self.recover)),
        ];
        if now.written < then.written {
            changes.push(Change::between("superblock written at", &then.written, &now.written));
        }
        changes.into_iter().flatten().collect()
    }

    /// An inode.
    pub fn inode(&self, source: &dyn Source, number: u64) -> Result<Inode, Error> {
        let object = || format!("inode {number} of ext4");
        if number == 0 || number > self.inodes {
            return Err(Error::damaged(object(), format!("there are inodes 1 to {}", self.inodes)));
        }
        let (group, index) = ((number - 1) / self.inodes_per_group, (number - 1) % self.inodes_per_group);
        let descriptor = self.base + self.descriptors + group * self.descriptor_size;
        let low: [u8; 12] = read(source, descriptor)?;
        let mut table = u64::from(le32(&low, 8));
        if self.descriptor_size > 32 {
            let high: [u8; 4] = read(source, descriptor + 0x28)?;
            table |= u64::from(le32(&high, 0)) << 32;
        }
        let offset = index * self.inode_size;
        let at =
            table.checked_mul(self.id.block_size.into()).and_then(|at| at.checked_add(offset + self.base));
        let at = at.ok_or_else(|| Error::damaged(object(), format!("its table is block {table}")))?;
        let mut bytes = [0; 256];
        let wanted = self.inode_size.min(256) as usize;
        source.read_at(at, &mut bytes[..wanted])?;
        Ok(inode(&bytes))
    }
}

/// Inodes of revision 0 have 128 bytes, and no field that says so.
fn inode_size(bytes: &[u8]) -> u64 {
    if le32(bytes, 0x4C) == 0 { 128 } else { le16(bytes, 0x58).into() }
}

fn refuse(bytes: &[u8], incompat: u32) -> Result<(), Error> {
    let object = "ext4";
    if le32(bytes, 0x64) & RO_COMPAT_METADATA_CSUM != 0 {
        let (found, sum) = (le32(bytes, 0x3FC), !crc32c::crc32c(&bytes[..0x3FC]));
        if found != sum {
            let reason = format!("its checksum is {found:08x}, and that of its bytes {sum:08x}");
            return Err(Error::damaged("the superblock of ext4", reason));
        }
    }
    match incompat {
        flags if flags & INCOMPAT_JOURNAL_DEV != 0 => {
            Err(Error::refused(object, "a journal of another file system (journal_dev)"))
        }
        flags if flags & INCOMPAT_META_BG != 0 => {
            Err(Error::refused(object, "feature meta_bg: inodes are not found by this version's manifests"))
        }
        _ => Ok(()),
    }
}

/// The fields of 256 bytes; inodes of 128 bytes have zeroes behind these.
fn inode(bytes: &[u8; 256]) -> Inode {
    let extra = le16(bytes, 0x80);
    // Two bits of an epoch, and nanoseconds, where the inode has room for them.
    let time = |at: usize, extra_at: usize| {
        let seconds = i64::from(le32(bytes, at).cast_signed());
        if usize::from(extra) + 0x80 < extra_at + 4 {
            return (seconds, 0);
        }
        let more = le32(bytes, extra_at);
        (seconds + (i64::from(more & 3) << 32), more >> 2)
    };
    Inode {
        regular: le16(bytes, 0) & 0xF000 == 0x8000 && le16(bytes, 0x1A) != 0,
        size: halves(le32(bytes, 0x6C), le32(bytes, 4)),
        modified: time(0x10, 0x88),
        changed: time(0x0C, 0x84),
    }
}
