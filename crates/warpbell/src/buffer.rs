//! Registered memory: mapped once for its lifetime, described once for kernels.

use std::sync::Arc;

use warpbell_hw::{DmaBuffer, DmaSpace, Iova, Window};
use warpbell_kernels::abi;

use crate::Error;

/// Bytes of a controller memory page (CC.MPS is always 4 KiB here).
const PAGE: u64 = 1 << PAGE_SHIFT;
const PAGE_SHIFT: u32 = 12;
/// Buffer pages by which consecutive table pages advance.
const TABLE_STEP: u64 = 256;
/// Entries of a table page.
const TABLE_ENTRIES: u64 = 512;

/// How commands describe data in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// One inline SGL data block: the buffer is contiguous for the controller.
    Sgl,
    /// PRP entries, with lists built at registration.
    Prp,
}

impl Descriptor {
    /// The word for reports.
    pub fn name(self) -> &'static str {
        match self {
            Descriptor::Sgl => "sgl",
            Descriptor::Prp => "prp",
        }
    }
}

/// Memory that kernels and the controller both reach. A clone is the same memory, which stays mapped
/// until the last one is dropped.
#[derive(Clone, Debug)]
pub struct Buffer {
    data: Arc<DmaBuffer>,
    table: Option<Arc<DmaBuffer>>,
}

impl Buffer {
    /// At least `bytes` zeroed bytes of host memory. In PRP mode buffers of more than two pages get
    /// a list table, so that no kernel ever builds a list.
    pub(crate) fn host(space: Arc<dyn DmaSpace>, bytes: usize, by: Descriptor) -> Result<Buffer, Error> {
        let data = DmaBuffer::host(space.clone(), bytes)?;
        let pages = (data.len() as u64).div_ceil(PAGE);
        let table = match by {
            Descriptor::Prp if pages > 2 => Some(Arc::new(list_table(space, data.iova(), pages)?)),
            _ => None,
        };
        Ok(Buffer { data: Arc::new(data), table })
    }

    /// The memory.
    pub fn window(&self) -> &Window {
        self.data.window()
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
        self.data.is_empty()
    }

    /// The kernel argument that names this buffer. Valid while the buffer lives.
    pub fn as_ref(&self) -> abi::BufferRef {
        abi::BufferRef {
            data: self.data.window().as_ptr() as u64,
            iova: self.data.iova().get(),
            bytes: self.data.len() as u64,
            prp_iova: self.table.as_ref().map_or(0, |table| table.iova().get()),
            page_shift: PAGE_SHIFT,
            ..abi::BufferRef::new()
        }
    }
}

/// Table page i holds the addresses of buffer pages 256 i to 256 i + 511: a list that begins at any
/// page runs for at least 257 entries before its table page ends, so none ever chains.
fn list_table(space: Arc<dyn DmaSpace>, iova: Iova, pages: u64) -> Result<DmaBuffer, Error> {
    let table_pages = pages.div_ceil(TABLE_STEP);
    let table = DmaBuffer::host(space, (table_pages * PAGE) as usize)?;
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

    use warpbell_hw::{DmaAccess, DmaError, DmaLimits, DmaSource};

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

    #[test]
    fn every_list_of_up_to_257_entries_lies_in_one_table_page() {
        let buffer = Buffer::host(Arc::new(Fixed), 1000 * 4096, Descriptor::Prp).unwrap();
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
        for (bytes, by) in [(8192, Descriptor::Prp), (1 << 20, Descriptor::Sgl)] {
            let buffer = Buffer::host(Arc::new(Fixed), bytes, by).unwrap();
            assert_eq!(buffer.as_ref().prp_iova, 0);
        }
        let buffer = Buffer::host(Arc::new(Fixed), 8193, Descriptor::Prp).unwrap();
        assert_ne!(buffer.as_ref().prp_iova, 0);
    }
}
