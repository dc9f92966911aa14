//! Identify Namespace.

use core::mem::{offset_of, size_of};

use zerocopy::little_endian::U128;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::IDENTIFY_SIZE;
use crate::open_enum::{dword, zeroed};

/// Identify Namespace for the NVM command set (CNS 00h), 4096 bytes.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct IdentifyNamespace {
    /// Namespace Size, in logical blocks.
    pub nsze: u64,
    /// Namespace Capacity, in logical blocks.
    pub ncap: u64,
    /// Namespace Utilization, in logical blocks.
    pub nuse: u64,
    /// Namespace Features.
    pub nsfeat: NsFeat,
    /// Number of LBA Formats, zero-based.
    pub nlbaf_z: u8,
    /// Formatted LBA Size.
    pub flbas: Flbas,
    /// Metadata Capabilities: bit 0 at the end of the block, bit 1 in a separate buffer.
    pub mc: u8,
    /// End-to-end Data Protection Capabilities: bits 2:0 types 1 to 3, bit 3 first bytes, bit 4 last bytes.
    pub dpc: u8,
    /// End-to-end Data Protection Type Settings: bits 2:0 the type, bit 3 first bytes.
    pub dps: u8,
    /// Namespace Multi-path I/O and Namespace Sharing Capabilities: bit 0 shared.
    pub nmic: u8,
    /// Reservation Capabilities.
    pub rescap: u8,
    /// Format Progress Indicator: bit 7 supported, bits 6:0 percent remaining.
    pub fpi: u8,
    /// Deallocate Logical Block Features: bits 2:0 what a read returns (1 zeros, 2 FFh), bit 3 Write Zeroes
    /// deallocates, bit 4 the guard is a CRC.
    pub dlfeat: u8,
    /// Namespace Atomic Write Unit Normal, zero-based logical blocks; counts if NSFEAT says so.
    pub nawun_z: u16,
    /// Namespace Atomic Write Unit Power Fail, zero-based logical blocks; counts if NSFEAT says so.
    pub nawupf_z: u16,
    /// Namespace Atomic Compare and Write Unit, zero-based logical blocks; counts if NSFEAT says so.
    pub nacwu_z: u16,
    /// Namespace Atomic Boundary Size Normal, zero-based logical blocks; 0 means no boundary.
    pub nabsn_z: u16,
    /// Namespace Atomic Boundary Offset, in logical blocks.
    pub nabo: u16,
    /// Namespace Atomic Boundary Size Power Fail, zero-based logical blocks; 0 means no boundary.
    pub nabspf_z: u16,
    /// Namespace Optimal I/O Boundary, in logical blocks; 0 means not reported.
    pub noiob: u16,
    /// NVM Capacity, in bytes.
    pub nvmcap: U128,
    /// Namespace Preferred Write Granularity, zero-based logical blocks; counts if NSFEAT says so.
    pub npwg_z: u16,
    /// Namespace Preferred Write Alignment, zero-based logical blocks; counts if NSFEAT says so.
    pub npwa_z: u16,
    /// Namespace Preferred Deallocate Granularity, zero-based logical blocks; counts if NSFEAT says so.
    pub npdg_z: u16,
    /// Namespace Preferred Deallocate Alignment, zero-based logical blocks; counts if NSFEAT says so.
    pub npda_z: u16,
    /// Namespace Optimal Write Size, zero-based logical blocks; counts if NSFEAT says so.
    pub nows_z: u16,
    /// Maximum Single Source Range Length of Copy, in logical blocks.
    pub mssrl: u16,
    /// Maximum Copy Length, in logical blocks.
    pub mcl: u32,
    /// Maximum Source Range Count of Copy, zero-based.
    pub msrc_z: u8,
    _rsvd81: [u8; 11],
    /// ANA Group Identifier.
    pub anagrpid: u32,
    _rsvd96: [u8; 3],
    /// Namespace Attributes: bit 0 write protected.
    pub nsattr: u8,
    /// NVM Set Identifier.
    pub nvmsetid: u16,
    /// Endurance Group Identifier.
    pub endgid: u16,
    /// Namespace Globally Unique Identifier, big-endian; zeros mean none.
    pub nguid: [u8; 16],
    /// IEEE Extended Unique Identifier, big-endian; zeros mean none.
    pub eui64: [u8; 8],
    /// LBA Formats; `nlbaf_z + 1` of them are valid.
    pub lbaf: [LbaFormat; 64],
    /// Vendor Specific.
    pub vs: [u8; 3712],
}

const _: () = assert!(size_of::<IdentifyNamespace>() == IDENTIFY_SIZE);
const _: () = assert!(offset_of!(IdentifyNamespace, nlbaf_z) == 25);
const _: () = assert!(offset_of!(IdentifyNamespace, nawupf_z) == 36);
const _: () = assert!(offset_of!(IdentifyNamespace, noiob) == 46);
const _: () = assert!(offset_of!(IdentifyNamespace, nvmcap) == 48);
const _: () = assert!(offset_of!(IdentifyNamespace, mssrl) == 74);
const _: () = assert!(offset_of!(IdentifyNamespace, anagrpid) == 92);
const _: () = assert!(offset_of!(IdentifyNamespace, nsattr) == 99);
const _: () = assert!(offset_of!(IdentifyNamespace, nguid) == 104);
const _: () = assert!(offset_of!(IdentifyNamespace, eui64) == 120);
const _: () = assert!(offset_of!(IdentifyNamespace, lbaf) == 128);
const _: () = assert!(offset_of!(IdentifyNamespace, vs) == 384);

impl IdentifyNamespace {
    /// Valid entries of [`lbaf`](Self::lbaf).
    pub const fn lba_formats(&self) -> u32 {
        self.nlbaf_z as u32 + 1
    }

    /// The LBA format in use.
    pub const fn current_format(&self) -> LbaFormat {
        // Six bits, so always one of the 64.
        self.lbaf[self.flbas.index(self.lba_formats()) as usize]
    }

    /// Bytes of a logical block without metadata; see [`LbaFormat::block_bytes`].
    pub const fn block_bytes(&self) -> Option<u64> {
        self.current_format().block_bytes()
    }

    /// Size of the namespace in bytes, or `None` where the format is unusable or the size does not fit.
    pub const fn size_bytes(&self) -> Option<u64> {
        match self.block_bytes() {
            Some(block) => block.checked_mul(self.nsze),
            None => None,
        }
    }
}

dword! {
    /// Namespace Features.
    pub struct NsFeat: u8 {
        /// 0, Thin Provisioning.
        pub thinp: bool,
        /// 1, NAWUN, NAWUPF and NACWU count.
        pub nsabp: bool,
        /// 2, Deallocated or Unwritten Logical Block error supported.
        pub dae: bool,
        /// 3, NGUID and EUI64 are never reused.
        pub uidreuse: bool,
        /// 4, NPWG, NPWA, NPDG, NPDA and NOWS count.
        pub optperf: bool,
        #[bits(3)]
        __: u8,
    }
}

dword! {
    /// Formatted LBA Size.
    pub struct Flbas: u8 {
        /// 3:0, LBA format index, lower bits.
        #[bits(4)]
        pub index_lower: u8,
        /// 4, metadata is at the end of each block instead of in a separate buffer.
        pub extended: bool,
        /// 6:5, LBA format index, upper bits; counts with more than 16 formats.
        #[bits(2)]
        pub index_upper: u8,
        #[bits(1)]
        __: u8,
    }
}

impl Flbas {
    /// The index of the LBA format in use among `formats` of them.
    pub const fn index(&self, formats: u32) -> u8 {
        if formats > 16 { self.index_lower() | self.index_upper() << 4 } else { self.index_lower() }
    }
}

dword! {
    /// LBA Format.
    pub struct LbaFormat: u32 {
        /// 15:0, Metadata Size, in bytes per logical block.
        pub ms: u16,
        /// 23:16, LBA Data Size, `2^n` bytes; 9 or more, 0 means unusable.
        pub lbads: u8,
        /// 25:24, Relative Performance: 0 best, 3 degraded.
        #[bits(2)]
        pub rp: u8,
        #[bits(6)]
        __: u8,
    }
}

impl LbaFormat {
    /// Bytes of a logical block without metadata, or `None` where LBADS is below 9 or above 63.
    pub const fn block_bytes(&self) -> Option<u64> {
        if matches!(self.lbads(), 9..=63) { Some(1 << self.lbads()) } else { None }
    }
}

/// I/O Command Set Independent Identify Namespace (CNS 08h), 4096 bytes.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct IdentifyNamespaceIndependent {
    /// Common Namespace Features: bit 3 identifiers are never reused, bit 4 rotational media.
    pub nsfeat: u8,
    /// Namespace Multi-path I/O and Namespace Sharing Capabilities: bit 0 shared.
    pub nmic: u8,
    /// Reservation Capabilities.
    pub rescap: u8,
    /// Format Progress Indicator: bit 7 supported, bits 6:0 percent remaining.
    pub fpi: u8,
    /// ANA Group Identifier.
    pub anagrpid: u32,
    /// Namespace Attributes: bit 0 write protected.
    pub nsattr: u8,
    _rsvd9: u8,
    /// NVM Set Identifier.
    pub nvmsetid: u16,
    /// Endurance Group Identifier.
    pub endgid: u16,
    /// Namespace Status: bit 0 ready.
    pub nstat: u8,
    _rsvd15: [u8; 4081],
}

const _: () = assert!(size_of::<IdentifyNamespaceIndependent>() == IDENTIFY_SIZE);
const _: () = assert!(offset_of!(IdentifyNamespaceIndependent, nvmsetid) == 10);
const _: () = assert!(offset_of!(IdentifyNamespaceIndependent, nstat) == 14);

/// I/O Command Set specific Identify Namespace for the NVM command set (CNS 05h, CSI 00h), 4096 bytes.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct IdentifyNvmNamespace {
    /// Logical Block Storage Tag Mask.
    pub lbstm: u64,
    /// Protection Information Capabilities.
    pub pic: u8,
    _rsvd9: [u8; 3],
    /// Extended LBA Formats, by index of [`IdentifyNamespace::lbaf`].
    pub elbaf: [ExtendedLbaFormat; 64],
    _rsvd268: [u8; 3828],
}

const _: () = assert!(size_of::<IdentifyNvmNamespace>() == IDENTIFY_SIZE);
const _: () = assert!(offset_of!(IdentifyNvmNamespace, elbaf) == 12);

dword! {
    /// Extended LBA Format.
    pub struct ExtendedLbaFormat: u32 {
        /// 6:0, Storage Tag Size, in bits.
        #[bits(7)]
        pub sts: u8,
        /// 8:7, Protection Information Format: 0 16-bit guard, 1 32-bit guard, 2 64-bit guard.
        #[bits(2)]
        pub pif: u8,
        #[bits(23)]
        __: u32,
    }
}

zeroed!(IdentifyNamespace, IdentifyNamespaceIndependent, IdentifyNvmNamespace);
