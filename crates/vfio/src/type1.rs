//! Mapping through a type1 container, and what its errors mean.

use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use warpbell_hw::{DmaAccess, DmaError, DmaSource, Iova, Window};

use crate::container::Container;
use crate::space::Iommu;
use crate::sys::{self, Mapping, SysError};

impl Iommu for Container {
    fn map_at(&self, iova: Iova, source: DmaSource<'_>, access: DmaAccess) -> Result<(), DmaError> {
        // type1 maps what this process sees. The pages stay pinned when the view of a file goes again.
        let view;
        let window = match source {
            DmaSource::Memory(window) => window,
            DmaSource::Remote(memory) => return Err(DmaError::only_an_engine(&**memory)),
            DmaSource::File { fd, offset, len } => {
                let mapping = Mapping::new(fd, offset, len as usize);
                view = Window::whole(Arc::new(mapping.map_err(|error| system("mapping", len, error))?));
                &view
            }
        };
        let len = window.len() as u64;
        sys::type1::map(self.file(), window, iova.0, access)
            .map_err(|error| explain(error, len, &Locked::now()))
    }

    fn unmap_at(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
        let unmapped = sys::type1::unmap(self.file(), iova.0, len);
        match unmapped.map_err(|error| system("unmapping", len, error))? {
            0 => Err(DmaError::NotMapped { iova, len }),
            _ => Ok(()),
        }
    }
}

/// Locked memory of this process, in bytes.
#[derive(Clone, Copy, Debug)]
struct Locked {
    used: u64,
    limit: Option<u64>,
}

impl Locked {
    fn now() -> Locked {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Locked { used: Locked::used(&status), limit: getrlimit(Resource::Memlock).current }
    }

    /// Locked bytes, by `/proc/PID/status`.
    fn used(status: &str) -> u64 {
        let used = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
        used.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
    }
}

fn system(step: &'static str, len: u64, error: SysError) -> DmaError {
    DmaError::System { step, len, source: error.source }
}

/// What VFIO_IOMMU_MAP_DMA's error means, and what to do.
fn explain(error: SysError, len: u64, locked: &Locked) -> DmaError {
    let remedy = match error.errno() {
        Some(Errno::NOMEM) => no_memory(len, locked),
        Some(Errno::EXIST) => "its IOVA range is mapped already, which is a bug of this program".to_owned(),
        Some(Errno::INVAL) => "the IOMMU does not translate that IOVA range or page size, or no device of this DMA space is open".to_owned(),
        Some(Errno::FAULT) => {
            "the memory cannot be pinned: it is not mapped readable and writable, or its owner took it back; memory of \
             another function's BAR needs a real type1 container (/dev/vfio/vfio, not a link to /dev/iommu)"
                .to_owned()
        }
        Some(Errno::NOSPC) => {
            "the container's limit of mappings is reached: map fewer and larger buffers, or load vfio_iommu_type1 with \
             a larger dma_entry_limit"
                .to_owned()
        }
        _ => return system("mapping", len, error),
    };
    DmaError::Refused { step: "mapping", len, source: error.source, remedy }
}

fn no_memory(len: u64, locked: &Locked) -> String {
    let need = locked.used + len;
    match locked.limit {
        Some(limit) if limit < need => format!(
            "this process may lock {} KiB of memory, has locked {} KiB and needs {} KiB: raise the limit with `ulimit -l \
             {}` in the shell that starts it or with LimitMEMLOCK={} in its systemd unit, or give it CAP_IPC_LOCK",
            limit / 1024,
            locked.used / 1024,
            need.div_ceil(1024),
            need.div_ceil(1024),
            need
        ),
        _ => "the limit of locked memory would allow it: the machine is out of memory".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(errno: Errno, locked: Locked) -> String {
        explain(SysError::new("VFIO_IOMMU_MAP_DMA", errno), 2 << 20, &locked).to_string()
    }

    const FREE: Locked = Locked { used: 0, limit: None };

    #[test]
    fn too_little_lockable_memory_names_have_need_and_three_remedies() {
        let text = text(Errno::NOMEM, Locked { used: 12 << 10, limit: Some(64 << 10) });
        for part in ["2097152 bytes", "may lock 64 KiB", "has locked 12 KiB", "needs 2060 KiB"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        for part in ["ulimit -l 2060", "LimitMEMLOCK=2109440", "CAP_IPC_LOCK"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn without_a_limit_the_machine_is_out_of_memory() {
        assert!(text(Errno::NOMEM, FREE).contains("the machine is out of memory"));
    }

    #[test]
    fn errors_that_mean_something_say_it_and_others_stay_as_they_are() {
        for (errno, part) in [
            (Errno::EXIST, "mapped already"),
            (Errno::INVAL, "does not translate"),
            (Errno::FAULT, "cannot be pinned"),
            (Errno::NOSPC, "dma_entry_limit"),
            (Errno::IO, "DMA mapping of 2097152 bytes: Input/output error"),
        ] {
            assert!(text(errno, FREE).contains(part), "{part}");
        }
    }

    #[test]
    fn locked_memory_is_read_from_the_process_status() {
        assert_eq!(Locked::used("VmPeak:\t 9 kB\nVmLck:\t      12 kB\nVmPin:\t       7 kB\n"), 12 << 10);
        assert_eq!(Locked::used("Name:\tx\n"), 0);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        assert!(status.lines().any(|line| line.starts_with("VmLck:")), "the kernel still calls it that");
    }
}
