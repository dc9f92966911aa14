//! Mapping through an iommufd, and what its errors mean.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use warpbell_hw::{BASE_PAGE, DmaAccess, DmaError, DmaSource, Iova, Window};

use crate::space::{Iommu, IommuLimits};
use crate::sys::iommufd::{IoasId, Iommufd};
use crate::sys::{Mapping, SysError};

/// An I/O address space of an iommufd of its own.
pub(crate) struct Ioas {
    iommufd: Iommufd,
    id: IoasId,
}

impl Ioas {
    /// A new one, without devices.
    pub(crate) fn new(iommufd: Iommufd) -> Result<Ioas, SysError> {
        let id = iommufd.allocate()?;
        Ok(Ioas { iommufd, id })
    }

    /// Makes a VFIO cdev ours, and lets its DMA go through this space.
    pub(crate) fn take(&self, device: BorrowedFd<'_>) -> Result<(), SysError> {
        self.iommufd.bind(device)?;
        self.iommufd.attach(device, self.id)
    }

    /// What the devices that are attached leave usable. iommufd counts no mappings.
    pub(crate) fn limits(&self) -> Result<IommuLimits, SysError> {
        let (ranges, alignment) = self.iommufd.ranges(self.id)?;
        Ok(IommuLimits { ranges, page_size: alignment.max(BASE_PAGE as u64), available: u32::MAX })
    }

    fn map_window(&self, iova: Iova, window: &Window, access: DmaAccess) -> Result<(), DmaError> {
        let mapped = self.iommufd.map(self.id, window, iova.0, access);
        mapped.map_err(|error| explain(error, window.len() as u64, getrlimit(Resource::Memlock).current))
    }
}

impl Iommu for Ioas {
    fn map_at(&self, iova: Iova, source: DmaSource<'_>, access: DmaAccess) -> Result<(), DmaError> {
        match source {
            DmaSource::Memory(window) => self.map_window(iova, window, access),
            DmaSource::Remote(memory) => Err(DmaError::only_an_engine(&**memory)),
            DmaSource::File { fd, offset, len } => {
                let mapped = self.iommufd.map_file(self.id, (fd, offset, len), iova.0, access);
                match mapped {
                    // Before Linux 6.13: by a view of the file, whose pages stay pinned when the view goes again.
                    Err(error) if error.errno() == Some(Errno::NOTTY) => {
                        let view = Mapping::new(fd, offset, len as usize);
                        let view =
                            Window::whole(Arc::new(view.map_err(|error| system("mapping", len, error))?));
                        self.map_window(iova, &view, access)
                    }
                    other => other.map_err(|error| explain(error, len, getrlimit(Resource::Memlock).current)),
                }
            }
        }
    }

    fn unmap_at(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
        let unmapped = self.iommufd.unmap(self.id, iova.0, len);
        match unmapped {
            Ok(bytes) if bytes == len => Ok(()),
            Err(error) if error.errno() != Some(Errno::NOENT) => Err(system("unmapping", len, error)),
            _ => Err(DmaError::NotMapped { iova, len }),
        }
    }
}

fn system(step: &'static str, len: u64, error: SysError) -> DmaError {
    DmaError::System { step, len, source: error.source }
}

/// What IOMMU_IOAS_MAP's error means, and what to do. `limit`: what may be locked, in bytes.
fn explain(error: SysError, len: u64, limit: Option<u64>) -> DmaError {
    let remedy = match error.errno() {
        Some(Errno::NOMEM) => no_memory(len, limit),
        Some(Errno::EXIST) => "its IOVA range is mapped already, which is a bug of this program".to_owned(),
        Some(Errno::INVAL | Errno::OVERFLOW) => "the IOMMU does not translate that IOVA range".to_owned(),
        Some(Errno::FAULT) => {
            "the memory cannot be pinned: it is not mapped readable and writable, or it is another function's BAR, \
             which iommufd does not map: use type1 for that (--iommu type1)"
                .to_owned()
        }
        _ => return system("mapping", len, error),
    };
    DmaError::Refused { step: "mapping", len, source: error.source, remedy }
}

/// iommufd counts locked memory by user, not by process, and tells nobody how much that is.
fn no_memory(len: u64, limit: Option<u64>) -> String {
    let Some(limit) = limit else {
        return "there is no limit of locked memory: the machine is out of memory".to_owned();
    };
    let need = limit + len;
    format!(
        "all processes of this user together may lock {} KiB for devices, and this would pass it: raise the limit by \
         {} KiB with `ulimit -l {}` in the shell that starts it or with LimitMEMLOCK={need} in its systemd unit, or \
         give it CAP_IPC_LOCK",
        limit / 1024,
        len.div_ceil(1024),
        need.div_ceil(1024),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(errno: Errno, limit: Option<u64>) -> String {
        explain(SysError::new("IOMMU_IOAS_MAP", errno), 2 << 20, limit).to_string()
    }

    #[test]
    fn too_little_lockable_memory_names_limit_and_remedies() {
        let text = text(Errno::NOMEM, Some(64 << 10));
        for part in
            ["2097152 bytes", "may lock 64 KiB", "ulimit -l 2112", "LimitMEMLOCK=2162688", "CAP_IPC_LOCK"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn errors_that_mean_something_say_it_and_others_stay_as_they_are() {
        for (errno, part) in [
            (Errno::NOMEM, "the machine is out of memory"),
            (Errno::EXIST, "mapped already"),
            (Errno::INVAL, "does not translate"),
            (Errno::FAULT, "--iommu type1"),
            (Errno::IO, "DMA mapping of 2097152 bytes: Input/output error"),
        ] {
            assert!(text(errno, None).contains(part), "{part}");
        }
    }
}
