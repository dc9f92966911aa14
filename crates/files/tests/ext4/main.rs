//! File systems and partitions as other programs make them, read without a mount.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

mod common;
mod damage;
mod hostile;
mod partitions;
mod reading;
mod refused;
mod writable;
