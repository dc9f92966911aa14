//! Runs kernels: lanes in blocks, blocks on worker threads.

mod barrier;
mod block;
mod bytes;
mod constant;
mod copies;
mod execute;
mod gpu;
mod lane;
mod late;
mod launch;
mod mbarrier;
mod meet;
mod past;
mod polls;
mod races;
mod real;
mod space;
mod watch;
mod weak;
mod weakly;
mod words;

pub use gpu::Gpu;
pub use launch::{Launch, Memory, Ran};
pub use real::Region;

use crate::text::Space;

/// The bits that make an address of a space a generic one (PTX ISA 9.0, section 5.2). Global addresses are generic.
pub(crate) fn window(space: Space) -> u64 {
    match space {
        Space::Global | Space::Constant | Space::Generic => 0,
        Space::Shared => 1 << 60,
        Space::Local => 2 << 60,
        Space::Param => 3 << 60,
    }
}

/// The space of a generic address, and the address there.
fn generic(address: u64) -> (Space, u64) {
    let space = match address >> 60 {
        1 => Space::Shared,
        2 => Space::Local,
        3 => Space::Param,
        _ => return (Space::Global, address),
    };
    (space, address & ((1 << 60) - 1))
}
