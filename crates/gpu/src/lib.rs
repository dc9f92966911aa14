//! NVIDIA GPUs through the CUDA driver, for host programs.
//!
//! A [`Gpu`] is one device and its primary context. It gives [`DeviceMemory`], makes host memory and BAR pages visible
//! to kernels ([`Registered`]), loads modules ([`Module`], [`Function`]) and runs kernels ([`Running`]). Calls may come
//! from any thread: each puts the context in place and restores the one before.
//! The driver is loaded when it is first asked for. Where it is missing, or too old for a call, there is a
//! [`GpuError`], never a panic.
//!
//! Set up first, launch then: taking and releasing memory, registering and loading may wait for kernels that run.
//!
//! Unsafe code lives in `sys`, which talks to the driver, and nowhere else in this crate.

mod codes;
mod error;
mod gpu;
mod launch;
mod memory;
mod module;
mod ordering;
mod pause;
mod registered;
mod remote;
pub mod routes;
mod staging;
mod sys;
mod watchdog;

pub use error::GpuError;
pub use gpu::{Gpu, GpuInfo};
pub use launch::{LaunchConfig, Running};
pub use memory::DeviceMemory;
pub use module::{Attributes, Function, Module};
pub use ordering::{FlushPolicy, WriteOrdering};
pub use registered::Registered;
pub use sys::{DEVICE_PAGE, Owner, widen_connections};
pub use watchdog::{Watchdog, WatchdogReport};
