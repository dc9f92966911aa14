//! The command on a CUDA target, played by the fake driver: what it reads is right, what it calls is allowed,
//! and its results name what they are of.

use std::process::Command;

use fake_cuda::harness::FakeDriver;
use warpbell::{
    AttachOptions, DataPlacement, DataPointers, Gpu, OpenOptions, RingPlace, RingPlacement, Ssd, Target,
};
use warpbell_driver::IoQueueOptions;
use warpbell_nvme::command;

#[path = "fake_driver/ends.rs"]
mod ends;

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
fn memory_of_a_gpu_is_registered_beside_that_of_the_host() {
    let fake_driver = FakeDriver::new("capability=9.0");
    let bench =
        ["bench", "registration", "soft:size=16m", "--bs", "4k,64k", "--runtime", "60ms", "-o", "json"];
    let found = |flags: &[&str]| -> serde_json::Value {
        serde_json::from_str(&run(&fake_driver, &[&bench[..], flags].concat())).expect("JSON")
    };
    let (host, gpu) = (found(&[]), found(&["--target", "cuda:0", "--data", "hbm"]));
    assert_eq!(gpu["data_paths"][0]["data"], "hbm of cuda:0 (copied by the controller)");
    for (found, place) in [(host, ""), (gpu, " memory=hbm")] {
        for size in ["4k", "64k"] {
            for (way, least, most) in [("once", 0.0, 0.0), ("per_io", 1.0, 1.0), ("cached", 0.2, 0.75)] {
                let name = format!("{way}{place} bs={size}");
                let row =
                    found["rows"].as_array().expect("rows").iter().find(|row| row["name"] == name.as_str());
                let row = row.unwrap_or_else(|| panic!("no row {name}: {found:#}"));
                let of =
                    |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{name} has no {key}: {row:#}"));
                assert!((least..=most).contains(&of("maps_per_io")) && of("iops") > 0.0, "{row:#}");
                match way {
                    "once" => assert!(of("setup_ns") > 0.0),
                    _ => assert!(of("map_p50_ns") > 0.0 && of("crossover_ios") > 0.0),
                }
            }
        }
    }
    fake_driver.log().assert_clean();
    // The memory is that of the target's GPU, and doorbells are the host's.
    for (flags, said) in [
        (&["--data", "hbm"][..], "--data hbm: target cpu has no memory of its own"),
        (&["--target", "cuda:0"], "--target cuda:0: bench registration runs no kernels"),
        (
            &["--target", "cuda:0", "--data", "hbm", "--rings", "hbm"],
            "--rings hbm: bench registration runs no kernels",
        ),
    ] {
        let mut command: Command = fake_driver.command(env!("CARGO_BIN_EXE_warpbell"));
        let output = command.args([&bench[..], flags].concat()).output().expect("the command starts");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(said), "{flags:?}: {error}");
    }
}

/// Results of a benchmark with rings and data in these places, and how they are named.
fn placed(fake_driver: &FakeDriver, rings: &str, data: &str) -> serde_json::Value {
    let arguments = [
        &["bench", "soft:size=16m,cmb=1m", "--target", "cuda:0", "--rings", rings, "--data", data][..],
        &["--sharing", "shared", "--warps", "2", "--iodepth", "16", "--rw", "randrw", "--verify", "crc32c"],
        &["--size", "256k", "--io-limit", "512k", "-o", "json"],
    ];
    let report: serde_json::Value =
        serde_json::from_str(&run(fake_driver, &arguments.concat())).expect("JSON");
    let counts =
        ["errors", "violations", "mismatches", "ios"].map(|name| report[name].as_u64().expect("a number"));
    assert_eq!(counts, [0, 0, 0, 128], "rings {rings}, data {data}: {report:#}");
    report["data_path"].clone()
}

#[test]
fn rings_and_data_lie_in_gpu_memory_in_every_combination() {
    if no_kernels() {
        return;
    }
    let fake_driver = FakeDriver::new("capability=9.0");
    let hbm = "hbm of cuda:0";
    let way = "copied by the controller; queues of the host: in host memory)";
    for (rings, named) in [
        ("hbm", format!("{hbm} ({way}")),
        ("sq=host,cq=hbm", format!("host (SQ), {hbm} (CQ, {way}")),
        ("sq=hbm,cq=host", format!("{hbm} (SQ, {way}, host (CQ)")),
        ("sq=cmb,cq=hbm", format!("cmb (SQ), {hbm} (CQ, {way}")),
    ] {
        for data in ["hbm", "host"] {
            let path = placed(&fake_driver, rings, data);
            assert_eq!(path["rings"], named, "{path}");
            let one = data == "hbm" && rings.ends_with("hbm") && rings != "sq=hbm,cq=host";
            let ordering = match (one, data, rings) {
                (true, ..) => "one memory",
                (_, "host", "sq=hbm,cq=host") => "one memory",
                _ => "two memories: completed when copied",
            };
            assert_eq!(path["ordering"], ordering, "{path}");
        }
    }
    fake_driver.log().assert_clean();
}

#[test]
fn a_digest_over_rings_and_data_in_gpu_memory_is_the_files_checksum() {
    if no_kernels() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    let bytes: Vec<u8> = (0..500_001u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&path, &bytes).expect("a file");
    let (fake_driver, device) = (FakeDriver::new(""), format!("soft:file={}", path.display()));
    let place = ["--rings", "hbm", "--data", "hbm"];
    let text =
        run(&fake_driver, &[&["digest", "--device", &device, "--target", "cuda:0"][..], &place].concat());
    assert!(text.contains(&format!("crc32c {:08x}, 500001 bytes", crc32c::crc32c(&bytes))), "{text}");
    fake_driver.log().assert_clean();
}

/// What recovery did in a run with rings and data in GPU memory, which ended well all the same.
fn recovered(faults: &str, sharing: &str, warps: &str) -> serde_json::Value {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.toml");
    std::fs::write(&plan, faults).expect("a plan");
    let fake_driver = FakeDriver::new("capability=9.0");
    let arguments = [
        &["bench", "soft:size=16m", "--target", "cuda:0", "--rings", "hbm", "--data", "hbm"][..],
        &["--sharing", sharing, "--warps", warps, "--iodepth", "16", "--bs", "512", "--io-limit", "128k"],
        &["--timeout", "500ms", "--retries", "4", "--fault", plan.to_str().expect("a name"), "-o", "json"],
    ];
    let report: serde_json::Value =
        serde_json::from_str(&run(&fake_driver, &arguments.concat())).expect("JSON");
    assert_eq!((&report["errors"], &report["ios"]), (&0.into(), &256.into()), "{report:#}");
    fake_driver.log().assert_clean();
    report["runs"][0]["recovery"].clone()
}

#[test]
fn queues_with_rings_in_gpu_memory_are_replaced_while_kernels_run() {
    if no_kernels() {
        return;
    }
    // One that nothing finds: its queue is replaced. One that an Abort ends.
    let faults =
        "[[fault]]\nkind = 'drop'\nafter = 40\ncount = 1\n[[fault]]\nkind = 'hang'\nafter = 20\ncount = 1\n";
    for (sharing, warps) in [("shared", "2"), ("exclusive", "1")] {
        let counts = recovered(faults, sharing, warps);
        assert!(counts["queues_replaced"].as_u64().is_some_and(|queues| queues >= 1), "{counts:#}");
        assert_eq!((&counts["resets"], &counts["ssds_lost"]), (&0.into(), &0.into()), "{counts:#}");
    }
}

#[test]
fn queues_with_rings_in_gpu_memory_come_back_after_a_reset() {
    if no_kernels() {
        return;
    }
    let counts = recovered("[[fault]]\nkind = 'fatal'\nafter = 60\ncount = 1\n", "shared", "2");
    assert_eq!((&counts["resets"], &counts["ssds_lost"]), (&1.into(), &0.into()), "{counts:#}");
}

#[test]
fn rings_in_gpu_memory_are_refused_by_name_where_they_cannot_be() {
    let fake_driver = FakeDriver::new("");
    let refused = |arguments: &[&str]| {
        let mut command: Command = fake_driver.command(env!("CARGO_BIN_EXE_warpbell"));
        let output =
            command.args(["bench", "soft:size=16m"]).args(arguments).output().expect("the command starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).expect("words")
    };
    let error = refused(&["--rings", "hbm"]);
    assert!(error.contains("--rings hbm: target cpu has no memory of its own"), "{error}");
    let error = refused(&["--rings", "sq=hbm,cq=cmb"]);
    assert!(error.contains("takes submission rings only"), "{error}");
    let error = refused(&["--rings", "hbm", "--target", "cuda:0", "--api", "host"]);
    assert!(error.contains("the host's queues have their rings in host memory"), "{error}");
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
    let copied = "order: two memories: completed when copied";
    for (subject, said, order, means) in [
        (
            "doorbells mapped",
            "0 wrong; data: host; rings: host",
            "order: one memory",
            "memory that the soft controller polls",
        ),
        ("doorbells forwarded", "the soft controller polls its doorbells: nothing is forwarded", "", ""),
        (
            "rings in GPU memory",
            "0 wrong; data: host; rings: hbm of cuda:0",
            copied,
            "the soft controller copies",
        ),
        (
            "rings and data in GPU memory",
            "0 wrong; data: hbm",
            "order: one memory",
            "the soft controller copies",
        ),
        ("order under load", "0 wrong; data: hbm", copied, "no order of an SSD was tested"),
    ] {
        let line = findings.iter().find(|line| line["subject"] == subject).expect("the line is there");
        let found = line["found"].as_str().expect("words");
        assert!(found.contains(said) && found.contains(order), "{subject}: {line:#}");
        assert!(line["means"].as_str().expect("words").contains(means), "{subject}: {line:#}");
    }
    let moved = |subject: &str| {
        let tests = report["tests"].as_array().expect("tests");
        tests.iter().find(|test| test["subject"] == subject).expect("the test")["moved"]["data_path"].clone()
    };
    assert!(moved("rings in GPU memory")["rings"].as_str().is_some_and(|rings| rings.starts_with("hbm")));
    assert_eq!(moved("data through both")["ordering"], "two memories: completed when copied");
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

/// A soft controller whose data lies there.
fn soft(data: DataPlacement) -> Ssd {
    let name = "soft:size=4m".parse().expect("a device");
    Ssd::open(&name, &OpenOptions::new().data(data)).expect("it opens")
}

#[test]
fn gpu_memory_of_the_users_is_registered_read_and_written() {
    const HALF: usize = 64 << 10;
    let log = FakeDriver::new("devices=2").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let (memory, ssd) = (gpu.allocate(2 * HALF).unwrap(), soft(DataPlacement::Hbm(gpu.clone())));
        let data: Vec<u8> = (0..HALF).map(|at| (at / 5 + at / 512 * 37) as u8).collect();
        memory.write(0, &data).unwrap();
        let buffer = ssd.register_device(&memory).unwrap();
        assert_eq!(buffer.as_ref().data, memory.address());
        assert_eq!(ssd.register_device(&memory).unwrap().iova(), buffer.iova(), "it is mapped once");
        let mut queue = ssd.host_queue(64, IoQueueOptions::default(), buffer.clone()).unwrap();
        let pointers = DataPointers::new(buffer.as_ref(), ssd.data_path().data_pointer);
        let blocks = (HALF / 512 - 1) as u16;
        queue.execute(&pointers.attach(command::write(1, 0, blocks), 0, HALF as u32)).unwrap();
        queue.execute(&pointers.attach(command::read(1, 0, blocks), HALF as u64, HALF as u32)).unwrap();
        let mut back = vec![0; HALF];
        memory.read(HALF, &mut back).unwrap();
        assert!(back == data, "written out of it, and read into it");
        queue.delete().unwrap();
        drop(buffer);
        let attachment = ssd.attach(&AttachOptions::new().target(Target::Cuda(0))).unwrap();
        let buffer = attachment.register_device(&memory).unwrap();
        attachment.release(&buffer).unwrap();
        drop(buffer);
        attachment.close().unwrap();
        drop(ssd);
        memory.read(0, &mut back).unwrap();
        assert!(back == data, "it is the user's again");
    });
    log.assert_clean();
}

#[test]
fn gpu_memory_that_cannot_be_registered_is_refused_by_name() {
    let log = FakeDriver::new("devices=2").child(|| {
        let [gpu, other] = [0, 1].map(|ordinal| Gpu::open(ordinal).unwrap());
        let (memory, theirs) = (gpu.allocate(64 << 10).unwrap(), other.allocate(64 << 10).unwrap());
        let ssd = soft(DataPlacement::Hbm(gpu.clone()));
        let error = ssd.register_device(&theirs).unwrap_err().to_string();
        let limit = "memory of cuda:1 is registered on an SSD whose data lies in hbm of cuda:1";
        assert_eq!(error, format!("memory to register, with data in hbm of cuda:0: {limit}"));
        let error = soft(DataPlacement::Host).register_device(&memory).unwrap_err().to_string();
        assert!(error.starts_with("memory to register, with data in host: memory of cuda:0"), "{error}");
        let attachment = ssd.attach(&AttachOptions::default()).unwrap();
        let error = attachment.register_device(&memory).unwrap_err().to_string();
        assert!(error.starts_with("target cpu: data lies in hbm of cuda:0, which only kernels"), "{error}");
    });
    log.assert_clean();
}

#[test]
fn only_kernels_of_its_gpu_have_their_rings_there() {
    let log = FakeDriver::new("devices=2").child(|| {
        let [gpu, other] = [0, 1].map(|ordinal| Gpu::open(ordinal).unwrap());
        let open = |rings| Ssd::open(&"soft:size=4m".parse().unwrap(), &OpenOptions::new().rings(rings));
        let ssd = open(RingPlacement::Hbm(gpu.clone())).unwrap();
        for target in [Target::Cpu, Target::Cuda(1)] {
            let error = ssd.attach(&AttachOptions::new().target(target)).err().expect("refused").to_string();
            let limit = "rings lie in hbm of cuda:0, which only kernels of that GPU reach";
            assert_eq!(error, format!("target {target}: {limit}"));
        }
        let attachment = ssd.attach(&AttachOptions::new().target(Target::Cuda(0))).unwrap();
        assert!(attachment.pairs().iter().all(|pair| pair.sq().is_none() && pair.cq().is_none()));
        assert!(attachment.pairs()[0].posted(0).unwrap().is_empty(), "the host looks by copies");
        let later = ssd
            .attach(&AttachOptions::new().target(Target::Cuda(0)).start(5))
            .err()
            .expect("refused")
            .to_string();
        assert!(later.contains("cannot be driven by the host, which needs rings in host memory"), "{later}");
        let buffer = ssd.buffer(4096).unwrap();
        let mut queue = ssd.host_queue(8, IoQueueOptions::default(), buffer.clone()).unwrap();
        let pointers = DataPointers::new(buffer.as_ref(), ssd.data_path().data_pointer);
        queue.execute(&pointers.attach(command::read(1, 0, 7), 0, 4096)).unwrap();
        queue.delete().unwrap();
        attachment.close().unwrap();
        let both = RingPlacement::Pair { sq: RingPlace::Hbm(gpu), cq: RingPlace::Hbm(other) };
        let error = open(both).err().expect("refused").to_string();
        assert!(error.starts_with("rings hbm of cuda:0 and of cuda:1: kernels reach the memory"), "{error}");
    });
    log.assert_clean();
}
