//! The GPU-resident controller: an ideal NVMe controller in some blocks of a launch, for clients in its other blocks.
//!
//! It measures what the device library alone can sustain. Rings, doorbells and state lie in the target's memory, and
//! no data moves. [`resolve`] checks what is asked for, [`bench()`] runs it; [`ResidentMemory`] is what a launch works on.

mod figures;
mod geometry;
mod memory;
pub mod rules;
mod run;
mod spec;

pub use figures::{Multiprocessors, ResidentFigures};
pub use geometry::Geometry;
pub use memory::{BLOCK_BYTES, BLOCKS, MAX_TRANSFER, ResidentMemory};
pub use run::{bench, device_report, path_report, resolve};
pub use spec::{ResidentSpec, ResidentSpecError, Wait};
