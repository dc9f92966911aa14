//! `bench --api batch`: blocks of threads send their I/Os together.

use serde_json::Value;

use crate::common::{json, ok, refused, run};

const DEVICE: &str = "soft:size=4m";
const IN_VIRTUAL_TIME: &str = "soft:size=1m,profile=optane,time=virtual";

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value:#}"))
}

#[test]
fn a_batch_costs_the_doorbells_and_fences_of_raw_and_no_more_atomics() {
    let flags = ["bench", "soft:size=4m,time=virtual", "--io-limit", "4m", "-o", "json"];
    for sharing in ["exclusive", "shared"] {
        let runs = |more: &[&str]| {
            let report = json(&[&flags[..], &["--sharing", sharing], more].concat());
            report["runs"][0].clone()
        };
        // Lanes that begin their I/Os together, as those of a batch do.
        let pair = [runs(&["--api", "raw", "--gather", "32"]), runs(&["--api", "batch"])];
        let cost = |run: &Value, key: &str| number(&run["counters"][key]);
        for key in ["sq_doorbells", "cq_doorbells", "fences", "sqes", "cqes"] {
            assert_eq!(cost(&pair[0], key), cost(&pair[1], key), "{key}: {pair:#?}");
        }
        // A wait keeps the lock of the queue; each `progress` takes it again.
        let submissions = if sharing == "shared" { 32 } else { 0 };
        assert!(cost(&pair[1], "rmw") <= cost(&pair[0], "rmw"), "{pair:#?}");
        assert_eq!(cost(&pair[1], "rmw"), 2 * submissions, "{pair:#?}");
        assert_eq!((cost(&pair[1], "sqes"), cost(&pair[1], "sq_doorbells")), (1024, 32), "{pair:#?}");
        assert_eq!((number(&pair[1]["ios"]), number(&pair[1]["errors"])), (1024, 0), "{pair:#?}");
        assert!(number(&pair[1]["lat_ns"]["p50"]) > 0 && pair[1]["lat_ns"]["max"].is_u64(), "{pair:#?}");
    }
}

#[test]
fn blocks_of_any_size_do_as_many_io_and_all_of_it_is_right() {
    // Shares of 22, 22 and 21 commands; each I/O is three commands, which batches send.
    for (block, warps, queues, submitters) in
        [("32", "3", "1", 1), ("128", "3", "1", 3), ("256", "6", "2", 6)]
    {
        let flags =
            ["bench", "soft:size=8m,mdts=4", "--api", "batch", "--sharing", "shared", "--block", block];
        let shape =
            ["--warps", warps, "--queues", queues, "--iodepth", "65", "--rw", "randrw", "--bs", "160k"];
        let amount = ["--size", "3200k", "--io-limit", "16m", "--verify", "crc32c", "-o", "json"];
        let report = json(&[&flags[..], &shape, &amount].concat());
        let run = &report["runs"][0];
        assert_eq!((number(&report["errors"]), number(&report["mismatches"])), (0, 0), "{report:#}");
        assert_eq!((number(&run["ios"]), number(&run["counters"]["sqes"])), (103, 309), "{run:#}");
        assert_eq!(number(&run["job"]["block"]).to_string(), block);
        let text = ok(&[&flags[..], &shape, &amount[..2], &["--io-limit", "1m"]].concat());
        assert!(text.contains(&format!(" block={block} submitters={submitters}")), "{text}");
    }
}

#[test]
fn a_sequence_is_one_pass_over_every_block() {
    let flags = ["bench", DEVICE, "--api", "batch", "--rw", "write", "--bs", "512", "--size", "512k"];
    for shape in [&["--queues", "3", "--iodepth", "7"][..], &["--sharing", "shared", "--iodepth", "100"]] {
        let report = json(&[&flags[..], shape, &["--verify", "crc32c", "-o", "json"]].concat());
        let run = &report["runs"][0];
        assert_eq!((number(&run["ios"]), number(&run["write"]["ios"])), (1024, 1024), "{run:#}");
        assert_eq!(number(&run["verify"]["blocks"]), 1024, "{run:#}");
        assert_eq!((number(&run["verify"]["mismatches"]), number(&run["errors"])), (0, 0), "{run:#}");
    }
}

fn plan(folder: &tempfile::TempDir, text: &str) -> String {
    let path = folder.path().join("plan.toml");
    std::fs::write(&path, text).expect("the plan is written");
    path.to_str().expect("the path is UTF-8").to_owned()
}

#[test]
fn what_is_lost_or_times_out_is_sent_again_or_counted() {
    let folder = tempfile::tempdir().unwrap();
    let faults = "[[fault]]\nkind = \"drop\"\nafter = 100\nevery = 300\ncount = 2\n\
        [[fault]]\nkind = \"fail\"\nstatus = \"Namespace Not Ready\"\nevery = 500\ncount = 3\n";
    let plan = plan(&folder, faults);
    for sharing in ["exclusive", "shared"] {
        let flags = ["bench", IN_VIRTUAL_TIME, "--api", "batch", "--sharing", sharing, "--fault", &plan];
        let flags =
            [&flags[..], &["--bs", "512", "--io-limit", "1m", "--timeout", "20ms", "-o", "json"]].concat();
        let report = json(&[&flags[..], &["--retries", "3"]].concat());
        assert_eq!((number(&report["errors"]), number(&report["ios"])), (0, 2048), "{report:#}");
        let recovery = &report["recovery"];
        assert_eq!(number(&recovery["timed_out"]), 2, "{recovery:#}");
        // No wait came across the loss: all that was in flight had been given up.
        assert!(number(&recovery["queues_replaced"]) >= 1, "{recovery:#}");
        assert_eq!(recovery["queue_losses"], recovery["queues_replaced"], "{recovery:#}");
        assert!(number(&recovery["retried"]) >= 5 && number(&recovery["recovered"]) >= 5, "{recovery:#}");

        let output = run(&[&flags[..], &["--no-recover"]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((number(&report["errors"]), number(&report["ios"])), (5, 2043), "{report:#}");
        assert_eq!(number(&report["recovery"]["timed_out"]), 2, "{report:#}");
    }
}

#[test]
fn a_controller_that_dies_costs_one_batch_or_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&folder, "[[fault]]\nkind = \"fatal\"\nafter = 200\ncount = 1\n");
    let flags =
        ["bench", IN_VIRTUAL_TIME, "--api", "batch", "--fault", &plan, "--io-limit", "1m", "--bs", "512"];
    for (more, errors, ios) in [
        (&["--recover", "--retries", "2"][..], 0..=0, 2048..=2048),
        (&["--recover"], 1..=32, 2016..=2047),
        (&["--no-recover"], 1..=32, 168..=200),
    ] {
        let output = run(&[&flags[..], &["--timeout", "20ms", "-o", "json"], more].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.success(), number(&report["errors"]) == 0, "{more:?}: {error}");
        assert!(errors.contains(&number(&report["errors"])), "{more:?}: {report:#}");
        assert!(ios.contains(&number(&report["ios"])), "{more:?}: {report:#}");
    }
}

#[test]
fn a_loss_in_several_rounds_of_commands_is_one_loss() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&folder, "[[fault]]\nkind = \"fatal\"\nafter = 200\ncount = 1\n");
    // A batch is 32 I/Os of three commands each.
    let device = "soft:size=8m,mdts=4,profile=optane,time=virtual";
    let flags = ["bench", device, "--api", "batch", "--fault", &plan, "--bs", "160k", "--io-limit", "16m"];
    for more in [&["--recover"][..], &["--recover", "--retries", "2"], &["--no-recover"]] {
        let output = run(&[&flags[..], &["--timeout", "20ms", "-o", "json"], more].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(number(&report["runs"][0]["job"]["commands_per_io"]), 3, "{report:#}");
        assert_eq!(number(&report["recovery"]["queue_losses"]), 1, "{more:?}: {report:#}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    for (flags, says) in [
        (&["--api", "io", "--block", "64"][..], "--block 64: only --api batch has blocks, this is --api io"),
        (&["--api", "batch", "--block", "0"], "--block 0: must be at least 32 threads, one warp"),
        (&["--api", "batch", "--block", "288"], "--block 288: must be at most 256 threads"),
        (&["--api", "batch", "--block", "100"], "--block 100: must be a multiple of 32, whole warps"),
        (
            &["--api", "batch", "--iodepth", "33"],
            "--iodepth 33: must be at most 32: a batch has one command of each lane in flight, of --warps 1 on --queues 1",
        ),
        (
            &["--api", "batch", "--warps", "2", "--sharing", "shared", "--iodepth", "65"],
            "--iodepth 65: must be at most 64: a batch has one command of each lane in flight, of --warps 2 on --queues 1",
        ),
        (
            &["--api", "batch", "--warps", "2"],
            "--warps 2: must be at most 1: with --sharing exclusive each warp has one of --queues 1",
        ),
        (
            &["--api", "batch", "--agents", "1"],
            "--agents 1: only --api agent has agents, this is --api batch",
        ),
        (
            &["--api", "batch", "--completion", "interrupt"],
            "--completion interrupt: kernels poll; it goes with --api host",
        ),
        (
            &["--api", "batch", "--trace", "/nowhere/trace.json"],
            "--api batch: batches write no traces; use --api io or raw",
        ),
        (
            &["--api", "batch", "--replay", "/nowhere/trace.json"],
            "the argument '--api <API>' cannot be used with '--replay <FILE>'",
        ),
        (
            &["--api", "batch", "--protocol", "turns", "--sharing", "shared"],
            "--api batch: --protocol turns has a loop of its own that writes entries; use --api raw",
        ),
    ] {
        assert_eq!(refused(&[&["bench", DEVICE][..], flags].concat()), (2, says.to_owned()));
    }
    let (code, error) = refused(&["bench", "resident:", "--api", "batch"]);
    assert!(
        code == 2 && error.starts_with("--api batch: the clients of the GPU-resident controller"),
        "{error}"
    );
}
