//! I/O of the host itself: whole blocks, and how commands describe their data.

mod block_io;
mod blocks;
mod data_pointers;

pub use block_io::BlockIo;
pub(crate) use blocks::HostQueues;
pub use data_pointers::DataPointers;
