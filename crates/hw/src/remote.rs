//! Memory without CPU pointers (GPU memory), reached through an engine that copies.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::{AccessError, DmaAccess, DmaError, DmaSource, DmaSpace, Iova, Window};

/// Memory that this process's CPUs neither load from nor store to: an engine copies from and to it.
pub trait RemoteMemory: Send + Sync + fmt::Debug {
    /// Length in bytes.
    fn len(&self) -> u64;
    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A queue of its own for a thread that wants to copy from and to this memory.
    fn queue(&self) -> Result<Box<dyn CopyQueue>, AccessError>;
    /// Makes host memory quick to copy from and to (page-locked), for as long as the value lives. All of it is then
    /// resident. Where it is refused, copies of that host memory are slow or are to be staged.
    fn pin(&self, host: &Window) -> Result<Box<dyn Any + Send + Sync>, AccessError>;
}

/// Memory for a ring that the host reaches by copies alone, while a controller reaches it at an IOVA, as long as the value
/// lives.
pub trait RemoteRing: Send + Sync + fmt::Debug {
    /// Where the controller sees its first byte.
    fn iova(&self) -> Iova;
    /// Length in bytes.
    fn len(&self) -> usize;
    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Copies bytes out of it, and waits. Kernels and controllers may write meanwhile.
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError>;
    /// Copies bytes into it, and waits until they are there.
    fn write(&self, offset: usize, from: &[u8]) -> Result<(), AccessError>;
}

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// Out of remote memory, into host memory.
    FromRemote,
    /// Out of host memory, into remote memory.
    ToRemote,
}

impl fmt::Display for CopyDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CopyDirection::FromRemote => "out of",
            CopyDirection::ToRemote => "into",
        })
    }
}

/// One contiguous copy between remote memory and host memory.
#[derive(Clone, Debug)]
pub struct RemoteCopy {
    /// Which way.
    pub direction: CopyDirection,
    /// First byte in the remote memory.
    pub at: u64,
    /// The host's side; its length is the copy's length. The queue keeps it until the copy has ended.
    pub host: Window,
}

/// Asynchronous copies of one thread, between one remote memory and host memory.
///
/// Copies of a queue may run, and end, in any order. Dropping a queue waits for what is in flight, so that nothing is
/// written after it.
pub trait CopyQueue: Send {
    /// Adds a copy to the next batch. A copy that is refused here (it leaves the remote memory, for example) is not
    /// part of the batch, and [`CopyQueue::finished`] never names it.
    fn push(&mut self, copy: RemoteCopy, tag: u64) -> Result<(), AccessError>;
    /// Starts everything that was pushed, as one batch, and does not wait for it. A copy that cannot be started is
    /// named by [`CopyQueue::finished`] with the reason. An error here means that the queue as a whole is lost: nothing
    /// of it is in flight any more, and it names no further copy.
    fn submit(&mut self) -> Result<(), AccessError>;
    /// The tag of a copy that has ended, with its result; `None` if there is none at the moment. Does not wait. What
    /// was copied is visible, to CPUs or to whoever uses the remote memory, before a tag is named.
    fn finished(&mut self) -> Option<(u64, Result<(), AccessError>)>;
}

/// Remote memory with an IOVA; unmapped when dropped.
pub struct RemoteBuffer {
    memory: Arc<dyn RemoteMemory>,
    iova: Iova,
    space: Arc<dyn DmaSpace>,
}

impl fmt::Debug for RemoteBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteBuffer").field("iova", &self.iova).field("memory", &self.memory).finish()
    }
}

impl RemoteBuffer {
    /// Maps all of `memory` for the buffer's lifetime.
    pub fn map(
        space: Arc<dyn DmaSpace>,
        memory: Arc<dyn RemoteMemory>,
        access: DmaAccess,
    ) -> Result<RemoteBuffer, DmaError> {
        let iova = space.map(DmaSource::Remote(&memory), access)?;
        Ok(RemoteBuffer { memory, iova, space })
    }

    /// The memory.
    pub fn memory(&self) -> &Arc<dyn RemoteMemory> {
        &self.memory
    }

    /// Where the device sees its first byte.
    pub fn iova(&self) -> Iova {
        self.iova
    }
}

impl Drop for RemoteBuffer {
    fn drop(&mut self) {
        if let Err(error) = self.space.unmap(self.iova, self.memory.len()) {
            tracing::warn!(%error, "unmap failed");
        }
    }
}
