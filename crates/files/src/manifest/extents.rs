//! Extents as the kernel reports them (FIEMAP), and which of them can be read without it.

use std::fs::File;

use fiemap::{Fiemap, FiemapExtentFlags as Flags, FiemapFlags};

use crate::Extent;

/// An extent as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Offset in the file.
    pub logical: u64,
    /// Byte of the file system's device.
    pub physical: u64,
    /// Bytes.
    pub length: u64,
    /// `FIEMAP_EXTENT_*`.
    pub flags: u32,
}

/// Why a file cannot be read without the kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtentError {
    /// Flags that may say anything.
    #[error("an extent has flags {flags:#x}, which this version does not know")]
    Flags {
        /// `FIEMAP_EXTENT_*`.
        flags: u32,
    },
    /// Data that the kernel alone can read.
    #[error("{0}")]
    Unreadable(&'static str),
    /// An extent that is no whole number of blocks.
    #[error("{} is not in whole blocks of {block} bytes", named(.extent))]
    Unaligned {
        /// As the kernel reports it.
        extent: Reported,
        /// Bytes of a block.
        block: u64,
    },
    /// An extent that ends behind its device.
    #[error("{} ends behind the device, which has {bytes} bytes", named(.extent))]
    BehindDevice {
        /// As the kernel reports it.
        extent: Reported,
        /// Bytes of the device.
        bytes: u64,
    },
}

fn named(extent: &Reported) -> String {
    format!("its extent of {} bytes at byte {} of the device", extent.length, extent.physical)
}

/// Where a file lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its extents; `at` is a byte of the disk.
    pub extents: Vec<Extent>,
    /// Whether some are shared with other files.
    pub shared: bool,
}

/// The limits of a file and of its device.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the file.
    pub size: u64,
    /// The first byte of the file system on its disk, and how many it has.
    pub start: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes of a logical block of the disk.
    pub block_size: u32,
}

/// Asks the kernel for a file's extents, after it has written what it has in memory.
pub fn ask(file: &File) -> std::io::Result<Vec<Reported>> {
    Fiemap::with_flags(file, FiemapFlags::SYNC)
        .map(|extent| {
            let extent = extent?;
            Ok(Reported {
                logical: extent.fe_logical,
                physical: extent.fe_physical,
                length: extent.fe_length,
                flags: extent.fe_flags.bits(),
            })
        })
        .collect()
}

/// What stands against an extent, by the kernel's flags. The first that applies is named.
const REFUSED: [(Flags, &str); 7] = [
    (Flags::DATA_INLINE, "its data lies in its inode (inline)"),
    (Flags::DATA_TAIL, "its data shares a block with others (tail packing)"),
    (Flags::DATA_ENCRYPTED, "its data is encrypted"),
    (Flags::ENCODED, "its data is compressed or encoded"),
    (Flags::DELALLOC, "its data has no place yet (delayed allocation): it is being written"),
    (Flags::UNKNOWN, "the kernel does not say where its data lies"),
    (Flags::NOT_ALIGNED, "its data does not begin on a block"),
];

/// The extents that hold data. Unwritten ones read as zeroes, so they are holes; those behind the end belong to no byte.
///
/// # Errors
/// Why the file cannot be read without the kernel.
pub fn placed(told: &[Reported], limits: Limits) -> Result<Placed, ExtentError> {
    let mut placed = Placed { extents: Vec::new(), shared: false };
    for one in told {
        let flags = Flags::from_bits(one.flags).ok_or(ExtentError::Flags { flags: one.flags })?;
        if let Some((_, reason)) = REFUSED.iter().find(|(flag, _)| flags.contains(*flag)) {
            return Err(ExtentError::Unreadable(reason));
        }
        if flags.contains(Flags::UNWRITTEN) || one.logical >= limits.size {
            continue;
        }
        placed.shared |= flags.contains(Flags::SHARED);
        placed.extents.push(within(one, limits)?);
    }
    Ok(placed)
}

fn within(one: &Reported, limits: Limits) -> Result<Extent, ExtentError> {
    let block = u64::from(limits.block_size);
    if [one.logical, one.physical, one.length].iter().any(|value| !value.is_multiple_of(block)) {
        return Err(ExtentError::Unaligned { extent: *one, block });
    }
    if one.physical.checked_add(one.length).is_none_or(|end| end > limits.bytes) {
        return Err(ExtentError::BehindDevice { extent: *one, bytes: limits.bytes });
    }
    Ok(Extent { offset: one.logical, at: limits.start + one.physical, bytes: one.length })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { size: 10_000, start: 1 << 20, bytes: 1 << 20, block_size: 512 };

    fn told(logical: u64, physical: u64, length: u64, flags: Flags) -> Reported {
        Reported { logical, physical, length, flags: flags.bits() }
    }

    #[test]
    fn data_is_placed_on_the_disk_and_the_rest_is_a_hole() {
        let all = [
            told(0, 4096, 4096, Flags::MERGED),
            told(4096, 8192, 4096, Flags::UNWRITTEN),
            told(8192, 65536, 4096, Flags::SHARED),
            told(12288, 131_072, 4096, Flags::LAST), // allocated ahead
        ];
        let placed = placed(&all, LIMITS).unwrap();
        let extent = |offset, at: u64| Extent { offset, at: (1 << 20) + at, bytes: 4096 };
        assert_eq!(placed, Placed { extents: vec![extent(0, 4096), extent(8192, 65536)], shared: true });
    }

    #[test]
    fn each_extent_that_the_kernel_alone_can_read_is_refused_by_name() {
        let refused = |flags, word: &str| {
            let reason = placed(&[told(0, 0, 512, flags)], LIMITS).unwrap_err().to_string();
            assert!(reason.contains(word), "{flags:?}: {reason}");
        };
        // The kernel sets the general flag beside the special one.
        refused(Flags::DATA_INLINE | Flags::NOT_ALIGNED, "inline");
        refused(Flags::DATA_TAIL | Flags::NOT_ALIGNED, "tail");
        refused(Flags::DATA_ENCRYPTED | Flags::ENCODED, "encrypted");
        refused(Flags::ENCODED, "compressed");
        refused(Flags::DELALLOC | Flags::UNKNOWN, "delayed allocation");
        refused(Flags::UNKNOWN, "does not say where");
        refused(Flags::NOT_ALIGNED | Flags::LAST, "does not begin on a block");
        refused(Flags::from_bits_retain(0x4000_0000), "0x40000000");
    }

    #[test]
    fn extents_lie_in_whole_blocks_of_the_device() {
        for (logical, physical, length) in [(100, 0, 512), (0, 100, 512), (0, 0, 100)] {
            let reason =
                placed(&[told(logical, physical, length, Flags::empty())], LIMITS).unwrap_err().to_string();
            assert!(reason.ends_with("is not in whole blocks of 512 bytes"), "{reason}");
        }
        for physical in [1 << 20, u64::MAX - 511] {
            let reason = placed(&[told(0, physical, 512, Flags::empty())], LIMITS).unwrap_err().to_string();
            assert!(reason.ends_with("ends behind the device, which has 1048576 bytes"), "{reason}");
        }
    }
}
