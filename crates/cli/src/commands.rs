//! The subcommands.

pub mod bench;
mod bench_resident;
pub mod bind;
mod calibrate;
mod catalogue;
pub mod check;
pub mod copy;
pub mod digest;
mod experiment;
pub mod files;
pub mod generate;
pub mod identify;
mod journal;
pub mod list;
pub mod manifest;
mod openings;
mod pci;
pub mod plan;
mod points;
pub mod report;
pub mod serve;
mod sweep;
pub mod topo;
mod traces;
pub mod unbind;
