//! Groups and containers: how a type1 device is obtained.
// UNSAFETY: ioctls take addresses of structures, and return new descriptors.
#![expect(unsafe_code, reason = "ioctls take addresses of structures, and return new descriptors")]

use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use vfio_bindings::bindings::vfio::vfio_group_status;

use super::SysError;
use super::call::Request;

const GET_API_VERSION: Request = Request::vfio("VFIO_GET_API_VERSION", 0);
const CHECK_EXTENSION: Request = Request::vfio("VFIO_CHECK_EXTENSION", 1);
const SET_IOMMU: Request = Request::vfio("VFIO_SET_IOMMU", 2);
const GET_STATUS: Request = Request::vfio("VFIO_GROUP_GET_STATUS", 3);
const SET_CONTAINER: Request = Request::vfio("VFIO_GROUP_SET_CONTAINER", 4);
const GET_DEVICE_FD: Request = Request::vfio("VFIO_GROUP_GET_DEVICE_FD", 6);

/// The version of the interface: 0 is the only one there is.
pub(crate) fn api_version(container: BorrowedFd<'_>) -> Result<u32, SysError> {
    // SAFETY: the request takes nothing.
    unsafe { GET_API_VERSION.number(container, 0) }.map(|version| version as u32)
}

/// Whether the container knows an IOMMU type or another extension.
pub(crate) fn has_extension(container: BorrowedFd<'_>, extension: u32) -> Result<bool, SysError> {
    // SAFETY: the request takes a number.
    unsafe { CHECK_EXTENSION.number(container, extension as usize) }.map(|answer| answer > 0)
}

/// Chooses the IOMMU type of a container that has a group.
pub(crate) fn set_iommu(container: BorrowedFd<'_>, kind: u32) -> Result<(), SysError> {
    // SAFETY: the request takes a number.
    unsafe { SET_IOMMU.number(container, kind as usize) }.map(drop)
}

/// `VFIO_GROUP_FLAGS_*` of a group.
pub(crate) fn status(group: BorrowedFd<'_>) -> Result<u32, SysError> {
    let mut status = vfio_group_status { argsz: size_of::<vfio_group_status>() as u32, flags: 0 };
    // SAFETY: the request fills this structure.
    unsafe { GET_STATUS.with(group, &mut status) }?;
    Ok(status.flags)
}

/// Puts a group into a container.
pub(crate) fn set_container(group: BorrowedFd<'_>, container: BorrowedFd<'_>) -> Result<(), SysError> {
    let mut fd = container.as_raw_fd();
    // SAFETY: the request takes the address of a file descriptor.
    unsafe { SET_CONTAINER.with(group, &mut fd) }.map(drop)
}

/// Opens the device of that name (a PCI address, for vfio-pci) in a group.
pub(crate) fn device(group: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, SysError> {
    const CALL: &str = "VFIO_GROUP_GET_DEVICE_FD";
    let name = CString::new(name).map_err(|_| SysError::new(CALL, Errno::INVAL))?;
    let mut bytes = [0u8; 64];
    let source = name.as_bytes_with_nul();
    bytes.get_mut(..source.len()).ok_or(SysError::new(CALL, Errno::NAMETOOLONG))?.copy_from_slice(source);
    // SAFETY: the request takes the address of a string that ends with 0.
    let fd = unsafe { GET_DEVICE_FD.with(group, &mut bytes) }?;
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
