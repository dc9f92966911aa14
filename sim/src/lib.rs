//! The device library, the driver and the soft controller as one program: simulated, searched, and on threads.
//!
//! A [`Case`] says what is run. [`simulation`] runs it as one deterministic program in virtual time, [`threaded`]
//! on real threads. Both build a [`Rig`] and end with [`Finding`]s, each of which names the check that found it.
//! [`sim`] runs whole systems from a seed, faults included; [`exhaustive`] tries every schedule of a small one.
//! [`Monitor`] is the protocol monitor that all of them share.
//!
//! Unsafe code lives in `memory`, which reads kernel state by address, and in `launches`.

mod blocks;
mod breach;
mod case;
pub mod exhaustive;
mod findings;
mod launches;
pub mod log;
mod memory;
mod monitor;
mod rig;
mod scenario;
pub mod several;
pub mod sim;
pub mod simulation;
pub mod threaded;

pub use blocks::Blocks;
pub use breach::Breach;
pub use case::{Case, Draw, Mode, Places, Schedule, seeds};
pub use findings::{Finding, lines};
pub use launches::{
    TestLaunch, TestVariant, compile, cpu_launch, cpu_launch_bytes, launch_alone, launch_program,
    load_module, on_cpu,
};
pub use memory::peek;
pub use monitor::Monitor;
pub use rig::{Rig, SoftRig};
pub use scenario::Scenario;
