//! The functions of `warpbell.h`, in its order, and of the headers beside it.

mod caches;
mod events;
mod files;
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
mod volume_io;
mod volumes;
