//! Support for tests that cross crates.
//!
//! A [`Case`] says what is run. [`simulation`] runs it as one deterministic program in virtual time, [`threaded`]
//! on real threads. Both build a [`Rig`] and end with [`Finding`]s, each of which names the check that found it.
//!
//! Unsafe code lives in `memory`, which reads kernel state by address.

mod breach;
mod case;
pub mod exhaustive;
mod findings;
mod memory;
mod rig;
mod scenario;
pub mod sim;
pub mod simulation;
pub mod threaded;
mod witness;

pub use breach::Breach;
pub use case::{Case, Draw, Mode, Schedule, seeds, splitmix64};
pub use findings::{Finding, lines};
pub use memory::peek;
pub use rig::Rig;
pub use scenario::Scenario;
pub use witness::Witness;
