//! Ways for an SSD to reach GPU memory.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use warpbell_hw::{BASE_PAGE, DmaAccess, DmaBuffer, DmaError, DmaSource, DmaSpace, Iova, Window};

use super::{Probe, RouteError};
use crate::{DeviceMemory, Gpu, GpuError};

/// A way for an SSD to reach GPU memory, in the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryRoute {
    /// iommufd maps the GPU's dma-buf.
    Iommufd,
    /// The dma-buf is mapped into this process, and type1 maps that mapping.
    DmaBuf,
    /// gdrdrv maps the memory into this process, and type1 maps that mapping.
    Gdrdrv,
    /// Data goes through host memory.
    Host,
}

impl MemoryRoute {
    /// All, the best first.
    pub const ALL: [MemoryRoute; 4] =
        [MemoryRoute::Iommufd, MemoryRoute::DmaBuf, MemoryRoute::Gdrdrv, MemoryRoute::Host];
}

impl fmt::Display for MemoryRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryRoute::Iommufd => "iommufd map of the dma-buf",
            MemoryRoute::DmaBuf => "mmap of the dma-buf, mapped by type1",
            MemoryRoute::Gdrdrv => "gdrdrv mapping, mapped by type1",
            MemoryRoute::Host => "host memory",
        })
    }
}

/// What a DMA space is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceKind {
    /// A VFIO container with the type1 IOMMU.
    Type1,
    /// An I/O address space of iommufd.
    Iommufd,
    /// Anything else: no IOMMU, a controller in another process, the soft controller.
    Other,
}

/// GPU memory that an SSD can reach.
#[derive(Debug)]
pub enum MappedMemory {
    /// Mapped by its file, as long as the value lives.
    File(FileMapping),
    /// A part of the GPU's BAR, to be mapped like other functions' memory. It keeps the GPU memory.
    Window(Window),
}

/// GPU memory that is mapped for an SSD by its dma-buf. What is taken down, and in which order, is in the types: the
/// DMA mapping, the file, the memory.
pub struct FileMapping {
    iova: Iova,
    len: u64,
    space: Arc<dyn DmaSpace>,
    _file: OwnedFd,
    _memory: DeviceMemory,
}

impl fmt::Debug for FileMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileMapping")
            .field("iova", &self.iova)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl FileMapping {
    fn new(memory: &DeviceMemory, space: &Arc<dyn DmaSpace>) -> Result<FileMapping, RouteError> {
        let file = memory.dma_buf()?;
        let len = memory.len().next_multiple_of(BASE_PAGE) as u64;
        let source = DmaSource::File { fd: file.as_fd(), offset: 0, len };
        let iova = space.map(source, DmaAccess::READ_WRITE);
        let iova = iova.map_err(|error| RouteError::File(Arc::new(error)))?;
        Ok(FileMapping { iova, len, space: space.clone(), _file: file, _memory: memory.clone() })
    }

    /// Where the SSD sees the first byte.
    pub fn iova(&self) -> Iova {
        self.iova
    }

    /// Bytes that are mapped: whole pages.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes; it always has some.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        if let Err(error) = self.space.unmap(self.iova, self.len) {
            tracing::warn!(%error, "unmap failed");
        }
    }
}

/// Tries each way with a little memory, and undoes it.
pub fn probe_memory(
    gpu: &Arc<Gpu>,
    space: &Arc<dyn DmaSpace>,
    kind: SpaceKind,
) -> Result<Vec<Probe<MemoryRoute>>, GpuError> {
    let memory = gpu.allocate(64 << 10)?;
    let probe = |route| {
        let outcome = attempt(route, &memory, space, kind).map(|(_, done)| done);
        Probe { route, outcome }
    };
    Ok(MemoryRoute::ALL.into_iter().map(probe).collect())
}

/// Makes `memory` reachable by the first way that works, and says what was tried before it. `None`: only host memory is
/// left.
pub fn map_memory(
    memory: &DeviceMemory,
    space: &Arc<dyn DmaSpace>,
    kind: SpaceKind,
) -> (Option<MappedMemory>, Vec<Probe<MemoryRoute>>) {
    let mut probes = Vec::new();
    for route in MemoryRoute::ALL {
        match attempt(route, memory, space, kind) {
            Ok((mapped, done)) => {
                probes.push(Probe { route, outcome: Ok(done) });
                return (mapped, probes);
            }
            Err(reason) => probes.push(Probe { route, outcome: Err(reason) }),
        }
    }
    (None, probes)
}

fn attempt(
    route: MemoryRoute,
    memory: &DeviceMemory,
    space: &Arc<dyn DmaSpace>,
    kind: SpaceKind,
) -> Result<(Option<MappedMemory>, String), RouteError> {
    match route {
        MemoryRoute::Iommufd => {
            if kind != SpaceKind::Iommufd {
                return Err(RouteError::NotIommufd);
            }
            let mapping = FileMapping::new(memory, space)?;
            let done = format!("{} bytes at IOVA {}", mapping.len(), mapping.iova());
            Ok((Some(MappedMemory::File(mapping)), done))
        }
        MemoryRoute::DmaBuf => {
            if kind == SpaceKind::Other {
                return Err(RouteError::NotVfio);
            }
            by_window(memory.map()?, space)
        }
        MemoryRoute::Gdrdrv => {
            if kind == SpaceKind::Other {
                return Err(RouteError::NotVfio);
            }
            by_window(memory.map_by_gdrdrv()?, space)
        }
        MemoryRoute::Host => {
            Ok((None, "data crosses PCIe twice: to host memory, and from there to the GPU".to_owned()))
        }
    }
}

/// Maps a window for the SSD and unmaps it again: whoever uses it maps it for good.
fn by_window(
    window: Window,
    space: &Arc<dyn DmaSpace>,
) -> Result<(Option<MappedMemory>, String), RouteError> {
    let refused = |error: DmaError| RouteError::Window(Arc::new(error));
    let mapped = DmaBuffer::map(space.clone(), window.clone(), DmaAccess::READ_WRITE).map_err(refused)?;
    let done =
        format!("{} bytes of the GPU's BAR can be mapped, tried at IOVA {}", window.len(), mapped.iova());
    Ok((Some(MappedMemory::Window(window)), done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_told_in_words() {
        let works = Probe { route: MemoryRoute::Host, outcome: Ok("twice".to_owned()) };
        assert_eq!(works.to_string(), "host memory: works: twice");
        let not = Probe { route: MemoryRoute::Gdrdrv, outcome: Err(RouteError::NotVfio) };
        assert!(
            not.to_string().starts_with("gdrdrv mapping, mapped by type1: no: the SSD was opened"),
            "{not}"
        );
    }
}
