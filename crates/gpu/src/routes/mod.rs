//! Ways for an SSD to reach GPU memory, and for kernels to reach an SSD's doorbells.
//!
//! Each way is tried by itself and says what was done, or why it does not work: nothing is demoted in silence. That a
//! way could be set up does not say that data gets through; a two-way data test over it does.

mod doorbells;
mod memory;

pub use doorbells::{DoorbellAccess, DoorbellRoute, doorbells};
pub use memory::{FileMapping, MemoryRoute, Reached, SpaceKind, probe_memory, reach};

/// One way that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe<R> {
    /// Which.
    pub route: R,
    /// What was done, or why it does not work.
    pub outcome: Result<String, String>,
}

impl<R: std::fmt::Display> std::fmt::Display for Probe<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.outcome {
            Ok(done) => write!(f, "{}: works: {done}", self.route),
            Err(reason) => write!(f, "{}: no: {reason}", self.route),
        }
    }
}
