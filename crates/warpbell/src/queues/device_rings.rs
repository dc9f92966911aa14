//! Rings in a GPU's memory: parts of a few long allocations, as what maps or exports a GPU's memory has large pages.

use std::sync::Arc;

use parking_lot::Mutex;
use warpbell_gpu::Gpu;
use warpbell_gpu::routes::SpaceKind;
use warpbell_hw::{AccessError, Device, Extent, Extents, HUGE_PAGE, Iova, RemoteRing};

use crate::device_data::{DeviceData, DeviceRoute};
use crate::{Error, OpenTarget};

/// Memory of one GPU for the rings of one SSD.
#[derive(Debug)]
pub(crate) struct DeviceRings {
    gpu: Arc<Gpu>,
    route: DeviceRoute,
    chunks: Mutex<Vec<Chunk>>,
}

/// One allocation.
#[derive(Debug)]
struct Chunk {
    data: Arc<DeviceData>,
    extents: Arc<Extents>,
}

/// A ring. It goes before the memory does.
#[derive(Debug)]
pub(crate) struct DeviceRing {
    extent: Extent,
    data: Arc<DeviceData>,
}

impl DeviceRings {
    /// The first allocation, by the first way that an SSD, or the controller in this process, has to it.
    pub(crate) fn new(gpu: &Arc<Gpu>, device: &dyn Device, kind: SpaceKind) -> Result<DeviceRings, Error> {
        let chunk = Chunk::new(gpu, device, kind, HUGE_PAGE)?;
        let route = chunk.data.route();
        Ok(DeviceRings { gpu: gpu.clone(), route, chunks: Mutex::new(vec![chunk]) })
    }

    /// The way that entries take.
    pub(crate) fn route(&self) -> DeviceRoute {
        self.route
    }

    /// Submission and completion rings are in one GPU's memory, or one kind is elsewhere.
    pub(crate) fn check_same(&self, gpu: &Arc<Gpu>) -> Result<(), Error> {
        if gpu.info().uuid == self.gpu.info().uuid {
            return Ok(());
        }
        Err(Error::Argument {
            object: "rings",
            value: format!("hbm of {} and of {}", self.gpu.info().target(), gpu.info().target()),
            limit: "kernels reach the memory of their own GPU: both in the same, or one kind in host memory"
                .to_owned(),
        })
    }

    /// Kernels of another target do not reach it.
    pub(crate) fn check(&self, target: &OpenTarget) -> Result<(), Error> {
        if target.gpu().is_some_and(|own| own.info().uuid == self.gpu.info().uuid) {
            return Ok(());
        }
        Err(Error::Argument {
            object: "target",
            value: target.target().to_string(),
            limit: format!(
                "rings lie in hbm of {}, which only kernels of that GPU reach",
                self.gpu.info().target()
            ),
        })
    }

    /// Memory for a ring of `len` bytes: of an allocation that has room, or of a new one.
    pub(crate) fn take(
        &self,
        device: &dyn Device,
        kind: SpaceKind,
        len: usize,
    ) -> Result<Arc<DeviceRing>, Error> {
        let mut chunks = self.chunks.lock();
        if let Some(ring) = chunks.iter().find_map(|chunk| chunk.take(len)) {
            return Ok(ring);
        }
        let chunk = Chunk::new(&self.gpu, device, kind, len.next_multiple_of(HUGE_PAGE))?;
        if chunk.data.route() != self.route {
            return Err(Error::Argument {
                object: "ring",
                value: format!("{len} bytes"),
                limit: format!("more memory is reached by another way than before: {}", chunk.data.route()),
            });
        }
        let ring = chunk.take(len).ok_or_else(|| Error::Argument {
            object: "ring",
            value: format!("{len} bytes"),
            limit: format!("an allocation of {} bytes has no room for it", chunk.data.memory().len()),
        })?;
        chunks.push(chunk);
        Ok(ring)
    }
}

impl Chunk {
    fn new(gpu: &Arc<Gpu>, device: &dyn Device, kind: SpaceKind, len: usize) -> Result<Chunk, Error> {
        let data = Arc::new(DeviceData::new(gpu, device, kind, len, "rings")?);
        Ok(Chunk { extents: Extents::new(data.memory().len()), data })
    }

    fn take(&self, len: usize) -> Option<Arc<DeviceRing>> {
        let extent = self.extents.take(len).ok()?;
        Some(Arc::new(DeviceRing { extent, data: self.data.clone() }))
    }
}

impl DeviceRing {
    /// Where kernels find it.
    pub(crate) fn address(&self) -> u64 {
        self.data.memory().address() + self.extent.offset() as u64
    }

    fn inside(&self, offset: usize, len: usize) -> Result<usize, AccessError> {
        if offset.checked_add(len).is_some_and(|end| end <= self.extent.len()) {
            return Ok(self.extent.offset() + offset);
        }
        let window = self.extent.len();
        Err(warpbell_hw::MemoryError::Range { offset, len, window }.into())
    }
}

impl RemoteRing for DeviceRing {
    fn iova(&self) -> Iova {
        Iova(self.data.iova().get() + self.extent.offset() as u64)
    }

    fn len(&self) -> usize {
        self.extent.len()
    }

    fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        let at = self.inside(offset, into.len())?;
        self.data.memory().read(at, into).map_err(engine)
    }

    fn write(&self, offset: usize, from: &[u8]) -> Result<(), AccessError> {
        let at = self.inside(offset, from.len())?;
        self.data.memory().write(at, from).map_err(engine)
    }
}

fn engine(error: warpbell_gpu::GpuError) -> AccessError {
    AccessError::Engine { reason: error.to_string() }
}
