//! Device memory as a file that other devices map, and that file mapped into this process.
// UNSAFETY: calls the CUDA driver, takes a descriptor from it, and maps memory.
#![expect(unsafe_code, reason = "a descriptor from the driver, and a mapping of it")]

use std::any::Any;
use std::ffi::c_int;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::sys::{CUdevice_attribute, CUmemRangeFlags, CUmemRangeHandleType};
use warpbell_hw::{BASE_PAGE, Mapping, Memory};

use super::gdrdrv::Pinned;
use super::memory::Allocation;
use crate::GpuError;

impl Allocation {
    /// A dma-buf of the whole memory, in pages; one per call.
    pub(crate) fn dma_buf(&self) -> Result<OwnedFd, GpuError> {
        let context = self.context();
        let _current = context.enter()?;
        let len = self.len().next_multiple_of(BASE_PAGE);
        let mut fd: c_int = -1;
        let kind = CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
        let flags = match self.is_coherent() {
            true => CUmemRangeFlags::CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE as u64,
            false => 0,
        };
        // SAFETY: writes one descriptor; the range is ours up to the next 64 KiB.
        let result = unsafe {
            context.functions().cuMemGetHandleForAddressRange(
                (&raw mut fd).cast(),
                self.address(),
                len,
                kind,
                flags,
            )
        };
        context.outcome(result, || format!("dma-buf of {len} bytes at {:#x}", self.address()))?;
        if fd < 0 {
            let object = format!("dma-buf of {len} bytes at {:#x}", self.address());
            return Err(GpuError::refused(object, format!("the driver gave the descriptor {fd}")));
        }
        // SAFETY: the driver has just made the descriptor, for the caller to close.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        // A program that this one starts would keep the memory.
        if let Err(error) = rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC) {
            tracing::warn!(%error, "a dma-buf stays open in programs that are started");
        }
        Ok(file)
    }

    /// Whether processors reach the memory without PCIe, as on GH200 and GB200: then other devices, which do not, need a
    /// handle of another kind. A driver that does not know the attribute has no such GPU.
    fn is_coherent(&self) -> bool {
        let tables = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
        self.context().device().attribute(tables).is_ok_and(|value| value != 0)
    }
}

/// Device memory, mapped into this process as a part of the GPU's BAR: for a CPU, and for the page tables that VFIO reads.
///
/// What is taken down, and in which order, is in the order of the fields: the mapping with its file, then the pin or the
/// memory.
/// A DMA mapping of it holds a window, which holds this, and goes before.
pub(crate) struct BarMapping {
    mapping: Mapping,
    /// The pin, which has the memory, or the memory.
    _kept: Box<dyn Any + Send + Sync>,
}

impl BarMapping {
    /// Maps `file`, which is the dma-buf of `memory`.
    pub(crate) fn new(file: &OwnedFd, memory: Arc<Allocation>) -> Result<BarMapping, std::io::Error> {
        let len = memory.len().next_multiple_of(BASE_PAGE);
        let mapping = Mapping::shared(file.as_fd(), 0, len)?;
        Ok(BarMapping { mapping, _kept: Box::new(memory) })
    }

    /// A mapping of what is pinned, which keeps the memory.
    pub(super) fn pinned(mapping: Mapping, pinned: Pinned) -> BarMapping {
        BarMapping { mapping, _kept: Box::new(pinned) }
    }
}

impl fmt::Debug for BarMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarMapping").field("len", &self.mapping.len()).finish_non_exhaustive()
    }
}

// SAFETY: the promise of the mapping inside.
unsafe impl Memory for BarMapping {
    fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }
    fn len(&self) -> usize {
        self.mapping.len()
    }
    fn page_size(&self) -> usize {
        BASE_PAGE
    }
    /// False: it is a part of the GPU's BAR.
    fn is_ordinary(&self) -> bool {
        false
    }
    /// None: another process must not map it by itself, as the memory ends with this one.
    fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        None
    }
}
