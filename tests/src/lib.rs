//! Support for tests that cross crates.
//!
//! A [`Case`] says what is run. [`simulation`] runs it as one deterministic program in virtual time, [`threaded`]
//! on real threads. Both build a [`Rig`] and end with [`Finding`]s, each of which names the check that found it.
//!
//! Unsafe code lives in `memory`, which reads kernel state by address, and in `launches`.

mod apart;
mod blocks;
mod breach;
pub mod cached;
mod case;
mod disk;
mod documented;
pub mod exhaustive;
mod findings;
mod frames;
mod launches;
mod log;
mod memory;
mod rig;
mod scenario;
pub mod several;
pub mod sim;
pub mod simulation;
pub mod suite;
pub mod threaded;
mod variant;
mod witness;

pub use apart::each_apart;
pub use blocks::Blocks;
pub use breach::Breach;
pub use case::{Case, Draw, Mode, Schedule, seeds, splitmix64};
pub use disk::Disk;
pub use documented::{documented, documented_of_caches};
pub use findings::{Finding, lines};
pub use frames::{Framed, PAGE, documented_blocks, documented_part, frame_of, framed, in_frame};
pub use launches::{
    TestLaunch, cpu_launch, cpu_launch_bytes, launch_alone, launch_program, load_module, on_cpu,
};
pub use memory::peek;
pub use rig::{Rig, SoftRig};
pub use scenario::Scenario;
pub use variant::queue_test_without;
pub use witness::Witness;
