//! Compilers on this machine, and device source that they compile at run time: a [`Variant`] becomes a module for
//! the CPU target by the C++ compiler, or a [`CudaImage`] by NVRTC. Results are kept on disk.

mod cache;
mod compile;
mod cuda;
mod error;
mod find;
mod nvrtc;
mod run;
mod variant;

pub use cuda::CudaImage;
pub use error::{CacheChoice, CompileError};
pub use run::run_compiler;
pub use variant::Variant;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

warpbell_base::options! {
    /// What a program does about compilations by NVRTC, which take ten seconds and more.
    #[derive(Clone, Copy, Debug)]
    pub struct Watch {
        /// Called before each, with what is compiled and for which GPU. What the cache has is not compiled.
        pub begin: fn(&str),
        /// Whether it was interrupted: polled meanwhile. NVRTC cannot be stopped. Its thread is abandoned
        /// then, and the compilation fails ([`CompileError::Interrupted`]); see [`compiling`].
        pub interrupted: fn() -> bool,
    }
}

impl Default for Watch {
    /// Says nothing, and is never interrupted.
    fn default() -> Watch {
        Watch { begin: |_| (), interrupted: || false }
    }
}

static WATCH: OnceLock<Watch> = OnceLock::new();

/// Watches compilations by NVRTC. The first call decides.
pub fn on_compile(watch: Watch) {
    WATCH.get_or_init(|| watch);
}

/// Whether NVRTC is at work on a thread that was left alone: a process that ends now must not run the destructors of
/// libraries first.
pub fn compiling() -> bool {
    nvrtc::abandoned()
}

/// The version of NVRTC that is found here, such as `13.0`.
pub fn nvrtc_version() -> Result<String, CompileError> {
    nvrtc::Nvrtc::get().map(nvrtc::Nvrtc::version)
}

/// An nvcc for checks: the one that builds of this crate use (`WARPBELL_NVCC`,
/// `CUDA_HOME`, `CUDA_PATH`, `PATH`, `/usr/local/cuda`), else the pinned one that `scripts/cuda-setup` installs,
/// which builds use only if told to: it would slow each down.
pub fn nvcc() -> Option<PathBuf> {
    if find::chosen_nvcc().is_some() {
        return find::nvcc();
    }
    find::nvcc().or_else(|| pinned_nvcc(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cuda")))
}

fn pinned_nvcc(venv: &Path) -> Option<PathBuf> {
    let pythons = venv.join("lib").read_dir().ok()?.flatten();
    let mut compilers = pythons.map(|python| python.path().join("site-packages/nvidia/cu13/bin/nvcc"));
    compilers.find(|nvcc| nvcc.is_file())
}

/// C++ compilers to try, best first. `WARPBELL_CXX` or `CXX`, where set, is the only one.
pub fn cxx_candidates() -> Vec<PathBuf> {
    find::cxx_candidates()
}
