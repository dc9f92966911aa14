//! A CUDA driver without a GPU: the functions of `libcuda.so.1` that this project calls, over host memory. Kernels run on
//! the PTX machine or, for tests, the CPU executor; `docs/ptx-machine.md` says what that shows and what it cannot.
//!
//! `--target ptx` has it in its process ([`for_users`]). `tests/fake-cuda` makes a `libcuda.so.1` of it.
//!
//! It keeps to what cuda.h promises and is stricter than a driver wherever that finds mistakes: what a driver would
//! forgive is an error here, and goes into a log. It was written from cuda.h alone, by other hands than `crates/gpu`.
//!
//! | module | has |
//! | --- | --- |
//! | `api` | the C functions |
//! | `driver`, `context` | devices, primary contexts, what is current on a thread |
//! | `memory` | device memory, registered host memory, what kernels reach |
//! | `stream`, `kernel`, `machine` | work in order, events, kernels on the CPU executor or the PTX machine |
//! | `gdrdrv` | the kernel module of GDRCopy, for `tests/fake-gdrdrv` |
//! | `image`, `cubin` | what a module contains |
//! | `mutate` | defects that are put into PTX, for tests of the PTX machine |
//! | `log`, `options`, `code`, `error` | what was done wrong, what a test asks for, results, refusals |

pub mod api;
mod code;
mod context;
mod cubin;
mod driver;
mod error;
mod gdrdrv;
mod image;
mod kernel;
mod log;
mod machine;
mod memory;
#[cfg(feature = "defects")]
mod mutate;
mod options;
mod stream;

pub use driver::for_users;
pub use error::{OptionError, OptionsError};
pub use options::{USERS, VARIABLE};
