//! Tier S: the command, run as its users run it.

mod agent;
mod array;
mod batch;
mod bench;
mod bind;
mod calibrate;
mod challenges;
mod common;
mod copy;
mod digest;
mod generate;
mod identify;
mod interrupt;
mod kept;
mod paths;
mod plan;
mod platform;
mod recovery;
mod report;
mod resident;
mod serve;
mod several;
mod trace;
mod usage;
mod verify;
mod wrong;
