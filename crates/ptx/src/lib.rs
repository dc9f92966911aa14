//! A machine that runs PTX, as compilers emit it, on the CPU: no GPU and no CUDA driver is needed.
//!
//! [`Module`] reads PTX ISA 9.0 as NVRTC and nvcc of CUDA 13 emit it (docs/ptx-machine.md says what of it has run). What it does not know is an error that names file,
//! line and instruction. [`Launch`] runs an entry: each lane has its own program counter and runs until it meets others
//! (`bar.sync`, and the `.sync` instructions of a warp, which meet by mask), waits, or had its turn. Blocks run on worker
//! threads. Kernels work in the host's memory, by its addresses: [`Memory`] says which of them a kernel may touch.
//!
//! A run that does what PTX leaves undefined ends with a [`Finding`]: the check, the line of the PTX, and the line of the
//! source where the module was compiled with `-lineinfo`.
//!
//! Unsafe code lives in `machine/real.rs` alone: atomic accesses of the host's memory.

mod error;
mod machine;
mod module;
mod program;
mod source;
mod text;

pub use error::{Check, Error, Finding, Line};
pub use machine::{Gpu, Launch, Memory, Ran, Region};
pub use module::{Entry, Module};
pub use source::{Kernel, Source};
