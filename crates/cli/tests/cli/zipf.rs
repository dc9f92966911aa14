//! `bench --random-distribution`: addresses by Zipf's law.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;

use crate::common::{json, refused};
use serde_json::Value;

/// 256 I/Os side by side.
const DEVICE: &str = "soft:size=1m,time=virtual";

/// The blocks that a run of 4,096 I/Os asked for, by how often.
fn blocks(flags: &[&str]) -> HashMap<u64, u64> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json").display().to_string();
    let fixed = ["bench", DEVICE, "--io-limit", "16m", "-o", "json", "--trace-format", "json"];
    let traced = ["--trace", &path, "--trace-events", "524288"];
    json(&[&fixed[..], &traced, flags].concat());
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let events = trace["ssds"][0]["events"].as_array().unwrap_or_else(|| panic!("no events in {trace:#}"));
    let mut counts = HashMap::new();
    for event in events.iter().filter(|event| event["event"] == "submit") {
        *counts.entry(event["lba"].as_u64().expect("a block")).or_insert(0) += 1;
    }
    assert_eq!(counts.values().sum::<u64>(), 4096, "each I/O is in the trace");
    counts
}

fn by_frequency(counts: &HashMap<u64, u64>) -> Vec<u64> {
    let mut all: Vec<u64> = counts.values().copied().collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    all
}

#[test]
fn kernels_ask_for_blocks_as_often_as_the_formula_says() {
    for theta in [0.9, 1.2] {
        let found = by_frequency(&blocks(&["--random-distribution", &format!("zipf:{theta}")]));
        let whole: f64 = (1..=256).map(|rank| f64::from(rank).powf(-theta)).sum();
        for (rank, found) in (1..=4u32).zip(found) {
            let share = f64::from(rank).powf(-theta) / whole;
            let expected = share * 4096.0;
            let most = 5.0 * (expected * (1.0 - share)).sqrt();
            assert!((found as f64 - expected).abs() <= most, "{theta} {rank}: {found}, expected {expected}");
        }
    }
    let uniform = by_frequency(&blocks(&["--random-distribution", "random"]));
    assert!(uniform[0] < 40, "16 each: {uniform:?}");
}

#[test]
fn a_seed_asks_for_the_same_blocks_through_every_interface() {
    let zipf = ["--random-distribution", "zipf:1.1", "--seed", "9"];
    let first = blocks(&zipf);
    assert_eq!(first, blocks(&zipf));
    assert_eq!(first, blocks(&[&zipf[..], &["--api", "raw", "--queues", "4"]].concat()));
    assert_ne!(first, blocks(&["--random-distribution", "zipf:1.1", "--seed", "10"]));
}

#[test]
fn every_interface_takes_it_and_data_is_right() {
    for api in ["host", "raw", "io", "agent", "batch"] {
        let flags = ["--rw", "randrw", "--verify", "crc32c", "--io-limit", "1m", "--api", api, "-o", "json"];
        let report = json(&[&["bench", DEVICE, "--random-distribution", "zipf:0.99"], &flags[..]].concat());
        let run = &report["runs"][0];
        assert_eq!(run["job"]["random_distribution"], "zipf:0.99", "{api}");
        assert_eq!(
            (&report["errors"], &report["mismatches"], &report["violations"]),
            (&0.into(), &0.into(), &0.into())
        );
        // All 256 are read once more at the end.
        assert!(run["verify"]["blocks"].as_u64().unwrap() >= 2048, "{api}: {run:#}");
    }
}

#[test]
fn an_axis_of_it_skips_sequences() {
    let axes = ["--axis", "rw=read,randread", "--axis", "random-distribution=random,zipf:0.5,zipf:1.2"];
    let report = json(&[&["bench", DEVICE, "--io-limit", "64k", "-o", "json"], &axes[..]].concat());
    let runs = report["runs"].as_array().unwrap();
    let points: Vec<&str> = runs.iter().map(|run| run["point"].as_str().unwrap()).collect();
    let expected = [
        "rw=read random-distribution=random",
        "rw=randread random-distribution=random",
        "rw=randread random-distribution=zipf:0.5",
        "rw=randread random-distribution=zipf:1.2",
    ];
    assert_eq!(points, expected);
    let skipped = &report["skipped"][0];
    assert_eq!(skipped["point"], "rw=read random-distribution=zipf:0.5");
    let reason = "--random-distribution zipf:0.5: only random addresses are drawn, this is --rw read";
    assert_eq!(skipped["reason"], reason);
}

#[test]
fn what_is_no_distribution_is_refused() {
    let line = |flags: &[&str]| {
        let (code, line) = refused(&[&["bench", DEVICE], flags].concat());
        assert_eq!(code, 2, "{line}");
        line
    };
    for rw in ["read", "write"] {
        let allowed = ["--rw", rw, "--random-distribution", "zipf:1.2"];
        let text = line(&allowed);
        assert!(
            text.ends_with(&format!("zipf:1.2: only random addresses are drawn, this is --rw {rw}")),
            "{text}"
        );
    }
    for (value, why) in [
        ("zipf:0", "theta 0 is outside of its limits: above 0, at most 10"),
        ("zipf:11", "theta 11 is outside of its limits: above 0, at most 10"),
        ("zipf", "expected random or zipf:THETA, such as zipf:1.2"),
        ("pareto:0.2", "expected random or zipf:THETA, such as zipf:1.2"),
    ] {
        assert_eq!(
            line(&["--random-distribution", value]),
            format!("--random-distribution: '{value}': {why}")
        );
    }
    let zipf = ["--random-distribution", "zipf:1.2", "--sharing", "shared"];
    let array = line(&[&zipf[..], &["--api", "array", "--io-limit", "64k"]].concat());
    assert!(array.contains("an array draws pages by --hit-rate"), "{array}");
    let protocol = line(&[&zipf[..], &["--api", "raw", "--protocol", "bam"]].concat());
    assert!(protocol.contains("the loop of --protocol marks draws its addresses by itself"), "{protocol}");
    let (code, resident) = refused(&["bench", "resident:", "--random-distribution", "zipf:1.2"]);
    assert!(code == 2 && resident.contains("there are no blocks to choose from"), "{resident}");
    let (code, replay) =
        refused(&["bench", DEVICE, "--replay", "a.json", "--random-distribution", "zipf:1.2"]);
    assert!(code == 2 && replay.contains("--random-distribution"), "{replay}");
}
