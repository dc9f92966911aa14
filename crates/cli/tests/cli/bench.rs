//! What `bench` reports, and what it costs.

use crate::common::{json, ok, refused, run, soft_file};
use serde_json::Value;

/// A short run of everything else by default.
fn bench(flags: &[&str]) -> Value {
    json(
        &[
            &["bench", "--device", "soft:size=16m", "--target", "cpu", "--runtime", "200ms", "-o", "json"],
            flags,
        ]
        .concat(),
    )
}

fn clean(report: &Value) {
    assert_eq!((report["errors"].as_u64(), report["violations"].as_u64()), (Some(0), Some(0)), "{report:#}");
    assert!(report["ios"].as_u64().is_some_and(|ios| ios > 0), "{report:#}");
}

fn number(report: &Value, key: &str) -> f64 {
    report[key].as_f64().unwrap_or_else(|| panic!("no number {key} in {report:#}"))
}

#[test]
fn a_doorbell_pays_for_32_commands() {
    for sharing in ["exclusive", "shared"] {
        // Batches of 32, also where a busy machine lets the controller answer fewer at a time.
        let together = ["--iodepth", "128", "--gather", "32"];
        let load = ["--rw", "randread", "--bs", "512", "--sharing", sharing];
        let report = bench(&[together.as_slice(), &load].concat());
        clean(&report);
        let one_in_32 = 1.02 / 32.0;
        assert!(number(&report, "sq_doorbells_per_io") <= one_in_32, "{sharing}: {report:#}");
        assert!(number(&report, "cq_doorbells_per_io") <= one_in_32, "{sharing}: {report:#}");
        let rmw = number(&report, "rmw_per_io");
        if sharing == "exclusive" {
            assert_eq!(rmw, 0.0, "an exclusive queue needs no atomics");
        } else {
            assert!(rmw <= 4.0 * one_in_32, "{report:#}");
        }
    }
}

#[test]
fn the_document_says_what_was_measured() {
    let report = bench(&["--bs", "4k", "--iodepth", "64"]);
    clean(&report);
    assert_eq!(report["schema"], "warpbell.bench/1");
    assert_eq!((&report["target"], &report["device"]["kind"]), (&"cpu".into(), &"software".into()));
    assert_eq!(report["data_path"]["rings"], "host");
    let run = &report["runs"][0];
    assert_eq!((run["job"]["bs_bytes"].as_u64(), run["job"]["iodepth"].as_u64()), (Some(4096), Some(64)));
    assert_eq!(run["bytes"].as_u64().unwrap(), run["ios"].as_u64().unwrap() * 4096);
    assert_eq!((run["ios"].clone(), &run["write"]["ios"]), (run["read"]["ios"].clone(), &0.into()));
    let latency = &run["lat_ns"];
    let order = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"].map(|key| number(latency, key));
    assert!(order.windows(2).all(|pair| pair[0] <= pair[1]), "{latency:#}");
    let runtime = number(run, "runtime_ns") / 1e9;
    assert!((0.2..2.0).contains(&runtime), "{runtime} s");
    let rate = number(run, "ios") / runtime;
    assert!((number(run, "iops") / rate - 1.0).abs() < 0.01, "{run:#}");
    assert!(number(run, "client_cpu_time_ns") > 0.0 && number(run, "cpu_time_ns") > 0.0);
}

#[test]
fn virtual_time_is_the_profiles_and_repeats() {
    let device = "soft:size=64m,profile=tlc,time=virtual";
    for api in ["host", "io", "agent"] {
        let measure = || {
            let args = [
                "bench",
                device,
                "--api",
                api,
                "--rw",
                "randrw",
                "--iodepth",
                "4",
                "--runtime",
                "50ms",
                "-o",
                "json",
            ];
            let report = json(&args);
            clean(&report);
            report
        };
        let (one, other) = (measure(), measure());
        let run = &one["runs"][0];
        assert_eq!(run["clock"], "virtual");
        assert!(run["controller_cpu_time_ns"].is_null());
        let runtime = number(run, "runtime_ns");
        assert!((50e6..60e6).contains(&runtime), "{runtime} ns of virtual time");
        assert!(number(&run["read_lat_ns"], "p50") >= 65e3 * 0.98, "{run:#}");
        for key in ["ios", "runtime_ns", "lat_ns", "read_lat_ns", "write_lat_ns", "counters"] {
            assert_eq!(run[key], other["runs"][0][key], "{key}");
        }
    }
    let (code, error) = refused(&["bench", device, "--threads", "2"]);
    assert_eq!(
        (code, error.as_str()),
        (2, "--threads 2: a device in virtual time has one thread for everything")
    );
}

/// Reads at depth 1 on a device in virtual time, with these settings more.
fn in_virtual_time(settings: &str, flags: &[&str]) -> Value {
    let device = format!("soft:size=16m,profile=optane,time=virtual{settings}");
    let fixed = ["bench", &device, "--rw", "randread", "--bs", "512", "--runtime", "5ms", "-o", "json"];
    let report = json(&[&fixed[..], flags].concat());
    clean(&report);
    report["runs"][0].clone()
}

#[test]
fn a_charged_client_learns_later_and_repeats() {
    let p50 = |run: &Value| number(&run["lat_ns"], "p50");
    for api in ["raw", "io"] {
        let flags = ["--api", api, "--iodepth", "1"];
        let free = in_virtual_time("", &flags);
        let hbm = in_virtual_time(",client=h200,rings=hbm", &flags);
        let host = in_virtual_time(",client=h200,rings=host", &flags);
        // A poll of the ring and a fence, at least; a poll over PCIe, at least: less a bucket of 256 ns.
        assert!(p50(&hbm) >= p50(&free) + 131.0 + 262.0 - 256.0, "{free:#} {hbm:#}");
        assert!(p50(&host) >= p50(&hbm) + 1000.0 - 131.0 - 256.0, "{hbm:#} {host:#}");
        let again = in_virtual_time(",client=h200", &flags);
        for key in ["ios", "runtime_ns", "lat_ns", "counters"] {
            assert_eq!(host[key], again[key], "{key}: rings lie in host memory, and time repeats");
        }
        assert_eq!(in_virtual_time(",client=free", &flags)["lat_ns"], free["lat_ns"]);
    }
}

#[test]
fn kernels_and_the_host_api_agree_in_virtual_time() {
    for (profile, rw) in
        [("optane", "randread"), ("optane", "randwrite"), ("tlc", "randread"), ("tlc", "randwrite")]
    {
        for depth in ["1", "16", "128"] {
            let device = format!("soft:size=64m,profile={profile},time=virtual");
            let fixed = ["bench", &device, "--rw", rw, "--iodepth", depth, "--runtime", "40ms", "-o", "json"];
            let run = |flags: &[&str]| json(&[&fixed[..], flags].concat())["runs"][0].clone();
            let host = run(&["--api", "host"]);
            for sharing in ["exclusive", "shared"] {
                let kernels = run(&["--api", "raw", "--sharing", sharing]);
                let iops = number(&kernels, "iops") / number(&host, "iops");
                let p50 = number(&kernels["lat_ns"], "p50") / number(&host["lat_ns"], "p50");
                let near = |ratio: f64| (0.95..=1.05).contains(&ratio);
                assert!(near(iops) && near(p50), "{profile} {rw} {depth} {sharing}: IOPS {iops}, p50 {p50}");
            }
        }
    }
}

#[test]
fn the_host_begins_in_batches_where_it_is_asked_to() {
    let flags = [
        "bench",
        "soft:size=4m,time=virtual",
        "--api",
        "host",
        "--iodepth",
        "32",
        "--io-limit",
        "4m",
        "-o",
        "json",
    ];
    let doorbells = |more: &[&str]| {
        let run = json(&[&flags[..], more].concat())["runs"][0].clone();
        number(&run["counters"], "sq_doorbells") / number(&run, "ios")
    };
    let (each, all) = (doorbells(&[]), doorbells(&["--gather", "32"]));
    assert!(all <= 1.02 / 32.0 && each > 2.0 * all, "{each} and {all} doorbells for each I/O");
}

#[test]
fn a_charged_client_needs_virtual_time() {
    let (code, error) = refused(&["bench", "soft:size=1m,client=h200"]);
    assert_eq!(code, 2);
    assert!(error.contains("client=h200: needs virtual time"), "{error}");
    let (code, error) = refused(&["bench", "soft:size=1m,time=virtual,rings=hbm"]);
    assert_eq!(code, 2);
    assert!(error.contains("rings=hbm: needs a client whose accesses take time"), "{error}");
}

#[test]
fn every_api_and_pattern() {
    for api in ["host", "raw", "io", "agent"] {
        for rw in ["read", "write", "randread", "randwrite", "randrw"] {
            let report = bench(&["--api", api, "--rw", rw, "--runtime", "50ms"]);
            clean(&report);
            let run = &report["runs"][0];
            let (reads, writes) = (number(&run["read"], "ios"), number(&run["write"], "ios"));
            assert_eq!(
                (reads > 0.0, writes > 0.0),
                (rw != "write" && rw != "randwrite", rw.contains('w')),
                "{api} {rw}"
            );
        }
    }
}

#[test]
fn any_depth() {
    for (api, sharing) in [("host", "exclusive"), ("io", "shared")] {
        for depth in ["1", "2", "65535"] {
            let report = bench(&["--api", api, "--sharing", sharing, "--iodepth", depth, "--bs", "512"]);
            clean(&report);
        }
    }
    clean(&bench(&["--iodepth", "1", "--bs", "512"]));
    clean(&bench(&["--iodepth", "2", "--bs", "512"]));
}

#[test]
fn a_block_size_above_mdts_is_split() {
    for api in ["host", "io"] {
        for rw in ["read", "randrw"] {
            let report = bench(&["--api", api, "--rw", rw, "--bs", "300k", "--iodepth", "8"]);
            clean(&report);
            let run = &report["runs"][0];
            assert_eq!(run["job"]["commands_per_io"], 3, "MDTS is 128 KiB");
            let (ios, commands) = (number(run, "ios"), number(&run["counters"], "sqes"));
            assert_eq!(commands, ios * 3.0, "{run:#}");
        }
    }
}

#[test]
fn prps_do_as_well_as_sgls() {
    for api in ["host", "io"] {
        for bs in ["512", "8k", "128k"] {
            let device = "soft:size=2m,sgl=off";
            let flags = ["--api", api, "--bs", bs, "--rw", "randrw", "--verify", "crc32c", "--iodepth", "4"];
            let report = json(&[&["bench", device, "--runtime", "100ms", "-o", "json"], &flags[..]].concat());
            clean(&report);
            assert_eq!(
                (&report["data_path"]["data_pointer"], &report["mismatches"]),
                (&"prp".into(), &0.into())
            );
        }
    }
}

#[test]
fn several_queues_and_warps() {
    clean(&bench(&["--queues", "4", "--iodepth", "16"]));
    clean(&bench(&["--queues", "2", "--warps", "5", "--sharing", "shared", "--iodepth", "64"]));
    clean(&bench(&["--queues", "3", "--api", "host", "--threads", "2"]));
    clean(&bench(&["--warps", "64", "--sharing", "shared", "--iodepth", "7"]));
}

#[test]
fn fewer_queues_granted_than_wanted() {
    let device = "soft:size=1m,grant=7";
    let (code, line) = refused(&["bench", device, "--queues", "8"]);
    assert_eq!(code, 2);
    assert!(line.contains("--queues 8") && line.contains('7'), "{line}");
    clean(&json(&["bench", device, "--queues", "7", "--runtime", "50ms", "-o", "json"]));
}

#[test]
fn amounts_end_a_run() {
    for api in ["host", "io"] {
        let one_pass = json(&[
            "bench",
            "soft:size=16m",
            "--rw",
            "read",
            "--bs",
            "4k",
            "--size",
            "1m",
            "--api",
            api,
            "-o",
            "json",
        ]);
        assert_eq!(one_pass["ios"], 256, "{api}");
        let limit =
            ["bench", "soft:size=16m", "--bs", "512", "--io-limit", "5000", "--api", api, "-o", "json"];
        assert_eq!(json(&limit)["ios"], 10, "{api}: 5000 bytes are ten blocks, begun");
        let several = [&limit[..], &["--queues", "3"]].concat();
        assert_eq!(json(&several)["ios"], 10, "{api}: however many queues share them");
    }
}

#[test]
fn a_ramp_is_not_counted() {
    for api in ["host", "io"] {
        let report = bench(&["--api", api, "--ramp", "1s", "--runtime", "100ms"]);
        clean(&report);
        assert!(number(&report, "runtime_ns") < 900e6, "{report:#}");
        // One thread submits: it has no more CPU time than time.
        let client = number(&report["runs"][0], "client_cpu_time_ns");
        assert!(client <= 1.2 * number(&report, "runtime_ns"), "{api}: {client} ns of its CPU: {report:#}");
        // Nor does it take of the amount.
        let report = bench(&["--api", api, "--ramp", "100ms", "--io-limit", "4m"]);
        assert_eq!(number(&report, "ios"), 1024.0, "{api}: {report:#}");
        assert!(number(&report, "runtime_ns") > 0.0 && number(&report, "iops") > 0.0, "{api}: {report:#}");
    }
}

#[test]
fn sweeps_have_a_run_for_each_point_and_a_table() {
    let flags = ["--axis", "bs=512,4k", "--axis", "iodepth=1..16*4", "--api", "host", "--runtime", "20ms"];
    let report = bench(&flags);
    clean(&report);
    let points: Vec<_> = report["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (run["job"]["bs_bytes"].as_u64().unwrap(), run["job"]["iodepth"].as_u64().unwrap()))
        .collect();
    assert_eq!(points, [(512, 1), (512, 4), (512, 16), (4096, 1), (4096, 4), (4096, 16)]);
    let text = ok(&[&["bench", "soft:size=16m"], &flags[..]].concat());
    let table = text.lines().skip_while(|line| !line.contains("p99.99 us")).count();
    assert_eq!(table, 7, "{text}");
}

#[test]
fn text_says_target_cpu_plainly() {
    let text = ok(&["bench", "soft:size=1m", "--runtime", "50ms"]);
    for words in [
        "target cpu: software controller and kernels on the CPU; not a hardware figure",
        "randread: bs=4k iodepth=32 queues=1 api=io",
        "IOPS=",
        "BW=",
        "lat (us): min=",
        "p99.99=",
        "per I/O: sq doorbells=",
        "violations=0",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours where there is no terminal");
}

#[test]
fn a_file_is_a_device_like_any_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.img");
    std::fs::write(&path, crate::common::noise(9, 1_000_000)).unwrap();
    let device = soft_file(&path);
    clean(&json(&["bench", &device, "--runtime", "50ms", "--bs", "4k", "-o", "json"]));
    let allowed = format!("--allow-write={}", path.display());
    let flags = ["--rw", "randwrite", "--bs", "512", &allowed, "--runtime", "50ms", "-o", "json"];
    clean(&json(&[&["bench", &device], &flags[..]].concat()));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 1_000_000, "the file kept its length");
}

#[test]
fn corners_of_a_sweep_that_cannot_be_are_skipped_and_listed() {
    let sweep = ["bench", "soft:size=1m", "--sharing", "shared", "--io-limit", "64k"];
    let sweep = [&sweep[..], &["--axis", "warps=1,4000", "--axis", "iodepth=32*warps"]].concat();
    let report = json(&[&sweep[..], &["-o", "json"]].concat());
    let runs = report["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]["job"]["iodepth"]), (1, &32.into()), "{report:#}");
    let skipped = &report["skipped"][0];
    assert_eq!(skipped["point"], "warps=4000 iodepth=128000");
    assert_eq!(skipped["reason"], "--iodepth 128000: must be at most 65535");
    let output = run(&sweep);
    let line = "skipped: warps=4000 iodepth=128000: --iodepth 128000: must be at most 65535\n";
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains(line));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), line, "said before the first point runs");
}
