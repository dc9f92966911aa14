//! The functions of `warpbell.h`, in its order, and those of `host_io.h`.

mod events;
mod host_io;
mod kernels;
mod leases;
mod mapped;
mod memory;
mod pointer;
mod queues;
mod ssd;
mod user_memory;
mod version;
