//! Experiments by name: each runs, and what it counts is what its model says.

use std::process::{Command, Output};

use serde_json::Value;
use warpbell_workload::LatencyHistogram;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warpbell"))
        .args(["bench"])
        .args(arguments)
        .output()
        .expect("the command starts")
}

pub(super) fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["-o", "json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["schema"], "warpbell.experiment/1");
    assert_eq!(document["experiment"], arguments[0]);
    document
}

/// A figure of the row whose name begins so.
pub(super) fn figure(document: &Value, row: &str, key: &str) -> f64 {
    let rows = document["rows"].as_array().expect("rows");
    let found = rows.iter().find(|found| found["name"].as_str().is_some_and(|name| name.starts_with(row)));
    let found = found.unwrap_or_else(|| panic!("no row {row}: {document:#}"));
    found[key].as_f64().unwrap_or_else(|| panic!("row {row} has no {key}: {found:#}"))
}

/// A file of that many bytes, each block of it another.
fn image(folder: &tempfile::TempDir, bytes: usize) -> String {
    let path = folder.path().join("disk.img");
    let contents: Vec<u8> = (0..bytes).map(|at| (at / 512) as u8).collect();
    std::fs::write(&path, contents).expect("a file");
    path.display().to_string()
}

#[test]
fn ways_of_data_count_their_copies() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let device = format!("soft:file={}", image(&folder, 8 << 20));
    let found = json(&["path", &device, "--runtime", "100ms", "--bs", "4k,64k", "--iodepth", "4"]);
    for size in ["4k", "64k"] {
        let bytes = if size == "4k" { 4096.0 } else { 65536.0 };
        assert_eq!(figure(&found, &format!("direct bs={size}"), "copies_per_io"), 0.0);
        assert_eq!(figure(&found, &format!("bounce bs={size}"), "copies_per_io"), 1.0);
        assert_eq!(figure(&found, &format!("bounce bs={size}"), "copied_bytes_per_io"), bytes);
        let off = found["skipped"].to_string().contains(&format!("io_uring bs={size}"));
        for way in ["direct", "bounce", "pread", "io_uring"].into_iter().take(if off { 3 } else { 4 }) {
            let row = format!("{way} bs={size}");
            let (iops, rate) = (figure(&found, &row, "iops"), figure(&found, &row, "bytes_per_s"));
            assert!(iops > 0.0 && (rate / iops / bytes - 1.0).abs() < 1e-6, "{row}: {iops} {rate}");
            assert!(figure(&found, &row, "p50_ns") <= figure(&found, &row, "max_ns"));
        }
    }
}

#[test]
fn a_device_without_a_file_has_no_way_by_the_system() {
    let found = json(&["path", "soft:size=8m", "--runtime", "50ms"]);
    assert_eq!(found["skipped"][0]["point"], "pread bs=4k");
    assert_eq!(found["skipped"][1]["point"], "io_uring bs=4k");
    assert!(found["skipped"][0]["reason"].as_str().expect("a reason").contains("--os-path"));
    let found = json(&["path", "soft:size=8m", "--runtime", "50ms", "--os-path", "/nowhere/disk.img"]);
    assert!(found["skipped"][0]["reason"].as_str().expect("a reason").contains("No such file"));
}

#[test]
fn doorbells_are_shared_as_the_model_says() {
    let found = json(&["batching", "soft:size=64m,profile=optane,time=virtual", "--runtime", "5ms"]);
    assert_eq!(found["clock"], "virtual");
    for lanes in [1, 2, 4, 8, 16, 32] {
        let row = format!("gather={lanes} ");
        let (rung, model) = (
            figure(&found, &row, "sq_doorbells_per_io"),
            figure(&found, &row, "expected_sq_doorbells_per_io"),
        );
        assert!((rung / model - 1.0).abs() < 0.02, "{row}: {rung} of {model}");
    }
    assert_eq!(found["iodepth"], 32);
}

/// Each SSD has read what the layout has on it of the blocks that were drawn, to the byte.
fn as_laid_out(found: &Value, row: &str) {
    let of = |key: &str| figure(found, row, key);
    assert_eq!(of("smallest_share"), of("expected_smallest_share"), "{row}");
    assert!(of("smallest_share") > 0.5 && of("iops") > 0.0, "{row}: {found:#}");
}

#[test]
fn stripes_spread_reads_evenly() {
    let devices = ["soft:size=8m"; 4];
    let arguments =
        [&["stripe"][..], &devices, &["--runtime", "150ms", "--bs", "16k", "--iodepth", "8"]].concat();
    let found = json(&arguments);
    for ssds in [1, 2, 4] {
        for chunk in ["64k", "256k"] {
            let row = format!("stripe ssds={ssds} chunk={chunk} ");
            as_laid_out(&found, &row);
        }
    }
    as_laid_out(&found, "concatenate ssds=4 ");
    assert!(figure(&found, "replicate ssds=4 ", "smallest_share") > 0.5);
}

/// Four SSDs of 610,000 random reads of 4 KiB each second, on one virtual clock.
const VIRTUAL: [&str; 4] = ["soft:size=8m,profile=optane,time=virtual"; 4];

#[test]
fn kernels_read_stripes_as_fast_as_their_ssds() {
    let options = ["--api", "volume", "--runtime", "1ms", "--iodepth", "32", "--chunk", "64k"];
    let found = json(&[&["stripe"][..], &VIRTUAL, &options].concat());
    assert_eq!((&found["clock"], &found["api"]), (&"virtual".into(), &"volume".into()));
    let rows = ["stripe ssds=2 ", "stripe ssds=4 ", "concatenate "].map(str::to_owned);
    let copies = ["round-robin", "hashed", "by-cta", "nearest"]
        .map(|policy| format!("replicate ssds=4 policy={policy} "));
    for row in rows.iter().chain(&copies) {
        let of = |key: &str| figure(&found, row, key);
        assert_eq!(of("smallest_share"), of("expected_smallest_share"), "{row}");
        let expected = if row == &copies[3] { 0.0..0.001 } else { 0.85..1.001 };
        assert!(expected.contains(&of("smallest_share")), "{row}: {}", of("smallest_share"));
        // Chance leaves an SSD without a read now and then, and the end of so short a run shows.
        let ratio = of("iops") / of("expected_iops");
        assert!((0.92..1.02).contains(&ratio), "{row}: {ratio} of the model");
    }
    // Of four copies one is read, with all reads in flight there.
    let waits = figure(&found, &copies[3], "p50_ns") / figure(&found, &copies[0], "p50_ns");
    assert!((waits / 4.0 - 1.0).abs() < 0.1, "{waits}");
    assert_eq!(found["rows"].as_array().expect("rows").len(), 8);
}

#[test]
fn kernels_read_stripes_in_real_time() {
    let options = ["--api", "volume", "--runtime", "60ms", "--bs", "4k,128k", "--iodepth", "5"];
    let chosen = ["--chunk", "64k", "--policy", "by-cta,hashed"];
    let found = json(&[&["stripe"][..], &["soft:size=8m"; 3], &options, &chosen].concat());
    for row in [
        "stripe ssds=1 ",
        "stripe ssds=2 ",
        "stripe ssds=3 ",
        "concatenate ssds=3 ",
        "replicate ssds=3 policy=by-cta ",
        "replicate ssds=3 policy=hashed ",
    ] {
        // On a busy machine there are few reads, and their shares are whatever chance makes them.
        let of = |key: &str| figure(&found, row, key);
        assert_eq!(of("smallest_share"), of("expected_smallest_share"), "{row}");
        assert!(of("iops") > 0.0 && of("p50_ns") <= of("max_ns"), "{row}: {found:#}");
    }
    let skipped = found["skipped"].as_array().expect("what was skipped");
    assert_eq!((found["rows"].as_array().expect("rows").len(), skipped.len()), (6, 6));
    let reason = "131072 bytes: above the chunk, 65536 bytes, and a kernel's read is of one SSD";
    assert_eq!(skipped[0]["reason"], reason);
}

#[test]
fn volumes_that_cannot_be_measured_are_refused() {
    let real = "soft:size=8m";
    let refused: [(&[&str], &str); 8] = [
        (&["stripe", real, "--api", "io"], "'io': expected one of host, volume"),
        (
            &["stripe", real, "--policy", "hashed"],
            "--policy: round-robin, hashed, by-cta, nearest are of the warps of kernels; add --api volume",
        ),
        (
            &["stripe", real, "--api", "volume", "--policy", "near"],
            "'near': expected one of round-robin, hashed, by-cta, nearest",
        ),
        (&["path", real, "--api", "volume"], "--api: only stripe has volumes, not path"),
        (&["stripe", real, "--chunk", "64k,64k"], "this size is there twice"),
        (&["stripe", VIRTUAL[0]], "its time is virtual"),
        (&["stripe", real, VIRTUAL[0], "--api", "volume"], "of this and soft:size=8m one is in virtual time"),
        (
            &["stripe", VIRTUAL[0], "soft:size=8m,time=virtual,client=h200", "--api", "volume"],
            "accesses of a kernel take time of one SSD's clock only",
        ),
    ];
    for (arguments, expected) in refused {
        let output = run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(expected), "{arguments:?}: {error}");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    }
}

/// Who polls is sent interrupts for the admin commands around its I/Os only: fewer than these.
const ADMIN_INTERRUPTS: f64 = 32.0;

#[test]
fn interrupts_are_counted_and_gathered() {
    // An SSD that takes its time: our own completes many at once, which share an interrupt as it is.
    let device = "soft:size=8m,profile=optane";
    let found = json(&["notice", device, "--runtime", "200ms", "--iodepth", "16"]);
    let of = |row: &str| figure(&found, row, "interrupts_per_io");
    let polled = of("poll ") * figure(&found, "poll ", "iops") * 0.2;
    assert!(polled < ADMIN_INTERRUPTS, "{polled} interrupts");
    let admin = |row: &str| ADMIN_INTERRUPTS / (figure(&found, row, "iops") * 0.2);
    assert!(of("interrupt bs") > 0.0 && of("interrupt bs") <= 1.0 + admin("interrupt bs"));
    let row = "interrupt coalescing=8/100us ";
    let gathered = of(row);
    assert!(gathered <= 1.0 / 8.0 + 0.05 + admin(row), "{gathered}");
    // One at a time is never gathered: it waits for the 100 us of the feature, and takes 10 us of the profile without.
    let alone = json(&["notice", device, "--runtime", "100ms", "--iodepth", "1"]);
    let waits = figure(&alone, row, "p50_ns");
    assert!(waits > 95e3, "{waits} ns: gathering is without effect");
}

#[test]
fn tails_are_measured_beside_busy_threads() {
    let found = json(&["tail", "soft:size=8m", "--runtime", "60ms", "--load", "0,2", "--iodepth", "4"]);
    assert_eq!(found["rows"].as_array().expect("rows").len(), 6);
    for way in ["kernels", "poll", "interrupt"] {
        for load in [0, 2] {
            let row = format!("{way} load={load} ");
            assert!(figure(&found, &row, "iops") > 0.0);
            assert!(figure(&found, &row, "p50_ns") <= figure(&found, &row, "p99_9_ns"));
            let (interrupts, ios) =
                (figure(&found, &row, "interrupts_per_io"), figure(&found, &row, "iops") * 0.06);
            match way {
                // Four are in flight.
                "interrupt" => assert!(
                    interrupts > 0.2 && interrupts <= 1.0 + ADMIN_INTERRUPTS / ios,
                    "{row}: {interrupts}"
                ),
                _ => assert!(interrupts * ios < ADMIN_INTERRUPTS, "{row}: {interrupts}"),
            }
        }
    }
}

#[test]
fn the_first_read_is_told_apart_from_later_ones() {
    let found = json(&["cold", "soft:size=8m", "--runtime", "50ms"]);
    let of = |key: &str| figure(&found, "host ", key);
    assert!(of("queue_ns") > 0.0 && of("first_read_ns") > 0.0 && of("later_p50_ns") > 0.0);
    assert!(of("time_to_first_byte_ns") >= of("queue_ns") && of("queue_ns") > of("later_p50_ns"));
    assert_eq!(of("admin_commands"), 2.0, "Create I/O Completion Queue, Create I/O Submission Queue");
    assert!(
        figure(&found, "kernels first ", "setup_ns") > 0.0
            && figure(&found, "kernels second ", "setup_ns") > 0.0
    );
    let commands = |row: &str| figure(&found, row, "admin_commands");
    assert_eq!(commands("kernels first "), commands("kernels second "), "queues are created for each launch");
    assert!(commands("kernels first ") >= 4.0, "both queues are created and deleted");
}

#[test]
fn shares_of_one_ssd_follow_weights() {
    let device = "soft:size=16m,profile=optane,time=virtual,wrr=on,slots=32";
    let found = json(&["arbitration", device, "--runtime", "10ms"]);
    for who in ["kernels", "host"] {
        for weights in ["weights=1:1", "weights=3:1", "weights=1:3", "host=urgent"] {
            let row = format!("{who} {weights} ");
            let (share, model) = (figure(&found, &row, "share"), figure(&found, &row, "expected_share"));
            assert!((share - model).abs() < 0.02, "{row}: {share}, the model {model}");
        }
    }
    let p99 = |row: &str| figure(&found, row, "p99_ns");
    assert!(p99("host weights=3:1 ") > 2.0 * p99("kernels weights=3:1 "), "who gets less waits longer");
    assert!(p99("kernels host=urgent ") > 10.0 * p99("host host=urgent "));
}

#[test]
fn a_class_of_ordering_costs_what_it_keeps_back() {
    let found = json(&["order", "soft:size=16m,profile=optane,time=virtual", "--runtime", "5ms"]);
    for (row, tolerance) in [("delivery steps=8 ", 0.1), ("completion steps=8 ", 0.02)] {
        let ratio = figure(&found, row, "iops") / figure(&found, row, "expected_iops");
        assert!((ratio - 1.0).abs() < tolerance, "{row}: {ratio} of the model");
    }
    for row in ["none steps=8 ", "none steps=1 ", "delivery ", "completion "] {
        let ratio = figure(&found, row, "sq_doorbells_per_io") * 32.0;
        assert!((ratio - 1.0).abs() < 0.02, "{row}: {ratio} doorbells for each step");
    }
    // The last of eight steps waits for the seven before it.
    let (alone, behind) =
        (figure(&found, "none steps=1 ", "p50_ns"), figure(&found, "completion ", "p50_ns"));
    assert!((behind / alone / 8.0 - 1.0).abs() < 0.1, "{behind} and {alone}");
}

#[test]
fn tiles_come_as_fast_as_the_slowest_part_lets_them() {
    let device = "soft:size=16m,profile=optane,time=virtual";
    let found = json(&["tiles", device, "--runtime", "5ms", "--bs", "4k,64k"]);
    for row in ["stream passes=1 ", "stream passes=64 "] {
        let share = figure(&found, row, "ssd_share");
        // One load after the other would be an eighth. The end of so short a run is a part that shows.
        assert!((0.85..1.02).contains(&share), "{row}: {share} of the SSD's rate");
    }
    let reason = found["skipped"][0]["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("2 tiles take 135168 bytes of shared memory, the limit is 49152"), "{reason}");
    // In real time it is the computing that takes the client's time, with loads and without.
    let found = json(&["tiles", "soft:size=16m", "--runtime", "60ms", "--bs", "4k"]);
    for way in ["chip", "stream"] {
        let cpu = |passes: &str| figure(&found, &format!("{way} passes={passes} "), "client_cpu_ns_per_io");
        assert!(cpu("64") > 3.0 * cpu("1"), "{way}: {} and {}", cpu("64"), cpu("1"));
    }
    assert!(figure(&found, "stream passes=64 ", "chip_share") > 0.0);
}

/// An SSD of 610,000 random reads of 4 KiB each second, in virtual time.
pub(super) const OPTANE: &str = "soft:size=64m,profile=optane,time=virtual";

#[test]
fn the_store_of_keys_and_values_asks_as_its_layout_says() {
    let found = json(&["kv", OPTANE, "--ops", "1000"]);
    for order in ["by token", "by layer"] {
        for gets in [100, 95, 50] {
            let row = format!("{order} get={gets}% ");
            let of = |key: &str| figure(&found, &row, key);
            assert_eq!(of("commands_per_op"), of("expected_commands_per_op"), "{row}");
            assert!((of("iops") / of("ops_per_s") / of("commands_per_op") - 1.0).abs() < 1e-3, "{row}");
        }
    }
    // 16 tokens: as many commands of one value each, or one command.
    assert_eq!(figure(&found, "by token get=100% ", "commands_per_op"), 16.0);
    assert_eq!(figure(&found, "by layer get=100% ", "commands_per_op"), 1.0);
    let half = figure(&found, "by token get=50% ", "commands_per_op");
    assert!((8.0..9.0).contains(&half), "half of them put, by one command: {half}");
    // The SSD's rate bounds both; a get moves as many bytes either way.
    let (token, layer) = (
        figure(&found, "by token get=100% ", "ops_per_s"),
        figure(&found, "by layer get=100% ", "ops_per_s"),
    );
    assert!((token / layer - 1.0).abs() < 0.05, "{token} {layer}");
}

#[test]
fn checkpoints_are_as_fast_as_their_shards() {
    let devices = [OPTANE; 4];
    let found = json(&[&["checkpoint"][..], &devices, &["--bs", "128k", "--ops", "400"]].concat());
    for way in ["save", "restore"] {
        for shards in [2, 4] {
            let row = format!("{way} shards={shards} ");
            let ratio = figure(&found, &row, "bytes_per_s") / figure(&found, &row, "expected_bytes_per_s");
            assert!((0.95..1.02).contains(&ratio), "{row}: {ratio} of the model");
        }
    }
}

#[test]
fn trainers_wait_for_what_the_ssd_cannot_give() {
    let found = json(&["loader", OPTANE, "--ops", "4000"]);
    for taken in [50, 90, 200] {
        let row = format!("trainer takes {taken}% ");
        let (stall, model) =
            (figure(&found, &row, "stall_share"), figure(&found, &row, "expected_stall_share"));
        assert!((stall - model).abs() < 0.02, "{row}: {stall}, the model {model}");
    }
    for order in ["sequential ", "shuffled within 256 ", "shuffled bs"] {
        assert_eq!(figure(&found, order, "bytes_per_op"), 4096.0);
    }
}

#[test]
fn searches_and_queries_count_what_they_read() {
    let found = json(&["graph", OPTANE, "--ops", "4000"]);
    let (rows, pages) = (figure(&found, "rows", "commands"), figure(&found, "pages ", "commands"));
    assert!(rows > 1000.0 && rows < 4000.0, "each node that is reached once: {rows}");
    // 64,000 edges are 63 pages; some are wanted in more than one level.
    let levels = figure(&found, "pages ", "levels");
    assert!(pages >= 32.0 && pages <= 63.0 * levels, "{pages} in {levels} levels");
    assert!(figure(&found, "pages ", "read_amplification") < figure(&found, "rows", "read_amplification"));
    let found = json(&["vectors", OPTANE, "--ops", "2000", "--bs", "128,4k"]);
    assert_eq!(figure(&found, "rows=64 bs=4k", "commands_per_op"), 64.0);
    assert_eq!(figure(&found, "rows=64 bs=4k", "read_amplification"), 1.0);
    // A vector of 128 bytes costs a block of 512; a cluster of 256 of them is whole blocks.
    assert_eq!(figure(&found, "rows=64 bs=128", "read_amplification"), 4.0);
    assert_eq!(figure(&found, "clusters=8 bs=128", "read_amplification"), 1.0);
}

#[test]
fn rows_have_the_latencies_of_all_repeats_and_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.csv");
    let csv = path.display().to_string();
    let found = json(&["batching", OPTANE, "--runtime", "5ms", "--repeat", "3", "--csv", &csv]);
    let rows = found["rows"].as_array().expect("rows");
    for row in rows {
        let histogram = LatencyHistogram::decoded(row["latency_histogram"].as_str().expect("a histogram"));
        let recorded = histogram.expect("a histogram of HdrHistogram").count();
        let each = row["each"].as_array().expect("each repeat").iter();
        let ios: f64 = each.map(|one| one["iops"].as_f64().expect("a rate") * 5e-3).sum();
        assert!((recorded as f64 / ios - 1.0).abs() < 0.1, "{}: {recorded} of {ios}", row["name"]);
    }
    let text = std::fs::read_to_string(&path).expect("rows");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 3 * rows.len(), "{text}");
    assert!(lines[0].starts_with("experiment,device,target,clock,iodepth,way,repeat,iops,"), "{}", lines[0]);
    let cells: Vec<&str> = lines[2].split(',').collect();
    let own = rows[0]["name"].as_str().expect("a name");
    // The device's name has commas, and so quotes.
    let behind = cells.iter().position(|cell| *cell == own).expect("the way");
    assert_eq!((cells[behind + 1], cells[behind + 2]), ("1", &rows[0]["each"][1]["iops"].to_string()[..]));
    let error = run(&["batching", OPTANE, "--csv", "/nowhere/rows.csv"]);
    assert!(String::from_utf8_lossy(&error.stderr).contains("--csv /nowhere/rows.csv: "), "{error:?}");
}

#[test]
fn workloads_write_only_where_they_may() {
    let folder = tempfile::tempdir().expect("a folder");
    let device = format!("soft:file={}", image(&folder, 8 << 20));
    for workload in ["kv", "checkpoint"] {
        let output = run(&[workload, &device, "--ops", "100"]);
        assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    }
    json(&["loader", &device, "--ops", "100"]);
}

#[test]
fn repeats_are_kept_and_their_medians_shown() {
    let found = json(&["notice", "soft:size=8m", "--runtime", "15ms", "--iodepth", "4", "--repeat", "3"]);
    assert_eq!(found["repeats"], 3);
    for row in found["rows"].as_array().expect("rows") {
        let each = row["each"].as_array().expect("each repeat");
        let mut rates: Vec<f64> = each.iter().map(|one| one["iops"].as_f64().expect("a rate")).collect();
        rates.sort_by(f64::total_cmp);
        assert_eq!((rates.len(), row["iops"].as_f64()), (3, Some(rates[1])), "{row:#}");
        let interval = &row["iops_interval"];
        assert_eq!((interval["low"].as_f64(), interval["high"].as_f64()), (Some(rates[0]), Some(rates[2])));
        assert_eq!(interval["confidence"], 0.75);
    }
    let once = json(&["notice", "soft:size=8m", "--runtime", "5ms", "--iodepth", "4"]);
    assert!(once["repeats"] == 1 && once["rows"][0].get("each").is_none(), "{once:#}");
    let virt = "soft:size=8m,profile=optane,time=virtual";
    let output = run(&["batching", virt, "--runtime", "1ms", "--repeat", "2"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("medians of 2 repeats") && text.contains("with 50.0 % or more"), "{text}");
}

#[test]
fn what_cannot_be_is_said() {
    let error = |arguments: &[&str], line: &str| {
        let output = run(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(line), "{arguments:?}: {text}");
        assert!(output.stdout.is_empty(), "{arguments:?}: nothing was measured");
    };
    error(&["pathh"], "'pathh' is neither a device nor an experiment (did you mean 'path'?); a device");
    error(&["ordre", "soft:size=8m"], "did you mean 'order'?");
    error(
        &["xyzzy"],
        "nor an experiment; a device is soft:size=1g or the like, and experiments are calibrate, path, ",
    );
    error(&["nvme0"], "device 'nvme0': unknown form; expected soft:size=BYTES");
    error(&["arbitration", "soft:size=8m"], "a soft controller has weights with wrr=on");
    error(&["notice", "soft:size=8m", "--bs", "4k,4096"], "--bs 4k: this size is there twice");
    error(&["kv", "soft:size=8m", "--bs", "4k,0"], "--bs 0: an I/O moves at least a block");
    error(&["tail", "soft:size=8m", "--load", "0,2,0"], "--load 0: this load is there twice");
    error(
        &["notice", "soft:size=8m", "--coalescing", "8/100us,8/100us"],
        "--coalescing 8/100us: this value is there twice",
    );
    error(&["notice", "soft:size=8m", "--coalescing", "off"], "`interrupt` is that row; leave it out");
    error(
        &["notice", "soft:size=8m", "--coalescing", "8/150us"],
        "expected a multiple of 100us, from 100us to 25500us",
    );
    error(&["path", "soft:size=8m", "--coalescing", "8/100us"], "--coalescing: only notice compares");
    error(&["path", "soft:size=8m", "--bs", "1g"], "path: no way could be measured; the first:");
    error(&["path", "soft:size=8m", "--load", "2"], "--load: only tail has busy threads, not path");
    error(&["tail", "soft:size=8m", "--os-path", "/dev/null"], "--os-path: only path reads it, not tail");
    error(&["batching", "soft:size=8m", "--iodepth", "4"], "batching always has 32 in flight");
    error(&["cold", "soft:size=8m", "--runtime", "0"], "each row is measured for some time");
    error(&["tail", "soft:size=8m", "--load", "5000"], "--load 5000: must be at most 1024");
    error(&["notice", "soft:size=8m", "--iodepth", "0"], "--iodepth 0: must be at least 1");
    error(&["kv", "soft:size=8m", "--runtime", "1"], "--runtime: --ops ends rows of kv");
    error(&["path", "soft:size=8m", "--ops", "5"], "--ops: only workloads have it");
    error(&["kv", "soft:size=1m", "--ops", "5"], "takes 2097152 bytes, and the namespace has 1048576");
    error(&["loader", "soft:size=1m", "--ops", "500"], "500 records take 2048000 bytes");
    let output = run(&["registration", "soft:size=8m", "--runtime", "20ms", "--bs", "100,4k"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("skipped: bs=100: 100 bytes: must be a multiple of the block size, 512 bytes"),
        "{text}"
    );
    assert!(text.contains("not a hardware figure") && text.contains("per_io bs=4k"), "{text}");
}
