//! I/O of the host itself: whole blocks, requests that go on meanwhile, and how commands describe their data.

mod block_io;
mod blocks;
mod data_pointers;
mod piece;
mod requests;

pub use block_io::BlockIo;
pub(crate) use blocks::HostQueues;
pub use data_pointers::DataPointers;
pub use requests::{IoEnd, IoOp, IoOutcome, IoRequest, RequestQueue, RequestQueueSpec};
