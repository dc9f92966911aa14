//! The C++ compiler at work in a cache folder.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io};

use super::VariantError;
use crate::{EXECUTOR, HEADERS, SOURCES};

/// The sanitizer that this build's C++ has: a module must have the same.
const SANITIZER: &str = env!("WARPBELL_CPU_SANITIZER");

/// A compiler and how it is to be called.
pub(super) struct Compiler {
    path: PathBuf,
    level: &'static str,
}

impl Compiler {
    /// A compiler that is set, the one that compiled the built-in module, or the first that is found.
    pub(super) fn find(optimise: bool) -> Result<Compiler, VariantError> {
        let is_set = |name| env::var_os(name).is_some_and(|cxx| !cxx.is_empty());
        let built_with =
            Some(env!("WARPBELL_CPU_COMPILER")).filter(|name| !name.is_empty()).map(PathBuf::from);
        let path = if is_set("WARPBELL_CXX") || is_set("CXX") {
            super::cxx_candidates().into_iter().next()
        } else {
            built_with.into_iter().chain(super::cxx_candidates()).find(|name| runs(name.as_os_str()))
        };
        let level = if optimise && SANITIZER.is_empty() { "-O2" } else { "-O1" };
        path.map(|path| Compiler { path, level }).ok_or(VariantError::NoCompiler)
    }

    /// What besides the sources decides about results.
    pub(super) fn identity(&self) -> String {
        format!("{} {} {SANITIZER}", self.path.display(), self.level)
    }

    /// The executor's objects, compiled now if they are not in the cache.
    pub(super) fn executor(&self, cache: &Path, hash: &str) -> Result<Vec<PathBuf>, VariantError> {
        let folder = cache.join(format!("executor-{hash}"));
        if !folder.is_dir() {
            let work = Work::new(cache, hash)?;
            let files: Vec<_> =
                EXECUTOR.iter().map(|(name, _)| *name).filter(|name| name.ends_with(".cpp")).collect();
            let objects = work.folder.join("objects");
            create(&objects)?;
            let mut command = self.command(&objects);
            command.args(["-c", "-I.."]).args(files.iter().map(|name| format!("../{name}")));
            self.run(command, "the CPU executor")?;
            work.keep(&objects, &folder)?;
        }
        let entries = fs::read_dir(&folder).map_err(failed(&folder))?.flatten();
        Ok(entries.map(|entry| entry.path()).collect())
    }

    /// Compiles files of the work folder and links them with the executor.
    pub(super) fn link(
        &self,
        work: &Work,
        files: &[String],
        flags: impl Iterator<Item = String>,
        executor: &[PathBuf],
        what: &str,
    ) -> Result<PathBuf, VariantError> {
        let object = work.folder.join("module.so");
        let mut command = self.command(&work.folder);
        // Each module calls its own kernels and executor, even where the program exports others of that name.
        command.args(["-shared", "-Wl,-Bsymbolic", "-Iinclude", "-I."]).args(flags).args(files);
        command.args(["-x", "none"]).args(executor).arg("-o").arg(&object);
        self.run(command, what)?;
        Ok(object)
    }

    fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(folder).args(["-std=c++20", "-fPIC", "-pthread", "-w", self.level]);
        if !SANITIZER.is_empty() {
            command.args(["-g".to_owned(), format!("-fsanitize={SANITIZER}")]);
        }
        command.args(["-x", "c++"]);
        command
    }

    fn run(&self, mut command: Command, what: &str) -> Result<(), VariantError> {
        let run = |source| VariantError::Run { compiler: self.path.clone(), source };
        let output = command.output().map_err(run)?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let text = text.lines().take(20).collect::<Vec<_>>().join("\n");
        Err(VariantError::Compile { what: what.to_owned(), text })
    }
}

/// A folder of one's own beside the results, with all sources in it; others may compile the same meanwhile.
pub(super) struct Work {
    folder: PathBuf,
}

impl Work {
    pub(super) fn new(cache: &Path, hash: &str) -> Result<Work, VariantError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let work = Work { folder: cache.join(format!("work-{hash}-{}-{number}", std::process::id())) };
        let headers = HEADERS.iter().map(|(name, text)| (format!("include/{name}"), *text));
        let executor = EXECUTOR.iter().map(|(name, text)| ((*name).to_owned(), *text));
        let kernels = SOURCES.iter().map(|(name, text)| (format!("src/{name}"), *text));
        for (name, text) in headers.chain(executor).chain(kernels) {
            work.write(&name, text)?;
        }
        Ok(work)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), VariantError> {
        let path = self.folder.join(name);
        path.parent().map_or(Ok(()), create)?;
        fs::write(&path, text).map_err(failed(&path))
    }

    /// Moves a result to its place in the cache, unless another process was faster.
    pub(super) fn keep(&self, result: &Path, place: &Path) -> Result<(), VariantError> {
        match fs::rename(result, place) {
            Err(error) if !place.exists() => Err(failed(place)(error)),
            _ => Ok(()),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What is left of it is of no further use; that it cannot be removed is no failure.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn create(folder: &Path) -> Result<(), VariantError> {
    fs::create_dir_all(folder).map_err(failed(folder))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> VariantError {
    let path = path.to_owned();
    move |source| VariantError::File { path, source }
}

fn runs(compiler: &OsStr) -> bool {
    Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success())
}
