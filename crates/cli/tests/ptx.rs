// UNSAFETY: launches kernels of its own.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]
//! `--target ptx`: what NVRTC makes for a GPU runs here, with the answers of the CPU target, and what a kernel does wrong is
//! told with its line.

use std::process::{Command, Output};

use warpbell::abi::BufferRef;
use warpbell::{AttachOptions, CompileOptions, DeviceName, OpenOptions, Program, Ssd, Target};

/// Whether nothing here compiles kernels to PTX.
fn no_kernels() -> bool {
    let digest = warpbell_kernels::toolchain::Variant::ours().only("digest");
    fake_cuda::harness::unless_absent("PTX of digest.cu", digest.ptx(75).map_err(Into::into)).is_none()
}

fn warpbell(arguments: &[&str], options: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpbell"));
    command.args(arguments).env("WARPBELL_PTX", options).output().expect("the command starts")
}

fn text(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let expected = |line: &&str| line.starts_with("compiling ") || line.starts_with("--resume ");
    let said = error.lines().find(|line| !expected(line));
    assert_eq!(said, None, "nothing else is said beside the result");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_digest_is_the_files_checksum() {
    if no_kernels() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    let bytes: Vec<u8> = (0..300_001u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&path, &bytes).expect("a file");
    let device = format!("soft:file={}", path.display());
    let output = text(&warpbell(&["digest", &device, "--target", "ptx"], ""));
    assert!(output.contains(&format!("crc32c {:08x}, 300001 bytes", crc32c::crc32c(&bytes))), "{output}");
    assert!(output.contains("target ptx (PTX machine, no GPU, as of 9.0)"), "{output}");
}

#[test]
fn verified_writes_are_right_on_each_architecture_and_in_weak_memory() {
    if no_kernels() {
        return;
    }
    for (options, told) in [
        ("capability=7.5", "as of 7.5"),
        ("capability=8.0,weak=7", "as of 8.0, weak=7"),
        ("capability=9.0", "as of 9.0"),
        ("weak=3", "as of 9.0, weak=3"),
    ] {
        let arguments = [
            &["bench", "soft:size=16m", "--target", "ptx", "--rw", "randrw", "--verify", "crc32c"][..],
            &[
                "--sharing",
                "shared",
                "--warps",
                "2",
                "--iodepth",
                "8",
                "--size",
                "128k",
                "--io-limit",
                "128k",
                "-o",
                "json",
            ],
        ];
        let output = text(&warpbell(&arguments.concat(), options));
        let json: serde_json::Value = serde_json::from_str(&output).expect("the result is JSON");
        let results = json.as_array().map_or(&json, |reports| &reports[0]);
        assert_eq!(results["target"], format!("ptx (PTX machine, no GPU, {told})"), "{options}");
        assert_eq!((&results["errors"], &results["violations"]), (&0.into(), &0.into()), "{options}");
        let verify = &results["runs"][0]["verify"];
        assert!(verify["blocks"].as_u64() > Some(0) && verify["mismatches"] == 0, "{options}: {verify}");
    }
}

#[test]
fn a_result_is_resumed_by_a_machine_with_the_same_options_alone() {
    if no_kernels() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("runs.json");
    let bench = |target: &str, more: &[&str], options: &str| {
        let arguments = ["bench", "soft:size=1m", "--target", target, "--io-limit", "4k", "-o", "json"];
        warpbell(&[&arguments, more].concat(), options)
    };
    let resume = ["--resume", path.to_str().expect("a path")];
    for (options, others) in [
        ("", &["weak=7", "memory=512m", "bar=64m", "multiprocessors=3", "races=yes", "capability=8.0"][..]),
        ("weak=7,memory=512m", &["", "weak=8,memory=512m", "weak=7", "weak=7,memory=256m"]),
    ] {
        std::fs::write(&path, text(&bench("ptx", &[], options))).expect("a file");
        let json: serde_json::Value =
            serde_json::from_str(&text(&bench("ptx", &resume, options))).expect("JSON");
        let results = json.as_array().map_or(&json, |reports| &reports[0]);
        assert_eq!(results["resumed_from"].as_array().map(Vec::len), Some(1), "{options}: {results}");
        let by_name = ("ptx:memory=128m", "");
        let by_variable = others.iter().map(|other| ("ptx", *other));
        for (target, other) in by_variable.chain([by_name]) {
            let output = bench(target, &resume, other);
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "'{options}' by {target} with '{other}': {error}");
            let said = if target == "ptx" { "its target was" } else { "it was made by" };
            assert!(error.contains("--resume") && error.contains(said), "{error}");
        }
    }
}

#[test]
fn wrong_options_are_refused_with_what_they_must_be() {
    for (options, said) in [
        ("weak=few", "WARPBELL_PTX: weak=few: must be the number of a seed"),
        ("capability=6.0", "WARPBELL_PTX: capability=6.0: must be 7.5 to 12.1"),
        ("weak=7, races=maybe", "WARPBELL_PTX: races=maybe: must be yes, no or shared"),
        ("speed=9", "WARPBELL_PTX: speed=9: expected KEY=VALUE with KEY one of capability,"),
    ] {
        let output = warpbell(&["digest", "soft:size=1m", "--target", "ptx"], options);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options}: {error}");
        assert!(error.contains(said), "{options}: {error}");
    }
    for (target, said) in [
        ("ptx:", "expected cpu, ptx, ptx:OPTIONS such as ptx:memory=1g"),
        ("ptx:memory=1x", "target ptx: memory=1x: must be a size from 1 to 256g, such as 1g"),
        ("ptx:bar=all", "target ptx: bar=all: must be a size, such as 256m"),
    ] {
        let output = warpbell(&["digest", "soft:size=1m", "--target", target], "");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{target}: {error}");
        assert!(error.contains(said), "{target}: {error}");
    }
}

/// In a process that has the machine already.
#[test]
fn a_process_has_one_machine_with_the_options_of_its_first_target() {
    let open = |name: &str| name.parse::<Target>().expect("a target").open();
    let gpu = |name: &str| open(name).map(|opened| opened.gpu().expect("a GPU").info().clone());
    let first = gpu("ptx:memory=64m,multiprocessors=3").expect("it is built in");
    assert_eq!((first.memory, first.multiprocessors), (64 << 20, 3));
    for same in ["ptx", "ptx:multiprocessors=3,memory=65536k"] {
        assert_eq!(gpu(same).expect("the same machine").memory, 64 << 20, "{same}");
    }
    let other = gpu("ptx:memory=1g").expect_err("another machine").to_string();
    assert!(other.starts_with("target ptx: memory=1g: the PTX machine of this process has other"), "{other}");
    let opened = open("ptx").expect("the machine");
    let gpu = opened.gpu().expect("a GPU");
    let full = gpu.allocate(65 << 20).expect_err("more than there is").to_string();
    assert!(full.contains("the target ptx:memory=SIZE has more"), "{full}");
    for image in [&b"\x7fELF cubin"[..], b"\x50\xed\x55\xba fat"] {
        let refused = gpu.load("mine", image).expect_err("no PTX").to_string();
        assert!(refused.starts_with("ptx: module mine: a cubin or a fat binary"), "{refused}");
        assert!(refused.contains("nvcc -ptx -lineinfo"), "{refused}");
    }
}

/// Kernels with a defect each, where `wrong` is not 0.
const SOURCE: &str = r#"
#include <warpbell/warpbell.cuh>
using namespace warpbell;
struct planted_args { warpbell_buffer_ref data; uint64_t wrong, own; };

WARPBELL_KERNEL(outside, planted_args) {
    uint32_t* words = dma_span(args.data).data<uint32_t>();
    words[(args.wrong << 40) + port::lane()] = 1;  // LINE: outside
}

WARPBELL_KERNEL(unsynced, planted_args) {
    __shared__ uint32_t shared[32];
    shared[port::lane()] = port::lane();  // LINE: unsynced
    if (args.wrong == 0) { __syncwarp(); }
    dma_span(args.data).data<uint32_t>()[blockIdx.x * 32 + port::lane()] = shared[31 - port::lane()];  // LINE: unsynced
}

WARPBELL_KERNEL(unwritten, planted_args) {
    uint64_t* words = reinterpret_cast<uint64_t*>(args.own) + args.wrong * 512;
    words[port::lane()] += 1;  // LINE: unwritten
}

WARPBELL_KERNEL(stale, planted_args) {
    uint32_t* flag = dma_span(args.data).data<uint32_t>() + 512;
    uint32_t found = 0;
    if (blockIdx.x == 0 && port::lane() == 0) {
        asm volatile("st.release.gpu.u32 [%0], 1;" ::"l"(flag) : "memory");  // LINE: stale
    }
    for (int i = 0; blockIdx.x == 1 && port::lane() == 0 && found == 0 && i < 1000; ++i) {
        if (args.wrong == 0) {
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(found) : "l"(flag) : "memory");
        } else {
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(found) : "l"(flag) : "memory");  // LINE: stale
        }
    }
}
"#;

/// As in the source.
#[derive(zerocopy::IntoBytes, zerocopy::Immutable)]
#[repr(C)]
struct Args {
    data: BufferRef,
    wrong: u64,
    /// Memory of the GPU: 4096 zeroed bytes. What the driver gave is longer, for the sake of its alignment.
    own: u64,
}

/// The target that a kernel of the source runs on, by its name.
fn target_of(kernel: &str) -> &'static str {
    match kernel {
        "outside" => "ptx",
        "unwritten" => "ptx:init=yes",
        _ => "ptx:races=yes",
    }
}

/// What blocks of a kernel of the source end with: two, or one where they would race.
fn run(kernel: &str, wrong: u64) -> Result<(), String> {
    let target: Target = target_of(kernel).parse().expect("a target");
    let target = target.open().expect("it is built in");
    // SAFETY: it is compiled for the PTX machine, and nothing of it runs here.
    let program = unsafe { Program::compile(&target, "planted.cu", SOURCE, &CompileOptions::default()) };
    let program = program.expect("it compiles");
    assert!(program.code().to_string().starts_with("PTX for compute_90"), "{}", program.code());
    let name: DeviceName = "soft:size=1m".parse().expect("a device");
    let ssd = Ssd::open(&name, &OpenOptions::default()).expect("a soft SSD");
    let queues = ssd.attach(&AttachOptions::new().target(target.target())).expect("queues");
    let data = queues.buffer(4096).expect("a buffer");
    let own = target.gpu().expect("a GPU").allocate(4096).expect("memory");
    let args = Args { data: data.as_ref(), wrong, own: own.address() };
    // SAFETY: the PTX machine ends the kernel before it touches what is not its own.
    let launch = unsafe { program.launch(&queues, kernel, &args) }.expect("arguments");
    let launch = launch.grid(if kernel == "unwritten" { 1 } else { 2 });
    let ended = launch.start().and_then(|running| running.join());
    ended.map(drop).map_err(|error| error.to_string())
}

/// Names the process that runs a kernel: the machine reads its options once, and a fault ends its context.
const PLANTED: &str = "WARPBELL_TEST_PLANTED";

#[test]
fn what_a_kernel_does_wrong_is_told_with_the_line_of_its_source() {
    if let Ok(kernel) = std::env::var(PLANTED) {
        run(&kernel, 0).expect("a kernel without a defect");
        println!("error: {}", run(&kernel, 1).expect_err("a kernel with a defect"));
        return;
    }
    if no_kernels() {
        return;
    }
    for kernel in ["outside", "unsynced", "unwritten", "stale"] {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args([
            "what_a_kernel_does_wrong_is_told_with_the_line_of_its_source",
            "--exact",
            "--nocapture",
        ]);
        let output = command.env(PLANTED, kernel).env("WARPBELL_PTX", "").output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = said.lines().find(|line| line.contains("error: "));
        let error =
            error.unwrap_or_else(|| panic!("{kernel}: {said} {}", String::from_utf8_lossy(&output.stderr)));
        let marked =
            SOURCE.lines().enumerate().filter(|(_, line)| line.ends_with(&format!("// LINE: {kernel}")));
        let lines: Vec<_> = marked.map(|(at, _)| format!("planted.cu:{}", at + 1)).collect();
        assert!(lines.iter().any(|line| error.contains(line)), "{lines:?}: {error}");
        assert!(error.contains(&format!("kernel {kernel}")) && error.contains("module.ptx:"), "{error}");
        assert!(
            kernel != "unwritten" || error.contains("of global memory are read, and nothing was written"),
            "{error}"
        );
    }
}
