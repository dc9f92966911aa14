//! Our kernels under nvcc: what each costs, on each architecture, before any GPU runs it. Tier U.

mod architectures;
mod budgets;
mod copies;
mod documented;
#[path = "../../src/fnv.rs"]
mod fnv;
mod forms;
#[path = "../../../tests/src/frames.rs"]
mod frames;
#[path = "../common/kept.rs"]
mod kept;
mod matrix;
mod programs;
#[path = "../common/skip.rs"]
mod skip;
mod trace;
