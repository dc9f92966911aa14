//! Data pointers: how many PRP entries a transfer takes, and SGL descriptors.

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::open_enum::{dword, open_enum};

/// Bytes of one PRP entry.
pub const PRP_ENTRY_SIZE: u64 = 8;

/// Offset of `address` in its memory page; `page_size` is a power of two.
pub const fn page_offset(address: u64, page_size: u64) -> u64 {
    address & (page_size - 1)
}

/// PRP entries, PRP1 among them, that describe `len` bytes whose first is `first_offset` into its page.
///
/// A transfer of 0 bytes takes none, 1 takes PRP1, 2 take PRP1 and PRP2, and more put all but the first in a list
/// that PRP2 points at.
pub const fn prp_entries(first_offset: u64, len: u64, page_size: u64) -> u64 {
    if len == 0 {
        return 0;
    }
    // first_offset is below page_size, so only a length close to 2^64 could overflow; count its pages apart.
    len / page_size + (first_offset + len % page_size).div_ceil(page_size)
}

/// Slots of the part of a PRP list page that starts `list_offset` into it.
pub const fn prp_list_slots(list_offset: u64, page_size: u64) -> u64 {
    (page_size - list_offset) / PRP_ENTRY_SIZE
}

/// Whether the last slot of a list page points at the next page instead of at data.
///
/// `remaining` counts the entries yet to place before that slot is filled. A list whose entries exactly fill the
/// page does not chain.
pub const fn prp_last_slot_chains(remaining: u64) -> bool {
    remaining > 1
}

/// List pages, each of `page_size` bytes and used from its start, that hold `entries` list entries.
pub const fn prp_list_pages(entries: u64, page_size: u64) -> u64 {
    let slots = page_size / PRP_ENTRY_SIZE;
    if entries <= 1 {
        return entries;
    }
    // Each page but the last gives one slot to the pointer to the next; the last uses all.
    (entries - 1).div_ceil(slots - 1)
}

/// An SGL descriptor, 16 bytes: Base 2.0 section 4.1.2.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct SglDescriptor {
    /// Address of the data or of the segment; zero in a bit bucket.
    pub address: u64,
    /// Length in bytes; of a segment, a multiple of 16.
    pub length: u32,
    /// Reserved.
    pub rsvd: [u8; 3],
    /// Type and subtype.
    pub id: SglId,
}

const _: () = assert!(size_of::<SglDescriptor>() == 16);
const _: () = assert!(offset_of!(SglDescriptor, length) == 8);
const _: () = assert!(offset_of!(SglDescriptor, id) == 15);

dword! {
    /// SGL Identifier, the last byte of a descriptor.
    pub struct SglId: u8 {
        /// 3:0, Subtype.
        #[bits(4)]
        pub subtype: SglSubtype,
        /// 7:4, Type.
        #[bits(4)]
        pub sgl_type: SglType,
    }
}

open_enum! {
    /// SGL descriptor types.
    pub enum SglType: u8 {
        DATA_BLOCK = 0x0, "SGL Data Block";
        BIT_BUCKET = 0x1, "SGL Bit Bucket";
        SEGMENT = 0x2, "SGL Segment";
        LAST_SEGMENT = 0x3, "SGL Last Segment";
        KEYED_DATA_BLOCK = 0x4, "Keyed SGL Data Block";
        TRANSPORT_DATA_BLOCK = 0x5, "Transport SGL Data Block";
        VENDOR_SPECIFIC = 0xf, "Vendor specific";
    }
}

open_enum! {
    /// SGL descriptor subtypes.
    pub enum SglSubtype: u8 {
        ADDRESS = 0x0, "Address";
        OFFSET = 0x1, "Offset";
        TRANSPORT_A = 0xa, "NVMe transport specific";
    }
}

impl SglDescriptor {
    const fn new(sgl_type: SglType, address: u64, length: u32) -> Self {
        Self { address, length, rsvd: [0; 3], id: SglId::new().with_sgl_type(sgl_type) }
    }

    /// `length` bytes of data at `address`.
    pub const fn data_block(address: u64, length: u32) -> Self {
        Self::new(SglType::DATA_BLOCK, address, length)
    }

    /// `length` bytes of a read that the host does not want.
    pub const fn bit_bucket(length: u32) -> Self {
        Self::new(SglType::BIT_BUCKET, 0, length)
    }

    /// A segment of `length / 16` descriptors at `address`, of which the last points at another segment.
    pub const fn segment(address: u64, length: u32) -> Self {
        Self::new(SglType::SEGMENT, address, length)
    }

    /// The last segment, of `length / 16` descriptors at `address`.
    pub const fn last_segment(address: u64, length: u32) -> Self {
        Self::new(SglType::LAST_SEGMENT, address, length)
    }

    /// The descriptor type.
    pub const fn sgl_type(&self) -> SglType {
        self.id.sgl_type()
    }

    /// The descriptor subtype.
    pub const fn subtype(&self) -> SglSubtype {
        self.id.subtype()
    }

    /// The descriptor made of the two quadwords of a data pointer.
    pub const fn from_qwords(dptr: [u64; 2]) -> Self {
        let [b12, b13, b14, b15] = ((dptr[1] >> 32) as u32).to_le_bytes();
        Self { address: dptr[0], length: dptr[1] as u32, rsvd: [b12, b13, b14], id: SglId::from_bits(b15) }
    }

    /// The two quadwords of a data pointer.
    pub const fn into_qwords(self) -> [u64; 2] {
        let high = u32::from_le_bytes([self.rsvd[0], self.rsvd[1], self.rsvd[2], self.id.into_bits()]);
        [self.address, self.length as u64 | (high as u64) << 32]
    }
}
