//! `/dev/iommu`: I/O address spaces and their mappings, and a VFIO cdev bound to one.
// UNSAFETY: ioctls hand structures to the kernel by address.
#![expect(unsafe_code, reason = "ioctls of iommufd and of the VFIO cdev")]

use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use iommufd_bindings::iommufd as abi;
use vfio_bindings::bindings::vfio;
use warpbell_hw::{DmaAccess, Window};

use super::SysError;
use super::call::Request;

const IOAS_ALLOC: Request = Request::iommufd("IOMMU_IOAS_ALLOC", abi::IOMMUFD_CMD_IOAS_ALLOC);
const IOAS_IOVA_RANGES: Request =
    Request::iommufd("IOMMU_IOAS_IOVA_RANGES", abi::IOMMUFD_CMD_IOAS_IOVA_RANGES);
const IOAS_MAP: Request = Request::iommufd("IOMMU_IOAS_MAP", abi::IOMMUFD_CMD_IOAS_MAP);
const IOAS_MAP_FILE: Request = Request::iommufd("IOMMU_IOAS_MAP_FILE", abi::IOMMUFD_CMD_IOAS_MAP_FILE);
const IOAS_UNMAP: Request = Request::iommufd("IOMMU_IOAS_UNMAP", abi::IOMMUFD_CMD_IOAS_UNMAP);
const OPTION: Request = Request::iommufd("IOMMU_OPTION", abi::IOMMUFD_CMD_OPTION);
const DEVICE_BIND_IOMMUFD: Request = Request::vfio(BIND, 18);
const DEVICE_ATTACH_IOMMUFD_PT: Request = Request::vfio(ATTACH, 19);

/// The names of two calls whose errors mean different things.
pub(crate) const BIND: &str = "VFIO_DEVICE_BIND_IOMMUFD";
pub(crate) const ATTACH: &str = "VFIO_DEVICE_ATTACH_IOMMUFD_PT";

/// Size of `T`, as ioctls take it.
fn size<T>() -> u32 {
    size_of::<T>() as u32
}

fn map_flags(access: DmaAccess) -> u32 {
    let mut flags = abi::iommufd_ioas_map_flags_IOMMU_IOAS_MAP_FIXED_IOVA;
    if access.read {
        flags |= abi::iommufd_ioas_map_flags_IOMMU_IOAS_MAP_READABLE;
    }
    if access.write {
        flags |= abi::iommufd_ioas_map_flags_IOMMU_IOAS_MAP_WRITEABLE;
    }
    flags
}

/// An open `/dev/iommu`.
#[derive(Debug)]
pub(crate) struct Iommufd(OwnedFd);

/// An I/O address space: its number within the iommufd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IoasId(u32);

impl Iommufd {
    /// Takes an open `/dev/iommu`.
    pub(crate) fn new(node: OwnedFd) -> Iommufd {
        Iommufd(node)
    }

    /// A new, empty address space. It goes with the iommufd.
    pub(crate) fn allocate(&self) -> Result<IoasId, SysError> {
        let mut call = abi::iommu_ioas_alloc { size: size::<abi::iommu_ioas_alloc>(), ..Default::default() };
        // SAFETY: the ioctl's own structure, without addresses.
        unsafe { IOAS_ALLOC.with(self.0.as_fd(), &mut call) }?;
        Ok(IoasId(call.out_ioas_id))
    }

    /// Usable IOVAs, given the devices that are attached, and the alignment that mappings need.
    pub(crate) fn ranges(&self, ioas: IoasId) -> Result<(Vec<RangeInclusive<u64>>, u64), SysError> {
        let mut room = vec![abi::iommu_iova_range::default(); 64];
        loop {
            let mut call = abi::iommu_ioas_iova_ranges {
                size: size::<abi::iommu_ioas_iova_ranges>(),
                ioas_id: ioas.0,
                num_iovas: room.len() as u32,
                allowed_iovas: room.as_mut_ptr() as u64,
                ..Default::default()
            };
            // SAFETY: `allowed_iovas` points to `num_iovas` entries that live through the call.
            let result = unsafe { IOAS_IOVA_RANGES.with(self.0.as_fd(), &mut call) };
            let count = call.num_iovas as usize;
            match result {
                Ok(_) => {
                    let ranges = room.iter().take(count).map(|range| range.start..=range.last).collect();
                    return Ok((ranges, call.out_iova_alignment));
                }
                Err(error) if count <= room.len() => return Err(error),
                Err(_) => room.resize(count, abi::iommu_iova_range::default()),
            }
        }
    }

    /// Maps a window at an IOVA. The kernel pins its pages until they are unmapped.
    pub(crate) fn map(
        &self,
        ioas: IoasId,
        window: &Window,
        iova: u64,
        access: DmaAccess,
    ) -> Result<(), SysError> {
        let mut call = abi::iommu_ioas_map {
            size: size::<abi::iommu_ioas_map>(),
            flags: map_flags(access),
            ioas_id: ioas.0,
            user_va: window.as_ptr() as u64,
            length: window.len() as u64,
            iova,
            ..Default::default()
        };
        // SAFETY: the range is the window's; pinned pages stay memory even if the window goes first.
        unsafe { IOAS_MAP.with(self.0.as_fd(), &mut call) }.map(drop)
    }

    /// Maps a range of a memfd at an IOVA, without a mapping in this process. ENOTTY before Linux 6.13.
    pub(crate) fn map_file(
        &self,
        ioas: IoasId,
        (file, start, length): (BorrowedFd<'_>, u64, u64),
        iova: u64,
        access: DmaAccess,
    ) -> Result<(), SysError> {
        let mut call = abi::iommu_ioas_map_file {
            size: size::<abi::iommu_ioas_map_file>(),
            flags: map_flags(access),
            ioas_id: ioas.0,
            fd: file.as_raw_fd(),
            start,
            length,
            iova,
        };
        // SAFETY: the ioctl's own structure; the file is open through the call.
        unsafe { IOAS_MAP_FILE.with(self.0.as_fd(), &mut call) }.map(drop)
    }

    /// Removes a mapping, and says how many bytes that were.
    pub(crate) fn unmap(&self, ioas: IoasId, iova: u64, length: u64) -> Result<u64, SysError> {
        let mut call =
            abi::iommu_ioas_unmap { size: size::<abi::iommu_ioas_unmap>(), ioas_id: ioas.0, iova, length };
        // SAFETY: the ioctl's own structure, without addresses of this process.
        unsafe { IOAS_UNMAP.with(self.0.as_fd(), &mut call) }?;
        Ok(call.length)
    }

    /// Binds an open VFIO cdev: from here on its registers can be reached.
    pub(crate) fn bind(&self, device: BorrowedFd<'_>) -> Result<(), SysError> {
        let mut call = vfio::vfio_device_bind_iommufd {
            argsz: size::<vfio::vfio_device_bind_iommufd>(),
            iommufd: self.0.as_raw_fd(),
            ..Default::default()
        };
        // SAFETY: the ioctl's own structure; no flag says that its token address is to be read.
        unsafe { DEVICE_BIND_IOMMUFD.with(device, &mut call) }.map(drop)
    }

    /// Attaches a bound cdev to an address space: its DMA goes through that from here on.
    pub(crate) fn attach(&self, device: BorrowedFd<'_>, ioas: IoasId) -> Result<(), SysError> {
        let mut call = vfio::vfio_device_attach_iommufd_pt {
            argsz: size::<vfio::vfio_device_attach_iommufd_pt>(),
            pt_id: ioas.0,
            ..Default::default()
        };
        // SAFETY: the ioctl's own structure, without addresses.
        unsafe { DEVICE_ATTACH_IOMMUFD_PT.with(device, &mut call) }.map(drop)
    }
}

/// Whether an open VFIO container is in truth an iommufd that plays one (CONFIG_IOMMUFD_VFIO_CONTAINER, or a link to
/// `/dev/iommu`): it takes type1's ioctls, but maps no BARs. Asked by an ioctl that only iommufd knows and that changes
/// nothing.
pub(crate) fn is_iommufd(container: BorrowedFd<'_>) -> bool {
    let mut call = abi::iommu_option {
        size: size::<abi::iommu_option>(),
        option_id: abi::iommufd_option_IOMMU_OPTION_RLIMIT_MODE,
        op: abi::iommufd_option_ops_IOMMU_OPTION_OP_GET as u16,
        ..Default::default()
    };
    // SAFETY: the ioctl's own structure, without addresses; others than iommufd refuse the number.
    unsafe { OPTION.with(container, &mut call) }.is_ok()
}
