//! The type1 IOMMU of a container: what is mapped where.
// UNSAFETY: ioctls take addresses of structures.
#![expect(unsafe_code, reason = "ioctls take addresses of structures")]

use std::os::fd::BorrowedFd;

use vfio_bindings::bindings::vfio as abi;
use warpbell_hw::{DmaAccess, Window};

use super::SysError;
use super::call::{Block, Request};

const GET_INFO: Request = Request::vfio("VFIO_IOMMU_GET_INFO", 12);
const MAP_DMA: Request = Request::vfio("VFIO_IOMMU_MAP_DMA", 13);
const UNMAP_DMA: Request = Request::vfio("VFIO_IOMMU_UNMAP_DMA", 14);

/// `vfio_iommu_type1_info` with its capabilities.
pub(crate) fn info(container: BorrowedFd<'_>) -> Result<Vec<u8>, SysError> {
    let head = Block::zeroed(size_of::<abi::vfio_iommu_type1_info>());
    // SAFETY: the request fills this structure and what follows it, up to `argsz`.
    unsafe { GET_INFO.reply(container, head) }.map(Block::into_bytes)
}

/// Maps the memory of a window at `iova`. The kernel pins the pages (or notes the addresses of a BAR), so they do not
/// become anyone else's while they are mapped, even if the window goes first.
pub(crate) fn map(
    container: BorrowedFd<'_>,
    window: &Window,
    iova: u64,
    access: DmaAccess,
) -> Result<(), SysError> {
    let mut map = abi::vfio_iommu_type1_dma_map {
        argsz: size_of::<abi::vfio_iommu_type1_dma_map>() as u32,
        flags: flags(access),
        vaddr: window.as_ptr() as u64,
        iova,
        size: window.len() as u64,
    };
    // SAFETY: the request takes this structure. A device may write to the window's memory from now on, which windows
    // allow for; pinned pages outlive the window.
    unsafe { MAP_DMA.with(container, &mut map) }.map(drop)
}

/// Removes mappings that lie in `iova..iova + len`, and says how many bytes they had.
pub(crate) fn unmap(container: BorrowedFd<'_>, iova: u64, len: u64) -> Result<u64, SysError> {
    let mut block = Block::zeroed(size_of::<abi::vfio_iommu_type1_dma_unmap>());
    block.set_u64(std::mem::offset_of!(abi::vfio_iommu_type1_dma_unmap, iova), iova);
    block.set_u64(std::mem::offset_of!(abi::vfio_iommu_type1_dma_unmap, size), len);
    // SAFETY: the request takes this structure and changes its `size`.
    unsafe { UNMAP_DMA.block(container, &mut block) }?;
    Ok(block.u64(std::mem::offset_of!(abi::vfio_iommu_type1_dma_unmap, size)))
}

fn flags(access: DmaAccess) -> u32 {
    let flag = |set, flag| if set { flag } else { 0 };
    flag(access.read, abi::VFIO_DMA_MAP_FLAG_READ) | flag(access.write, abi::VFIO_DMA_MAP_FLAG_WRITE)
}
