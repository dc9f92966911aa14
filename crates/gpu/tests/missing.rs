//! What a machine without a driver, or with one that lacks things, is told. Each case is a process of its own, as a
//! driver is loaded once: this test program again, with a library made by the C compiler in its way.

use std::path::Path;
use std::process::Command;

use warpbell_gpu::{Gpu, GpuError};

/// Names the case for the second process.
const CASE: &str = "WARPBELL_GPU_TEST_CASE";

/// Runs this program's test `name` with the library that the C `source` makes; whether it passed, and what it printed.
fn with_driver(name: &str, source: Option<&str>) {
    let folder = tempfile::tempdir().expect("a folder");
    if let Some(source) = source {
        compile(folder.path(), source);
    }
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", name, "--nocapture"])
        .env("LD_LIBRARY_PATH", folder.path())
        .env(CASE, name)
        .output()
        .expect("this program again");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

fn compile(folder: &Path, source: &str) {
    let file = folder.join("driver.c");
    std::fs::write(&file, source).expect("the source written");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([folder.join("libcuda.so.1"), file])
        .status()
        .expect("a C compiler, as for the build");
    assert!(compiled.success());
}

/// Whether this is the second process, for the test that asks.
fn is_second(name: &str) -> bool {
    std::env::var_os(CASE).is_some_and(|case| case == name)
}

/// A driver with one GPU, so far.
const ONE_GPU: &str = "
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
";

#[test]
fn no_library() {
    if !is_second("no_library") {
        return with_driver("no_library", None);
    }
    let error = match Gpu::count() {
        // A driver in the system's own folders is found whatever the variable says.
        Ok(count) => return println!("skipped: this machine has a driver, with {count} GPUs"),
        Err(error) => error,
    };
    assert!(matches!(error, GpuError::NoLibrary { .. }) && error.is_missing_requirement(), "{error}");
    for word in ["no CUDA driver", "libcuda.so.1", "580"] {
        assert!(error.to_string().contains(word), "{error}");
    }
    assert!(
        !error.to_string().contains("--target"),
        "advice for those who have that flag is theirs: {error}"
    );
    assert_eq!(Gpu::open(0).unwrap_err().to_string(), error.to_string(), "the same again");
}

#[test]
fn no_gpu() {
    let source = "
        int cuInit(unsigned flags) { return 100; }
        int cuGetErrorName(unsigned code, const char **text) { *text = \"CUDA_ERROR_NO_DEVICE\"; return 0; }
        int cuGetErrorString(unsigned code, const char **text) { *text = \"no device\"; return 0; }
    ";
    if !is_second("no_gpu") {
        return with_driver("no_gpu", Some(source));
    }
    for _ in 0..2 {
        let error = Gpu::count().unwrap_err();
        assert!(error.is_missing_requirement(), "{error}");
        let text = error.to_string();
        assert!(
            text.starts_with("the CUDA driver: cuInit: CUDA_ERROR_NO_DEVICE (100), no device: nvidia-smi -L")
        );
    }
}

#[test]
fn no_such_number() {
    if !is_second("no_such_number") {
        return with_driver("no_such_number", Some(ONE_GPU));
    }
    let error = Gpu::open(1).unwrap_err();
    assert!(error.is_missing_requirement(), "{error}");
    assert!(error.to_string().starts_with("no GPU 1: the driver shows one, cuda:0;"), "{error}");
}

#[test]
fn a_missing_symbol_is_no_panic() {
    if !is_second("a_missing_symbol_is_no_panic") {
        return with_driver("a_missing_symbol_is_no_panic", Some(ONE_GPU));
    }
    assert_eq!(Gpu::count().unwrap(), 1);
    let error = Gpu::open(0).unwrap_err();
    assert!(error.is_missing_requirement(), "{error}");
    let text = error.to_string();
    assert_eq!(
        text,
        "cuda:0: the CUDA driver has no cuDeviceGetName; update the NVIDIA driver to 580 or newer"
    );
}

#[test]
fn an_unknown_error_is_told_by_its_number() {
    let name = "an_unknown_error_is_told_by_its_number";
    if !is_second(name) {
        let fails = "int cuInit(unsigned flags) { return 98765; }";
        return with_driver(name, Some(fails));
    }
    let text = Gpu::count().unwrap_err().to_string();
    assert!(text.starts_with("the CUDA driver: cuInit: error 98765 (98765)"), "{text}");
}
