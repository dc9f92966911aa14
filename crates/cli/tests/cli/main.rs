//! Bed S: the command, run as its users run it.

mod bench;
mod common;
mod copy;
mod digest;
mod identify;
mod interrupt;
mod paths;
mod usage;
mod verify;
