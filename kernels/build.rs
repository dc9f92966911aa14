//! Compiles the device source for the CPU target and for CUDA, and embeds the sources themselves.
//!
//! CPU target: the machine's C++ compiler, unless there is none; then the crate builds without it and
//! says so when it is used. CUDA: nvcc, where there is one; else NVRTC compiles at the first use. Whatever did not
//! change is not compiled again.
//!
//! Environment: `CXX_TARGET` (as crate cc has it, where the target is another), else `WARPBELL_CXX` or `CXX` (compiler),
//! `WARPBELL_CPU_TARGET=none`, `WARPBELL_SANITIZE=thread|address`, `WARPBELL_NVCC` (a path; `none`: never one),
//! `WARPBELL_CUBINS=90,100|all`, `WARPBELL_IMAGES` (an absolute path: where images are kept, for several builds).

#[path = "build/cpu.rs"]
mod cpu;
#[path = "build/cuda.rs"]
mod cuda;
#[path = "src/toolchain/find.rs"]
mod find;
#[path = "src/fnv.rs"]
mod fnv;
#[path = "src/includes.rs"]
mod includes;
#[path = "src/kept_image.rs"]
mod kept_image;
#[path = "src/toolchain/run.rs"]
mod run;
#[path = "build/sources.rs"]
mod sources;

use std::path::PathBuf;

fn main() {
    for name in ["bench", "budgets", "build", "checks", "include", "probes", "proof", "simt", "src"] {
        println!("cargo:rerun-if-changed={name}");
    }
    let sources = sources::Sources::read();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    sources.embed(&out.join("sources.rs"));
    cpu::build(&sources, &out);
    cuda::build(&sources, &out);
}
