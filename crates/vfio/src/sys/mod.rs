//! The system calls of VFIO that no library wraps: ioctls, and mappings of device regions.
//!
//! Each function is one ioctl, takes safe types and keeps the error number and the call's name. What a reply means is
//! read elsewhere, in safe code, from its bytes.
//! Unsafe code on the VFIO side of this crate lives in these files and nowhere else.

mod call;
pub(crate) mod device;
pub(crate) mod group;
pub(crate) mod iommufd;
mod mapping;
pub(crate) mod type1;

pub use call::SysError;
pub(crate) use mapping::Mapping;
