//! The device library and our kernels, compiled for CUDA and for the CPU target.
//!
//! One source, two targets. [`cpu`] runs it on this machine's CPU through the executor in `simt/`;
//! [`builtin`] has our kernels for NVIDIA GPUs. [`abi`] mirrors `abi.h`, the only definition of what the
//! host and kernels share. [`toolchain`] finds compilers, and compiles variants of the source (a rule
//! switched off, a kernel of one's own) into modules for the CPU target and images for GPUs.
//! [`costs`] tells what each call of the library costs, from the compiler's output. [`image`] tells which kernels are in what was compiled for GPUs.
//! The sources themselves are embedded: [`HEADERS`], [`EXECUTOR`], [`SOURCES`], [`PROBES`].
//!
//! Unsafe code lives in `cpu`, which talks to compiled C++, in `toolchain/nvrtc/ffi.rs`, which talks to NVRTC, and
//! nowhere else in this crate.

pub mod abi;
pub mod builtin;
pub mod costs;
pub mod cpu;
mod error;
mod fnv;
pub mod image;
pub mod includes;
// The build script's; here for its tests.
#[cfg(test)]
mod kept_image;
pub mod toolchain;

pub use error::Error;

include!(concat!(env!("OUT_DIR"), "/sources.rs"));
