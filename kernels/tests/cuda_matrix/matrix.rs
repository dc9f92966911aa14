//! Every kernel for each architecture: PTX and machine code, registers and spills.
//!
//! The result is a function of sources and compiler, so it is kept: only what changed is compiled again.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use warpbell_kernels::costs::{ARCHITECTURES, Usage, usages};
use warpbell_kernels::{HEADERS, SOURCES, toolchain};

use crate::fnv::Fnv;
use crate::skip::skip_without_nvcc;

const JOBS: usize = 2;

/// Architectures by the PTX that their machine code is made from. The compiler makes the same for compute_100 and for
/// compute_120, except for its target, and takes longer for PTX than for machine code.
const FAMILIES: [&[u32]; 4] = [&[75], &[80], &[90], &[100, 120]];

/// All kernels on all architectures.
#[derive(Default)]
struct Matrix {
    /// By kernel and architecture.
    usages: BTreeMap<(String, u32), Usage>,
    /// What did not compile.
    failures: Vec<String>,
}

#[test]
fn every_kernel_compiles_for_every_architecture_without_spills() {
    let Some(nvcc) = toolchain::nvcc() else { return skip_without_nvcc("compile matrix") };
    let matrix = matrix(&nvcc);
    print(matrix);
    assert!(matrix.failures.is_empty(), "{}", matrix.failures.join("\n"));
    assert_eq!(matrix.usages.len(), kernels().len() * ARCHITECTURES.len(), "ptxas told of each kernel");
    let spills = |usage: &Usage| usage.spill_stores + usage.spill_loads > 0;
    let spills: Vec<_> = matrix.usages.iter().filter(|(_, usage)| spills(usage)).collect();
    assert!(spills.is_empty(), "registers spill: {spills:#?}");
}

/// The matrix, made once for all tests.
fn matrix(nvcc: &Path) -> &'static Matrix {
    static MATRIX: OnceLock<Matrix> = OnceLock::new();
    MATRIX.get_or_init(|| make(nvcc))
}

fn make(nvcc: &Path) -> Matrix {
    let sources = write_sources();
    let files: Vec<_> = SOURCES.iter().map(|(name, _)| *name).filter(|name| name.ends_with(".cu")).collect();
    let jobs = files.iter().flat_map(|file| FAMILIES.map(|family| (*file, family)));
    let (jobs, matrix) = (Mutex::new(jobs), Mutex::new(Matrix::default()));
    let work = || {
        while let Some((file, family)) = next(&jobs) {
            let result = compile(nvcc, sources.path(), file, family);
            let mut matrix = matrix.lock().unwrap();
            match result {
                Ok(said) => matrix
                    .usages
                    .extend(usages(&said).into_iter().map(|(name, usage)| ((name, usage.arch), usage))),
                Err(said) => matrix.failures.push(format!("{file} for {family:?}:\n{said}")),
            }
        }
    };
    std::thread::scope(|scope| (0..JOBS).for_each(|_| drop(scope.spawn(work))));
    matrix.into_inner().unwrap()
}

/// The sources as this build has them: files on disk may change meanwhile.
fn write_sources() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let headers = HEADERS.iter().map(|(name, text)| (format!("include/{name}"), text));
    for (name, text) in headers.chain(SOURCES.iter().map(|(name, text)| (format!("src/{name}"), text))) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn next<T>(jobs: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    jobs.lock().unwrap().next()
}

/// PTX and machine code of one file; what ptxas said.
fn compile(nvcc: &Path, sources: &Path, file: &str, family: &[u32]) -> Result<String, String> {
    let arch = family[0];
    let kept = kept(nvcc, file, arch);
    if let Ok(said) = fs::read_to_string(kept.with_extension("txt")) {
        return Ok(said);
    }
    let machine_code: String = family.iter().map(|arch| format!("sm_{arch},")).collect();
    let all = format!("arch=compute_{arch},code=[{machine_code}compute_{arch}]");
    let mut command = Command::new(nvcc);
    command.args([
        "-std=c++20",
        "-O3",
        "-fatbin",
        "-Xptxas",
        "-v",
        "-Werror",
        "all-warnings",
        "-gencode",
        &all,
    ]);
    command.current_dir(sources).args(["-I", "include"]).arg(format!("src/{file}")).arg("-o").arg(&kept);
    let crashed = |what: &str| println!("{file} for {family:?}: nvcc {what}");
    let output = toolchain::run_compiler(&mut command, crashed).map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(said);
    }
    fs::write(kept.with_extension("txt"), &said).map_err(|error| error.to_string())?;
    Ok(said)
}

/// Where the machine code for these sources and this compiler is kept, with what ptxas said beside it.
fn kept(nvcc: &Path, file: &str, arch: u32) -> PathBuf {
    let shared =
        HEADERS.iter().chain(SOURCES.iter().filter(|(name, _)| name.ends_with(".cuh") || *name == file));
    let hash = shared.fold(Fnv::new(), |hash, (name, text)| hash.text(name).text(text));
    let version =
        Command::new(nvcc).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda_matrix");
    fs::create_dir_all(&folder).unwrap();
    let hash = hash.text(&String::from_utf8_lossy(&version)).hex();
    folder.join(format!("{}-compute_{arch}-{hash}.fatbin", file.trim_end_matches(".cu")))
}

/// All kernels, by the list that the CPU target has of them.
fn kernels() -> Vec<String> {
    let module = warpbell_kernels::cpu::Module::builtin().unwrap();
    module.kernels().iter().map(|kernel| kernel.name().to_owned()).collect()
}

fn print(matrix: &Matrix) {
    println!("registers (spill bytes stored, loaded; stack bytes), where there are any");
    let cells =
        |cell: &dyn Fn(u32) -> String| ARCHITECTURES.map(|arch| format!("{:>18}", cell(arch))).concat();
    println!("registers {:<24}{}", "kernel", cells(&|arch| format!("sm_{arch}")));
    for kernel in kernels() {
        let cell = |arch| match matrix.usages.get(&(kernel.clone(), arch)) {
            None => "-".to_owned(),
            Some(usage) => show(usage),
        };
        println!("registers {kernel:<24}{}", cells(&cell));
    }
}

fn show(usage: &Usage) -> String {
    let Usage { registers, stack, spill_stores, spill_loads, .. } = usage;
    match (spill_stores + spill_loads, *stack) {
        (0, 0) => registers.to_string(),
        (0, _) => format!("{registers} (stack {stack})"),
        _ => format!("{registers} ({spill_stores},{spill_loads};{stack})"),
    }
}
