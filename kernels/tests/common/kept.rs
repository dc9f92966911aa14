//! What compilers said and made, kept in `target/tmp/kept` by what it depends on: the compiler and the one that it calls,
//! its arguments, and the sources as far as they are included. So only a change is compiled again, by whichever test comes first.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use warpbell_kernels::includes::closure;
use warpbell_kernels::{EXECUTOR, HEADERS, SOURCES};

use super::fnv::Fnv;

/// The hash of a compilation of `text`, which lies where `name` says, with these arguments. It may include our files, and
/// `more`.
pub fn key(compiler: &Path, arguments: &[&str], (name, text): (&str, &str), more: &[(&str, &str)]) -> Fnv {
    let files: Vec<_> = HEADERS.iter().chain(SOURCES).chain(EXECUTOR).chain(more).copied().collect();
    let taken = closure(name, text, &files);
    let begin = Fnv::new().text(&compiler.display().to_string()).text(&version(compiler));
    let begin = arguments.iter().fold(begin, |hash, argument| hash.text(argument)).text(name).text(text);
    taken.into_iter().fold(begin, |hash, (name, text)| hash.text(name).text(text))
}

/// The result that is kept under this hash, else that of `make`, which is kept if it is one.
pub fn kept<E>(key: Fnv, make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kept");
    let file = folder.join(key.hex());
    if let Ok(result) = fs::read(&file) {
        return Ok(result);
    }
    let result = make()?;
    fs::create_dir_all(&folder).unwrap();
    let unfinished = tempfile::NamedTempFile::new_in(&folder).unwrap();
    fs::write(unfinished.path(), &result).unwrap();
    unfinished.persist(&file).unwrap();
    Ok(result)
}

/// What a compiler says of itself; nvcc takes the host's headers, and messages, by another.
fn version(compiler: &Path) -> String {
    let own = said_of(compiler);
    if compiler.file_stem().is_none_or(|name| name != "nvcc") {
        return own;
    }
    let host = std::env::var_os("NVCC_CCBIN").map_or_else(|| PathBuf::from("gcc"), PathBuf::from);
    let flags =
        ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"].map(|name| std::env::var(name).unwrap_or_default());
    own + &said_of(&host) + &flags.concat()
}

fn said_of(compiler: &Path) -> String {
    static KNOWN: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let ask = || {
        let output = Command::new(compiler).arg("--version").output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    };
    known.entry(compiler.to_owned()).or_insert_with(ask).clone()
}
