//! VFIO cdev and iommufd: the other way to a device and its DMA space.
//!
//! As with type1, all devices of a process share one space unless one asks for its own.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::io::Errno;
use warpbell_hw::{ResetError, ResetKind};

use crate::container::not_viable;
use crate::device::{Attached, Ownership};
use crate::iommufd::Ioas;
use crate::pci::{Function, Mate, Sysfs};
use crate::space::AddressSpace;
use crate::sys::iommufd::{BIND, Iommufd};
use crate::sys::{self, SysError};
use crate::{Bdf, VfioError, bridges};

const IOMMU: &str = "/dev/iommu";

/// The space that devices of this process share, while one of them is open or something is mapped there.
static SHARED: Mutex<Weak<Space>> = Mutex::new(Weak::new());

type Space = AddressSpace<Ioas>;

/// Functions that this process has open this way.
static OPEN: Mutex<BTreeSet<Bdf>> = Mutex::new(BTreeSet::new());

/// Keeps the space while the device is open. The kernel undoes the attachment when the device's file is closed.
struct Claim {
    bdf: Bdf,
    _space: Arc<Space>,
}

impl Claim {
    fn new(bdf: Bdf, space: Arc<Space>) -> Result<Claim, VfioError> {
        if !OPEN.lock().insert(bdf) {
            return Err(VfioError::InUse { bdf });
        }
        Ok(Claim { bdf, _space: space })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        OPEN.lock().remove(&self.bdf);
    }
}

/// Opens a function through its own character device, in the shared address space or one of its own.
pub(crate) fn attach(sysfs: &Sysfs, function: &Function, own_space: bool) -> Result<Attached, VfioError> {
    let bdf = function.bdf;
    let group = function.group.as_ref().filter(|group| !group.no_iommu).ok_or(VfioError::NoGroup { bdf })?;
    let node = node(function)?;
    let space = if own_space { Arc::new(found(bdf)?) } else { shared(bdf)? };
    let claim = Claim::new(bdf, space.clone())?;
    let device = open(&node).map_err(|source| {
        let remedy = match source.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("let this user open it: chown USER {}", node.display())
            }
            _ => format!("bind the function again: warpbell unbind {bdf}, then warpbell bind {bdf}"),
        };
        VfioError::Open { bdf, path: node.clone(), source, remedy }
    })?;
    space.iommu().take(device.as_fd()).map_err(|error| match error.errno() {
        Some(Errno::BUSY) if !group.mates.iter().all(Mate::is_harmless) => not_viable(bdf, group),
        _ => take_error(bdf, error),
    })?;
    let limits = space.iommu().limits().map_err(VfioError::call(bdf))?;
    tracing::debug!(%bdf, ?limits, "iommufd");
    space.narrow(&limits, bridges::windows(sysfs, bdf));
    Ok(Attached { device, space, ownership: Box::new(claim) })
}

fn shared(bdf: Bdf) -> Result<Arc<Space>, VfioError> {
    let mut shared = SHARED.lock();
    if let Some(space) = shared.upgrade() {
        return Ok(space);
    }
    let space = Arc::new(found(bdf)?);
    *shared = Arc::downgrade(&space);
    Ok(space)
}

/// A new address space, without devices yet.
fn found(bdf: Bdf) -> Result<Space, VfioError> {
    let node = open(Path::new(IOMMU)).map_err(|source| {
        let remedy = match source.kind() {
            io::ErrorKind::NotFound => {
                "the kernel needs iommufd (CONFIG_IOMMUFD): modprobe iommufd".to_owned()
            }
            _ => format!("let this user open it: chmod 666 {IOMMU}"),
        };
        VfioError::Open { bdf, path: IOMMU.into(), source, remedy }
    })?;
    let ioas = Ioas::new(Iommufd::new(node)).map_err(VfioError::call(bdf))?;
    let limits = ioas.limits().map_err(VfioError::call(bdf))?;
    Ok(AddressSpace::new(ioas, &limits))
}

impl Ownership for Claim {
    fn hot_reset(&self, device: BorrowedFd<'_>) -> Result<(), ResetError> {
        let kind = ResetKind::Function;
        // The kernel knows by the iommufd whose the functions are.
        sys::device::hot_reset(device, &[]).map_err(|error| match error.errno() {
            Some(Errno::NODEV) => {
                let reason = "the function has neither a reset of its own nor one of its bus".to_owned();
                ResetError::Unavailable { kind, reason }
            }
            Some(Errno::PERM) => {
                let reason = "a reset of its bus resets functions that are not open here".to_owned();
                ResetError::Unavailable { kind, reason }
            }
            _ => ResetError::System { kind, source: error.source },
        })
    }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(OpenOptions::new().read(true).write(true).open(path)?.into())
}

/// The function's character device. Kernels without it name it in sysfs all the same.
fn node(function: &Function) -> Result<PathBuf, VfioError> {
    let path = function.vfio_cdev.as_ref().map(|name| Path::new("/dev/vfio/devices").join(name));
    path.filter(|path| path.exists()).ok_or_else(|| VfioError::Missing {
        bdf: function.bdf,
        what: "it has no character device in /dev/vfio/devices".to_owned(),
        remedy: "the kernel needs VFIO cdevs (Linux 6.6 with CONFIG_VFIO_DEVICE_CDEV)".to_owned(),
    })
}

/// Binding and attaching fail for few reasons.
fn take_error(bdf: Bdf, source: SysError) -> VfioError {
    let remedy = match (source.call, source.errno()) {
        (_, Some(Errno::BUSY)) => {
            ": another process has it or a function of its IOMMU group, or this one has the group open through type1"
        }
        (_, Some(Errno::PERM)) => {
            ": interrupt remapping is missing: turn it on in the firmware, or, if all devices and their users are \
             trusted, echo 1 > /sys/module/iommufd/parameters/allow_unsafe_interrupts"
        }
        (BIND, Some(Errno::INVAL)) => {
            ": another process has it open, or its DMA is not coherent with the processor's caches"
        }
        (_, Some(Errno::INVAL | Errno::ADDRINUSE)) => {
            ": its IOMMU does not fit what is mapped for other devices of this process: open it with a DMA space of its \
             own, or before anything is mapped"
        }
        _ => "",
    };
    VfioError::Call { bdf, source, remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::iommufd::ATTACH;

    fn text(call: &'static str, errno: Errno) -> String {
        take_error("0000:01:00.0".parse().unwrap(), SysError::new(call, errno)).to_string()
    }

    #[test]
    fn errors_of_binding_say_what_to_do() {
        assert!(text(BIND, Errno::BUSY).contains("through type1"));
        assert!(text(BIND, Errno::PERM).contains("/sys/module/iommufd/parameters/allow_unsafe_interrupts"));
        assert!(text(BIND, Errno::INVAL).contains("another process has it open"));
        assert!(text(ATTACH, Errno::INVAL).contains("a DMA space of its own"));
        assert_eq!(
            text(BIND, Errno::IO),
            "0000:01:00.0: VFIO_DEVICE_BIND_IOMMUFD: Input/output error (os error 5)"
        );
    }
}
