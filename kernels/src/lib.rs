//! The device library and our kernels, compiled for CUDA and for the CPU target.
//!
//! One source, two targets. [`cpu`] runs it on this machine's CPU through the executor in `simt/`;
//! [`ptx`] carries it compiled for NVIDIA GPUs. [`abi`] mirrors `abi.h`, the only definition of what the
//! host and kernels share. [`toolchain`] finds compilers, and compiles variants of the source (a rule
//! switched off, a kernel of one's own) into modules that [`cpu::Module::load`] takes.
//! The sources themselves are embedded: [`HEADERS`], [`EXECUTOR`], [`SOURCES`].
//!
//! Unsafe code lives in `cpu`, which talks to compiled C++, and nowhere else in this crate.

pub mod abi;
pub mod cpu;
mod error;
mod fnv;
pub mod ptx;
pub mod toolchain;

pub use error::Error;

include!(concat!(env!("OUT_DIR"), "/sources.rs"));
