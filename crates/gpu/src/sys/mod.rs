//! Everything that calls the CUDA driver: safe types that own what the driver gives, and put a context in place first.
//!
//! A type here keeps its [`Context`] alive, makes it current for each call, and releases in `drop` what it took.
//! Ranges are checked before the driver sees them. What calls mean is decided elsewhere, in safe code.
//! Unsafe code lives in these files and nowhere else in this crate.

mod connections;
mod context;
mod copies;
mod device;
mod dma_buf;
mod failure;
mod foreign;
mod functions;
mod gdrdrv;
mod host;
mod memory;
mod module;
mod stream;

pub use connections::widen_connections;
pub(crate) use context::Context;
pub(crate) use copies::Copies;
pub(crate) use device::{Device, device_count, name};
pub(crate) use dma_buf::BarMapping;
#[cfg(feature = "ptx")]
pub(crate) use functions::set_ptx_options;
pub(crate) use gdrdrv::Gdrdrv;
pub(crate) use host::HostRegistration;
pub(crate) use memory::Allocation;
pub use memory::{DEVICE_PAGE, Owner};
pub(crate) use module::{LoadedModule, Shape, Symbol};
pub(crate) use stream::{PATIENCE, Stream};
