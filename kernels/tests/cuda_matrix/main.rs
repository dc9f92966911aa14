//! Our kernels under nvcc: what each costs, on each architecture, before any GPU runs it. Bed U.

mod budgets;
#[path = "../../src/fnv.rs"]
mod fnv;
mod matrix;
#[path = "../common/skip.rs"]
mod skip;
