//! The host's own asynchronous I/O: memory for it, and queues that a thread of the program's drives.

mod buffer;
mod queue;

pub(crate) use buffer::{IoBuffer, IoMemory};
pub(crate) use queue::{IoQueue, with_queue};
