//! `bench --api agent`: some warps do the I/O of the others.

use serde_json::Value;

use crate::common::{json, ok, refused, run};

const DEVICE: &str = "soft:size=4m";

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value:#}"))
}

#[test]
fn the_layers_are_compared_in_one_run() {
    for sharing in ["exclusive", "shared"] {
        let report = json(&[
            "bench",
            DEVICE,
            "--axis",
            "api=raw,io,batch,agent",
            "--io-limit",
            "8m",
            "--sharing",
            sharing,
            "--iodepth",
            "32",
            "-o",
            "json",
        ]);
        let runs = report["runs"].as_array().expect("runs");
        let apis: Vec<&str> = runs.iter().filter_map(|run| run["job"]["api"].as_str()).collect();
        assert_eq!(apis, ["raw", "io", "batch", "agent"]);
        for run in runs {
            assert_eq!((number(&run["ios"]), number(&run["errors"])), (2048, 0), "{run:#}");
            assert_eq!(number(&run["counters"]["sqes"]), 2048, "{run:#}");
            assert!(number(&run["lat_ns"]["p50"]) > 0, "{run:#}");
        }
        assert!(
            runs[0]["agents"].is_null() && runs[1]["agents"].is_null() && runs[2]["agents"].is_null(),
            "{report:#}"
        );
        let agents = &runs[3]["agents"];
        assert_eq!((number(&agents["requests"]), number(&agents["refused"])), (2048, 0), "{agents:#}");
        assert_eq!(number(&agents["batches"]), number(&runs[3]["counters"]["sq_doorbells"]), "{agents:#}");
        assert!(number(&runs[3]["counters"]["polls"]) > 0, "agents look at their queues: {report:#}");
        assert_eq!(number(&agents["compute_polls"]), 0, "and nobody else does");
    }
}

#[test]
fn agents_serve_more_warps_and_larger_requests_than_their_queues_have() {
    // Three warps for two agents; each I/O is three commands, of which agents send one at a time.
    let report = json(&[
        "bench",
        "soft:size=8m,mdts=4",
        "--api",
        "agent",
        "--sharing",
        "shared",
        "--agents",
        "2",
        "--warps",
        "3",
        "--rw",
        "randrw",
        "--bs",
        "160k",
        "--size",
        "3200k",
        "--io-limit",
        "16m",
        "--iodepth",
        "65",
        "--verify",
        "crc32c",
        "-o",
        "json",
    ]);
    let run = &report["runs"][0];
    assert_eq!((number(&report["errors"]), number(&report["mismatches"])), (0, 0), "{report:#}");
    assert_eq!((number(&run["ios"]), number(&run["job"]["commands_per_io"])), (103, 3), "{run:#}");
    assert_eq!(number(&run["agents"]["requests"]), 309, "{run:#}");
    assert_eq!((number(&run["job"]["agents"]), number(&run["job"]["warps"])), (2, 3));
}

#[test]
fn what_times_out_is_an_error_and_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    std::fs::write(&plan, "[[fault]]\nkind = \"drop\"\nafter = 100\nevery = 300\ncount = 2\n").unwrap();
    let plan = plan.to_str().expect("UTF-8");
    let device = "soft:size=1m,profile=optane,time=virtual";
    for sharing in ["exclusive", "shared"] {
        let flags = ["bench", device, "--api", "agent", "--sharing", sharing, "--fault", plan];
        let more = ["--bs", "512", "--io-limit", "1m", "--timeout", "20ms", "--no-recover", "-o", "json"];
        let output = run(&[&flags[..], &more[..]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("2 I/Os failed"), "{error}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((number(&report["errors"]), number(&report["ios"])), (2, 2046), "{report:#}");
        assert_eq!(number(&report["recovery"]["timed_out"]), 2, "{report:#}");
    }
}

#[test]
fn a_controller_that_dies_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    std::fs::write(&plan, "[[fault]]\nkind = \"fatal\"\nafter = 200\ncount = 1\n").unwrap();
    let plan = plan.to_str().expect("UTF-8");
    let device = "soft:size=1m,profile=optane,time=virtual";
    for recover in ["--recover", "--no-recover"] {
        let flags = ["bench", device, "--api", "agent", "--fault", plan, "--io-limit", "1m", "--bs", "512"];
        let output = run(&[&flags[..], &["--timeout", "20ms", recover, "-o", "json"]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{recover}: {error}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        // Buffers of requests that were in flight then are used no more.
        assert!((1..=32).contains(&number(&report["errors"])), "{recover}: {report:#}");
        assert!(number(&report["ios"]) >= 168, "{recover}: {report:#}");
    }
}

#[test]
fn the_text_says_what_agents_did() {
    let text = ok(&["bench", DEVICE, "--api", "agent", "--io-limit", "1m"]);
    for words in [
        "api=agent warps=1 sharing=exclusive agents=1",
        "agents: requests=256 batches=",
        "polls by compute warps=0",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    for (flags, says) in [
        (&["--api", "io", "--agents", "1"][..], "--agents 1: only --api agent has agents, this is --api io"),
        (
            &["--api", "agent", "--agents", "2"],
            "--agents 2: must be at most 1: with --sharing exclusive each agent has one of --queues 1",
        ),
        (
            &["--api", "agent", "--agents", "1", "--queues", "2"],
            "--agents 1: must be at least 2, one for each of --queues 2",
        ),
        (
            &["--api", "agent", "--agents", "3", "--queues", "2", "--sharing", "shared"],
            "--agents 3: must be a multiple of --queues 2, so that each has as many",
        ),
        (
            &["--api", "agent", "--iodepth", "129"],
            "--iodepth 129: must be at most 128, what --agents 1 on --queues 1 have in flight there",
        ),
        (
            &["--api", "agent", "--iodepth", "200", "--warps", "1", "--sharing", "shared"],
            "--iodepth 200: must be at most 128, the requests that --warps 1 have for each of --queues 1",
        ),
        (
            &["--api", "agent", "--warps", "1", "--queues", "2"],
            "--warps 1: must be at least 2, one for each of --queues 2",
        ),
        (
            &["--api", "agent", "--retries", "1"],
            "--retries 1: agents submit nothing again; use --api io or raw",
        ),
        (
            &["--api", "agent", "--completion", "interrupt"],
            "--completion interrupt: kernels poll; it goes with --api host",
        ),
        (
            &["--api", "agent", "--trace", "/nowhere/trace.json"],
            "--api agent: agents write no traces; use --api io or raw",
        ),
    ] {
        assert_eq!(refused(&[&["bench", DEVICE][..], flags].concat()), (2, says.to_owned()));
    }
    let (code, error) = refused(&["bench", "resident:", "--api", "agent"]);
    assert!(
        code == 2 && error.starts_with("--api agent: the clients of the GPU-resident controller"),
        "{error}"
    );
}
