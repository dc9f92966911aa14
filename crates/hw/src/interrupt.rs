//! Interrupt vectors, each an eventfd.

use std::os::fd::OwnedFd;

/// Why a vector could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterruptError {
    /// A vector that the function does not have.
    #[error("interrupt vector {vector}: the function has {count}")]
    NoSuchVector {
        /// The vector asked for.
        vector: u16,
        /// How many vectors there are.
        count: u16,
    },
    /// The system refused.
    #[error("cannot set up interrupt vector {vector}: {source}")]
    System {
        /// The vector asked for.
        vector: u16,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The function's interrupt vectors.
pub trait Interrupts: Send + Sync {
    /// How many vectors there are; 0 where there are none.
    fn count(&self) -> u16;
    /// An eventfd that counts the interrupts of `vector` from now on. Later calls replace it.
    fn subscribe(&self, vector: u16) -> Result<OwnedFd, InterruptError>;
}
