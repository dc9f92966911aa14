//! Commands of the NVM command set (1.0 section 3), and what is common to all I/O command sets.

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Sqe, dword};
use crate::opcode::NvmOpcode;

dword! {
    /// CDW12 of Read, Write, Compare, Verify, Write Zeroes and Write Uncorrectable.
    ///
    /// Each command uses the fields that make sense for it and reserves the others.
    pub struct ReadWrite: u32 {
        /// 15:0, Number of Logical Blocks, zero-based.
        pub nlb_z: u16,
        #[bits(4)]
        __: u8,
        /// 23:20, Directive Type (Write only).
        #[bits(4)]
        pub dtype: u8,
        /// 24, Storage Tag Check.
        pub stc: bool,
        /// 25, Deallocate (Write Zeroes only).
        pub deac: bool,
        /// 29:26, Protection Information: bit 0 reference tag, 1 application tag, 2 guard check, 3 action.
        #[bits(4)]
        pub prinfo: u8,
        /// 30, Force Unit Access.
        pub fua: bool,
        /// 31, Limited Retry.
        pub lr: bool,
    }
}

impl ReadWrite {
    /// Logical blocks of the command, 1 to 65536.
    pub const fn blocks(&self) -> u32 {
        self.nlb_z() as u32 + 1
    }
}

dword! {
    /// CDW13 of Read, Write and Compare.
    pub struct ReadWriteCdw13: u32 {
        /// 3:0, Dataset Management Access Frequency.
        #[bits(4)]
        pub access_frequency: u8,
        /// 5:4, Dataset Management Access Latency: 0 none, 1 idle, 2 normal, 3 low.
        #[bits(2)]
        pub access_latency: u8,
        /// 6, Sequential Request: part of a sequential read or write that spans commands.
        pub sequential: bool,
        /// 7, Incompressible.
        pub incompressible: bool,
        __: u8,
        /// 31:16, Directive Specific (Write only).
        pub dspec: u16,
    }
}

/// The fields that Read, Write, Compare, Verify, Write Zeroes and Write Uncorrectable share.
impl Sqe {
    /// Starting LBA: CDW10 and CDW11.
    pub const fn slba(&self) -> u64 {
        self.cdw10 as u64 | (self.cdw11 as u64) << 32
    }

    /// Sets the starting LBA.
    pub const fn set_slba(&mut self, slba: u64) {
        self.cdw10 = slba as u32;
        self.cdw11 = (slba >> 32) as u32;
    }

    /// CDW12 by field.
    pub const fn read_write(&self) -> ReadWrite {
        ReadWrite::from_bits(self.cdw12)
    }

    /// The same command with `cdw12` as its CDW12.
    pub const fn with_read_write(mut self, cdw12: ReadWrite) -> Self {
        self.cdw12 = cdw12.into_bits();
        self
    }

    /// Number of Logical Blocks, zero-based.
    pub const fn nlb_z(&self) -> u16 {
        self.read_write().nlb_z()
    }

    /// Logical blocks of the command, 1 to 65536.
    pub const fn blocks(&self) -> u32 {
        self.read_write().blocks()
    }

    /// Force Unit Access.
    pub const fn fua(&self) -> bool {
        self.read_write().fua()
    }

    /// The same command with Force Unit Access set or clear.
    pub const fn with_fua(self, fua: bool) -> Self {
        let cdw12 = self.read_write().with_fua(fua);
        self.with_read_write(cdw12)
    }

    /// Limited Retry.
    pub const fn lr(&self) -> bool {
        self.read_write().lr()
    }
}

#[inline]
const fn block_command(opcode: NvmOpcode, nsid: u32, slba: u64, nlb_z: u16) -> Sqe {
    let mut sqe = Sqe::new(opcode.0, nsid);
    sqe.set_slba(slba);
    sqe.cdw12 = nlb_z as u32;
    sqe
}

/// Flush: what was written to `nsid` (or to every namespace) before is on the medium once this completes.
pub const fn flush(nsid: u32) -> Sqe {
    Sqe::new(NvmOpcode::FLUSH.0, nsid)
}

/// Read `nlb_z + 1` blocks from `slba` on.
#[inline]
pub const fn read(nsid: u32, slba: u64, nlb_z: u16) -> Sqe {
    block_command(NvmOpcode::READ, nsid, slba, nlb_z)
}

/// Write `nlb_z + 1` blocks from `slba` on.
#[inline]
pub const fn write(nsid: u32, slba: u64, nlb_z: u16) -> Sqe {
    block_command(NvmOpcode::WRITE, nsid, slba, nlb_z)
}

/// Compare `nlb_z + 1` blocks from `slba` on with the data.
pub const fn compare(nsid: u32, slba: u64, nlb_z: u16) -> Sqe {
    block_command(NvmOpcode::COMPARE, nsid, slba, nlb_z)
}

/// Verify that `nlb_z + 1` blocks from `slba` on can be read; moves no data.
pub const fn verify(nsid: u32, slba: u64, nlb_z: u16) -> Sqe {
    block_command(NvmOpcode::VERIFY, nsid, slba, nlb_z)
}

/// Write Zeroes to `nlb_z + 1` blocks from `slba` on; `deallocate` asks that they be deallocated.
pub const fn write_zeroes(nsid: u32, slba: u64, nlb_z: u16, deallocate: bool) -> Sqe {
    let sqe = block_command(NvmOpcode::WRITE_ZEROES, nsid, slba, nlb_z);
    let cdw12 = sqe.read_write().with_deac(deallocate);
    sqe.with_read_write(cdw12)
}

/// Write Uncorrectable: mark `nlb_z + 1` blocks from `slba` on as invalid.
pub const fn write_uncorrectable(nsid: u32, slba: u64, nlb_z: u16) -> Sqe {
    block_command(NvmOpcode::WRITE_UNCORRECTABLE, nsid, slba, nlb_z)
}

dword! {
    /// CDW10 of Dataset Management.
    pub struct DsmCdw10: u32 {
        /// 7:0, Number of Ranges, zero-based.
        pub nr_z: u8,
        #[bits(24)]
        __: u32,
    }
}

impl DsmCdw10 {
    /// Ranges in the data, 1 to 256.
    pub const fn ranges(&self) -> u32 {
        self.nr_z() as u32 + 1
    }
}

dword! {
    /// CDW11 of Dataset Management.
    pub struct DsmCdw11: u32 {
        /// 0, Integral Dataset for Read.
        pub idr: bool,
        /// 1, Integral Dataset for Write.
        pub idw: bool,
        /// 2, Deallocate.
        pub ad: bool,
        #[bits(29)]
        __: u32,
    }
}

/// One range of Dataset Management, 16 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct DsmRange {
    /// Context Attributes.
    pub cattr: u32,
    /// Length in logical blocks, not zero-based.
    pub nlb: u32,
    /// Starting LBA.
    pub slba: u64,
}

const _: () = assert!(size_of::<DsmRange>() == 16);
const _: () = assert!(offset_of!(DsmRange, slba) == 8);

/// Most ranges of one Dataset Management command; they fill one 4 KiB page.
pub const DSM_MAX_RANGES: usize = 256;

/// Dataset Management with `nr_z + 1` ranges as its data.
pub const fn dataset_management(nsid: u32, nr_z: u8, attributes: DsmCdw11) -> Sqe {
    let mut sqe = Sqe::new(NvmOpcode::DATASET_MANAGEMENT.0, nsid);
    sqe.cdw10 = DsmCdw10::new().with_nr_z(nr_z).into_bits();
    sqe.cdw11 = attributes.into_bits();
    sqe
}

dword! {
    /// CDW12 of Copy; CDW10 and CDW11 hold the first LBA to write.
    pub struct CopyCdw12: u32 {
        /// 7:0, Number of Ranges, zero-based.
        pub nr_z: u8,
        /// 11:8, Descriptor Format.
        #[bits(4)]
        pub df: u8,
        /// 15:12, Protection Information for reads, as [`ReadWrite::prinfo`].
        #[bits(4)]
        pub prinfor: u8,
        #[bits(4)]
        __: u8,
        /// 23:20, Directive Type.
        #[bits(4)]
        pub dtype: u8,
        /// 24, Storage Tag Check for writes.
        pub stcw: bool,
        /// 25, Storage Tag Check for reads.
        pub stcr: bool,
        /// 29:26, Protection Information for writes, as [`ReadWrite::prinfo`].
        #[bits(4)]
        pub prinfow: u8,
        /// 30, Force Unit Access.
        pub fua: bool,
        /// 31, Limited Retry.
        pub lr: bool,
    }
}

impl CopyCdw12 {
    /// Source ranges in the data, 1 to 256.
    pub const fn ranges(&self) -> u32 {
        self.nr_z() as u32 + 1
    }
}

/// A source range of Copy, descriptor format 0, 32 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct CopyRange {
    /// Reserved.
    pub rsvd0: [u8; 8],
    /// Starting LBA to read.
    pub slba: u64,
    /// Number of Logical Blocks, zero-based.
    pub nlb_z: u16,
    /// Reserved.
    pub rsvd18: [u8; 6],
    /// Expected Initial Logical Block Reference Tag.
    pub eilbrt: u32,
    /// Expected Logical Block Application Tag.
    pub elbat: u16,
    /// Expected Logical Block Application Tag Mask.
    pub elbatm: u16,
}

const _: () = assert!(size_of::<CopyRange>() == 32);
const _: () = assert!(offset_of!(CopyRange, nlb_z) == 16);
const _: () = assert!(offset_of!(CopyRange, eilbrt) == 24);

impl CopyRange {
    /// `nlb_z + 1` blocks from `slba` on.
    pub const fn new(slba: u64, nlb_z: u16) -> Self {
        Self { rsvd0: [0; 8], slba, nlb_z, rsvd18: [0; 6], eilbrt: 0, elbat: 0, elbatm: 0 }
    }

    /// Logical blocks of the range, 1 to 65536.
    pub const fn blocks(&self) -> u32 {
        self.nlb_z as u32 + 1
    }
}

/// Copy `nr_z + 1` source ranges, the command's data, to `sdlba` on.
pub const fn copy(nsid: u32, sdlba: u64, nr_z: u8) -> Sqe {
    let mut sqe = Sqe::new(NvmOpcode::COPY.0, nsid);
    sqe.set_slba(sdlba);
    sqe.cdw12 = CopyCdw12::new().with_nr_z(nr_z).into_bits();
    sqe
}
