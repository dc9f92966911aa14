//! Device source that is compiled at run time, for the CPU target and for GPUs. Tier U.

#[path = "../common/mod.rs"]
mod common;
mod cpu;
mod everywhere;
mod nvrtc;
