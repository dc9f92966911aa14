//! What the tests that run compilers share.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../src/fnv.rs"]
pub mod fnv;
pub mod kept;
pub mod skip;

pub use skip::skip_without_nvcc;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether this compiler is there.
pub fn runs(compiler: &Path) -> bool {
    Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// g++ and clang++, as far as they are there; says for which of them `what` is not tested.
pub fn cpp_compilers(what: &str) -> Vec<PathBuf> {
    let first = |names: [&str; 2]| {
        let found = names.map(PathBuf::from).into_iter().find(|name| runs(name));
        if found.is_none() {
            println!("skipped: {what}: no {} (scripts/setup installs one)", names.join(" and no "));
        }
        found
    };
    [["g++", "c++"], ["clang++", "clang++-19"]].into_iter().filter_map(first).collect()
}

/// Compiles `text` in a folder of its own and returns what the compiler said; of what compiles, that is kept.
pub fn compile(compiler: &Path, flags: &[&str], name: &str, text: &str) -> Result<String, String> {
    let key = kept::key(compiler, flags, (name, text), &[]);
    let said = kept::kept(key, || compile_now(compiler, flags, name, text).map(String::into_bytes))?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn compile_now(compiler: &Path, flags: &[&str], name: &str, text: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join(name);
    fs::write(&source, text).unwrap();
    let mut command = Command::new(compiler);
    command.current_dir(folder.path()).args(flags);
    let folders = ["include", "bench", "checks", ""].map(|name| root().join(name));
    command.args(folders.iter().flat_map(|folder| [Path::new("-I"), folder])).arg(&source);
    if !flags.contains(&"-fsyntax-only") {
        command.arg("-o").arg(folder.path().join("out"));
    }
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", compiler.display()));
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    if output.status.success() { Ok(said) } else { Err(said) }
}

/// Like [`compile`], for what must compile.
pub fn expect_compiles(compiler: &Path, flags: &[&str], name: &str, text: &str) {
    if let Err(said) = compile(compiler, flags, name, text) {
        let said: Vec<_> = said.lines().take(20).collect();
        panic!("{} {} {name}:\n{}", compiler.display(), flags.join(" "), said.join("\n"));
    }
}
