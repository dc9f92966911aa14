//! The programs of `examples/` under nvcc, for the architectures of this run.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use warpbell_kernels::toolchain;

use crate::architectures::targets;
use crate::documented::compiled;
use crate::skip::skip_without_nvcc;

/// What a reader of a program's device code has to take in.
const MOST_LINES: usize = 150;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/programs")
}

/// The device code of each program, by its folder's name.
fn programs() -> Vec<(String, String)> {
    let folders = std::fs::read_dir(folder()).expect("the programs' folder").flatten();
    let code = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.to_owned();
        let text = std::fs::read_to_string(path.join(format!("{name}.cu"))).ok()?;
        Some((name, text))
    };
    let mut programs: Vec<_> = folders.filter_map(|entry| code(entry.path())).collect();
    programs.sort();
    programs
}

/// What programs share.
fn headers() -> Vec<(String, String)> {
    let files =
        std::fs::read_dir(folder()).expect("the programs' folder").flatten().map(|entry| entry.path());
    let header = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.to_owned();
        Some((name, std::fs::read_to_string(path).ok()?))
    };
    files.filter(|path| path.extension().is_some_and(|end| end == "cuh")).filter_map(header).collect()
}

#[test]
fn every_program_is_short_and_has_a_check() {
    let programs = programs();
    assert!(programs.len() >= 2, "{programs:?}");
    for (name, text) in programs {
        let lines = text.lines().count();
        assert!(lines <= MOST_LINES, "{name}.cu has {lines} lines; the limit is {MOST_LINES}");
        let sizes = folder().join(&name).join("small");
        assert!(sizes.is_file(), "{}: scripts/lib/check-programs finds the program by it", sizes.display());
    }
}

#[test]
fn every_program_compiles() {
    let Some(nvcc) = toolchain::nvcc() else { return skip_without_nvcc("programs of examples/") };
    let include = format!("-I{}", folder().display());
    let headers = headers();
    let headers: Vec<_> = headers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let left = Mutex::new(programs().into_iter());
    let work = || {
        loop {
            let Some((name, text)) = left.lock().expect("no compiler panics").next() else { break };
            let targets = targets(&text);
            // Nobody looks at the machine code: the assembler is told to take less time for it.
            let mut arguments = vec!["-fatbin", "-Xptxas", "-O1", include.as_str()];
            arguments.extend(targets.iter().map(String::as_str));
            let object = compiled(&nvcc, &name, &text, &arguments, &headers);
            for kernel in ["cached", "loaded"].map(|way| format!("_{way}")) {
                let found = object.windows(kernel.len()).any(|bytes| bytes == kernel.as_bytes());
                assert!(found, "{name}: no kernel NAME{kernel} in the object");
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
}
