//! The subcommands.

pub mod bench;
pub mod copy;
pub mod digest;
pub mod identify;
pub mod list;
