//! Registered memory: mapped once for its lifetime, described once for kernels.

use std::sync::Arc;

use warpbell_gpu::DeviceMemory;
use warpbell_hw::{DmaArena, DmaBuffer, Iova, Registration, Window};
use warpbell_kernels::abi;

use crate::device_data::DeviceData;
use crate::{Error, OpenTarget, SharedMemory};

/// Bytes of a controller memory page (CC.MPS is always 4 KiB here).
const PAGE: u64 = 1 << PAGE_SHIFT;
const PAGE_SHIFT: u32 = 12;
/// Buffer pages by which consecutive table pages advance.
const TABLE_STEP: u64 = 256;
/// Entries of a table page.
const TABLE_ENTRIES: u64 = 512;

/// How commands describe data in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPointerKind {
    /// One inline SGL data block: the buffer is contiguous for the controller.
    Sgl,
    /// PRP entries, with lists built at registration.
    Prp,
}

impl DataPointerKind {
    /// The word for reports.
    pub fn name(self) -> &'static str {
        match self {
            DataPointerKind::Sgl => "sgl",
            DataPointerKind::Prp => "prp",
        }
    }
}

/// Memory that kernels and the controller both reach. A clone is the same memory, which stays mapped
/// until the last one is dropped.
#[derive(Clone, Debug)]
pub struct Buffer {
    data: Data,
    table: Option<Arc<DmaBuffer>>,
    /// As kernels of a GPU reach it.
    shared: Option<SharedMemory>,
}

/// What keeps the memory mapped.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    /// A mapping of its own.
    Own(Arc<DmaBuffer>),
    /// A mapping that other registrations may share.
    Registered(Registration),
    /// In a GPU's memory: a mapping that other registrations may share, and what the registrant keeps it by.
    Device(Arc<DeviceData>, DeviceMemory),
}

impl Data {
    pub(crate) fn own(buffer: DmaBuffer) -> Data {
        Data::Own(Arc::new(buffer))
    }

    fn window(&self) -> Option<&Window> {
        match self {
            Data::Own(buffer) => Some(buffer.window()),
            Data::Registered(registration) => Some(registration.window()),
            Data::Device(..) => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Data::Own(buffer) => buffer.len(),
            Data::Registered(registration) => registration.window().len(),
            Data::Device(_, memory) => memory.len(),
        }
    }

    /// Where kernels of the CPU target, or of the GPU whose memory it is, find the first byte.
    fn address(&self) -> u64 {
        match self {
            Data::Own(buffer) => buffer.window().as_ptr() as u64,
            Data::Registered(registration) => registration.window().as_ptr() as u64,
            Data::Device(_, memory) => memory.address(),
        }
    }

    pub(crate) fn iova(&self) -> Iova {
        match self {
            Data::Own(buffer) => buffer.iova(),
            Data::Registered(registration) => registration.iova(),
            Data::Device(data, _) => data.iova(),
        }
    }
}

impl Buffer {
    /// Describes `data`, which is mapped from a page's first byte on. In PRP mode buffers of more than two
    /// pages get a list table, so that no kernel ever builds a list.
    pub(crate) fn new(arena: &DmaArena, data: Data, by: DataPointerKind) -> Result<Buffer, Error> {
        let pages = (data.len() as u64).div_ceil(PAGE);
        let table = match by {
            DataPointerKind::Prp if pages > 2 => Some(Arc::new(list_table(arena, data.iova(), pages)?)),
            _ => None,
        };
        Ok(Buffer { data, table, shared: None })
    }

    /// The same buffer, as kernels of `target` reach it too.
    pub(crate) fn for_kernels(self, target: &OpenTarget) -> Result<Buffer, Error> {
        let shared = match (target.gpu(), self.window()) {
            (Some(_), Some(window)) => Some(target.share(window.clone())?),
            _ => None,
        };
        Ok(Buffer { shared, ..self })
    }

    /// The memory, for the host; `None` where it is a GPU's.
    pub fn window(&self) -> Option<&Window> {
        self.data.window()
    }

    /// The memory, where it is a GPU's.
    pub fn device_memory(&self) -> Option<&DeviceMemory> {
        match &self.data {
            Data::Device(_, memory) => Some(memory),
            Data::Own(_) | Data::Registered(_) => None,
        }
    }

    /// Copies bytes out of it, wherever it lies.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Error> {
        match &self.data {
            Data::Device(_, memory) => Ok(memory.read(offset, into)?),
            Data::Own(buffer) => Ok(buffer.window().read(offset, into)?),
            Data::Registered(registration) => Ok(registration.window().read(offset, into)?),
        }
    }

    /// Copies bytes into it, wherever it lies.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), Error> {
        match &self.data {
            Data::Device(_, memory) => Ok(memory.write(offset, from)?),
            Data::Own(buffer) => Ok(buffer.window().write(offset, from)?),
            Data::Registered(registration) => Ok(registration.window().write(offset, from)?),
        }
    }

    /// Where the controller sees its first byte.
    pub fn iova(&self) -> Iova {
        self.data.iova()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.data.len() == 0
    }

    /// The kernel argument that names this buffer. Valid while the buffer lives.
    pub fn as_ref(&self) -> abi::BufferRef {
        abi::BufferRef {
            data: self.shared.as_ref().map_or_else(|| self.data.address(), SharedMemory::address),
            iova: self.data.iova().get(),
            bytes: self.len() as u64,
            prp_iova: self.table.as_ref().map_or(0, |table| table.iova().get()),
            page_shift: PAGE_SHIFT,
            ..abi::BufferRef::new()
        }
    }
}

/// Table page i holds the addresses of buffer pages 256 i to 256 i + 511: a list that begins at any
/// page runs for at least 257 entries before its table page ends, so none ever chains.
fn list_table(arena: &DmaArena, iova: Iova, pages: u64) -> Result<DmaBuffer, Error> {
    let table_pages = pages.div_ceil(TABLE_STEP);
    let table = arena.buffer((table_pages * PAGE) as usize)?;
    for table_page in 0..table_pages {
        let first = table_page * TABLE_STEP;
        let entries: Vec<u8> = (first..pages.min(first + TABLE_ENTRIES))
            .flat_map(|page| (iova.get() + page * PAGE).to_le_bytes())
            .collect();
        table.window().write((table_page * PAGE) as usize, &entries)?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use warpbell_hw::{DmaAccess, DmaError, DmaLimits, DmaSource, DmaSpace};

    use super::*;

    /// Maps everything at a fixed place, far from zero.
    struct Fixed;
    impl DmaSpace for Fixed {
        fn map(&self, _: DmaSource<'_>, _: DmaAccess) -> Result<Iova, DmaError> {
            Ok(Iova(0x7_0000_0000))
        }
        fn unmap(&self, _: Iova, _: u64) -> Result<(), DmaError> {
            Ok(())
        }
        fn limits(&self) -> DmaLimits {
            DmaLimits { ranges: vec![0..=u64::MAX], page_size: 4096, mappings: 1 }
        }
    }

    fn host(bytes: usize, by: DataPointerKind) -> Buffer {
        let data = Data::own(DmaBuffer::host(Arc::new(Fixed), bytes).unwrap());
        Buffer::new(&DmaArena::new(Arc::new(Fixed)), data, by).unwrap()
    }

    #[test]
    fn every_list_of_up_to_257_entries_lies_in_one_table_page() {
        let buffer = host(1000 * 4096, DataPointerKind::Prp);
        let table = buffer.table.as_ref().unwrap().window();
        for page in 0..1000u64 {
            let start = (page >> 8) * 4096 + (page & 255) * 8;
            for entry in 0..257.min(1000 - page) {
                let at = start + entry * 8;
                assert_eq!(at / 4096, start / 4096, "page {page}: the list leaves its table page");
                let address = table.load_u64(at as usize, Ordering::Relaxed);
                assert_eq!(address, 0x7_0000_0000 + (page + entry) * 4096);
            }
        }
    }

    #[test]
    fn small_buffers_and_sgls_need_no_table() {
        for (bytes, by) in [(8192, DataPointerKind::Prp), (1 << 20, DataPointerKind::Sgl)] {
            let buffer = host(bytes, by);
            assert_eq!(buffer.as_ref().prp_iova, 0);
        }
        let buffer = host(8193, DataPointerKind::Prp);
        assert_ne!(buffer.as_ref().prp_iova, 0);
    }
}
