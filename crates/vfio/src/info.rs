//! What the kernel's replies mean: regions, IOMMU limits and reset lists, read from their bytes.

use std::ops::{Range, RangeInclusive};

use vfio_bindings::bindings::vfio as abi;

/// A reply that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel's reply to {call} makes no sense: {what}")]
pub struct Malformed {
    /// The call.
    pub call: &'static str,
    /// What is wrong with its reply.
    pub what: String,
}

/// Reads numbers from a reply.
struct Reply<'a> {
    call: &'static str,
    bytes: &'a [u8],
}

/// One capability of a chain: its identifier, and its bytes up to the end of the reply, header included.
struct Capability<'a> {
    id: u32,
    body: Reply<'a>,
}

impl<'a> Reply<'a> {
    fn array<const N: usize>(&self, offset: usize) -> Result<[u8; N], Malformed> {
        let bytes = offset.checked_add(N).and_then(|end| self.bytes.get(offset..end));
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| self.malformed(format!("{N} bytes at {offset} of {}", self.bytes.len())))
    }

    fn u16(&self, offset: usize) -> Result<u16, Malformed> {
        self.array(offset).map(u16::from_ne_bytes)
    }

    fn u32(&self, offset: usize) -> Result<u32, Malformed> {
        self.array(offset).map(u32::from_ne_bytes)
    }

    fn u64(&self, offset: usize) -> Result<u64, Malformed> {
        self.array(offset).map(u64::from_ne_bytes)
    }

    fn malformed(&self, what: String) -> Malformed {
        Malformed { call: self.call, what }
    }

    /// The chain of capabilities that begins at `first`; 0 ends it. A chain that does not go forward is refused: the
    /// kernel appends, and a loop would never end.
    fn capabilities(&self, first: u32) -> Result<Vec<Capability<'a>>, Malformed> {
        let mut found = Vec::new();
        let (mut at, mut last) = (first as usize, 0);
        while at != 0 {
            if at <= last || at >= self.bytes.len() {
                return Err(self.malformed(format!("a capability at {at} after one at {last}")));
            }
            let id = self.u16(at)?.into();
            let next = self.u32(at + std::mem::offset_of!(abi::vfio_info_cap_header, next))?;
            found.push(Capability { id, body: Reply { call: self.call, bytes: &self.bytes[at..] } });
            (last, at) = (at, next as usize);
        }
        Ok(found)
    }
}

/// A region of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// `VFIO_REGION_INFO_FLAG_*`.
    pub(crate) flags: u32,
    /// Bytes; 0 where there is no such region.
    pub(crate) size: u64,
    /// Where it begins in the device's file.
    pub(crate) offset: u64,
    /// The parts that may be mapped, in order.
    pub(crate) mappable: Vec<Range<u64>>,
}

impl Region {
    /// Reads `vfio_region_info`.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Region, Malformed> {
        let reply = Reply { call: "VFIO_DEVICE_GET_REGION_INFO", bytes };
        let flags = reply.u32(std::mem::offset_of!(abi::vfio_region_info, flags))?;
        let size = reply.u64(std::mem::offset_of!(abi::vfio_region_info, size))?;
        let offset = reply.u64(std::mem::offset_of!(abi::vfio_region_info, offset))?;
        let mut mappable = Vec::new();
        if flags & abi::VFIO_REGION_INFO_FLAG_MMAP != 0 {
            mappable.push(0..size);
        }
        if flags & abi::VFIO_REGION_INFO_FLAG_CAPS != 0 {
            let first = reply.u32(std::mem::offset_of!(abi::vfio_region_info, cap_offset))?;
            let sparse = abi::VFIO_REGION_INFO_CAP_SPARSE_MMAP;
            if let Some(capability) = reply.capabilities(first)?.iter().find(|cap| cap.id == sparse) {
                mappable = sparse_areas(&capability.body, size)?;
            }
        }
        Ok(Region { flags, size, offset, mappable })
    }
}

fn sparse_areas(capability: &Reply<'_>, size: u64) -> Result<Vec<Range<u64>>, Malformed> {
    let count = capability.u32(std::mem::offset_of!(abi::vfio_region_info_cap_sparse_mmap, nr_areas))?;
    let first = std::mem::offset_of!(abi::vfio_region_info_cap_sparse_mmap, areas);
    let mut areas = Vec::new();
    for index in 0..count as usize {
        let at = first + index * size_of::<abi::vfio_region_sparse_mmap_area>();
        let (offset, len) = (capability.u64(at)?, capability.u64(at + 8)?);
        match offset.checked_add(len) {
            Some(end) if end <= size => areas.push(offset..end),
            _ => return Err(capability.malformed(format!("area {offset:#x}+{len:#x} of {size:#x} bytes"))),
        }
    }
    areas.retain(|area| !area.is_empty());
    areas.sort_by_key(|area| area.start);
    Ok(areas)
}

/// The limits of a type1 IOMMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Type1Info {
    /// A bit for each page size.
    pub(crate) page_sizes: u64,
    /// IOVAs that may be used; none where the kernel does not say (before Linux 5.4).
    pub(crate) ranges: Vec<RangeInclusive<u64>>,
    /// Mappings that can still be made; none where the kernel does not say (before Linux 5.10).
    pub(crate) available: Option<u32>,
}

impl Type1Info {
    /// Reads `vfio_iommu_type1_info`.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Type1Info, Malformed> {
        let reply = Reply { call: "VFIO_IOMMU_GET_INFO", bytes };
        let flags = reply.u32(std::mem::offset_of!(abi::vfio_iommu_type1_info, flags))?;
        let mut info = Type1Info { page_sizes: 4096, ranges: Vec::new(), available: None };
        if flags & abi::VFIO_IOMMU_INFO_PGSIZES != 0 {
            info.page_sizes = reply.u64(std::mem::offset_of!(abi::vfio_iommu_type1_info, iova_pgsizes))?;
        }
        if flags & abi::VFIO_IOMMU_INFO_CAPS == 0 {
            return Ok(info);
        }
        let first = reply.u32(std::mem::offset_of!(abi::vfio_iommu_type1_info, cap_offset))?;
        for Capability { id, body } in reply.capabilities(first)? {
            match id {
                abi::VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE => info.ranges = iova_ranges(&body)?,
                abi::VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL => {
                    let at = std::mem::offset_of!(abi::vfio_iommu_type1_info_dma_avail, avail);
                    info.available = Some(body.u32(at)?);
                }
                _ => {}
            }
        }
        Ok(info)
    }
}

fn iova_ranges(capability: &Reply<'_>) -> Result<Vec<RangeInclusive<u64>>, Malformed> {
    let count = capability.u32(std::mem::offset_of!(abi::vfio_iommu_type1_info_cap_iova_range, nr_iovas))?;
    let first = std::mem::offset_of!(abi::vfio_iommu_type1_info_cap_iova_range, iova_ranges);
    let mut ranges = Vec::new();
    for index in 0..count as usize {
        let at = first + index * size_of::<abi::vfio_iova_range>();
        let (start, end) = (capability.u64(at)?, capability.u64(at + 8)?);
        if start > end {
            return Err(capability.malformed(format!("IOVA range {start:#x} to {end:#x}")));
        }
        ranges.push(start..=end);
    }
    Ok(ranges)
}

/// A function that a reset of the bus or slot resets too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dependent {
    /// Its IOMMU group; or, for a device from its own character device, whether it is ours.
    pub(crate) group: u32,
    pub(crate) bdf: crate::Bdf,
}

/// Reads `vfio_pci_hot_reset_info`.
pub(crate) fn dependents(bytes: &[u8]) -> Result<Vec<Dependent>, Malformed> {
    let reply = Reply { call: "VFIO_DEVICE_GET_PCI_HOT_RESET_INFO", bytes };
    let count = reply.u32(std::mem::offset_of!(abi::vfio_pci_hot_reset_info, count))?;
    let first = std::mem::offset_of!(abi::vfio_pci_hot_reset_info, devices);
    let entry = |index: usize| {
        let at = first + index * size_of::<abi::vfio_pci_dependent_device>();
        let (group, [bus, devfn]) = (reply.u32(at)?, reply.array(at + 6)?);
        let bdf = crate::Bdf { domain: reply.u16(at + 4)?, bus, device: devfn >> 3, function: devfn & 7 };
        Ok(Dependent { group, bdf })
    };
    (0..count as usize).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(parts: &[u32]) -> Vec<u8> {
        parts.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// What Linux 6.12 says of QEMU's NVMe BAR0: mappable, MSI-X table included (capability 3, no areas).
    #[test]
    fn a_region_with_the_msix_capability_is_mappable_as_a_whole() {
        let bytes = words(&[40, 0xf, 0, 32, 0x4000, 0, 0, 0, 3 | 1 << 16, 0]);
        let region = Region::parse(&bytes).unwrap();
        assert_eq!((region.size, region.offset, &region.mappable[..]), (0x4000, 0, &[0..0x4000][..]));
    }

    #[test]
    fn sparse_areas_replace_the_whole() {
        let chain = [3 | 1 << 16, 40, 1 | 1 << 16, 0, 2, 0, 0x3000, 0, 0x1000, 0, 0, 0, 0x2000, 0];
        let mut parts = vec![96, 0xf, 0, 32, 0x4000, 0, 0x100, 0];
        parts.extend(chain);
        let region = Region::parse(&words(&parts)).unwrap();
        assert_eq!(region.mappable, [0..0x2000, 0x3000..0x4000]);
    }

    #[test]
    fn a_region_without_the_mmap_flag_has_nothing_to_map() {
        let region = Region::parse(&words(&[32, 3, 7, 0, 0x1000, 0, 0, 7])).unwrap();
        assert_eq!((region.mappable.len(), region.offset), (0, 7 << 32));
    }

    #[test]
    fn areas_outside_the_region_are_refused() {
        let bytes = words(&[64, 0xf, 0, 32, 0x4000, 0, 0, 0, 1 | 1 << 16, 0, 1, 0, 0x3000, 0, 0x2000, 0]);
        let text = Region::parse(&bytes).unwrap_err().to_string();
        assert!(text.contains("area 0x3000+0x2000 of 0x4000 bytes"), "{text}");
    }

    #[test]
    fn chains_that_loop_or_leave_the_reply_are_refused() {
        for next in [32, 8, 40, 0xffff_ffff] {
            let bytes = words(&[40, 0xf, 0, 32, 0x4000, 0, 0, 0, 3 | 1 << 16, next]);
            assert!(Region::parse(&bytes).is_err(), "next {next}");
        }
        assert!(Region::parse(&words(&[40, 0xf, 0])).is_err(), "cut short");
    }

    /// What Linux 6.12 says of a VT-d unit with 39 bits.
    #[test]
    fn the_limits_of_an_iommu_are_read() {
        let mut parts = vec![0, 3, 0x4020_1000, 0, 24, 0];
        parts.extend([1 | 1 << 16, 72, 2, 0, 0, 0, 0xfedf_ffff, 0, 0xfef0_0000, 0, 0xffff_ffff, 0x7f]);
        parts.extend([3 | 1 << 16, 0, 65535, 0]);
        let info = Type1Info::parse(&words(&parts)).unwrap();
        assert_eq!(info.page_sizes, 0x4020_1000);
        assert_eq!(info.ranges, [0..=0xfedf_ffff, 0xfef0_0000..=0x7f_ffff_ffff]);
        assert_eq!(info.available, Some(65535));
    }

    #[test]
    fn an_old_kernel_says_less() {
        let info = Type1Info::parse(&words(&[0, 0, 0, 0, 0, 0])).unwrap();
        assert_eq!(info, Type1Info { page_sizes: 4096, ranges: Vec::new(), available: None });
    }

    #[test]
    fn dependents_of_a_bus_reset_are_read() {
        let bytes = words(&[0, 0, 2, 7, 0x0800_0000, 9, 0x0941_0001]);
        let found = dependents(&bytes).unwrap();
        assert_eq!((found[0].group, found[0].bdf.to_string()), (7, "0000:00:01.0".to_owned()));
        assert_eq!((found[1].group, found[1].bdf.to_string()), (9, "0001:41:01.1".to_owned()));
        assert!(dependents(&words(&[0, 0, 3, 7, 0, 9, 0])).is_err());
    }
}
