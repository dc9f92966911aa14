//! A client's DMA space, as the controller sees it.

use crate::{CopyDirection, DmaAccess, Iova, MemoryError, Window};

/// Why an access by the controller failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// Nothing is mapped there, or not for this access.
    #[error("DMA {access:?} of {len} bytes at {iova}: not mapped")]
    NotMapped {
        /// First byte.
        iova: Iova,
        /// Length in bytes.
        len: usize,
        /// What was attempted.
        access: DmaAccess,
    },
    /// Mapped, but without a pointer: it is remote memory, which a [`crate::CopyQueue`] reaches.
    #[error(
        "{iova} lies in memory that has no CPU pointer: only I/O queues and data of I/O commands may lie there"
    )]
    NoPointer {
        /// First byte.
        iova: Iova,
    },
    /// A range outside a window.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// An engine did not copy.
    #[error("copy of {len} bytes {direction} remote memory at {at:#x}: {reason}")]
    Copy {
        /// Which way.
        direction: CopyDirection,
        /// First byte in the remote memory.
        at: u64,
        /// Length in bytes.
        len: u64,
        /// What went wrong.
        reason: String,
    },
    /// No engine, or a queue of it that works no longer.
    #[error("copy engine: {reason}")]
    Engine {
        /// What went wrong, and what to do about it.
        reason: String,
    },
    /// Host memory that an engine does not pin.
    #[error("{len} bytes of host memory cannot be pinned: {reason}")]
    Pin {
        /// Length in bytes.
        len: usize,
        /// Why not.
        reason: String,
    },
}

/// A range of client memory that the controller's CPU can reach directly. It stays mapped while
/// the slice lives.
pub type ClientSlice = Window;

/// The memory of a client, addressed by IOVA, as far as the controller's CPUs reach it. Memory without a pointer is a
/// [`crate::RemoteMemory`].
pub trait ClientMemory: Send + Sync {
    /// Direct access to `iova..iova + len`, which must lie in one mapping.
    fn slice(&self, iova: Iova, len: usize, access: DmaAccess) -> Result<ClientSlice, AccessError>;

    /// Copies out of client memory.
    fn read(&self, iova: Iova, into: &mut [u8]) -> Result<(), AccessError> {
        Ok(self.slice(iova, into.len(), DmaAccess::READ)?.read(0, into)?)
    }

    /// Copies into client memory.
    fn write(&self, iova: Iova, from: &[u8]) -> Result<(), AccessError> {
        Ok(self.slice(iova, from.len(), DmaAccess::WRITE)?.write(0, from)?)
    }
}
