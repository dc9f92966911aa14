//! Experiments by name: SSDs of other sizes, wrong data, small rings; what results keep of it.

use std::process::{Command, Output};

use serde_json::Value;

use super::experiments::{OPTANE, figure, json};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpbell"));
    command.arg("bench").args(arguments).output().expect("the command starts")
}

/// The reason of the first row that was skipped whose name begins so.
fn skipped(document: &Value, row: &str) -> String {
    let all = document["skipped"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = all.iter().find(|one| one["point"].as_str().is_some_and(|point| point.starts_with(row)));
    let found = found.unwrap_or_else(|| panic!("{row} was not skipped: {document:#}"));
    found["reason"].as_str().expect("a reason").to_owned()
}

fn names(document: &Value) -> Vec<&str> {
    document["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["name"].as_str().expect("a name"))
        .collect()
}

#[test]
fn ssds_of_unequal_size_are_one_volume() {
    // 17, 16 and 16 chunks: the last chunk of the volume is on the largest SSD alone.
    let sizes = ["soft:size=1088k", "soft:size=1m", "soft:size=1m"];
    for api in ["host", "volume"] {
        let options = ["--runtime", "60ms", "--chunk", "64k", "--bs", "64k", "--api", api, "--iodepth", "4"];
        let found = json(&[&["stripe"][..], &sizes, &options].concat());
        for row in ["stripe ssds=2 ", "stripe ssds=3 ", "concatenate "] {
            let of = |key: &str| figure(&found, row, key);
            assert_eq!(of("smallest_share"), of("expected_smallest_share"), "{api} {row}: {found:#}");
        }
    }
    let ssd = |size: &str| format!("soft:size={size},profile=optane,time=virtual");
    let (small, large) = (ssd("8m"), ssd("24m"));
    let options = ["--api", "volume", "--chunk", "64k", "--runtime", "4ms", "--iodepth", "64"];
    let found = json(&[&["stripe", &small, &large][..], &options].concat());
    let alone = figure(&found, "stripe ssds=1 ", "iops");
    for row in ["stripe ssds=2 ", "concatenate "] {
        let of = |key: &str| figure(&found, row, key);
        assert_eq!(of("smallest_share"), of("expected_smallest_share"), "{row}");
        assert!((of("smallest_share") - 0.5).abs() < 0.05, "a quarter of the reads, of a half: {found:#}");
        // Three of four reads are the larger SSD's, which is as fast as one alone.
        assert!((of("expected_iops") / alone - 4.0 / 3.0).abs() < 1e-9, "{found:#}");
        let ratio = of("iops") / of("expected_iops");
        assert!((0.95..1.05).contains(&ratio), "{row}: {ratio} of the model");
    }
    let copies = figure(&found, "replicate ssds=2 policy=round-robin ", "expected_iops");
    assert!((copies / alone - 2.0).abs() < 1e-9, "a copy is as long as the smaller SSD on both");
}

#[test]
fn ways_that_bring_wrong_data_are_errors() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (plan, disk) = (folder.path().join("plan.toml"), folder.path().join("disk.img"));
    std::fs::write(&plan, "[[fault]]\nkind = \"corrupt\"\nopcode = \"read\"\nbits = 1\n").expect("a plan");
    std::fs::write(&disk, (0..4u32 << 20).map(|at| (at / 509) as u8).collect::<Vec<_>>()).expect("a file");
    let device = format!("soft:file={},faults={}", disk.display(), plan.display());
    let output = run(&["path", &device, "--runtime", "30ms"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("direct bs=4k: byte ") && error.contains("wrong data, and no figure"), "{error}");
    let found =
        json(&["path", &format!("soft:file={}", disk.display()), "--runtime", "50ms", "--iodepth", "40"]);
    for way in ["direct ", "bounce "] {
        assert_eq!(figure(&found, way, "ssd_bytes_per_io"), 4096.0, "each byte is moved once by the SSD");
        assert_eq!(figure(&found, way, "expected_ssd_bytes_per_io"), 4096.0);
    }
}

#[test]
fn the_kernel_copies_what_direct_io_reads_from_memory() {
    // Where it is no tmpfs, as in some containers, there is nothing to refuse.
    let of = Command::new("stat").args(["-f", "-c", "%T", "/dev/shm"]).output().expect("stat starts");
    if String::from_utf8_lossy(&of.stdout).trim() != "tmpfs" {
        return;
    }
    let disk = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file");
    disk.as_file().set_len(4 << 20).expect("its length");
    let found = json(&["path", &format!("soft:file={}", disk.path().display()), "--runtime", "30ms"]);
    for way in ["pread ", "io_uring "] {
        let reason = skipped(&found, way);
        assert!(reason.contains("on tmpfs: the kernel copies"), "{reason}");
    }
    assert_eq!(names(&found), ["direct bs=4k", "bounce bs=4k"]);
}

#[test]
fn rings_that_are_too_small_skip_a_row() {
    let found = json(&["path", "soft:size=8m,entries=64", "--iodepth", "63", "--runtime", "30ms"]);
    assert_eq!(names(&found), ["direct bs=4k", "bounce bs=4k"]);
    let refused = |arguments: &[&str]| {
        let output = run(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        error
    };
    let room = "100 in flight: a queue of 64 entries, the most of this SSD, has room for 63";
    for experiment in ["path", "arbitration"] {
        let device = "soft:size=8m,entries=64,wrr=on";
        let error = refused(&[experiment, device, "--iodepth", "100", "--runtime", "30ms"]);
        assert!(error.contains("no way could be measured") && error.contains(room), "{error}");
    }
    let error = refused(&["checkpoint", "soft:size=8m,entries=64", "--iodepth", "100", "--ops", "10"]);
    assert!(error.contains("no way could be measured") && error.contains("--iodepth 100"), "{error}");
}

#[test]
fn shares_have_no_model_where_the_ssd_fetches_all() {
    for device in ["soft:size=16m,profile=optane,time=virtual,wrr=on", "soft:size=16m,wrr=on"] {
        let found = json(&["arbitration", device, "--runtime", "5ms"]);
        for row in found["rows"].as_array().expect("rows") {
            assert!(row["share"].is_f64() && row.get("expected_share").is_none(), "{row:#}");
        }
    }
}

#[test]
fn repeats_have_orders_and_intervals_of_all_figures() {
    let found = json(&["checkpoint", OPTANE, OPTANE, "--ops", "100", "--repeat", "6"]);
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(
        names(&found),
        ["save shards=1", "restore shards=1", "save shards=2", "restore shards=2"]
            .map(|name| format!("{name} bs=4k"))
    );
    let orders: Vec<Vec<u64>> = rows
        .iter()
        .map(|row| row["order"].as_array().expect("an order").iter().filter_map(Value::as_u64).collect())
        .collect();
    for repeat in 0..6 {
        let mut turns: Vec<u64> = orders.iter().map(|order| order[repeat]).collect();
        turns.sort_unstable();
        assert_eq!(turns, [0, 1, 2, 3], "each way has a turn in each repeat");
    }
    assert!(orders[0].iter().any(|turn| *turn != orders[0][0]), "not always the first: {orders:?}");
    for row in rows {
        for key in ["bytes_per_s", "seconds", "p99_ns"] {
            let (interval, middle) = (&row["intervals"][key], row[key].as_f64().expect("a figure"));
            let (low, high) =
                (interval["low"].as_f64().expect("low"), interval["high"].as_f64().expect("high"));
            assert!(low <= middle && middle <= high, "{key}: {row:#}");
            assert!(interval["confidence"].as_f64() > Some(0.95), "{row:#}");
        }
        assert!(row["intervals"].get("expected_bytes_per_s").is_none(), "{row:#}");
    }
    // The model is of the medians.
    let alone = figure(&found, "restore shards=1 ", "bytes_per_s");
    assert_eq!(figure(&found, "restore shards=2 ", "expected_bytes_per_s"), 2.0 * alone);
    let output = run(&["checkpoint", OPTANE, "--ops", "100", "--repeat", "6"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("medians of 6 repeats"), "{text}");
    assert!(text.contains("from and to hold the median of MiB/s with 96.9 % or more"), "{text}");
    assert!(!text.contains(" 0.000"), "times have figures: {text}");
}

#[test]
fn results_name_the_program_and_every_device() {
    let found = json(&["stripe", "soft:size=8m", "soft:size=16m", "--runtime", "20ms"]);
    assert_eq!((&found["warpbell"], &found["target"]), (&env!("CARGO_PKG_VERSION").into(), &"cpu".into()));
    let devices = found["devices"].as_array().expect("devices");
    let blocks: Vec<_> = devices.iter().map(|device| device["blocks"].as_u64()).collect();
    assert_eq!(blocks, [Some(16384), Some(32768)]);
    let paths = found["data_paths"].as_array().expect("data paths");
    assert!(paths.len() == 2 && paths.iter().all(|path| path["controller"] == "software"), "{paths:#?}");
    // One of them is software: nothing of it is a figure of hardware, whichever is named first.
    let folder = tempfile::tempdir().expect("a folder");
    let page = |change: &dyn Fn(&mut Value)| {
        let (mut changed, file) = (found.clone(), folder.path().join("changed.json"));
        change(&mut changed);
        std::fs::write(&file, changed.to_string()).expect("a file");
        let command = [std::ffi::OsStr::new("report"), file.as_os_str()];
        let output = Command::new(env!("CARGO_BIN_EXE_warpbell")).args(command).output().expect("it starts");
        String::from_utf8(output.stdout).expect("a page")
    };
    let first = page(&|changed| {
        changed["device"]["kind"] = "pcie".into();
        changed["devices"][0]["kind"] = "pcie".into();
    });
    assert!(first.contains("not a hardware figure"), "the second is software");
    assert!(first.contains("soft:size=16m") && first.contains("data path"), "both are in the card");
    let emulated = page(&|changed| {
        for at in 0..2 {
            changed["devices"][at]["kind"] = "pcie".into();
            changed["devices"][at]["model"] = "QEMU NVMe Ctrl".into();
        }
    });
    assert!(emulated.contains("its controller is emulated: QEMU NVMe Ctrl"), "{emulated}");
}

#[test]
fn workloads_count_what_the_ssd_has_done() {
    let found = json(&["graph", OPTANE, "--ops", "2000"]);
    for row in ["rows", "pages "] {
        let of = |key: &str| figure(&found, row, key);
        assert_eq!(of("commands"), of("expected_commands"), "{row}");
        assert_eq!(of("read_amplification"), of("expected_read_amplification"), "{row}");
    }
    let found = json(&["vectors", OPTANE, "--ops", "500", "--bs", "128,768,4k"]);
    for row in names(&found) {
        let of = |key: &str| figure(&found, row, key);
        assert_eq!(of("commands_per_op"), of("expected_commands_per_op"), "{row}");
        assert!((of("read_amplification") - of("expected_read_amplification")).abs() < 1e-9, "{row}");
    }
    // 768 bytes lie in two blocks of 512, or in three: a half of each.
    let straddling = figure(&found, "rows=64 bs=768", "read_amplification");
    assert!((1.3..1.4).contains(&straddling), "{straddling}");
    // The SSD's bytes each second, divided by those of an operation.
    for (workload, ops, rows) in [
        ("kv", "1000", ["by token get=100%", "by layer get=100%"]),
        ("loader", "1500", ["sequential ", "shuffled bs"]),
        ("vectors", "1000", ["rows=64 ", "clusters=8 "]),
    ] {
        let found = json(&[workload, OPTANE, "--ops", ops]);
        for row in rows {
            let ratio = figure(&found, row, "ops_per_s") / figure(&found, row, "expected_ops_per_s");
            assert!((0.9..1.01).contains(&ratio), "{workload} {row}: {ratio} of the model");
        }
    }
    let found = json(&["loader", OPTANE, "--ops", "500", "--bs", "6k"]);
    let of = |key: &str| figure(&found, "shuffled bs", key);
    assert_eq!((of("commands_per_op"), of("bytes_per_op")), (1.0, 6144.0));
    assert_eq!(of("bytes_per_op"), of("expected_bytes_per_op"));
}

#[test]
fn latencies_are_those_of_the_profile_where_time_is() {
    let options = ["--runtime", "50ms", "--iodepth", "1", "--load", "0,2"];
    let found = json(&[&["tail", OPTANE][..], &options].concat());
    for row in ["kernels load=0 ", "kernels load=2 ", "poll load=0 ", "poll load=2 ", "interrupt load=2 "] {
        for (key, tolerance) in [("p50_ns", 0.04), ("p99_ns", 0.06), ("p99_9_ns", 0.35)] {
            let (time, model) = (figure(&found, row, key), figure(&found, row, &format!("expected_{key}")));
            assert!((time / model - 1.0).abs() < tolerance, "{row}: {key} {time}, the model {model}");
        }
    }
    let found = json(&["cold", OPTANE, "--runtime", "20ms"]);
    let of = |key: &str| figure(&found, "host ", key);
    assert!((of("later_p50_ns") / of("expected_later_p50_ns") - 1.0).abs() < 0.03, "{found:#}");
    // The first read is one of the profile's, from its fastest to its slowest.
    assert!((9e3..=120e3).contains(&of("first_read_ns")), "{found:#}");
    for row in ["host ", "kernels first ", "kernels second "] {
        assert_eq!(figure(&found, row, "admin_commands"), figure(&found, row, "expected_admin_commands"));
    }
    for row in ["kernels first ", "kernels second "] {
        let ratio = figure(&found, row, "p50_ns") / figure(&found, row, "expected_p50_ns");
        assert!((ratio - 1.0).abs() < 0.04, "{row}: {ratio} of the profile");
    }
}

/// The part of a figure that the model of it is.
fn of_model(found: &Value, row: &str, key: &str) -> f64 {
    figure(found, row, key) / figure(found, row, &format!("expected_{key}"))
}

#[test]
fn interrupts_are_those_of_the_feature_where_time_is_virtual() {
    let options = ["--runtime", "20ms", "--coalescing", "8/100us,4/300us,32/200us"];
    // 16 are in flight: of 32 no interrupt is full, and the time ends each wait.
    let found = json(&[&["notice", OPTANE][..], &options].concat());
    for (row, interrupts) in [
        ("poll ", 0.0),
        ("interrupt bs", 1.0),
        ("interrupt coalescing=8/100us ", 1.0 / 8.0),
        ("interrupt coalescing=4/300us ", 1.0 / 4.0),
        ("interrupt coalescing=32/200us ", 1.0 / 16.0),
    ] {
        let of = |key: &str| figure(&found, row, key);
        assert_eq!(of("expected_interrupts_per_io"), interrupts, "{row}");
        // Some admin commands around the I/Os have interrupts, too.
        let most = interrupts * 1.01 + 32.0 / (of("iops") * 20e-3);
        assert!((interrupts * 0.99..=most).contains(&of("interrupts_per_io")), "{row}: {found:#}");
    }
    // One at a time waits for the time of the feature; the profile's own follows.
    let found = json(&[&["notice", OPTANE, "--iodepth", "1"][..], &options].concat());
    for (row, tolerance) in [
        ("poll ", 0.04),
        ("interrupt bs", 0.04),
        ("interrupt coalescing=8/100us ", 0.02),
        ("interrupt coalescing=4/300us ", 0.02),
    ] {
        let ratio = of_model(&found, row, "p50_ns");
        assert!((ratio - 1.0).abs() < tolerance, "{row}: {ratio} of the model");
    }
    let late = figure(&found, "interrupt coalescing=4/300us ", "p50_ns") - figure(&found, "poll ", "p50_ns");
    assert!((late / 300e3 - 1.0).abs() < 0.02, "{late} ns late");
}

#[test]
fn interrupts_of_a_run_are_gathered_as_it_asks() {
    let bench = ["--api", "host", "--runtime", "5ms", "-o", "json"];
    let of = |flags: &[&str]| {
        let output = run(&[&[OPTANE], &bench[..], flags].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{flags:?}: {error}");
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let gathers = ["--completion", "interrupt", "--iodepth", "4"];
    let found = of(&[&gathers[..], &["--axis", "coalescing=default,off,4/100us,8/200us"]].concat());
    let runs = found["runs"].as_array().expect("runs");
    let asked: Vec<_> = runs.iter().map(|run| run["job"]["coalescing"].as_str()).collect();
    assert_eq!(asked, [None, Some("off"), Some("4/100us"), Some("8/200us")]);
    let p50 = |run: usize| runs[run]["lat_ns"]["p50"].as_f64().expect("a latency");
    assert!((p50(0) / p50(1) - 1.0).abs() < 0.05, "it gathers none by itself: {} {}", p50(0), p50(1));
    assert!(p50(1) < p50(2) && p50(2) < 100e3 && p50(3) > 200e3, "{} {} {}", p50(1), p50(2), p50(3));
    // What the controller did before is restored.
    let after = of(&[&gathers[..], &["--axis", "coalescing=8/200us,default"]].concat());
    let late = |run: usize| after["runs"][run]["lat_ns"]["p50"].as_f64().expect("a latency");
    assert!(late(0) > 200e3 && late(1) < 20e3, "{} {}", late(0), late(1));
    let text =
        run(&[&[OPTANE, "--api", "host", "--runtime", "1ms", "--coalescing", "8/100us"], &gathers[..]]
            .concat());
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("completion=interrupt coalescing=8/100us"), "{text}");
    for (flags, said) in [
        (&["--coalescing", "8/100us"][..], "nobody waits for any; it goes with --completion interrupt"),
        (&["--coalescing", "300/100us"], "300 completions: one interrupt is for 2 to 256; off gathers none"),
        (
            &["--completion", "interrupt", "--queues", "2"],
            "--queues 2: in virtual time one thread does everything",
        ),
    ] {
        let output = run(&[&[OPTANE], &bench[..], flags].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(said), "{flags:?}: {error}");
    }
}

#[test]
fn ways_of_data_are_as_fast_as_the_profile_where_time_is_virtual() {
    let found = json(&["path", OPTANE, "--runtime", "20ms", "--bs", "4k,64k"]);
    for way in ["direct", "bounce"] {
        for size in ["4k", "64k"] {
            let row = format!("{way} bs={size}");
            let ratio = of_model(&found, &row, "iops");
            assert!((0.97..1.01).contains(&ratio), "{row}: {ratio} of the way to the client");
            assert_eq!(of_model(&found, &row, "ssd_bytes_per_io"), 1.0, "{row}");
            assert_eq!(figure(&found, &row, "copies_per_io"), if way == "direct" { 0.0 } else { 1.0 });
        }
    }
    for way in ["pread ", "io_uring "] {
        assert!(
            skipped(&found, way).starts_with("in virtual time there are no reads of the operating system's")
        );
    }
    let found = json(&["path", OPTANE, "--runtime", "20ms", "--iodepth", "1"]);
    for row in ["direct ", "bounce "] {
        for (key, tolerance) in [("p50_ns", 0.04), ("p99_ns", 0.06)] {
            let ratio = of_model(&found, row, key);
            assert!((ratio - 1.0).abs() < tolerance, "{row}: {key} {ratio} of the profile");
        }
    }
}

#[test]
fn registrations_are_counted_where_time_is_virtual() {
    let found = json(&["registration", OPTANE, "--runtime", "40ms"]);
    for (row, maps) in [("once ", 0.0), ("per_io ", 1.0), ("cached ", 0.25)] {
        let of = |key: &str| figure(&found, row, key);
        assert_eq!(of("expected_maps_per_io"), maps);
        // Of the cache more are missed until 48 are kept, and chance has its part.
        let tolerance = if row == "cached " { 0.03 } else { 0.0 };
        assert!((of("maps_per_io") - maps).abs() <= tolerance, "{row}: {}", of("maps_per_io"));
        let ratio = of_model(&found, row, "p50_ns");
        assert!((ratio - 1.0).abs() < 0.04, "{row}: {ratio} of the profile");
    }
    let keys = found["rows"].to_string();
    assert!(
        !keys.contains("map_p50_ns") && !keys.contains("client_cpu"),
        "mappings take no virtual time: {keys}"
    );
}

#[test]
fn tiles_say_which_part_bounds_them() {
    // One unit with a fast way to the client, and the built-in profile, which has the opposite.
    let folder = tempfile::tempdir().expect("a folder");
    let text = include_str!("../../../softctl/src/profile/optane.toml");
    let single = text.replace("units = 28", "units = 1").replace("2.5GB/s", "25GB/s");
    let path = folder.path().join("single.toml");
    std::fs::write(&path, &single).expect("a profile");
    let of_media = format!("soft:size=16m,profile={},time=virtual", path.display());
    for (device, bound, other) in
        [(&of_media[..], "media_share", "link_share"), (OPTANE, "link_share", "media_share")]
    {
        let found = json(&["tiles", device, "--runtime", "20ms"]);
        for row in ["ssd ", "stream passes=1 "] {
            let of = |key: &str| figure(&found, row, key);
            let ratio = of("iops") / of("expected_iops");
            assert!((0.9..1.02).contains(&ratio), "{device} {row}: {ratio} of the model");
            assert!((0.9..1.02).contains(&of(bound)) && of(other) < 0.3, "{device} {row}: {found:#}");
            assert!((0.98..1.01).contains(&of("ssd_busy_share")), "it always has commands: {found:#}");
        }
    }
    // In real time copies and computing are told apart by the number of passes.
    let found = json(&["tiles", "soft:size=16m", "--runtime", "100ms"]);
    let of = |key: &str| figure(&found, "stream passes=64 ", key);
    assert!(of("compute_share") > 2.0 * of("copy_share") && of("copy_share") >= 0.0, "{found:#}");
}
