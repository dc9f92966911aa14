//! What blocks may contain: a register per block, written with unique values, and a write cache that a loss of
//! power empties.

mod cluster;
mod durable;
mod linear;

pub use durable::survivors;
pub use linear::{Anomaly, check};

/// A moment, in nanoseconds of the virtual clock.
pub type Moment = u64;
/// After everything.
pub const NEVER: Moment = u64::MAX;

/// What was done to one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It was read, and held this.
    Read(u64),
    /// This was written, with success.
    Write(u64),
    /// Writing this was tried: it may have happened by `to`, or not at all.
    Attempt(u64),
}

/// One access to one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What.
    pub kind: Kind,
    /// When it was asked for.
    pub from: Moment,
    /// When it was answered; of what was tried: from when on it cannot happen any more.
    pub to: Moment,
    /// Whose: an index into whatever list the caller keeps.
    pub who: usize,
}

impl Access {
    /// The value read or written.
    pub fn value(&self) -> u64 {
        match self.kind {
            Kind::Read(value) | Kind::Write(value) | Kind::Attempt(value) => value,
        }
    }
}
