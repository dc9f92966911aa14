//! Kernels by NVRTC.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::time::Duration;

use warpbell_kernels::image::Format;
use warpbell_kernels::toolchain::{CompileError, CudaImage, Variant};
use warpbell_kernels::{HEADERS, SOURCES, abi, image};

use crate::common;

const SUM: &str = "#include <warpbell/warpbell.cuh>
struct sum_args { warpbell_namespace_ref ns; warpbell_buffer_ref buffer; uint64_t sum; };
WARPBELL_KERNEL(sum, sum_args) {
    warpbell::session<warpbell::sharing::exclusive> session(warpbell::this_warp(), args.ns, 0);
    session.detach(warpbell::this_warp());
}
";

/// Compiles, unless there is no NVRTC: then says so, unless there must be.
pub fn compile(what: &str, variant: &Variant, capability: u32) -> Option<Result<CudaImage, CompileError>> {
    match variant.cuda(capability) {
        Err(absent @ CompileError::NoNvrtc { .. }) => {
            common::skip::skip(what, &format!("{absent} (scripts/cuda-setup installs it)"));
            None
        }
        result => Some(result),
    }
}

fn sum(cache: &Path) -> Variant {
    Variant::text("sum.cu", SUM).cache(cache)
}

#[test]
fn a_users_kernel_becomes_machine_code_where_the_gpu_is_known_and_ptx_where_it_is_newer() {
    let cache = tempfile::tempdir().unwrap();
    for (capability, format, arch) in
        [(75, Format::Cubin, 75), (90, Format::Cubin, 90), (120, Format::Cubin, 120), (999, Format::Ptx, 121)]
    {
        let Some(result) = compile("kernels of users by NVRTC", &sum(cache.path()), capability) else {
            return;
        };
        let image = result.unwrap();
        assert_eq!((image.format, image.arch), (format, arch));
        assert_eq!(image::format_of(&image.bytes), Some(format));
        let again = CudaImage::from_bytes("sum.bin", image.bytes.clone()).unwrap();
        assert_eq!((again.format, again.arch, &again.kernels), (format, arch, &image.kernels));
        let kernel = image.kernel("sum").unwrap();
        let args = size_of::<abi::NamespaceRef>() + size_of::<abi::BufferRef>() + size_of::<u64>();
        assert_eq!((kernel.args_size, image.kernels.len()), (args as u32, 1));
    }
    let error = sum(cache.path()).cuda(70).unwrap_err().to_string();
    assert!(
        error.starts_with("compute capability 7.0: NVRTC 13.") && error.ends_with("75 and newer"),
        "{error}"
    );
}

#[test]
fn the_second_compilation_does_no_work_and_another_source_is_another_result() {
    let cache = tempfile::tempdir().unwrap();
    let folder = || fs::read_dir(cache.path()).unwrap().count();
    let variant = sum(cache.path());
    let Some(first) = compile("the cache of NVRTC's results", &variant, 90) else { return };
    let first = first.unwrap();
    assert!(first.compiled);
    let again = variant.cuda(90).unwrap();
    assert!(!again.compiled && again.bytes == first.bytes && folder() == 1);

    let other_architecture = variant.cuda(80).unwrap();
    let defined = variant.clone().define("MORE=1").cuda(90).unwrap();
    let with_header = variant.clone().header("mine.cuh", "// mine\n").cuda(90).unwrap();
    let changed_header = variant.clone().header("mine.cuh", "// mine too\n").cuda(90).unwrap();
    let all = [other_architecture, defined, with_header, changed_header];
    assert!(all.iter().all(|image| image.compiled) && folder() == 5);

    for entry in fs::read_dir(cache.path()).unwrap().flatten() {
        let bytes = fs::read(entry.path()).unwrap();
        fs::write(entry.path(), &bytes[..bytes.len() / 2]).unwrap();
    }
    let repaired = variant.cuda(90).unwrap();
    assert!(repaired.compiled && repaired.bytes == first.bytes, "half a result counts as none");
    assert!(!variant.cuda(90).unwrap().compiled);
}

#[test]
fn errors_carry_the_users_file_and_line() {
    let cache = tempfile::tempdir().unwrap();
    let broken = Variant::text("broken.cu", "#include <warpbell/warpbell.cuh>\nint wrong = ;\n");
    let Some(result) = compile("NVRTC's errors", &broken.cache(cache.path()), 90) else { return };
    let error = result.unwrap_err();
    assert!(matches!(error, CompileError::Compile { .. }));
    assert!(error.to_string().starts_with("broken.cu does not compile:\nbroken.cu(2): error:"), "{error}");
    let empty = Variant::text("empty.cu", "#include <warpbell/warpbell.cuh>\n").cache(cache.path());
    let error = empty.cuda(90).unwrap_err().to_string();
    assert_eq!(error, "empty.cu: it has no kernel that WARPBELL_KERNEL(name, args) defined");
    let error = sum(cache.path()).header("../mine.cuh", "").cuda(90).unwrap_err().to_string();
    assert_eq!(error, "header '../mine.cuh': expected a relative path without '..'");
    let error = sum(cache.path()).define("A B").cuda(90).unwrap_err().to_string();
    assert_eq!(error, "definition 'A B': expected NAME or NAME=VALUE");
}

#[test]
fn each_public_header_compiles_alone() {
    let public = HEADERS.iter().map(|(name, _)| name).filter(|name| name.matches('/').count() == 1);
    // Twice: guards are part of the promise.
    let include = |header: &&str| format!("#include <{header}>\n#include <{header}>\n");
    let alone = public.clone().map(|header| (75, include(header)));
    // Each alone for the oldest, all together for the newest.
    for (capability, text) in alone.chain([(120, public.map(include).collect())]) {
        // And a kernel, which every image has.
        let text = format!("{text}#include <warpbell/port.cuh>\n{EMPTY}");
        let variant = Variant::text("alone.cu", &text).cache(&kept_images());
        let Some(result) = compile("headers under NVRTC", &variant, capability) else { return };
        result.unwrap_or_else(|error| panic!("{text} for {capability}: {error}"));
    }
}

/// Where images are kept that only show that they can be made.
fn kept_images() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("kept/nvrtc")
}

const EMPTY: &str = "struct no_args { uint64_t zero; };\nWARPBELL_KERNEL(empty, no_args) { (void)args; }\n";

/// Runs one test of this file in a process of its own, with a variable; how that ended, and what it said.
fn by_itself(test: &str, variable: &str, value: &str) -> (ExitStatus, String) {
    let mut child = Command::new(std::env::current_exe().expect("this program has a path"));
    child.args(["--exact", &format!("nvrtc::{test}"), "--show-output"]).env(variable, value);
    let output = child.output().expect("this program runs");
    (output.status, String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Of threads that want NVRTC for the first time: as many, and so far apart, that some come while another loads it.
const THREADS: u32 = 12;
const APART: Duration = Duration::from_millis(4);

/// How often, in a process of its own each time.
const PROCESSES: u32 = 8;

/// Tells such a process that it is one.
const FIRST_USE: &str = "WARPBELL_TEST_FIRST_USE";

#[test]
fn threads_may_want_it_for_the_first_time_at_once() {
    for process in 1..=PROCESSES {
        let (ended, said) = by_itself("each_thread_of_a_process_compiles", FIRST_USE, "1");
        said.lines().filter(|line| line.starts_with("skipped")).for_each(|line| println!("{line}"));
        assert!(ended.success(), "process {process} of {PROCESSES}: {said}");
    }
}

#[test]
fn each_thread_of_a_process_compiles() {
    // Called by the test above; by itself it has one thread.
    let threads = if std::env::var_os(FIRST_USE).is_some() { THREADS } else { 1 };
    let cache = tempfile::tempdir().unwrap();
    let compiles = &|thread: u32| {
        std::thread::sleep(APART * thread);
        let variant = sum(cache.path()).define(&format!("THREAD={thread}"));
        let Some(result) = compile("threads that share NVRTC", &variant, 90) else { return };
        result.unwrap_or_else(|error| panic!("thread {thread}: {error}"));
    };
    std::thread::scope(|scope| {
        (0..threads).for_each(|thread| drop(scope.spawn(move || compiles(thread))));
    });
}

/// Names the kernel file to the process of its own in which it is compiled.
const KERNEL_FILE: &str = "WARPBELL_TEST_KERNEL_FILE";

/// How often a file is tried that crashes NVRTC.
const TRIES: u32 = 24;

/// Each in a process of its own, and again where that crashed: the optimiser in NVRTC 13.0 follows a stray pointer now and
/// then and takes its process with it. Seen with an earlier `bench` alone, in 3 runs of 10.
#[test]
fn each_of_our_kernel_files_compiles() {
    let files =
        SOURCES.iter().filter(|(name, text)| name.ends_with(".cu") && text.contains("WARPBELL_KERNEL("));
    let files: Vec<_> = files.map(|(name, _)| name.trim_end_matches(".cu")).collect();
    assert!(files.len() >= 5);
    let files = Mutex::new(files.into_iter());
    let next = || files.lock().unwrap().next();
    let work = || std::iter::from_fn(next).for_each(compiles_in_a_process_of_its_own);
    std::thread::scope(|scope| {
        let both = [scope.spawn(work), scope.spawn(work)];
        both.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

fn compiles_in_a_process_of_its_own(file: &str) {
    let compiled = (1..=TRIES).any(|attempt| {
        let (ended, said) = by_itself("one_of_our_kernel_files_compiles", KERNEL_FILE, file);
        said.lines()
            .filter(|line| line.starts_with(file) || line.starts_with("skipped"))
            .for_each(|l| println!("{l}"));
        match ended.signal() {
            None => assert!(ended.success(), "{file}: {said}"),
            Some(signal) => {
                println!("{file}: NVRTC ended its process by signal {signal}, attempt {attempt}")
            }
        }
        ended.success()
    });
    assert!(compiled, "{file}: crashes NVRTC each time");
}

#[test]
fn one_of_our_kernel_files_compiles() {
    // Called by the test above; by itself it takes a small one.
    let file = std::env::var(KERNEL_FILE).unwrap_or_else(|_| "digest".to_owned());
    // Where programs look for it too: each takes up to minutes, and tests on the fake driver want the same.
    let variant = Variant::ours().only(&file);
    let Some(result) = compile("our kernels under NVRTC", &variant, 90) else { return };
    let image = result.unwrap_or_else(|error| panic!("{file}: {error}"));
    println!("{file}: {} bytes, {} kernels", image.bytes.len(), image.kernels.len());
}
