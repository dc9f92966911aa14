//! The catalogue: what is written is read, and a crash at any point loses no committed file.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

mod crash;
mod disk;
mod format;
mod writes;
