//! The fake driver itself, and `crates/gpu` on it. Each test is a process of its own: a driver belongs to a process.

mod foreign;
mod gdrdrv;
mod gpu;
mod kernels;
mod machines;
mod rules;
mod streams;
