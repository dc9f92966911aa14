//! Data in memory without a CPU pointer: commands whose data an engine copies, batch by batch.
//!
//! A command becomes a [`Job`], which is cut into pieces. A piece goes straight between the store's pages and the remote
//! memory where the engine has pinned the store, else through a staging buffer of the poll group; parts of it that have a
//! pointer are copied by the CPU on the way. The copies of all commands that a pass of the poll group has begun are
//! submitted together by the [`Copier`]. What finds no room waits, and nobody else waits for it.

mod copier;
mod host;
mod job;
mod piece;

pub(crate) use copier::{Copier, Owner};
pub(crate) use job::{Job, Kind, keep_off};
