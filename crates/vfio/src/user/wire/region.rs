//! Region information with its chain of capabilities.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{RegionFlags, RegionInfo, WireError, take};

/// What begins every capability.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct CapabilityHeader {
    id: u16,
    version: u16,
    /// Where the next one is, from the start of the region information; 0: nowhere.
    next: u32,
}

/// What follows it in the sparse mmap capability.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct SparseHeader {
    areas: u32,
    reserved: u32,
}

/// A part of a region that can be mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SparseArea {
    /// First byte in the region.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

const _: () = assert!(size_of::<CapabilityHeader>() == 8);
const _: () = assert!(size_of::<SparseHeader>() == 8);
const _: () = assert!(size_of::<SparseArea>() == 16);

const SPARSE_MMAP: u16 = 1;
const FIXED: usize = size_of::<RegionInfo>();

/// A region as DEVICE_GET_REGION_INFO tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionDescription {
    /// What can be done with it.
    pub flags: RegionFlags,
    /// Which region.
    pub index: u32,
    /// Bytes of the region.
    pub size: u64,
    /// Where the region begins in its file.
    pub offset: u64,
    /// The parts that can be mapped; empty: all of it, if any.
    pub sparse: Vec<SparseArea>,
}

impl RegionDescription {
    /// Bytes of its payload.
    pub fn payload_bytes(&self) -> usize {
        let sparse = size_of::<CapabilityHeader>()
            + size_of::<SparseHeader>()
            + self.sparse.len() * size_of::<SparseArea>();
        if self.sparse.is_empty() { FIXED } else { FIXED + sparse }
    }

    /// The payload of a reply to a client that has room for `argsz` bytes: where that is too little, without the
    /// capabilities, and the client sees from `argsz` how much it needs.
    pub fn encode(&self, argsz: u32) -> Vec<u8> {
        let needed = self.payload_bytes();
        let with_areas = !self.sparse.is_empty() && argsz as usize >= needed;
        // QEMU takes no reply that promises capabilities and does not say where they are.
        let caps = if with_areas { RegionFlags::CAPS } else { RegionFlags::empty() };
        let info = RegionInfo {
            argsz: needed as u32,
            flags: (self.flags - RegionFlags::CAPS) | caps,
            index: self.index,
            cap_offset: if with_areas { FIXED as u32 } else { 0 },
            size: self.size,
            offset: self.offset,
        };
        let mut bytes = info.as_bytes().to_vec();
        if with_areas {
            bytes.extend(CapabilityHeader { id: SPARSE_MMAP, version: 1, next: 0 }.as_bytes());
            bytes.extend(SparseHeader { areas: self.sparse.len() as u32, reserved: 0 }.as_bytes());
            bytes.extend(self.sparse.as_bytes());
        }
        bytes
    }

    /// Reads a reply's payload. Capabilities that are not known are left out.
    pub fn decode(payload: &[u8]) -> Result<RegionDescription, WireError> {
        let (info, _) = take::<RegionInfo>("region information", payload)?;
        let (flags, index) = (info.flags, info.index);
        let mut region =
            RegionDescription { flags, index, size: info.size, offset: info.offset, sparse: Vec::new() };
        let (mut at, mut least) = (info.cap_offset as usize, FIXED);
        while flags.contains(RegionFlags::CAPS) && at != 0 {
            if at < least {
                let (what, value) = ("the offset of a region capability", at as u64);
                return Err(WireError::Field {
                    what,
                    value,
                    rule: "capabilities must not overlap or go round",
                });
            }
            let bytes = payload.get(at..).unwrap_or_default();
            let (header, body) = take::<CapabilityHeader>("a region capability", bytes)?;
            if header.id == SPARSE_MMAP {
                region.sparse = sparse_areas(body)?;
            }
            (at, least) = (header.next as usize, at + size_of::<CapabilityHeader>());
        }
        Ok(region)
    }
}

fn sparse_areas(body: &[u8]) -> Result<Vec<SparseArea>, WireError> {
    let (header, rest) = take::<SparseHeader>("the sparse mmap capability", body)?;
    let need = (header.areas as usize).saturating_mul(size_of::<SparseArea>());
    let bytes = rest.get(..need);
    let bytes = bytes.ok_or(WireError::Short { what: "the sparse mmap areas", len: rest.len(), need })?;
    bytes.chunks_exact(size_of::<SparseArea>()).map(|one| Ok(take("a sparse mmap area", one)?.0)).collect()
}
