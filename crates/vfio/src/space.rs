//! A DMA space whose addresses we choose: what type1 and iommufd have in common.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use parking_lot::Mutex;
use warpbell_hw::{DmaAccess, DmaError, DmaLimits, DmaSource, DmaSpace, Iova};

use crate::iova::IovaAllocator;

/// An IOMMU that maps where it is told.
pub(crate) trait Iommu: Send + Sync {
    /// Makes a source visible at `iova`, all of it or nothing.
    fn map_at(&self, iova: Iova, source: DmaSource<'_>, access: DmaAccess) -> Result<(), DmaError>;
    /// Removes the mapping made at `iova`.
    fn unmap_at(&self, iova: Iova, len: u64) -> Result<(), DmaError>;
}

/// What an IOMMU can, at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IommuLimits {
    pub(crate) ranges: Vec<RangeInclusive<u64>>,
    pub(crate) page_size: u64,
    /// Mappings that can still be made.
    pub(crate) available: u32,
}

/// An IOMMU, which of its addresses are taken, and by mappings of which length.
pub(crate) struct AddressSpace<I> {
    iommu: I,
    table: Mutex<Table>,
}

struct Table {
    iovas: IovaAllocator,
    page_size: u64,
    limit: u32,
    /// Lengths by IOVA.
    mapped: BTreeMap<u64, u64>,
}

impl<I: Iommu> AddressSpace<I> {
    pub(crate) fn new(iommu: I, limits: &IommuLimits) -> AddressSpace<I> {
        let iovas = IovaAllocator::new(&limits.ranges, limits.page_size);
        let (page_size, limit) = (limits.page_size, limits.available);
        AddressSpace { iommu, table: Mutex::new(Table { iovas, page_size, limit, mapped: BTreeMap::new() }) }
    }

    pub(crate) fn iommu(&self) -> &I {
        &self.iommu
    }

    /// Takes a further device's limits into account: it may reach less than those before.
    pub(crate) fn narrow(&self, limits: &IommuLimits, windows: impl IntoIterator<Item = Range<u64>>) {
        let mut table = self.table.lock();
        table.iovas.restrict(&limits.ranges);
        for window in windows {
            table.iovas.exclude(window);
        }
        let in_use = table.mapped.len() as u32;
        table.limit = table.limit.min(limits.available.saturating_add(in_use));
        table.page_size = table.page_size.max(limits.page_size);
    }

    /// Mappings that there are.
    pub(crate) fn mappings(&self) -> usize {
        self.table.lock().mapped.len()
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<u64, DmaError> {
        let mut table = self.table.lock();
        let page_size = table.page_size;
        if len == 0 || !offset.is_multiple_of(page_size) || !len.is_multiple_of(page_size) {
            return Err(DmaError::Alignment { offset, len, page_size });
        }
        if table.mapped.len() as u32 >= table.limit {
            return Err(DmaError::TooMany { limit: table.limit });
        }
        let Some(iova) = table.iovas.allocate(len) else {
            return Err(DmaError::NoSpace { len, ranges: table.iovas.usable() });
        };
        table.mapped.insert(iova, len);
        Ok(iova)
    }

    fn forget(&self, iova: u64, len: u64) {
        let mut table = self.table.lock();
        table.mapped.remove(&iova);
        table.iovas.release(iova, len);
    }
}

/// Offset in its memory or file, and length.
fn extent(source: &DmaSource<'_>) -> Result<(u64, u64), DmaError> {
    match source {
        DmaSource::Memory(window) => Ok((window.offset_in_memory() as u64, window.len() as u64)),
        DmaSource::File { offset, len, .. } => Ok((*offset, *len)),
        DmaSource::Remote(memory) => Err(DmaError::only_an_engine(&***memory)),
    }
}

impl<I: Iommu> DmaSpace for AddressSpace<I> {
    fn map(&self, source: DmaSource<'_>, access: DmaAccess) -> Result<Iova, DmaError> {
        let (offset, len) = extent(&source)?;
        let iova = self.reserve(offset, len)?;
        let mapped = self.iommu.map_at(Iova(iova), source, access);
        mapped.inspect_err(|_| self.forget(iova, len))?;
        Ok(Iova(iova))
    }

    /// The address is free again only when the IOMMU has let go of it.
    fn unmap(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
        if self.table.lock().mapped.get(&iova.0) != Some(&len) {
            return Err(DmaError::NotMapped { iova, len });
        }
        self.iommu.unmap_at(iova, len)?;
        self.forget(iova.0, len);
        Ok(())
    }

    fn coalesces(&self) -> bool {
        true
    }

    fn limits(&self) -> DmaLimits {
        let table = self.table.lock();
        DmaLimits { ranges: table.iovas.usable(), page_size: table.page_size, mappings: table.limit }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use warpbell_hw::{DmaBuffer, Window};

    use super::*;

    /// Counts calls, and refuses when told to.
    #[derive(Default)]
    pub(crate) struct Fake {
        pub(crate) maps: Mutex<Vec<(Iova, DmaAccess)>>,
        pub(crate) unmaps: Mutex<Vec<Iova>>,
        pub(crate) refuse: Mutex<bool>,
    }

    impl Iommu for Fake {
        fn map_at(&self, iova: Iova, _: DmaSource<'_>, access: DmaAccess) -> Result<(), DmaError> {
            if *self.refuse.lock() {
                return Err(DmaError::Unsupported { reason: "told to".to_owned() });
            }
            self.maps.lock().push((iova, access));
            Ok(())
        }
        fn unmap_at(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
            if *self.refuse.lock() {
                return Err(DmaError::NotMapped { iova, len });
            }
            self.unmaps.lock().push(iova);
            Ok(())
        }
    }

    pub(crate) fn space(available: u32) -> Arc<AddressSpace<Fake>> {
        let limits = IommuLimits { ranges: vec![0..=0xffff], page_size: 4096, available };
        Arc::new(AddressSpace::new(Fake::default(), &limits))
    }

    #[test]
    fn a_buffer_is_mapped_once_for_its_life() {
        let space = space(9);
        let buffer = DmaBuffer::host(space.clone(), 8192).unwrap();
        assert_eq!(buffer.iova(), Iova(0x1000));
        assert_eq!(*space.iommu.maps.lock(), [(Iova(0x1000), DmaAccess::READ_WRITE)]);
        assert!(space.unmap(Iova(0x1000), 4096).is_err(), "half of it");
        drop(buffer);
        assert_eq!(*space.iommu.unmaps.lock(), [Iova(0x1000)]);
        assert_eq!(space.mappings(), 0);
    }

    #[test]
    fn unaligned_sources_are_refused_with_the_page_size() {
        let window = Window::host(8192).unwrap();
        for (offset, len) in [(64, 4096), (0, 4095), (4096, 0)] {
            let part = window.slice(offset, len).unwrap();
            let error = space(9).map(DmaSource::Memory(&part), DmaAccess::READ).unwrap_err();
            assert!(matches!(error, DmaError::Alignment { page_size: 4096, .. }), "{error}");
        }
    }

    #[test]
    fn the_count_of_mappings_is_limited() {
        let space = space(2);
        let window = Window::host(4096).unwrap();
        let map = || space.map(DmaSource::Memory(&window), DmaAccess::READ_WRITE);
        let first = map().unwrap();
        map().unwrap();
        assert!(matches!(map(), Err(DmaError::TooMany { limit: 2 })));
        space.unmap(first, 4096).unwrap();
        assert_eq!(map().unwrap(), first);
    }

    #[test]
    fn a_refused_mapping_leaves_nothing_and_a_refused_unmapping_leaves_all() {
        let space = space(9);
        let window = Window::host(4096).unwrap();
        let map = || space.map(DmaSource::Memory(&window), DmaAccess::READ_WRITE);
        *space.iommu.refuse.lock() = true;
        assert!(map().is_err());
        assert_eq!(space.mappings(), 0);
        *space.iommu.refuse.lock() = false;
        let iova = map().unwrap();
        *space.iommu.refuse.lock() = true;
        assert!(space.unmap(iova, 4096).is_err());
        *space.iommu.refuse.lock() = false;
        assert_ne!(map().unwrap(), iova, "still taken");
    }

    #[test]
    fn a_space_is_full_with_its_ranges_named() {
        let window = Window::host(0x10000).unwrap();
        let error = space(9).map(DmaSource::Memory(&window), DmaAccess::READ_WRITE).unwrap_err();
        assert_eq!(error.to_string(), "DMA mapping of 65536 bytes: no free IOVA range in [1000..=ffff]");
    }

    #[test]
    fn a_further_device_narrows_the_space() {
        let space = space(9);
        let less = IommuLimits { ranges: vec![0x4000..=0xbfff], page_size: 4096, available: 5 };
        space.narrow(&less, [0x6000..0x8000]);
        let limits = space.limits();
        assert_eq!((limits.ranges, limits.mappings), (vec![0x4000..=0x5fff, 0x8000..=0xbfff], 5));
    }
}
