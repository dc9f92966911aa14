//! A client's DMA space, as the controller sees it.

use crate::{DmaAccess, Iova, MemoryError, Window};

/// Why an access by the controller failed.
#[derive(Debug, thiserror::Error)]
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
    /// Mapped, but without a pointer: use `read`, `write` or `start`.
    #[error("{iova} has no CPU pointer")]
    NoPointer {
        /// First byte.
        iova: Iova,
    },
    /// The staging window is too small.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The transport failed.
    #[error("DMA of {len} bytes at {iova}: {reason}")]
    Transport {
        /// First byte.
        iova: Iova,
        /// Length in bytes.
        len: usize,
        /// What went wrong.
        reason: String,
    },
}

/// A range of client memory that the controller's CPU can reach directly. It stays mapped while
/// the slice lives.
pub type ClientSlice = Window;

/// Which way an asynchronous copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// From the client's memory into staging.
    FromClient,
    /// From staging into the client's memory.
    ToClient,
}

/// An asynchronous copy between client memory and a staging window.
#[derive(Clone, Debug)]
pub struct Copy {
    /// Which way.
    pub direction: CopyDirection,
    /// First byte in the client's memory.
    pub iova: Iova,
    /// The controller's side; its length is the copy's length.
    pub staging: Window,
}

/// Names a copy that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CopyId(pub u64);

/// The memory of a client, addressed by IOVA.
///
/// `slice` is the fast way, for memory with a CPU pointer. Memory without one (GPU memory, DMA by
/// message) has `read` and `write`, which wait, and `start`/`finished`, which do not.
pub trait ClientMemory: Send + Sync {
    /// Direct access to `iova..iova + len`, which must lie in one mapping.
    fn slice(&self, iova: Iova, len: usize, access: DmaAccess) -> Result<ClientSlice, AccessError>;

    /// Copies out of client memory and waits.
    fn read(&self, iova: Iova, into: &mut [u8]) -> Result<(), AccessError> {
        Ok(self.slice(iova, into.len(), DmaAccess::READ)?.read(0, into)?)
    }

    /// Copies into client memory and waits.
    fn write(&self, iova: Iova, from: &[u8]) -> Result<(), AccessError> {
        Ok(self.slice(iova, from.len(), DmaAccess::WRITE)?.write(0, from)?)
    }

    /// Starts a copy. Payload is visible to the client before `finished` names the copy.
    fn start(&self, copy: Copy) -> Result<CopyId, AccessError>;

    /// The next copy that ended, with its result; `None` if none has.
    fn finished(&self) -> Option<(CopyId, Result<(), AccessError>)>;
}
