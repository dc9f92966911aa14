//! The C++ compiler at work in a cache folder.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use super::CompileError;
use super::cache::{Cache, WorkFolder, create, failed};
use super::error::first_lines;
use super::find::chosen_cxx;
use crate::{EXECUTOR, HEADERS, SOURCES};

/// The sanitizer that this build's C++ has: a module must have the same.
const SANITIZER: &str = env!("WARPBELL_CPU_SANITIZER");

/// A compiler and how it is to be called.
pub(super) struct Compiler {
    path: PathBuf,
    /// What it says of itself.
    version: String,
    level: &'static str,
}

impl Compiler {
    /// A compiler that is set, the one that compiled the built-in module, or the first that is found.
    pub(super) fn find(optimise: bool) -> Result<Compiler, CompileError> {
        let level = if optimise && SANITIZER.is_empty() { "-O2" } else { "-O1" };
        if let Some((variable, value)) = chosen_cxx() {
            let path = PathBuf::from(value);
            let named = |error: VersionError| CompileError::NamedCompiler {
                variable,
                value: path.clone(),
                reason: error.to_string(),
            };
            let version = version(path.as_os_str()).map_err(named)?;
            return Ok(Compiler { path, version, level });
        }
        let built_with =
            Some(env!("WARPBELL_CPU_COMPILER")).filter(|name| !name.is_empty()).map(PathBuf::from);
        let mut candidates = built_with.into_iter().chain(super::cxx_candidates());
        let found = candidates.find_map(|path| Some((version(path.as_os_str()).ok()?, path)));
        found.map(|(version, path)| Compiler { path, version, level }).ok_or(CompileError::NoCompiler)
    }

    /// What besides the sources decides about results.
    pub(super) fn identity(&self) -> String {
        format!("{} {} {SANITIZER} {}", self.path.display(), self.level, self.version)
    }

    /// The executor as one object, compiled now if it is not in the cache.
    pub(super) fn executor(&self, cache: &Cache, hash: &str) -> Result<PathBuf, CompileError> {
        let name = format!("executor-{hash}.o");
        if let Some(object) = cache.file(&name) {
            return Ok(object);
        }
        let work = Work::new(cache)?;
        let files: Vec<_> =
            EXECUTOR.iter().map(|(name, _)| *name).filter(|name| name.ends_with(".cpp")).collect();
        let objects = work.folder.path().join("objects");
        create(&objects)?;
        let mut command = self.command(&objects);
        command.args(["-c", "-I..", "-I../include"]).args(files.iter().map(|name| format!("../{name}")));
        self.run(command, "the CPU executor")?;
        let parts = fs::read_dir(&objects).map_err(failed(&objects))?.flatten();
        let mut command = Command::new(&self.path);
        command.current_dir(work.folder.path()).args(["-r", "-nostdlib", "-o", "executor.o"]);
        command.args(parts.map(|part| part.path()));
        self.run(command, "the CPU executor")?;
        self.check_made(&work, "executor.o")?;
        work.keep("executor.o", cache, &name)
    }

    /// Compiles files of the work folder and links them with the executor.
    pub(super) fn link(
        &self,
        work: &Work,
        files: &[String],
        flags: impl Iterator<Item = String>,
        executor: &Path,
        what: &str,
    ) -> Result<(), CompileError> {
        let mut command = self.command(work.folder.path());
        // Each module calls its own kernels and executor, even where the program exports others of that name.
        command
            .args(["-shared", "-Wl,-Bsymbolic", "-Iinclude", "-I.", "-Isrc", "-Iuser"])
            .args(flags)
            .args(files);
        command.args(["-x", "none"]).arg(executor).args(["-o", MODULE]);
        self.run(command, what)?;
        self.check_made(work, MODULE)
    }

    fn check_made(&self, work: &Work, result: &str) -> Result<(), CompileError> {
        let made = work.folder.path().join(result).is_file();
        made.then_some(()).ok_or_else(|| CompileError::NoResult { compiler: self.path.clone() })
    }

    fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(folder).args(["-std=c++20", "-fPIC", "-pthread", "-w", self.level]);
        command.arg("-DWARPBELL_LOADED_MODULE");
        if !SANITIZER.is_empty() {
            command.args(["-g".to_owned(), format!("-fsanitize={SANITIZER}")]);
        }
        command.args(["-x", "c++"]);
        command
    }

    fn run(&self, mut command: Command, what: &str) -> Result<(), CompileError> {
        let run = |source| CompileError::Run { compiler: self.path.clone(), source };
        let output = command.output().map_err(run)?;
        if output.status.success() {
            return Ok(());
        }
        let text = first_lines(&String::from_utf8_lossy(&output.stderr));
        Err(CompileError::Compile { what: what.to_owned(), text })
    }
}

/// What [`Compiler::link`] makes in the work folder.
pub(super) const MODULE: &str = "module.so";

/// A folder of one's own in the cache, with all sources in it; others may compile the same meanwhile.
pub(super) struct Work {
    folder: WorkFolder,
}

impl Work {
    pub(super) fn new(cache: &Cache) -> Result<Work, CompileError> {
        let work = Work { folder: cache.work_folder()? };
        let headers = HEADERS.iter().map(|(name, text)| (format!("include/{name}"), *text));
        let executor = EXECUTOR.iter().map(|(name, text)| ((*name).to_owned(), *text));
        let kernels = SOURCES.iter().map(|(name, text)| (format!("src/{name}"), *text));
        for (name, text) in headers.chain(executor).chain(kernels) {
            work.write(&name, text)?;
        }
        Ok(work)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), CompileError> {
        let path = self.folder.path().join(name);
        path.parent().map_or(Ok(()), create)?;
        fs::write(&path, text).map_err(failed(&path))
    }

    /// Moves a result into the cache.
    pub(super) fn keep(&self, result: &str, cache: &Cache, name: &str) -> Result<PathBuf, CompileError> {
        let path = self.folder.path().join(result);
        cache.keep(name, fs::read(&path).map_err(failed(&path))?)
    }
}

/// Why a compiler does not say what it is.
#[derive(Debug, thiserror::Error)]
enum VersionError {
    #[error("cannot be run: {0}")]
    Run(io::Error),
    #[error("--version fails ({0})")]
    Failed(ExitStatus),
}

/// What a compiler says of itself.
fn version(compiler: &OsStr) -> Result<String, VersionError> {
    let output = Command::new(compiler).arg("--version").output();
    let output = output.map_err(VersionError::Run)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(VersionError::Failed(output.status))
}
