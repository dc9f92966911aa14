//! Every kernel for each architecture: PTX and machine code, registers and spills.
//!
//! What the compiler says is a function of sources and compiler, so it is kept: only what changed is compiled again.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use warpbell_kernels::costs::{ARCHITECTURES, Usage, families, usages};
use warpbell_kernels::{HEADERS, SOURCES, includes, toolchain};

use crate::kept::{kept, key};
use crate::skip::skip_without_nvcc;

const JOBS: usize = 2;

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
    let jobs = by_size()
        .into_iter()
        .flat_map(|(file, text)| families(file, text).iter().map(move |family| (file, text, *family)));
    let (jobs, matrix) = (Mutex::new(jobs), Mutex::new(Matrix::default()));
    let work = || {
        while let Some((file, text, family)) = next(&jobs) {
            let result = compile(nvcc, sources.path(), (file, text), family);
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

/// Files that are compiled by themselves, those that take longest first: by the bytes of source that each takes in.
fn by_size() -> Vec<(&'static str, &'static str)> {
    let mut files: Vec<_> = SOURCES.iter().copied().filter(|(name, _)| name.ends_with(".cu")).collect();
    let all: Vec<_> = HEADERS.iter().chain(SOURCES).copied().collect();
    let size = |(name, text): &(&str, &str)| -> usize {
        text.len() + includes::closure(name, text, &all).iter().map(|(_, text)| text.len()).sum::<usize>()
    };
    files.sort_by_key(|file| std::cmp::Reverse(size(file)));
    files
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
fn compile(
    nvcc: &Path,
    sources: &Path,
    (file, text): (&str, &str),
    family: &[u32],
) -> Result<String, String> {
    let arch = family[0];
    let machine_code: String = family.iter().map(|arch| format!("sm_{arch},")).collect();
    let all = format!("arch=compute_{arch},code=[{machine_code}compute_{arch}]");
    let options =
        ["-std=c++20", "-O3", "-fatbin", "-Xptxas", "-v", "-Werror", "all-warnings", "-gencode", &all];
    let run = || {
        let object = sources.join(format!("{file}.{arch}.fatbin"));
        let mut command = Command::new(nvcc);
        command.current_dir(sources).args(options).args(["-I", "include", "-I", "src"]);
        command.arg(format!("src/{file}")).arg("-o").arg(object);
        let crashed = |what: &str| println!("{file} for {family:?}: nvcc {what}");
        let output = toolchain::run_compiler(&mut command, crashed).map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(said.into_bytes()) } else { Err(said) }
    };
    let said = kept(key(nvcc, &options, (file, text), &[]), run)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// PTX of one file for one architecture, below its target.
fn ptx_below_target(nvcc: &Path, sources: &Path, file: &str, arch: u32) -> String {
    let output = sources.join(format!("{file}.{arch}.ptx"));
    let mut command = Command::new(nvcc);
    command.current_dir(sources).args(["-std=c++20", "-O3", "-ptx", "-I", "include", "-I", "src"]);
    command.arg(format!("-arch=compute_{arch}")).arg(format!("src/{file}")).arg("-o").arg(&output);
    let ended = toolchain::run_compiler(&mut command, |what| println!("{file}: nvcc {what}")).unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let text = fs::read_to_string(output).unwrap();
    let (_, below) = text.split_once(".target").unwrap();
    below.split_once('\n').unwrap().1.to_owned()
}

/// Why machine code of a family may be made from the PTX of its first.
#[test]
fn ptx_of_a_family_differs_in_its_target_alone() {
    let Some(nvcc) = toolchain::nvcc() else { return skip_without_nvcc("PTX of families") };
    let sources = write_sources();
    for file in ["queue_test.cu", "replay.cu"] {
        let (_, text) = SOURCES.iter().find(|(name, _)| *name == file).unwrap();
        for family in families(file, text) {
            let first = ptx_below_target(&nvcc, sources.path(), file, family[0]);
            for arch in &family[1..] {
                let other = ptx_below_target(&nvcc, sources.path(), file, *arch);
                assert!(first == other, "{file}: PTX of {arch} is not that of {}", family[0]);
            }
        }
    }
    let of = |file: &str| families(file, SOURCES.iter().find(|(name, _)| *name == file).unwrap().1).len();
    assert_eq!((of("queue_test.cu"), of("stream_check.cu"), of("layers_check.cu")), (3, 4, 2));
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
