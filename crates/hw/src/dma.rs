//! DMA address spaces: memory becomes visible to a device at an IOVA.

use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::{Iova, MemoryError, PoolPart, RemoteMemory, Window};

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
    /// All of a memory without CPU pointers, which an engine copies from and to. Only a controller in this process can
    /// use it.
    Remote(&'a Arc<dyn RemoteMemory>),
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
#[non_exhaustive]
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
    /// Something is mapped there.
    #[error(
        "DMA mapping of {len} bytes at {iova}: {other_len} bytes are mapped at {other}; unmap them first"
    )]
    Overlap {
        /// Where.
        iova: Iova,
        /// Length in bytes.
        len: u64,
        /// Where the other mapping begins.
        other: Iova,
        /// Its length in bytes.
        other_len: u64,
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
    /// The system refused, and there is something to be said about it.
    #[error("DMA {step} of {len} bytes: {source}: {remedy}")]
    Refused {
        /// What was attempted.
        step: &'static str,
        /// Length in bytes.
        len: u64,
        /// What the system said.
        source: std::io::Error,
        /// What it means, and what to do.
        remedy: String,
    },
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

impl DmaError {
    /// The answer of a space whose devices address memory themselves, to memory that only an engine copies from and to.
    pub fn only_an_engine(memory: &dyn RemoteMemory) -> DmaError {
        let reason = format!(
            "{memory:?} is reached by a copy engine of this process, which only the soft controller (soft:...) drives: map \
             GPU memory for other devices through a pointer or a file of it"
        );
        DmaError::Unsupported { reason }
    }
}

/// A device's DMA address space.
pub trait DmaSpace: Send + Sync {
    /// Makes `source` visible at an IOVA that the space chooses. The whole source is contiguous there.
    fn map(&self, source: DmaSource<'_>, access: DmaAccess) -> Result<Iova, DmaError>;
    /// Removes a mapping; `iova` and `len` as they were mapped.
    fn unmap(&self, iova: Iova, len: u64) -> Result<(), DmaError>;
    /// Ranges, page size and counts.
    fn limits(&self) -> DmaLimits;
    /// Whether host memory for several uses may lie in one mapping, as where mappings are few. A space that watches over
    /// each of them, as the soft controller's does, has one for each use.
    fn coalesces(&self) -> bool {
        false
    }
    /// At least `len` bytes of fresh zeroed host memory that `map` takes. A space without translation is particular
    /// about memory; others take any.
    fn allocate(&self, len: usize) -> Result<Window, DmaError> {
        Ok(Window::host(len)?)
    }
}

/// Memory with an IOVA; unmapped when dropped.
pub struct DmaBuffer {
    window: Window,
    iova: Iova,
    hold: Hold,
}

/// What keeps the memory mapped.
enum Hold {
    /// A mapping of its own.
    Mapping(Arc<dyn DmaSpace>),
    /// A larger mapping, and the part of it that is taken.
    Part { _mapping: Arc<DmaBuffer>, _part: PoolPart },
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
        Ok(DmaBuffer { window, iova, hold: Hold::Mapping(space) })
    }

    /// A part of memory that is mapped as a whole: `mapping` is of the pool's window. Mapped once for all its parts,
    /// it stays so until the last of them is dropped.
    pub fn part(mapping: &Arc<DmaBuffer>, part: PoolPart) -> Result<DmaBuffer, DmaError> {
        let offset = part.offset();
        let inside = mapping.window.slice(offset, part.window().len())?;
        if inside.as_ptr() != part.window().as_ptr() {
            let reason = "the part belongs to other memory than the mapping".to_owned();
            return Err(DmaError::Unsupported { reason });
        }
        let iova = Iova(mapping.iova.0 + offset as u64);
        let window = part.window().clone();
        Ok(DmaBuffer { window, iova, hold: Hold::Part { _mapping: mapping.clone(), _part: part } })
    }

    /// Fresh zeroed host memory of at least `len` bytes, resident, readable and writable by the device.
    pub fn host(space: Arc<dyn DmaSpace>, len: usize) -> Result<DmaBuffer, DmaError> {
        let window = space.allocate(len)?;
        crate::available::check(&window)?;
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
        let Hold::Mapping(space) = &self.hold else { return };
        if let Err(error) = space.unmap(self.iova, self.window.len() as u64) {
            tracing::warn!(%error, "unmap failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::{BASE_PAGE, Pool};

    /// Maps everything at one place and counts mappings.
    #[derive(Default)]
    struct Counting(AtomicU32);

    impl DmaSpace for Counting {
        fn map(&self, _: DmaSource<'_>, _: DmaAccess) -> Result<Iova, DmaError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Iova(0x10_0000))
        }
        fn unmap(&self, _: Iova, _: u64) -> Result<(), DmaError> {
            self.0.fetch_sub(1, Ordering::Relaxed);
            Ok(())
        }
        fn limits(&self) -> DmaLimits {
            DmaLimits { ranges: vec![0..=u64::MAX], page_size: 4096, mappings: 1 }
        }
    }

    #[test]
    fn parts_share_one_mapping_until_the_last_is_gone() {
        let space = Arc::new(Counting::default());
        let pool = Pool::new(Window::host(4 * BASE_PAGE).unwrap());
        let whole = DmaBuffer::map(space.clone(), pool.window().clone(), DmaAccess::READ_WRITE).unwrap();
        let whole = Arc::new(whole);
        let parts = [1, BASE_PAGE].map(|len| DmaBuffer::part(&whole, pool.take(len).unwrap()).unwrap());
        assert_eq!([parts[0].iova(), parts[1].iova()], [Iova(0x10_0000), Iova(0x10_1000)]);
        drop(whole);
        let [first, second] = parts;
        drop(first);
        assert_eq!(space.0.load(Ordering::Relaxed), 1, "the second still lies in it");
        drop(second);
        assert_eq!(space.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_part_of_other_memory_is_refused() {
        let window = || Window::host(BASE_PAGE).unwrap();
        let space = Arc::new(Counting::default());
        let whole = Arc::new(DmaBuffer::map(space, window(), DmaAccess::READ_WRITE).unwrap());
        let error = DmaBuffer::part(&whole, Pool::new(window()).take(1).unwrap()).unwrap_err().to_string();
        assert!(error.contains("other memory"), "{error}");
    }
}
