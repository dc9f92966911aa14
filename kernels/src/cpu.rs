//! Kernels on the CPU target: the device source compiled as C++ over the executor in `simt/`.
//!
//! A [`Module`] has kernels. A [`Launch`] says what to run: kernel, arguments, grid, schedule. A [`Worker`]
//! runs some of its blocks on one thread, a step at a time, and never blocks; [`run_threads`] steps workers
//! on threads of their own, [`run_stepped`] steps one in a loop of the caller's, for simulations.
//! [`Hooks`] see doorbells, clock and memory accesses. With [`AccessCosts`] what lanes do takes virtual time.
//!
//! A kernel is a device: the addresses in its arguments are memory that it reads and writes, as DMA would.
//! Nobody checks them here, so making a [`Launch`] is unsafe: they are valid until its last worker is gone.

mod costs;
mod explore;
mod ffi;
mod hooks;
mod launch;
mod module;
mod residency;
mod run;
mod switches;
mod threads;
mod worker;

pub use costs::AccessCosts;
pub use explore::{Explorer, Next, Waiting};
pub use ffi::Counters;
pub use hooks::{Access, Hooks, MemoryEvent};
pub use launch::Launch;
pub use module::{Kernel, Module};
pub use residency::resident_limit;
pub use run::run_stepped;
pub use threads::{Idle, Report, Running, ThreadReport, Threads, run_threads, spawn_threads};
pub use worker::{State, Worker};
