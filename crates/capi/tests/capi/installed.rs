//! An installation of the library that this test was built with, and what builds programs against it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::time::SystemTime;

use fake_cuda::harness::FakeDriver;
use tempfile::TempDir;

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Where cargo put the libraries: beside this test.
pub fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Runs `scripts/install` with these options.
pub fn install(options: &[&OsStr]) -> Output {
    install_built(&built(), options)
}

/// The same of what lies in another folder.
pub fn install_built(built: &Path, options: &[&OsStr]) -> Output {
    let mut command = Command::new(root().join("scripts/install"));
    command.arg("--built").arg(built).args(options).env_remove("DESTDIR").output().unwrap()
}

/// One installation for all tests that only look at it, kept under `target`: the first test after a build makes it anew.
pub fn prefix() -> &'static Path {
    static PREFIX: LazyLock<PathBuf> = LazyLock::new(|| {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
        std::fs::create_dir_all(&kept).unwrap();
        let stamp = File::options().create(true).truncate(false).read(true).write(true).open(kept.join("of"));
        let mut stamp = stamp.unwrap();
        // Tests are processes of their own, side by side; the system drops the lock with the process.
        stamp.lock().unwrap();
        let mut of = String::new();
        stamp.read_to_string(&mut of).unwrap();
        if of != build() {
            let output =
                install(&["--libraries".as_ref(), "--prefix".as_ref(), kept.join("prefix").as_os_str()]);
            succeeded("scripts/install", &output);
            stamp.set_len(0).unwrap();
            stamp.rewind().unwrap();
            stamp.write_all(build().as_bytes()).unwrap();
        }
        kept.join("prefix")
    });
    &PREFIX
}

/// What tells one build from the next: when the newest was written of what `scripts/install` copies.
fn build() -> String {
    let libraries = ["libwarpbell_capi.so", "libwarpbell_capi.a"].map(|name| built().join(name));
    let sources = ["crates/capi/include", "crates/capi/packaging", "kernels/include", "scripts/install"];
    let newest =
        sources.iter().map(|path| root().join(path)).chain(libraries).map(|path| written(&path)).max();
    format!("{newest:?}")
}

/// When a file, or the newest file below a folder, was written.
fn written(path: &Path) -> SystemTime {
    let of = |path: &Path| std::fs::metadata(path).unwrap().modified().unwrap();
    if !path.is_dir() {
        return of(path);
    }
    std::fs::read_dir(path)
        .unwrap()
        .map(|entry| written(&entry.unwrap().path()))
        .fold(of(path), SystemTime::max)
}

/// The standard output of a program that must succeed.
pub fn succeeded(what: &str, output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{what}: {}\n{out}{error}", output.status);
    out
}

/// Whether a tool is there; if not, the test is skipped, loudly.
pub fn has(tool: &str, what: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: {what}: no {tool} (scripts/setup installs it)");
    }
    found
}

/// What pkg-config says, in words of the shell.
pub fn pkg_config(options: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig")).args(options).arg("warpbell");
    let output = command.output().unwrap();
    succeeded("pkg-config", &output).split_whitespace().map(str::to_owned).collect()
}

/// Where programs of these tests keep the kernels that they compile.
pub fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi-kernels")
}

/// A program that was built, in a folder of its own.
pub struct Program {
    path: PathBuf,
    _folder: TempDir,
}

impl Program {
    /// Compiles `source` by `compiler`, with `flags` before it and `libraries` behind it.
    pub fn build(compiler: &str, flags: &[&str], source: &Path, libraries: &[String]) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let mut command = Command::new(compiler);
        command.args(flags).arg(source).args(["-x", "none"]).args(libraries).arg("-o").arg(&path);
        succeeded(&format!("{command:?}"), &command.output().unwrap());
        Program { path, _folder: folder }
    }

    /// Runs it: it finds the shared library, and compiles its kernels into a cache of these tests.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(&[]).args(arguments).output().unwrap()
    }

    /// Bytes of its file.
    pub fn size(&self) -> u64 {
        std::fs::metadata(&self.path).unwrap().len()
    }

    /// The same on the fake CUDA driver.
    pub fn run_on(&self, fake_driver: &FakeDriver, arguments: &[&str]) -> Output {
        let mut command = self.command(&[fake_driver.folder()]);
        fake_driver.configure(&mut command).args(arguments).output().unwrap()
    }

    /// With these folders of libraries besides the installed one.
    pub fn command(&self, folders: &[&Path]) -> Command {
        configured(Command::new(&self.path), folders)
    }

    /// As the argument of another program.
    pub fn under(&self, tool: &str, options: &[&str]) -> Command {
        let mut command = Command::new(tool);
        command.args(options).arg(&self.path);
        configured(command, &[])
    }
}

/// Finds the installed library, and keeps kernels in the cache of these tests.
fn configured(mut command: Command, folders: &[&Path]) -> Command {
    let lib = prefix().join("lib");
    let folders = std::iter::once(lib.as_path()).chain(folders.iter().copied());
    command.env("LD_LIBRARY_PATH", std::env::join_paths(folders).unwrap());
    command.env("WARPBELL_CACHE_DIR", cache());
    command
}
