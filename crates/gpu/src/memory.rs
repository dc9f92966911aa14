//! Device memory.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use warpbell_hw::Window;

use crate::staging::PIECE;
use crate::sys::{Allocation, BarMapping, Gdrdrv};
use crate::{Gpu, GpuError};

/// Up to so many bytes are zeroed by copies, which go on while a kernel has the whole GPU: as long as what queues need.
const COPIED: usize = 4 << 20;

/// Memory of a GPU. Clones are the same memory; it is freed with the last of them.
#[derive(Clone)]
pub struct DeviceMemory {
    allocation: Arc<Allocation>,
    gpu: Arc<Gpu>,
}

impl std::fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("DeviceMemory");
        text.field("gpu", &self.gpu.info().ordinal).field("len", &self.len()).finish_non_exhaustive()
    }
}

impl DeviceMemory {
    pub(crate) fn new(gpu: Arc<Gpu>, len: usize) -> Result<DeviceMemory, GpuError> {
        let allocation = Arc::new(Allocation::new(gpu.context(), len)?);
        let memory = DeviceMemory { allocation, gpu };
        match len <= COPIED {
            true => memory.write(0, &vec![0; len])?,
            false => memory.fill(0, len, 0)?,
        }
        Ok(memory)
    }

    pub(crate) fn of(gpu: Arc<Gpu>, allocation: Allocation) -> DeviceMemory {
        DeviceMemory { allocation: Arc::new(allocation), gpu }
    }

    /// Whose memory it is.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The first byte, for kernels; a multiple of 64 KiB.
    pub fn address(&self) -> u64 {
        self.allocation.address()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.allocation.len()
    }

    /// Whether it has no bytes; it always has some.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies out of it, and waits. Kernels may run meanwhile.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), GpuError> {
        self.allocation.range(offset, into.len())?;
        // Others may copy in between: what replaces a lost queue is not to wait for all of a long copy.
        for (at, piece) in (offset..).step_by(PIECE).zip(into.chunks_mut(PIECE)) {
            self.gpu.stage(|staging| staging.read(&self.allocation, at, piece))?;
        }
        Ok(())
    }

    /// Copies into it, and waits until the bytes are there.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), GpuError> {
        self.allocation.range(offset, from.len())?;
        for (at, piece) in (offset..).step_by(PIECE).zip(from.chunks(PIECE)) {
            self.gpu.stage(|staging| staging.write(&self.allocation, at, piece))?;
        }
        Ok(())
    }

    /// Sets `len` bytes to `value`, and waits until they are. The driver does it by a kernel of its own: where a kernel
    /// that runs has the whole GPU, this waits for its end. `write` does not.
    pub fn fill(&self, offset: usize, len: usize, value: u8) -> Result<(), GpuError> {
        self.allocation.fill(offset, len, value)
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    /// The whole of it as a dma-buf, in pages. From then on the driver's synchronous operations on it really are
    /// (SYNC_MEMOPS), as other devices see it too.
    pub fn dma_buf(&self) -> Result<OwnedFd, GpuError> {
        if !self.gpu.info().dma_buf {
            let reason = "its memory cannot be exported as a dma-buf; this needs the open kernel modules of driver 515 \
                          or newer and a data-centre or RTX GPU";
            return Err(GpuError::refused(self.gpu.info().target(), reason));
        }
        self.allocation.synchronize_copies()?;
        self.allocation.dma_buf()
    }

    /// The whole of it, mapped into this process by its dma-buf: a part of the GPU's BAR, which VFIO's type1 can map for
    /// an SSD. The window keeps the memory; it is taken down in order: mapping, file, memory.
    pub fn map(&self) -> Result<Window, GpuError> {
        let file = self.dma_buf()?;
        let mapping = BarMapping::new(&file, self.allocation.clone()).map_err(|error| {
            let reason = format!(
                "mmap of the dma-buf: {error}; discrete GPUs need driver 610.43.02 or newer with the open kernel modules"
            );
            GpuError::refused(self.gpu.info().target(), reason)
        })?;
        Ok(Window::whole(Arc::new(mapping)))
    }

    /// The whole of it, pinned and mapped into this process by GDRCopy's kernel module: the same part of the GPU's BAR,
    /// without a dma-buf. The window keeps the memory; it is taken down in order: mapping, pin, memory.
    pub fn map_by_gdrdrv(&self) -> Result<Window, GpuError> {
        let refused = |reason: String| GpuError::refused(self.gpu.info().target(), reason);
        let module = Gdrdrv::open().map_err(|error| refused(error.to_string()))?;
        self.allocation.synchronize_copies()?;
        let mapping = module.map(&self.allocation).map_err(|error| refused(error.to_string()))?;
        Ok(Window::whole(Arc::new(mapping)))
    }
}
