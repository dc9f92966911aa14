//! Device source that is compiled at run time, for the CPU target and for GPUs. Bed U.

#[path = "../common/mod.rs"]
mod common;
mod cpu;
mod everywhere;
mod nvrtc;
