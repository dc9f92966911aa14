//! DMA address spaces: memory becomes visible to a device at an IOVA.

use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::{Iova, MemoryError, Window};

/// What a device may do with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaAccess {
    /// The device may read.
    pub read: bool,
    /// The device may write.
    pub write: bool,
}

impl DmaAccess {
    /// The device may read and write.
    pub const READ_WRITE: DmaAccess = DmaAccess { read: true, write: true };
    /// The device may only read.
    pub const READ: DmaAccess = DmaAccess { read: true, write: false };
    /// The device may only write.
    pub const WRITE: DmaAccess = DmaAccess { read: false, write: true };
}

/// What to map.
#[derive(Clone, Copy, Debug)]
pub enum DmaSource<'a> {
    /// Memory of this process: host memory, or a mapping of another function's BAR.
    Memory(&'a Window),
    /// A range of a file (memfd, dma-buf) that this process need not map itself.
    File {
        /// The file.
        fd: BorrowedFd<'a>,
        /// First byte in the file; a multiple of the page size.
        offset: u64,
        /// Bytes; a multiple of the page size.
        len: u64,
    },
}

/// The limits of a DMA address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmaLimits {
    /// IOVAs that may be used.
    pub ranges: Vec<RangeInclusive<u64>>,
    /// Mappings begin and end at multiples of this many bytes.
    pub page_size: u64,
    /// The most mappings at a time.
    pub mappings: u32,
}

/// Why a mapping was refused.
#[derive(Debug, thiserror::Error)]
pub enum DmaError {
    /// Not page aligned.
    #[error("DMA mapping of {len} bytes at offset {offset}: both must be multiples of {page_size}")]
    Alignment {
        /// Offset of the first byte in its memory or file.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// The page size of the space.
        page_size: u64,
    },
    /// No room left.
    #[error("DMA mapping of {len} bytes: no free IOVA range in {ranges:x?}")]
    NoSpace {
        /// Length in bytes.
        len: u64,
        /// The IOVA ranges of the space.
        ranges: Vec<RangeInclusive<u64>>,
    },
    /// Too many mappings.
    #[error("DMA mapping: the limit of {limit} mappings is reached")]
    TooMany {
        /// The limit.
        limit: u32,
    },
    /// The source cannot be mapped by this backend.
    #[error("DMA mapping refused: {reason}")]
    Unsupported {
        /// Why.
        reason: String,
    },
    /// Nothing is mapped there.
    #[error("no DMA mapping of {len} bytes at {iova}")]
    NotMapped {
        /// Where.
        iova: Iova,
        /// Length in bytes.
        len: u64,
    },
    /// Memory could not be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The system refused.
    #[error("DMA {step} of {len} bytes: {source}")]
    System {
        /// What was attempted.
        step: &'static str,
        /// Length in bytes.
        len: u64,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A device's DMA address space.
pub trait DmaSpace: Send + Sync {
    /// Makes `source` visible at an IOVA that the space chooses. The whole source is contiguous there.
    fn map(&self, source: DmaSource<'_>, access: DmaAccess) -> Result<Iova, DmaError>;
    /// Removes a mapping; `iova` and `len` as they were mapped.
    fn unmap(&self, iova: Iova, len: u64) -> Result<(), DmaError>;
    /// Ranges, page size and counts.
    fn limits(&self) -> DmaLimits;
}

/// Memory with an IOVA; unmapped when dropped.
pub struct DmaBuffer {
    window: Window,
    iova: Iova,
    space: Arc<dyn DmaSpace>,
}

impl std::fmt::Debug for DmaBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DmaBuffer").field("iova", &self.iova).field("len", &self.window.len()).finish()
    }
}

impl DmaBuffer {
    /// Maps `window` for the buffer's lifetime.
    pub fn map(space: Arc<dyn DmaSpace>, window: Window, access: DmaAccess) -> Result<DmaBuffer, DmaError> {
        let iova = space.map(DmaSource::Memory(&window), access)?;
        Ok(DmaBuffer { window, iova, space })
    }

    /// Fresh zeroed host memory of at least `len` bytes, resident, readable and writable by the device.
    pub fn host(space: Arc<dyn DmaSpace>, len: usize) -> Result<DmaBuffer, DmaError> {
        let window = Window::host(len)?;
        window.populate()?;
        DmaBuffer::map(space, window, DmaAccess::READ_WRITE)
    }

    /// The memory.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Where the device sees its first byte.
    pub fn iova(&self) -> Iova {
        self.iova
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// Whether the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.window.is_empty()
    }
}

impl Drop for DmaBuffer {
    fn drop(&mut self) {
        if let Err(error) = self.space.unmap(self.iova, self.window.len() as u64) {
            tracing::warn!(%error, "unmap failed");
        }
    }
}
