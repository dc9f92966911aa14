//! `bench --api array`: words of an array over a page cache, beside plain memory.

use serde_json::Value;

use crate::common::{json, ok, refused, run};

const IN_VIRTUAL_TIME: &str = "soft:size=16m,profile=optane,time=virtual";
const ARRAY: [&str; 6] = ["--api", "array", "--sharing", "shared", "--cache", "256k"];

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value:#}"))
}

fn real(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value:#}"))
}

/// The runs of a sweep over 8192 words, in virtual time.
fn sweep(more: &[&str]) -> Vec<Value> {
    let flags =
        [&["bench", IN_VIRTUAL_TIME][..], &ARRAY, &["--io-limit", "64k", "-o", "json"], more].concat();
    let report = json(&flags);
    report["runs"].as_array().expect("runs").clone()
}

#[test]
fn as_many_pages_are_found_as_was_asked_and_each_other_one_is_a_command() {
    let rates = [0.0, 0.5, 0.9, 0.99, 1.0];
    let runs = sweep(&["--axis", "hit-rate=0,50,90,99,100"]);
    assert_eq!(runs.len(), rates.len());
    for (asked, run) in rates.into_iter().zip(&runs) {
        let array = &run["array"];
        assert!((real(&array["hit_rate"]) - asked).abs() < 0.03, "{asked}: {array:#}");
        let (misses, accesses) = (number(&array["misses"]), number(&array["cached"]["accesses"]));
        assert_eq!((number(&run["ios"]), number(&run["bytes"]), accesses), (8192, 65536, 8192), "{run:#}");
        assert_eq!(number(&run["counters"]["sqes"]), misses, "{run:#}");
        assert!((real(&array["commands_per_access"]) * 8192.0 - misses as f64).abs() < 1e-6, "{array:#}");
        assert_eq!(number(&array["write_backs"]), 0, "{array:#}");
    }
    assert_eq!(number(&runs[4]["array"]["misses"]), 0, "the cache was filled before");
    // The SSD's times go on from run to run of a sweep, and with them the polls: a run alone repeats.
    let [once, again] = [(); 2].map(|()| sweep(&["--hit-rate", "90"]));
    assert_eq!(once[0]["array"]["hits"], runs[2]["array"]["hits"], "virtual time repeats");
    assert_eq!(once[0]["counters"], again[0]["counters"], "virtual time repeats");
}

#[test]
fn a_word_that_is_there_costs_no_atomic_as_in_plain_memory() {
    let runs = sweep(&["--hit-rate", "100", "--axis", "policy=clock,fifo,lru", "--axis", "spread=1,8,32"]);
    assert_eq!(runs.len(), 9);
    for run in &runs {
        let (array, spread) = (&run["array"], number(&run["job"]["array"]["spread"]));
        let (hits, rmw) = (number(&array["hits"]), number(&run["counters"]["rmw"]));
        // What attaching and detaching take, once; and the first use of each page since it came.
        assert!(rmw < 64 + 32, "{rmw} for {hits} lookups: {run:#}");
        assert!(hits <= 8192 / 32 * spread && hits > 8192 / 64 * spread, "lanes of a page share it: {run:#}");
        assert_eq!(real(&array["plain"]["rmw_per_access"]), 0.0, "{array:#}");
        assert_eq!(number(&array["plain"]["accesses"]), 8192, "{array:#}");
    }
}

#[test]
fn what_is_stored_under_any_policy_is_written_back_and_right() {
    for policy in ["clock", "fifo", "lru"] {
        let device = "soft:size=1m,time=virtual,order=shuffled:8";
        let flags =
            ["bench", device, "--api", "array", "--sharing", "shared", "--cache", "32k", "--rw", "randrw"];
        let more = ["--warps", "3", "--policy", policy, "--io-limit", "64k", "--verify", "crc32c"];
        let report = json(&[&flags[..], &more, &["--hit-rate", "25", "--bs", "2k", "-o", "json"]].concat());
        let run = &report["runs"][0];
        assert_eq!((number(&report["errors"]), number(&report["mismatches"])), (0, 0), "{report:#}");
        assert_eq!(number(&run["ios"]), 8192, "{run:#}");
        assert!(number(&run["array"]["write_backs"]) > 100, "{run:#}");
        // Words that were read, and all blocks at the end.
        assert_eq!(number(&run["verify"]["blocks"]), number(&run["read"]["ios"]) + 2048, "{run:#}");
    }
}

#[test]
fn what_was_stored_and_is_not_on_the_ssd_at_the_end_is_a_mismatch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    // Behind the 64 writes that fill the range, the flush's first one: the cache has room for all pages.
    let fault =
        "[[fault]]\nkind = \"fail\"\nstatus = \"Write Fault\"\nopcode = \"write\"\nafter = 64\ncount = 1\n";
    std::fs::write(&path, fault).unwrap();
    let flags = ["--rw", "randrw", "--size", "128k", "--bs", "2k", "--verify", "crc32c", "--io-limit", "64k"];
    let fault = ["--fault", path.to_str().unwrap(), "-o", "json"];
    let output = run(&[&["bench", IN_VIRTUAL_TIME][..], &ARRAY, &flags, &fault].concat());
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let told = report["runs"][0]["failures"][0]["status"].as_str().unwrap();
    assert!(number(&report["errors"]) == 1 && told.contains("Write Fault"), "{report:#}");
    // A word or more of each block of that page was stored; all other pages are right.
    assert_eq!(number(&report["mismatches"]), 2048 / 512, "{report:#}");
}

#[test]
fn a_page_that_cannot_be_read_is_an_error_of_who_wants_it_and_a_lost_queue_the_end() {
    let folder = tempfile::tempdir().unwrap();
    for (fault, expected) in [
        ("kind = \"fail\"\nstatus = \"Unrecovered Read Error\"\nevery = 100\ncount = 3\n", 3..=3),
        ("kind = \"fatal\"\nafter = 200\ncount = 1\n", 1..=64),
    ] {
        let path = folder.path().join("plan.toml");
        std::fs::write(&path, format!("[[fault]]\n{fault}")).unwrap();
        let faults = ["--fault", path.to_str().unwrap(), "--hit-rate", "0", "--timeout", "20ms"];
        let flags = ["--io-limit", "16k", "-o", "json"];
        let output = run(&[&["bench", IN_VIRTUAL_TIME][..], &ARRAY, &faults, &flags].concat());
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(expected.contains(&number(&report["errors"])), "{report:#}");
        assert!(number(&report["ios"]) > 100, "{report:#}");
    }
}

#[test]
fn the_text_says_what_was_found_and_what_it_cost() {
    let text =
        ok(&[&["bench", IN_VIRTUAL_TIME][..], &ARRAY, &["--hit-rate", "100", "--io-limit", "64k"]].concat());
    assert!(text.contains("cache=256k policy=clock pages=64 spread=32"), "{text}");
    assert!(text.contains("cache: hit rate=100.0 %") && text.contains("misses=0 write-backs=0"), "{text}");
    let plain = text.lines().find(|line| line.starts_with("  plain memory: ")).expect("beside plain memory");
    assert!(plain.contains("rmw=0.000") && plain.contains("cpu ns="), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let shared = ["--api", "array", "--sharing", "shared"];
    for (flags, says) in [
        (&["--spread", "4"][..], "--spread 4: only --api array has a cache, this is --api io"),
        (&["--api", "array"], "--api array: any warp may miss a page on any queue; add --sharing shared"),
        (
            &[&shared[..], &["--spread", "3"]].concat(),
            "--spread 3: must be 1, 2, 4, 8, 16 or 32, so that a warp's lanes are shared out evenly",
        ),
        (
            &[&shared[..], &["--bs", "3k"]].concat(),
            "--bs 3072: pages of a cache have a power of two of bytes",
        ),
        (&[&shared[..], &["--cache", "1k"]].concat(), "--cache 1024: must be at least 4096, a page (--bs)"),
        (
            &[&shared[..], &["--hit-rate", "10"]].concat(),
            "--hit-rate 10: takes 2560 pages with a cache of 256, and the range has 1024",
        ),
        (&[&shared[..], &["--hit-rate", "101"]].concat(), "--hit-rate 101: must be at most 100"),
        (
            &[&shared[..], &["--hit-rate", "50", "--rw", "read"]].concat(),
            "--hit-rate 50: it says how far pages lie apart that are drawn, this is --rw read",
        ),
        (
            &[&shared[..], &["--ramp", "1s"]].concat(),
            "--ramp 1s: the cache is filled before with --hit-rate above 0, and is empty at first without, as it should be",
        ),
    ] {
        assert_eq!(refused(&[&["bench", "soft:size=4m"][..], flags].concat()), (2, says.to_owned()));
    }
    let (code, error) = refused(&[&["bench", "soft:size=4m,time=virtual"][..], &shared].concat());
    assert!(code == 2 && error.contains("end the run by --io-limit"), "{error}");
}
