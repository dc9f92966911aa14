//! I/O of the host itself: whole blocks, requests that go on meanwhile, and how commands describe their data.

mod block_io;
mod blocks;
mod data_pointers;
mod request;
mod requests;

pub use block_io::BlockIo;
pub use blocks::RequestCheck;
pub(crate) use blocks::{HostQueues, check_tail};
pub use data_pointers::DataPointers;
pub use request::{IoEnd, IoMemory, IoOp, IoOutcome, IoRequest};
pub(crate) use requests::command_bytes;
pub use requests::{RequestQueue, RequestQueueSpec};
