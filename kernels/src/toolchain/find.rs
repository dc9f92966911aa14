//! Where compilers are. Also part of the build script.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The nvcc to use, by `WARPBELL_NVCC` (`none`: never), `CUDA_HOME`, `CUDA_PATH`, `PATH`, `/usr/local/cuda`.
pub(crate) fn nvcc() -> Option<PathBuf> {
    if let Some(chosen) = chosen_nvcc() {
        return (chosen != OsStr::new("none")).then(|| PathBuf::from(chosen));
    }
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os);
    let homes = homes.map(|home| PathBuf::from(home).join("bin/nvcc"));
    let last = PathBuf::from("/usr/local/cuda/bin/nvcc");
    homes.chain(on_path("nvcc")).chain([last]).find(|nvcc| nvcc.is_file())
}

/// What `WARPBELL_NVCC` says, if anything.
pub(crate) fn chosen_nvcc() -> Option<OsString> {
    env::var_os("WARPBELL_NVCC").filter(|chosen| !chosen.is_empty())
}

/// C++ compilers worth trying, best first: `WARPBELL_CXX` or `CXX` alone where one is set.
pub(crate) fn cxx_candidates() -> Vec<PathBuf> {
    if let Some((_, chosen)) = chosen_cxx() {
        return vec![PathBuf::from(chosen)];
    }
    let names: &[&str] = match env::var_os("WARPBELL_SANITIZE") {
        // Only clang's ThreadSanitizer copes with tens of thousands of lanes.
        Some(_) => &["clang++-19", "clang++"],
        None => &["c++", "g++", "clang++", "clang++-19"],
    };
    names.iter().map(PathBuf::from).filter(|name| on_path(name).is_some()).collect()
}

/// The variable that names a C++ compiler, and its value.
pub(crate) fn chosen_cxx() -> Option<(&'static str, OsString)> {
    let set = |name| Some((name, env::var_os(name).filter(|cxx| !cxx.is_empty())?));
    ["WARPBELL_CXX", "CXX"].into_iter().find_map(set)
}

fn on_path(name: impl AsRef<Path>) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name.as_ref())).find(|file| file.is_file())
}
