//! Every kernel for the architectures of this run: PTX and machine code, registers and spills.
//!
//! What the compiler says is a function of sources and compiler, so it is kept: only what changed is compiled again.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use warpbell_kernels::costs::{ARCHITECTURES, Usage, families, usages};
use warpbell_kernels::{HEADERS, SOURCES, builtin, includes, toolchain};

use crate::architectures::{OF_CHECKS, OURS, of_run};
use crate::kept::{kept, key};
use crate::skip::skip_without_nvcc;

const JOBS: usize = 2;

/// Kernels on their architectures.
#[derive(Default)]
struct Matrix {
    /// By kernel and architecture.
    usages: BTreeMap<(String, u32), Usage>,
    /// What did not compile.
    failures: Vec<String>,
}

#[test]
fn every_kernel_compiles_without_spills() {
    let Some(nvcc) = toolchain::nvcc() else { return skip_without_nvcc("compile matrix") };
    compile_without_spills(&nvcc, &|file| !is_check(file), of_run(&OURS));
}

#[test]
fn every_kernel_of_tests_compiles_without_spills() {
    let Some(nvcc) = toolchain::nvcc() else { return skip_without_nvcc("compile matrix of tests") };
    compile_without_spills(&nvcc, &is_check, of_run(&OF_CHECKS));
}

/// Whether only tests run the kernels of this file: it lies in `checks/`.
fn is_check(file: &str) -> bool {
    file.ends_with("_check.cu") || file == "queue_test.cu"
}

#[test]
fn files_of_checks_are_those_of_their_folder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("checks");
    let names = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<_> = names.filter(|name| name.ends_with(".cu")).collect();
    let told = SOURCES.iter().map(|(name, _)| (*name).to_owned());
    let told: BTreeSet<_> = told.filter(|name| name.ends_with(".cu") && is_check(name)).collect();
    assert_eq!(told, there, "these are compiled for fewer architectures");
}

fn compile_without_spills(nvcc: &Path, chosen: &dyn Fn(&str) -> bool, archs: &[u32]) {
    let kernels = kernels(chosen);
    let matrix = make(nvcc, chosen, archs);
    print(&matrix, &kernels);
    assert!(matrix.failures.is_empty(), "{}", matrix.failures.join("\n"));
    let wanted = kernels.iter().flat_map(|kernel| archs.iter().map(|arch| (kernel.clone(), *arch)));
    let told: BTreeSet<_> = matrix.usages.keys().cloned().collect();
    assert_eq!(told, BTreeSet::from_iter(wanted), "ptxas told of each kernel");
    let spills = |kernel: &str, usage: &Usage| usage.spill_stores + usage.spill_loads > most_spilled(kernel);
    let spills: Vec<_> = matrix.usages.iter().filter(|((kernel, _), usage)| spills(kernel, usage)).collect();
    assert!(spills.is_empty(), "registers spill: {spills:#?}");
}

/// Bytes that a kernel may store and load: some where its file asks for several blocks at once, which takes what is
/// seldom used out of registers; else none.
fn most_spilled(kernel: &str) -> u32 {
    let defines = format!("WARPBELL_KERNEL({kernel},");
    let file = SOURCES.iter().find(|(_, text)| text.contains(&defines));
    let asks = file.is_some_and(|(_, text)| text.contains("#define WARPBELL_MIN_BLOCKS"));
    if asks { 256 } else { 0 }
}

fn make(nvcc: &Path, chosen: &dyn Fn(&str) -> bool, archs: &[u32]) -> Matrix {
    let sources = write_sources();
    let files = by_size().into_iter().filter(|(file, _)| chosen(file));
    let jobs = files.flat_map(|(file, text)| {
        let of_family = move |family: &&'static [u32]| (file, text, *family);
        families(file, text).iter().map(of_family).collect::<Vec<_>>()
    });
    let jobs: Vec<_> = jobs.filter(|(_, _, family)| family.iter().any(|arch| archs.contains(arch))).collect();
    let (jobs, matrix) = (Mutex::new(jobs.into_iter()), Mutex::new(Matrix::default()));
    let work = || {
        while let Some((file, text, family)) = next(&jobs) {
            let codes: Vec<_> = family.iter().filter(|arch| archs.contains(arch)).copied().collect();
            let result = compile(nvcc, sources.path(), (file, text), family[0], &codes);
            let mut matrix = matrix.lock().unwrap();
            match result {
                Ok(said) => matrix
                    .usages
                    .extend(usages(&said).into_iter().map(|(name, usage)| ((name, usage.arch), usage))),
                Err(said) => matrix.failures.push(format!("{file} for {codes:?}:\n{said}")),
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

/// PTX of one file for one architecture, and machine code of it for these; what ptxas said.
fn compile(
    nvcc: &Path,
    sources: &Path,
    (file, text): (&str, &str),
    arch: u32,
    codes: &[u32],
) -> Result<String, String> {
    let machine_code: String = codes.iter().map(|arch| format!("sm_{arch},")).collect();
    let all = format!("arch=compute_{arch},code=[{machine_code}compute_{arch}]");
    let options =
        ["-std=c++20", "-O3", "-fatbin", "-Xptxas", "-v", "-Werror", "all-warnings", "-gencode", &all];
    let run = || {
        let object = sources.join(format!("{file}.{arch}.fatbin"));
        let mut command = Command::new(nvcc);
        command.current_dir(sources).args(options).args(["-I", "include", "-I", "src"]);
        command.arg(format!("src/{file}")).arg("-o").arg(object);
        let crashed = |what: &str| println!("{file} for {codes:?}: nvcc {what}");
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

/// The kernels of these files. Together they are all that the CPU target has in its list.
fn kernels(chosen: &dyn Fn(&str) -> bool) -> Vec<String> {
    let module = warpbell_kernels::cpu::Module::builtin().unwrap();
    let listed: BTreeSet<_> = module.kernels().iter().map(|kernel| kernel.name()).collect();
    assert_eq!(builtin::kernels().map(|(_, name)| name).collect::<BTreeSet<_>>(), listed);
    let of_files = builtin::kernels().filter(|(file, _)| chosen(&format!("{file}.cu")));
    of_files.map(|(_, name)| name.to_owned()).collect()
}

fn print(matrix: &Matrix, kernels: &[String]) {
    println!("registers (spill bytes stored, loaded; stack bytes), where there are any");
    let cells =
        |cell: &dyn Fn(u32) -> String| ARCHITECTURES.map(|arch| format!("{:>18}", cell(arch))).concat();
    println!("registers {:<24}{}", "kernel", cells(&|arch| format!("sm_{arch}")));
    for kernel in kernels {
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
