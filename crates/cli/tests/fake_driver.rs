//! The command on a CUDA target, played by the fake driver: what it reads is right, what it calls is allowed,
//! and its results name what they are of.

use std::process::Command;

use fake_cuda::harness::FakeDriver;

fn run(fake_driver: &FakeDriver, arguments: &[&str]) -> String {
    let mut command: Command = fake_driver.command(env!("CARGO_BIN_EXE_warpbell"));
    let output = command.args(arguments).output().expect("the command starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("results are UTF-8")
}

/// Whether nothing here compiles kernels for a GPU.
fn no_kernels() -> bool {
    fake_cuda::harness::kernels("digest", 75).is_none()
}

#[test]
fn a_digest_on_a_cuda_target_is_the_files_checksum() {
    if no_kernels() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    let bytes: Vec<u8> = (0..3_000_001u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&path, &bytes).expect("a file");
    let (fake_driver, device) = (FakeDriver::new(""), format!("soft:file={}", path.display()));
    let text = run(&fake_driver, &["digest", "--device", &device, "--target", "cuda:0"]);
    assert!(text.contains(&format!("crc32c {:08x}, 3000001 bytes", crc32c::crc32c(&bytes))), "{text}");
    assert!(text.contains("target cuda:0 (fake CUDA driver (no GPU))"), "{text}");
    fake_driver.log().assert_clean();
    assert_eq!(fake_driver.log().calls("cuLaunchKernelEx"), 1);
    assert_eq!(fake_driver.log().of("connections"), ["32"], "copies wait behind no kernel");
}

#[test]
fn a_benchmark_on_a_cuda_target_names_what_it_ran_on() {
    if no_kernels() {
        return;
    }
    let fake_driver = FakeDriver::new("capability=8.6");
    let arguments = [
        "bench",
        "--device",
        "soft:size=16m",
        "--target",
        "cuda:0",
        "--bs",
        "4k",
        "--io-limit",
        "4m",
        "-o",
        "json",
    ];
    let text = run(&fake_driver, &arguments);
    let json: serde_json::Value = serde_json::from_str(&text).expect("the result is JSON");
    let results = json.as_array().map_or(&json, |reports| &reports[0]);
    assert_eq!(results["target"], "cuda:0 (fake CUDA driver (no GPU))");
    assert_eq!((&results["errors"], &results["violations"]), (&0.into(), &0.into()));
    fake_driver.log().assert_clean();
}

#[test]
fn a_benchmark_with_more_warps_than_fit_at_once_is_refused() {
    if no_kernels() {
        return;
    }
    let fake_driver = FakeDriver::new("multiprocessors=1");
    let shape = ["bench", "soft:size=16m", "--target", "cuda:0", "--sharing", "shared", "--io-limit", "4m"];
    run(&fake_driver, &[&shape[..], &["--warps", "8"]].concat());
    let mut command: Command = fake_driver.command(env!("CARGO_BIN_EXE_warpbell"));
    let output = command.args(shape).args(["--warps", "1024", "--queues", "16"]).output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains("kernel bench: ") && error.contains("fit ("),
        "{error}"
    );
    fake_driver.log().assert_clean();
}

#[test]
fn a_trace_on_a_cuda_target_is_by_the_gpus_clock_and_can_be_replayed() {
    if no_kernels() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.json");
    let file = path.to_str().expect("a name");
    let fake_driver = FakeDriver::new("capability=9.0");
    let shape = ["--sharing", "shared", "--warps", "2", "--iodepth", "64", "--io-limit", "1m", "-o", "json"];
    let on = ["bench", "soft:size=16m", "--target", "cuda:0"];
    let text = run(&fake_driver, &[&on[..], &shape, &["--trace", file]].concat());
    let report: serde_json::Value = serde_json::from_str(&text).expect("the result is JSON");
    assert_eq!(report["runs"][0]["trace"]["commands"], 256, "{report:#}");
    let trace = std::fs::read_to_string(&path).expect("a trace");
    let trace: serde_json::Value = serde_json::from_str(&trace).expect("the trace is JSON");
    assert_eq!(trace["warpbell"]["clock"]["source"], "globaltimer");
    let text = run(&fake_driver, &[&on[..], &["--replay", file, "-o", "json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&text).expect("the result is JSON");
    assert_eq!((&report["ios"], &report["errors"]), (&256.into(), &0.into()));
    fake_driver.log().assert_clean();
}

#[test]
fn the_self_test_goes_through_the_memory_of_a_gpu_where_there_is_one() {
    if no_kernels() {
        return;
    }
    let (fake_driver, scratch) = (FakeDriver::new("capability=9.0"), "soft:size=8m");
    let mut command: Command = fake_driver.command(env!("CARGO_BIN_EXE_warpbell"));
    let on = ["check", "--self-test", "--device", scratch, "--offset", "1m", "-o", "json"];
    let output = command.args(on).output().expect("the command starts");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the report is JSON");
    assert_eq!(report["self_test"], true, "{report:#}");
    for subject in ["data through a GPU", "data through both"] {
        let findings = report["findings"].as_array().expect("findings");
        let line = findings.iter().find(|line| line["subject"] == subject).expect("the line is there");
        let found = line["found"].as_str().expect("words");
        assert_eq!(line["status"], "ok", "{subject}: {found}");
        assert!(
            found.starts_with("cuda:0 (fake CUDA driver (no GPU)): kernels on the GPU wrote soft:"),
            "{found}"
        );
        assert!(found.contains("0 wrong; data: hbm"), "{found}");
    }
    let findings = report["findings"].as_array().expect("findings");
    for (subject, said) in [("cuda:0 dma-buf", "exported"), ("cuda:0 doorbells", ": works: ")] {
        let line = findings.iter().find(|line| line["subject"] == subject).expect("the line is there");
        assert!(
            line["status"] == "ok" && line["found"].as_str().is_some_and(|words| words.contains(said)),
            "{line}"
        );
    }
    fake_driver.log().assert_clean();
}

#[test]
fn doorbells_that_cannot_be_forwarded_are_refused_in_one_line() {
    if no_kernels() {
        return;
    }
    let (fake_driver, on) =
        (FakeDriver::new(""), ["digest", "soft:size=1m", "--target", "cuda:0", "--doorbells"]);
    run(&fake_driver, &[&on[..], &["mapped"]].concat());
    let mut command: Command = fake_driver.command(env!("CARGO_BIN_EXE_warpbell"));
    let output = command.args(on).arg("forwarded").output().expect("the command starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), error.trim_end().lines().count()), (Some(2), 1), "{error}");
    assert!(
        error.contains("doorbells forwarded: soft:") && error.contains("nothing forwards them"),
        "{error}"
    );
    fake_driver.log().assert_clean();
}

#[test]
fn calibration_on_a_cuda_target_leaves_out_what_only_its_kernels_could_time() {
    if no_kernels() {
        return;
    }
    let fake_driver = FakeDriver::new("capability=9.0");
    let arguments =
        ["bench", "calibrate", "soft:size=16m", "--target", "cuda:0", "--rounds", "3", "-o", "json"];
    let measured: serde_json::Value = serde_json::from_str(&run(&fake_driver, &arguments)).expect("JSON");
    assert_eq!(measured["target"], "cuda:0 (fake CUDA driver (no GPU))");
    for name in ["fence.fence_ns", "fence.sqe_ns", "fence.doorbell_ns", "completion.read_ns"] {
        assert!(measured["not_measured"][name].as_str().is_some_and(|why| why.contains("kernel")), "{name}");
        assert!(measured["constants"].get(name).is_none(), "{name}");
    }
    assert!(measured["constants"]["queues.latency_us"]["value"].as_f64().is_some_and(|time| time > 0.0));
    fake_driver.log().assert_clean();
}

#[test]
fn kernels_for_an_older_driver_are_compiled_by_nvrtc_with_a_word_once() {
    if no_kernels() || warpbell_kernels::toolchain::nvrtc_version().is_err() {
        return;
    }
    let cache = tempfile::tempdir().expect("a folder");
    // CUDA 12.9: too old for the PTX of a build with nvcc 13.
    let fake_driver = FakeDriver::new("capability=9.0,driver=12090");
    let digest = || {
        let mut command: Command = fake_driver.command(env!("CARGO_BIN_EXE_warpbell"));
        command
            .args(["digest", "soft:size=1m", "--target", "cuda:0"])
            .env("WARPBELL_CACHE_DIR", cache.path());
        let output = command.output().expect("the command starts");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
        error
    };
    let word = digest();
    assert!(word.contains("compiling digest.cu for compute capability 9.0 by NVRTC"), "{word}");
    assert_eq!(digest(), "", "the second time it comes from the cache");
}
