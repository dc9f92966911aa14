//! What an ext4 says of itself, and which of its features are understood.

use std::ops::RangeInclusive;

use crate::bytes::{halves, le16, le32};
use crate::{Error, OpenOptions, Source};

/// Where it lies, and its length.
const AT: u64 = 1024;
const BYTES: usize = 1024;
/// Its mark.
const MAGIC: u16 = 0xef53;
/// States: it was unmounted; errors were found in it.
const VALID: u16 = 1;
const ERRORS: u16 = 2;

/// Flags of features that change how files are found.
pub(super) const RECOVER: u32 = 0x4;
const META_BG: u32 = 0x10;
const WIDE: u32 = 0x80;
const CSUM_SEED: u32 = 0x2000;
const SPARSE_SUPER: u32 = 0x1;
const GDT_CSUM: u32 = 0x10;
const METADATA_CSUM: u32 = 0x400;
const ORPHANS: u32 = 0x1_0000;
const SPARSE_SUPER2: u32 = 0x200;
const READ_ONLY: u32 = 0x1000;
/// Bits of the default mount options that say how data and journal go together, and the value for data in the journal.
const DATA_MODE: u32 = 0x60;
const DATA_JOURNAL: u32 = 0x20;

/// Incompatible features that are understood, beside those above: filetype, extents, flex_bg, ea_inode, large_dir,
/// inline_data. Inodes with inline data are refused, one by one.
const INCOMPAT: u32 = 0x2 | META_BG | 0x40 | WIDE | 0x200 | 0x400 | CSUM_SEED | 0x4000 | 0x8000;
/// The same of features that only writers have to know: large_file, huge_file, dir_nlink, extra_isize, quota, readonly, project.
const RO_COMPAT: u32 =
    SPARSE_SUPER | 0x2 | 0x8 | GDT_CSUM | 0x20 | 0x40 | 0x100 | METADATA_CSUM | 0x1000 | 0x2000;

/// Names of features that are not understood: of both sets, by their bits.
const INCOMPAT_NAMES: [(u32, &str); 7] = [
    (0x1, "compression"),
    (0x8, "journal_dev"),
    (0x100, "mmp"),
    (0x1000, "dirdata"),
    (0x1_0000, "encrypt"),
    (0x2_0000, "casefold"),
    (RECOVER, "needs_recovery"),
];
const RO_COMPAT_NAMES: [(u32, &str); 7] = [
    (0x4, "btree_dir"),
    (0x80, "has_snapshot"),
    (0x200, "bigalloc"),
    (0x800, "replica"),
    (0x4000, "shared_blocks"),
    (0x8000, "verity"),
    (ORPHANS, "orphan_present"),
];

/// Which of a superblock's numbers the rest cannot rely on.
#[derive(Debug, thiserror::Error)]
enum NumberError {
    #[error("blocks of 2^{} bytes: expected 1 KiB to 64 KiB", shift.saturating_add(10))]
    BlockSize { shift: u32 },
    #[error("{object} {value}: expected {limit}")]
    Outside { object: &'static str, value: u64, limit: String },
    #[error("it has {blocks} blocks of {block} bytes, and the source {bytes} bytes")]
    Blocks { blocks: u64, block: u64, bytes: u64 },
}

/// The superblock.
#[derive(Clone, Debug)]
pub(super) struct Superblock {
    pub(super) block: u64,
    pub(super) blocks: u64,
    pub(super) inodes: u32,
    pub(super) inode_bytes: usize,
    pub(super) inodes_per_group: u32,
    pub(super) descriptor_bytes: usize,
    pub(super) uuid: [u8; 16],
    /// What checksums of metadata begin with; `None`: there are none.
    pub(super) seed: Option<u32>,
    /// Group descriptors have a CRC-16.
    pub(super) group_crc: bool,
    /// Why no file of it is overwritten.
    pub(super) only_read: Option<&'static str>,
    first_block: u64,
    blocks_per_group: u64,
    /// Blocks of descriptors from this on lie in their own groups.
    first_meta: Option<u64>,
    sparse: bool,
    /// Groups with a backup, where only two have one.
    backups: Option<[u32; 2]>,
}

/// CRC-32C as ext4 has it: without the complements.
pub(super) fn crc(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

impl Superblock {
    /// Whether its mark is on `source`.
    pub(super) fn is_on(source: &dyn Source) -> Result<bool, Error> {
        Ok(read(source, AT)?.is_some_and(|bytes| le16(&bytes, 0x38) == MAGIC))
    }

    /// The error of a source where nothing is known but a backup of a superblock; `None`: there is none.
    pub(super) fn lost(source: &dyn Source) -> Result<Option<Error>, Error> {
        let error = |block: u64| {
            let reason = format!(
                "it has no mark, and block {block} has a backup. If nothing else was put here since, e2fsck -b {block} \
                 repairs it"
            );
            Error::damaged("ext4 superblock at byte 1024", reason)
        };
        Ok(backup(source)?.map(error))
    }

    pub(super) fn read(source: &dyn Source, options: &OpenOptions) -> Result<Superblock, Error> {
        let damaged = |reason: String| {
            let place = match backup(source)? {
                Some(block) => format!("; a backup is in block {block}: e2fsck -b {block} repairs it"),
                None => String::new(),
            };
            Err(Error::damaged("ext4 superblock at byte 1024", reason + &place))
        };
        let Some(bytes) = read(source, AT)? else {
            return damaged("the source ends before it".to_owned());
        };
        if le16(&bytes, 0x38) != MAGIC {
            return match Superblock::lost(source)? {
                Some(error) => Err(error),
                None => damaged("it has no mark".to_owned()),
            };
        }
        if let Err(Checksum { found, expected }) = checked(&bytes) {
            return damaged(format!("its checksum is {found:08x}, and should be {expected:08x}"));
        }
        refuse(&bytes, options)?;
        match parsed(&bytes, source.bytes()) {
            Ok(superblock) => Ok(superblock),
            Err(error) => damaged(error.to_string()),
        }
    }

    pub(super) fn groups(&self) -> u64 {
        (self.blocks - self.first_block).div_ceil(self.blocks_per_group)
    }

    /// Blocks of the table of inodes of each group.
    pub(super) fn table_blocks(&self) -> u64 {
        (u64::from(self.inodes_per_group) * self.inode_bytes as u64).div_ceil(self.block)
    }

    /// The block behind the superblock and the group descriptors beside it.
    pub(super) fn descriptors_end(&self) -> u64 {
        let all = (self.groups() * self.descriptor_bytes as u64).div_ceil(self.block);
        self.first_block + 1 + self.first_meta.map_or(all, |first| first.min(all))
    }

    /// The block with the descriptor of a group, and where it begins in it.
    pub(super) fn descriptor(&self, group: u64) -> (u64, usize) {
        let per_block = self.block / self.descriptor_bytes as u64;
        let (index, within) = (group / per_block, (group % per_block) as usize * self.descriptor_bytes);
        if self.first_meta.is_none_or(|first| index < first) {
            return (self.first_block + 1 + index, within);
        }
        let home = index * per_block;
        let behind = u64::from(self.has_backup(home));
        (self.first_block + home * self.blocks_per_group + behind, within)
    }

    /// Whether its numbers are within what the rest relies on, on a source of so many bytes.
    fn check(&self, wide: bool, bytes: u64) -> Result<(), NumberError> {
        let Superblock { block, blocks, first_block, blocks_per_group, .. } = *self;
        let first = u64::from(block == 1024);
        within("first block", first_block, &(first..=first))?;
        within("blocks per group", blocks_per_group, &(1..=8 * block))?;
        within("inodes per group", self.inodes_per_group.into(), &(1..=8 * block))?;
        power_within("inode size", self.inode_bytes, &(128..=block))?;
        power_within("descriptor size", self.descriptor_bytes, &(if wide { 64..=1024 } else { 32..=32 }))?;
        if blocks.checked_mul(block).is_none_or(|end| end > bytes) {
            return Err(NumberError::Blocks { blocks, block, bytes });
        }
        within("count of blocks", blocks, &(first_block + 2..=bytes / block))
    }

    /// Whether a group begins with a copy of the superblock. It is one whose number is a multiple of a power of two, where
    /// sparse copies are in groups whose numbers are powers of 3, 5 and 7.
    fn has_backup(&self, group: u64) -> bool {
        match self.backups {
            _ if group == 0 => true,
            Some(groups) => groups.iter().any(|one| u64::from(*one) == group),
            None => !self.sparse,
        }
    }
}

fn within(object: &'static str, value: u64, limits: &RangeInclusive<u64>) -> Result<(), NumberError> {
    if limits.contains(&value) {
        return Ok(());
    }
    let limit = match limits.start() == limits.end() {
        true => limits.end().to_string(),
        false => format!("{} to {}", limits.start(), limits.end()),
    };
    Err(NumberError::Outside { object, value, limit })
}

fn power_within(object: &'static str, value: usize, limits: &RangeInclusive<u64>) -> Result<(), NumberError> {
    within(object, value as u64, limits)?;
    match value.is_power_of_two() {
        true => Ok(()),
        false => {
            Err(NumberError::Outside { object, value: value as u64, limit: "a power of two".to_owned() })
        }
    }
}

/// A superblock at `at`, where the source has so many bytes.
fn read(source: &dyn Source, at: u64) -> Result<Option<[u8; BYTES]>, Error> {
    if at.checked_add(BYTES as u64).is_none_or(|end| end > source.bytes()) {
        return Ok(None);
    }
    let mut bytes = [0; BYTES];
    source.read_at(at, &mut bytes)?;
    Ok(Some(bytes))
}

/// The block of the first backup, for each size of blocks where it would be: one that says that it is in group 1.
fn backup(source: &dyn Source) -> Result<Option<u64>, Error> {
    for shift in 0..=6 {
        let block = 1024u64 << shift;
        let number = block * 8 + u64::from(block == 1024);
        if let Some(bytes) = read(source, number * block)?
            && (le16(&bytes, 0x38), le16(&bytes, 0x5a), le32(&bytes, 0x18)) == (MAGIC, 1, shift)
            && checked(&bytes).is_ok()
        {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

struct Checksum {
    found: u32,
    expected: u32,
}

/// Compares the checksum, if there is one.
fn checked(bytes: &[u8; BYTES]) -> Result<(), Checksum> {
    if le32(bytes, 0x64) & METADATA_CSUM == 0 {
        return Ok(());
    }
    let (found, expected) = (crc(u32::MAX, &bytes[..0x3fc]), le32(bytes, 0x3fc));
    if found == expected { Ok(()) } else { Err(Checksum { found, expected }) }
}

/// Refuses features that are not understood, by name, and what was not unmounted.
fn refuse(bytes: &[u8; BYTES], options: &OpenOptions) -> Result<(), Error> {
    let dirty = |object: &str, why: &str| {
        let remedy =
            "mount and unmount it, or repair it with e2fsck; or read it as it is, with --allow-dirty";
        Err(Error::refused(object, format!("{why}: {remedy}")))
    };
    let (incompat, ro_compat, state) = (le32(bytes, 0x60), le32(bytes, 0x64), le16(bytes, 0x3a));
    let not_clean = (incompat & RECOVER) | (ro_compat & ORPHANS);
    if !options.allow_dirty {
        if not_clean != 0 {
            return dirty("ext4 with needs_recovery", "its journal has changes that its files lack");
        }
        if state & ERRORS != 0 {
            return dirty("ext4 with errors", "the kernel found errors in it");
        }
        if state & VALID == 0 {
            return dirty("ext4 that is mounted", "it was not unmounted");
        }
    }
    let unknown = (incompat & !INCOMPAT & !RECOVER, ro_compat & !RO_COMPAT & !ORPHANS);
    let names: Vec<String> = named("incompat", unknown.0, &INCOMPAT_NAMES)
        .chain(named("ro_compat", unknown.1, &RO_COMPAT_NAMES))
        .collect();
    if !names.is_empty() {
        let reason = "not understood; mount it, and record its files by a manifest";
        return Err(Error::refused(format!("ext4 with feature {}", names.join(", ")), reason));
    }
    if le32(bytes, 0x4c) > 1 {
        let reason = "only revisions 0 and 1 are known";
        return Err(Error::refused(format!("ext4 of revision {}", le32(bytes, 0x4c)), reason));
    }
    if ro_compat & METADATA_CSUM != 0 && bytes[0x175] != 1 {
        let reason = "only 1 is known, CRC-32C";
        return Err(Error::refused(format!("ext4 with checksums of type {}", bytes[0x175]), reason));
    }
    Ok(())
}

/// Names of the features that are set.
fn named(set: &'static str, flags: u32, names: &[(u32, &'static str)]) -> impl Iterator<Item = String> {
    let bits = (0..32).map(|bit| 1u32 << bit).filter(move |bit| flags & bit != 0);
    bits.map(move |bit| {
        let known = names.iter().find(|(flag, _)| *flag == bit);
        known.map_or_else(|| format!("{set} {bit:#x}"), |(_, name)| (*name).to_owned())
    })
}

/// Why no file may be overwritten, if none may.
fn only_read(bytes: &[u8; BYTES]) -> Option<&'static str> {
    let (incompat, ro_compat, state) = (le32(bytes, 0x60), le32(bytes, 0x64), le16(bytes, 0x3a));
    let dirty = incompat & RECOVER != 0 || ro_compat & ORPHANS != 0 || state & (VALID | ERRORS) != VALID;
    // tune2fs -o, and -E mount_opts.
    let options = bytes[0x200..0x240].split(|byte| *byte == 0).next().unwrap_or_default();
    let named = options.split(|byte| *byte == b',').any(|option| option == b"data=journal");
    match () {
        () if dirty => Some("it is mounted, or was not unmounted: mount and unmount it first"),
        () if ro_compat & READ_ONLY != 0 => Some("it is marked read-only (feature readonly)"),
        () if named || le32(bytes, 0x100) & DATA_MODE == DATA_JOURNAL => {
            Some("its default mount options have data=journal: data goes through the journal")
        }
        () => None,
    }
}

/// The numbers in it, within what the rest relies on.
fn parsed(bytes: &[u8; BYTES], source: u64) -> Result<Superblock, NumberError> {
    let (incompat, ro_compat) = (le32(bytes, 0x60), le32(bytes, 0x64));
    let shift = le32(bytes, 0x18);
    if shift > 6 {
        return Err(NumberError::BlockSize { shift });
    }
    let block = 1024u64 << shift;
    let wide = incompat & WIDE != 0;
    let high = if wide { le32(bytes, 0x150) } else { 0 };
    let blocks = halves(high, le32(bytes, 0x4));
    let first_block = u64::from(le32(bytes, 0x14));
    let blocks_per_group = u64::from(le32(bytes, 0x20));
    let inodes_per_group = le32(bytes, 0x28);
    let old = le32(bytes, 0x4c) == 0;
    let inode_bytes = if old { 128 } else { usize::from(le16(bytes, 0x58)) };
    let descriptor_bytes = if wide { usize::from(le16(bytes, 0xfe)) } else { 32 };
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&bytes[0x68..0x78]);
    let seed = if incompat & CSUM_SEED != 0 { le32(bytes, 0x270) } else { crc(u32::MAX, &uuid) };
    let metadata_csum = ro_compat & METADATA_CSUM != 0;
    let superblock = Superblock {
        block,
        blocks,
        inodes: le32(bytes, 0),
        inode_bytes,
        inodes_per_group,
        descriptor_bytes,
        uuid,
        seed: metadata_csum.then_some(seed),
        group_crc: ro_compat & GDT_CSUM != 0 && !metadata_csum,
        only_read: only_read(bytes),
        first_block,
        blocks_per_group,
        first_meta: (incompat & META_BG != 0).then(|| le32(bytes, 0x104).into()),
        sparse: ro_compat & SPARSE_SUPER != 0,
        backups: (le32(bytes, 0x5c) & SPARSE_SUPER2 != 0).then(|| [le32(bytes, 0x24c), le32(bytes, 0x250)]),
    };
    superblock.check(wide, source)?;
    Ok(superblock)
}
