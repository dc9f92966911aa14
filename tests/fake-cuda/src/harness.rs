//! For tests: gives processes the fake driver as their driver, and reads what it found.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use warpbell_kernels::toolchain::{CompileError, CudaImage};
use warpbell_kernels::{Error, builtin};

use warpbell_ptx_driver::VARIABLE;

/// Set in a process that [`FakeDriver::child`] started: the test that it runs.
const CHILD: &str = "WARPBELL_FAKE_CUDA_CHILD";

/// Our kernels of a file, for a GPU of this compute capability, as [`unless_absent`] has them.
pub fn kernels(file: &str, capability: u32) -> Option<CudaImage> {
    unless_absent(&format!("{file}.cu for a GPU"), builtin::for_gpu(file, capability))
}

/// What was compiled for a GPU; `None`, and a line that says so, where the machine has no NVRTC to do it. With
/// `WARPBELL_REQUIRE_CUDA=1` that is a failure.
pub fn unless_absent(what: &str, compiled: Result<CudaImage, Error>) -> Option<CudaImage> {
    match compiled {
        Err(Error::Compile(absent @ CompileError::NoNvrtc { .. })) => {
            let required = std::env::var_os("WARPBELL_REQUIRE_CUDA").is_some_and(|value| value == "1");
            assert!(!required, "WARPBELL_REQUIRE_CUDA=1, but {absent}");
            println!("skipped: {what}: {absent} (scripts/cuda-setup installs it)");
            None
        }
        image => Some(image.unwrap_or_else(|error| panic!("{what}: {error}"))),
    }
}

/// A folder with the fake driver under the driver's name, and a log.
pub struct FakeDriver {
    folder: tempfile::TempDir,
    options: String,
    /// Preloaded, where there is one.
    gdrdrv: Option<PathBuf>,
}

impl FakeDriver {
    /// With options of `WARPBELL_FAKE_CUDA`, such as `capability=7.5,alias=no`.
    pub fn new(options: &str) -> FakeDriver {
        let folder = tempfile::tempdir().expect("a folder for the fake driver");
        std::os::unix::fs::symlink(library("fake_cuda"), folder.path().join(NAME))
            .expect("a link to the fake driver");
        FakeDriver { folder, options: options.to_owned(), gdrdrv: None }
    }

    /// With GDRCopy's kernel module of that version.
    pub fn gdrdrv(self, version: &str) -> FakeDriver {
        let options = format!("gdrdrv={version},{}", self.options);
        FakeDriver { options, gdrdrv: Some(library("fake_gdrdrv")), ..self }
    }

    /// A driver that lacks a function.
    pub fn without(self, function: &str) -> FakeDriver {
        let path = self.folder.path().join(NAME);
        let mut bytes = fs::read(&path).expect("the fake driver can be read");
        // A name that nobody looks for, of the same length. Its hash in the symbol table stays that of the old one.
        let name = format!("\0{function}\0");
        let at = bytes.windows(name.len()).position(|window| window == name.as_bytes());
        bytes[at.unwrap_or_else(|| panic!("the fake driver has no {function}")) + 1] = b'_';
        fs::remove_file(&path).expect("the link can be removed");
        fs::write(&path, bytes).expect("the fake driver can be copied");
        self
    }

    /// Where the fake driver lies, for `LD_LIBRARY_PATH`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A command that finds the fake driver where it looks for a driver.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let others = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let folders = std::iter::once(self.folder().to_owned()).chain(std::env::split_paths(&others));
        command.env("LD_LIBRARY_PATH", std::env::join_paths(folders).expect("folders without colons"));
        if let Some(module) = &self.gdrdrv {
            command.env("LD_PRELOAD", module);
        }
        self.configure(&mut command);
        command
    }

    /// The options and the log, for a command that finds the fake driver by itself.
    pub fn configure<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env(VARIABLE, format!("log={},{}", self.log_path().display(), self.options))
    }

    /// Runs `body` in a process of its own, which has the fake driver as its driver: this test program again, with the
    /// test that `body` stands in. What follows in the test is done by the first process alone.
    pub fn child<F: FnOnce()>(&self, body: F) -> Log {
        // `program::module::test::{{closure}}` is the name of a closure of that test.
        let path = std::any::type_name::<F>();
        let test = path.split_once("::").map_or(path, |(_, rest)| rest).trim_end_matches("::{{closure}}");
        if std::env::var(CHILD).is_ok_and(|name| name == test) {
            // It has the first process's.
            let _ = fs::remove_dir_all(self.folder());
            body();
            std::process::exit(0);
        }
        let mut command = self.command(std::env::current_exe().expect("this program has a path"));
        command.args([test, "--exact", "--nocapture", "--include-ignored"]).env(CHILD, test);
        let output = command.output().expect("this program starts again");
        let log = self.log();
        assert!(output.status.success(), "{test}: {}\n{}\n{}", output.status, said(&output), log.0);
        assert!(log.ended(), "{test}: no such test, or it never called the driver\n{}", said(&output));
        log
    }

    /// What the fake driver found so far.
    pub fn log(&self) -> Log {
        Log(fs::read_to_string(self.log_path()).unwrap_or_default())
    }

    fn log_path(&self) -> PathBuf {
        self.folder().join("log")
    }
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).join("\n")
}

/// The driver's name.
const NAME: &str = "libcuda.so.1";

/// The shared library that cargo builds beside the tests.
fn library(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    let folders = program.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(format!("lib{name}.so"))).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("cargo build --workspace puts lib{name}.so beside this program"))
}

/// What the fake driver found.
#[derive(Clone, Debug)]
pub struct Log(String);

impl Log {
    /// Lines of a kind: `violation`, `hazard`, `leak`, `kernel` or `connections`.
    pub fn of(&self, kind: &str) -> Vec<&str> {
        let rest = |line: &'_ str| line.len() - line.trim_start_matches(kind).trim_start_matches(": ").len();
        let lines = self.0.lines().filter(|line| line.split(": ").next() == Some(kind));
        lines.map(|line| &line[rest(line)..]).collect()
    }

    /// Whether each process that wrote it came to its end.
    pub fn ended(&self) -> bool {
        self.0.lines().last().is_some_and(|line| line.starts_with("end: "))
    }

    /// Calls of a function, in all processes together.
    pub fn calls(&self, function: &str) -> u64 {
        let ends = self.0.lines().filter(|line| line.starts_with("end: "));
        let words = ends.flat_map(|line| line.split(' ')).filter_map(|word| word.split_once('='));
        words.filter(|(name, _)| *name == function).filter_map(|(_, count)| count.parse::<u64>().ok()).sum()
    }

    /// Fails the test unless nothing was done wrong and nothing is left.
    pub fn assert_clean(&self) {
        assert!(self.ended(), "the process did not end by itself: {}", self.0);
        for kind in ["violation", "hazard", "leak", "kernel"] {
            assert!(self.of(kind).is_empty(), "{}", self.0);
        }
    }
}
