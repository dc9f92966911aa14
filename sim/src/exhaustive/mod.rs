//! All schedules and all orders in which stores arrive, for a few warps on a small queue: the device code itself,
//! not a model of it. `docs/protocol.md` says what is covered.
//!
//! A [`Model`] is kernel, controller and time, of which every possible move is known; it can be put back to any state
//! it was in. [`Search`] visits every state once. A [`Scope`] says how many warps, entries and commands.

mod alike;
mod arena;
mod describe;
mod device;
mod locals;
mod model;
mod renaming;
mod roles;
mod scope;
mod search;
mod symmetry;
mod trace;

pub use arena::Arena;
pub use device::{Device, Rings};
pub use model::{Model, Move, Stop};
pub use roles::Roles;
pub use scope::Scope;
pub use search::{Budget, Report, Search, Verdict};
pub use symmetry::{Names, Symmetry};
