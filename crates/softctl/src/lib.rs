//! The soft controller: an NVMe SSD in software, in this process.
//!
//! [`SoftDevice`] implements [`warpbell_hw::Device`], so that a driver uses it like hardware: registers, doorbells,
//! queues in the driver's memory, DMA through IOVAs. It executes the admin and NVM command sets over memory or the
//! user's own file, and checks its client as it goes: whatever breaks a rule of the specification is answered as
//! the specification asks, and also lands in a log ([`SoftDevice::violations`]).
//!
//! A controller is *threaded* (polling threads, for speed) or *stepped* (no threads, every choice made by a seed, in
//! virtual time, for simulation). Where to look:
//!
//! - `config`, `parse`: what can be asked for, as [`SoftConfig`] and as a device name.
//! - `subsystem`: what several controllers share, namespaces above all, and how they change while poll groups work.
//! - `core`, `control`, `registers`, `admin`: the control plane of one controller, behind one lock.
//! - `poll_group`, `quick`, `engine`, `queue`, `transfer`, `nvm`: the way of an I/O command, on one thread from doorbell to
//!   completion. `poll_group` decides what comes next, `quick` serves the plain cases many at a time.
//! - `copying`: commands whose data lies in memory without a pointer, moved by the batches of a copy engine.
//! - `store`, `memory`, `interrupt`, `doorbell`: namespaces, client memory, eventfds, doorbell registers.
//! - `checker`, `refusal`, `fault`, `profile`: rules and violations; faults to inject; how long commands take.
//! - `poller`, `sim`: the two ways to make it go.
//! - `endpoint`: the controller as a transport serves it to a client in another process.
//!
//! Unsafe code is in `memory` (client memory and mappings), `store::memory` and `interrupt::notify` (system calls), and
//! nowhere else.

mod admin;
mod checker;
mod cmb;
mod config;
mod control;
mod copying;
mod core;
#[cfg(test)]
mod cost;
mod device;
mod doorbell;
mod endpoint;
mod engine;
mod error;
mod fault;
mod interrupt;
mod memory;
mod nvm;
mod optional;
mod parse;
mod poll_group;
mod poller;
mod power;
mod profile;
mod queue;
mod quick;
mod refusal;
mod registers;
mod serial;
mod sim;
mod statistics;
mod store;
mod subsystem;
#[doc(hidden)]
pub mod test_hooks;
mod toml_file;
mod transfer;
mod units;
mod version;

pub use checker::{LOG_LIMIT, Rule, Severity, Violation};
pub use config::{
    ClientModel, ClientRings, CompletionOrder, DoorbellBufferMode, MAX_CONTROLLER_MEMORY, MAX_ENTRIES,
    MAX_MDTS, MAX_NAMESPACES, MAX_POLLERS, MAX_STRIDE, MAX_WINDOW, NamespaceConfig, SoftConfig,
    SoftConfigError, StoreConfig,
};
pub use device::SoftDevice;
pub use error::SoftError;
pub use fault::{Fault, FaultAction, FaultError, FaultKind, FaultPlan, InjectedFault, Selector};
pub use memory::IovaSpace;
pub use optional::OptionalCommands;
pub use power::{MAX_POWER_STATES, PowerState};
pub use profile::{MediaProfile, Percentiles, Profile, ProfileError, ReadProfile, WriteProfile};
pub use serial::serial_of;
pub use statistics::Statistics;
pub use subsystem::{Health, Subsystem};
