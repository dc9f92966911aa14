//! Where NVRTC is.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::ffi::Library;

/// What the loader is asked for where no file was found or named.
const NAME: &str = "libnvrtc.so.13";

/// Why it was not loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotLoaded {
    #[error("WARPBELL_NVRTC=none forbids it")]
    Forbidden,
    #[error("WARPBELL_NVRTC={}: {error}", chosen.display())]
    Chosen { chosen: OsString, error: OpenError },
    #[error("{}", tried.iter().map(OpenError::to_string).collect::<Vec<_>>().join("; "))]
    Tried { tried: Vec<OpenError> },
}

/// Why a file was not loaded; mostly the loader's own words, which name it.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("{0}")]
    Loader(String),
    #[error("{}: {error}", library.display())]
    Library { library: PathBuf, error: libloading::Error },
}

/// Loads it: the file that `WARPBELL_NVRTC` names (`none`: never), what the loader finds (LD_LIBRARY_PATH, ldconfig),
/// then in `CUDA_HOME`, `CUDA_PATH`, `/usr/local/cuda`, and in the folder of `scripts/cuda-setup`.
pub(super) fn library() -> Result<Library, NotLoaded> {
    match env::var_os("WARPBELL_NVRTC").filter(|chosen| !chosen.is_empty()) {
        Some(chosen) => chosen_library(&chosen),
        None => first_that_loads(),
    }
}

fn chosen_library(chosen: &OsStr) -> Result<Library, NotLoaded> {
    if chosen == "none" {
        return Err(NotLoaded::Forbidden);
    }
    open(Path::new(chosen)).map_err(|error| NotLoaded::Chosen { chosen: chosen.to_owned(), error })
}

fn first_that_loads() -> Result<Library, NotLoaded> {
    let mut tried = Vec::new();
    for candidate in [PathBuf::from(NAME)].into_iter().chain(files()) {
        match open(&candidate) {
            Ok(library) => return Ok(library),
            Err(error) => tried.push(error),
        }
    }
    Err(NotLoaded::Tried { tried })
}

fn open(library: &Path) -> Result<Library, OpenError> {
    let builtins = library.parent().and_then(builtins);
    Library::open(builtins.as_deref(), library).map_err(|error| match std::error::Error::source(&error) {
        Some(why) => OpenError::Loader(why.to_string()),
        None => OpenError::Library { library: library.to_owned(), error },
    })
}

/// The library's other half, which it looks for by name: it has to be there already where no search path leads to it.
fn builtins(folder: &Path) -> Option<PathBuf> {
    let is_it = |name: &OsStr| name.to_string_lossy().starts_with("libnvrtc-builtins.so.13");
    let mut found = fs::read_dir(folder).ok()?.flatten().filter(|entry| is_it(&entry.file_name()));
    found.next().map(|entry| entry.path())
}

/// Files of that name where toolkits are.
fn files() -> impl Iterator<Item = PathBuf> {
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let homes = homes.chain([PathBuf::from("/usr/local/cuda")]).chain(pinned());
    let folders = homes.flat_map(|home| ["lib64", "lib"].map(|folder| home.join(folder)));
    folders.map(|folder| folder.join(NAME)).filter(|file| file.is_file())
}

/// What `scripts/cuda-setup` installs.
fn pinned() -> Option<PathBuf> {
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cuda/lib");
    let pythons = fs::read_dir(venv).ok()?.flatten();
    let mut homes = pythons.map(|python| python.path().join("site-packages/nvidia/cu13"));
    homes.find(|home| home.is_dir())
}

/// Size and time of the file that was loaded: builds of one version differ, and the library does not tell which it is.
pub(super) fn build_of_loaded() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut files = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let is_it =
        |file: &&Path| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc.so"));
    let metadata = files.find(is_it).and_then(|file| fs::metadata(file).ok());
    metadata.map_or_else(String::new, |file| format!("{} bytes of {}", file.size(), file.mtime()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchain::CompileError;

    #[test]
    fn what_cannot_be_loaded_is_named_with_what_to_install() {
        let refused = |chosen: &str| chosen_library(OsStr::new(chosen)).err().unwrap().to_string();
        assert_eq!(refused("none"), "WARPBELL_NVRTC=none forbids it");
        let tried = refused("/nowhere/libnvrtc.so.13");
        assert!(tried.contains("/nowhere/libnvrtc.so.13: cannot open"), "{tried}");
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join(NAME);
        fs::write(&other, "no library").unwrap();
        assert!(refused(&other.display().to_string()).contains(NAME));

        let error = CompileError::NoNvrtc { tried };
        assert!(error.is_missing_requirement());
        let text = error.to_string();
        for part in
            ["/nowhere/libnvrtc.so.13", "nvidia-cuda-nvrtc==13.0.88", "LD_LIBRARY_PATH", "WARPBELL_NVRTC"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
