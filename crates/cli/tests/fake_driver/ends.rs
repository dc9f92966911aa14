//! How the command ends on a CUDA target before it has run: interrupted, or refused by name.

use std::io::{BufRead, BufReader, Read};
use std::process::Command;

use fake_cuda::harness::FakeDriver;

use super::no_kernels;

/// A compiler at work hears of a signal, as a run does.
#[test]
fn an_interrupt_ends_the_command_while_nvrtc_compiles() {
    if no_kernels() || warpbell_kernels::toolchain::nvrtc_version().is_err() {
        return;
    }
    let cache = tempfile::tempdir().expect("a folder");
    let fake_driver = FakeDriver::new("capability=9.0,driver=12090");
    let mut command: Command = fake_driver.command(env!("CARGO_BIN_EXE_warpbell"));
    command.args(["bench", "soft:size=16m", "--target", "cuda:0", "--api", "array", "--sharing", "shared"]);
    command.env("WARPBELL_CACHE_DIR", cache.path()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    errors.read_line(&mut line).expect("a line");
    assert!(line.contains("compiling bench_array.cu"), "{line}");
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let status = child.wait().expect("it ends");
    let mut rest = String::new();
    errors.read_to_string(&mut rest).expect("words");
    assert_eq!(status.code(), Some(130), "{rest}");
    assert_eq!(rest, "error: interrupted while NVRTC compiled bench_array.cu for compute capability 9.0\n");
    assert_eq!(std::fs::read_dir(cache.path()).expect("it is there").count(), 0, "it did not end by itself");
}

#[test]
fn a_gpu_that_is_not_there_is_refused_with_those_that_are() {
    let fake_driver = FakeDriver::new("");
    let mut command: Command = fake_driver.command(env!("CARGO_BIN_EXE_warpbell"));
    let output = command.args(["digest", "soft:size=1m", "--target", "cuda:9"]).output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(error.contains("target cuda:9: no GPU 9: the driver shows one, cuda:0;"), "{error}");
}

#[test]
fn a_controller_of_another_process_has_no_way_to_gpu_memory_and_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s.sock").display().to_string();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_warpbell"));
    let mut server = serve.args(["serve", "--size", "1m", "--socket", &socket]).spawn().expect("it starts");
    let (fake_driver, device) = (FakeDriver::new(""), format!("vfio-user:{socket}"));
    let mut command: Command = fake_driver.command(env!("CARGO_BIN_EXE_warpbell"));
    let output = command.args(["bench", &device, "--target", "cuda:0", "--data", "hbm"]).output();
    let _ = server.kill();
    server.wait().expect("it was ours");
    let output = output.expect("the command starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{error}");
    let words =
        "it is a controller of another process, which reaches memory of the host alone; --data host works";
    assert!(
        error.contains(&format!("a way for {device} to the memory of")) && error.contains(words),
        "{error}"
    );
}
