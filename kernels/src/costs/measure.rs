//! Compiling the probes, and counting.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{fs, io};

use super::count::Unknown;
use super::families;
use super::figures::{Figure, Figures};
use super::ptxas::{Usage, usages};
use super::sass::{Function, functions};
use super::table::{CostTable, Probe, Row, laboratory, source_hash};
use crate::toolchain::run_compiler;
use crate::{HEADERS, PROBES};

/// Compilers at a time.
const JOBS: usize = 2;

/// Why costs could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// There is no disassembler beside the compiler.
    #[error("no cuobjdump beside {}: install nvidia-cuda-cuobjdump (scripts/cuda-setup does)", nvcc.display())]
    NoDisassembler {
        /// The compiler.
        nvcc: PathBuf,
    },
    /// A program does not run, or a file cannot be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The program or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A program refuses its input.
    #[error("{program} refuses {what}:\n{said}")]
    Failed {
        /// nvcc or cuobjdump.
        program: String,
        /// Its input.
        what: String,
        /// What it said.
        said: String,
    },
    /// An instruction that nobody has classified.
    #[error("{kernel} for sm_{arch}: {source}")]
    Unknown {
        /// The kernel.
        kernel: String,
        /// The architecture.
        arch: u32,
        /// The instruction.
        source: Unknown,
    },
    /// The disassembly lacks a kernel that ptxas told of.
    #[error("{kernel} for sm_{arch}: cuobjdump does not show it")]
    NotShown {
        /// The kernel.
        kernel: String,
        /// The architecture.
        arch: u32,
    },
}

/// Machine code of one file for one architecture.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// What ptxas says of its kernels.
    pub usages: Vec<(String, Usage)>,
    /// Their instructions.
    pub functions: Vec<Function>,
}

/// Compiles one CUDA source against the device library, with further arguments for nvcc, and disassembles it.
pub fn compile(
    nvcc: &Path,
    name: &str,
    text: &str,
    arch: u32,
    arguments: &[String],
) -> Result<Compiled, MeasureError> {
    let mut compiled = compile_family(nvcc, name, text, &[arch], arguments)?;
    Ok(compiled.remove(0))
}

/// Like [`compile`], for several architectures from the PTX of the first: one result for each.
pub fn compile_family(
    nvcc: &Path,
    name: &str,
    text: &str,
    family: &[u32],
    arguments: &[String],
) -> Result<Vec<Compiled>, MeasureError> {
    let cuobjdump = nvcc.with_file_name("cuobjdump");
    if !cuobjdump.is_file() {
        return Err(MeasureError::NoDisassembler { nvcc: nvcc.to_owned() });
    }
    let folder = tempfile::tempdir().map_err(|source| failed(Path::new("temporary folder"), source))?;
    write(folder.path(), HEADERS)?;
    write(folder.path(), PROBES)?;
    write(&folder.path().join("src"), &laboratory().copied().collect::<Vec<_>>())?;
    write(folder.path(), &[(name, text)])?;
    let object = folder.path().join("out.fatbin");
    let mut command = Command::new(nvcc);
    command.current_dir(folder.path()).args([
        "-std=c++20",
        "-O3",
        "-fatbin",
        "-Xptxas",
        "-v",
        "-I",
        ".",
        "-I",
        "src",
    ]);
    let codes: Vec<_> = family.iter().map(|arch| format!("sm_{arch}")).collect();
    let target = format!("arch=compute_{},code=[{}]", family[0], codes.join(","));
    command.arg("-gencode").arg(target).args(arguments).arg(name).arg("-o").arg(&object);
    let what = format!("{name} for {}", codes.join(", "));
    let said = usages(&run(&mut command, &what)?.1);
    let shown = |arch: &u32| {
        let mut command = Command::new(&cuobjdump);
        let sass = run(command.args(["-sass", "-arch", &format!("sm_{arch}")]).arg(&object), &what)?.0;
        let usages = said.iter().filter(|(_, usage)| usage.arch == *arch).cloned().collect();
        Ok(Compiled { usages, functions: functions(&sass) })
    };
    family.iter().map(shown).collect()
}

fn write(folder: &Path, files: &[(&str, &str)]) -> Result<(), MeasureError> {
    for (name, text) in files {
        let path = folder.join(name);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
        made.map_err(|source| failed(&path, source))?;
    }
    Ok(())
}

fn failed(path: &Path, source: io::Error) -> MeasureError {
    MeasureError::Io { path: path.to_owned(), source }
}

/// Standard output and standard error.
fn run(command: &mut Command, what: &str) -> Result<(String, String), MeasureError> {
    let program = PathBuf::from(command.get_program());
    let output = run_compiler(command, |_| {}).map_err(|source| failed(&program, source))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        let program = program.display().to_string();
        return Err(MeasureError::Failed { program, what: what.to_owned(), said });
    }
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), said))
}

/// The figures of all probes, by the compiler `nvcc`.
pub fn measure(nvcc: &Path) -> Result<CostTable, MeasureError> {
    let files = PROBES.iter().filter(|(name, _)| name.ends_with(".cu"));
    let jobs =
        files.flat_map(|(name, text)| families(name, text).iter().map(move |family| (name, text, *family)));
    let jobs: Vec<_> = jobs.collect();
    let (next, rows) = (Mutex::new(jobs.into_iter()), Mutex::new(Ok(Vec::new())));
    let take = || lock(&next).next();
    let work = || {
        while let Some((name, text, family)) = take() {
            let found = measure_file(nvcc, name, text, family);
            let mut rows = lock(&rows);
            match (&mut *rows, found) {
                (Ok(rows), Ok(found)) => rows.extend(found),
                (Ok(_), Err(error)) => *rows = Err(error),
                (Err(_), _) => return,
            }
        }
    };
    std::thread::scope(|scope| (0..JOBS).for_each(|_| drop(scope.spawn(work))));
    let mut rows = rows.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)?;
    rows.sort_by(|a, b| (&a.probe, a.arch).cmp(&(&b.probe, b.arch)));
    Ok(CostTable { compiler: version(nvcc)?, source_hash: source_hash(), rows })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn measure_file(nvcc: &Path, name: &str, text: &str, family: &[u32]) -> Result<Vec<Row>, MeasureError> {
    let layer = name.trim_end_matches(".cu");
    let free = compile_family(nvcc, name, text, family, &[])?;
    let bound = Figures::bound(layer).map(|bound| format!("-DWARPBELL_PROBE_REGISTERS={bound}"));
    let bounded = bound.map(|bound| compile_family(nvcc, name, text, family, &[bound])).transpose()?;
    let bounded = bounded.unwrap_or_else(|| vec![Compiled::default(); family.len()]);
    let mut rows = Vec::new();
    for ((arch, free), bounded) in family.iter().zip(&free).zip(&bounded) {
        rows.extend(rows_of(*arch, free, bounded)?);
    }
    Ok(rows)
}

fn rows_of(arch: u32, free: &Compiled, bounded: &Compiled) -> Result<Vec<Row>, MeasureError> {
    let rows = free.usages.iter().filter_map(|(kernel, usage)| {
        let probe = Probe::of_kernel(kernel)?;
        let whole = figures(kernel, arch, usage, free)
            .and_then(|whole| with_bounded(whole, kernel, arch, free, bounded));
        Some(whole.map(|whole| Row { probe, arch, whole }))
    });
    rows.collect()
}

fn machine_code<'a>(kernel: &str, arch: u32, compiled: &'a Compiled) -> Result<&'a Function, MeasureError> {
    let found = compiled.functions.iter().find(|function| function.name == kernel);
    found.ok_or_else(|| MeasureError::NotShown { kernel: kernel.to_owned(), arch })
}

/// The figures without a bound.
fn figures(kernel: &str, arch: u32, usage: &Usage, compiled: &Compiled) -> Result<Figures, MeasureError> {
    let mut figures = machine_code(kernel, arch, compiled)?
        .count()
        .map_err(|source| MeasureError::Unknown { kernel: kernel.to_owned(), arch, source })?;
    figures[Figure::Registers] = i64::from(usage.registers);
    figures[Figure::StackBytes] = i64::from(usage.stack);
    figures[Figure::SpillBytes] = spilled(usage);
    Ok(figures)
}

fn with_bounded(
    mut whole: Figures,
    kernel: &str,
    arch: u32,
    free: &Compiled,
    bounded: &Compiled,
) -> Result<Figures, MeasureError> {
    let Some((_, usage)) = bounded.usages.iter().find(|(name, _)| name == kernel) else { return Ok(whole) };
    let inline = |of| machine_code(kernel, arch, of).map(Function::inline_local_sites);
    whole[Figure::RegistersBounded] = i64::from(usage.registers);
    whole[Figure::SpillBoundedBytes] = spilled(usage);
    whole[Figure::InlineSpillBoundedSites] = inline(bounded)? - inline(free)?;
    Ok(whole)
}

fn spilled(usage: &Usage) -> i64 {
    i64::from(usage.spill_stores) + i64::from(usage.spill_loads)
}

fn version(nvcc: &Path) -> Result<String, MeasureError> {
    let text = run(Command::new(nvcc).arg("--version"), "--version")?.0;
    let version = text.split_once(", V").and_then(|(_, rest)| rest.split_whitespace().next());
    Ok(format!("nvcc {}", version.unwrap_or("of an unknown version")))
}
