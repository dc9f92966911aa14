//! A fake CUDA driver: the functions of `libcuda.so.1` that this project calls, over host memory and the CPU
//! executor. A test double, for machines without a GPU; `docs/testing.md` says what it shows and what it cannot.
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
//! | `image`, `ptx`, `cubin` | what a module contains |
//! | `mutate` | defects that are put into PTX, for tests of the PTX machine |
//! | `harness` | for tests: processes that get the fake driver as their driver |
//! | `log`, `options`, `code` | what was done wrong, what a test asks for, results |

mod api;
mod code;
mod context;
mod cubin;
mod driver;
mod gdrdrv;
pub mod harness;
mod image;
mod kernel;
mod log;
mod machine;
mod memory;
mod mutate;
mod options;
mod ptx;
mod stream;
