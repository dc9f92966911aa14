//! The Chrome form: every rule of the trace event format that a viewer needs, and what a trace shows.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::{entries, number, phase, traced};

/// The keys that an entry of each phase must have, and those that it may have.
fn keys(ph: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match ph {
        "M" => (&["name", "ph", "pid", "tid", "args"], &["ts"]),
        "b" | "e" => (&["name", "cat", "ph", "ts", "pid", "tid", "id", "args"], &[]),
        "i" => (&["name", "ph", "ts", "pid", "tid", "s", "args"], &["cat"]),
        "C" => (&["name", "ph", "ts", "pid", "args"], &["tid"]),
        other => panic!("phase {other} is none that we write"),
    }
}

/// Names, phases, types, and the order of time on each track.
fn check_entries(trace: &Value) {
    let mut times: HashMap<(u64, u64), f64> = HashMap::new();
    let mut named: HashSet<(u64, u64)> = HashSet::new();
    for entry in entries(trace) {
        let object = entry.as_object().expect("an entry is an object");
        let ph = entry["ph"].as_str().expect("a phase is a text");
        let (must, may) = keys(ph);
        assert!(must.iter().all(|key| object.contains_key(*key)), "a key is missing: {entry}");
        let known = |key: &String| must.contains(&key.as_str()) || may.contains(&key.as_str());
        assert!(object.keys().all(known), "a key that {ph} does not have: {entry}");
        assert!(entry["name"].as_str().is_some_and(|name| !name.is_empty()), "{entry}");
        assert!(entry["args"].is_object(), "{entry}");
        let track = (number(entry, "pid"), number(entry, "tid"));
        match ph {
            "M" => {
                let text = entry["args"]["name"].as_str().expect("a name");
                let of_warp = entry["name"] == "thread_name";
                assert!(of_warp || entry["name"] == "process_name", "{entry}");
                assert_eq!(of_warp, text.starts_with("warp "), "{entry}");
                assert!(named.insert(track), "named twice: {entry}");
                continue;
            }
            "i" => assert!(["t", "p", "g"].contains(&entry["s"].as_str().unwrap()), "{entry}"),
            "C" => assert!(entry["args"].as_object().unwrap().values().all(Value::is_number), "{entry}"),
            _ => assert!(entry["id"].is_string() && entry["cat"].is_string(), "{entry}"),
        }
        assert!(named.contains(&track), "an event on a track without a name: {entry}");
        let ts = entry["ts"].as_f64().expect("microseconds");
        let before = times.insert(track, ts).unwrap_or(0.0);
        assert!(ts.is_finite() && ts >= before, "time goes back on {track:?}: {before} then {entry}");
    }
}

/// Each span begins and ends once, on one track, under one name.
fn check_spans(trace: &Value) {
    let mut open: HashMap<&str, &Value> = HashMap::new();
    let mut seen = HashSet::new();
    for entry in entries(trace) {
        match entry["ph"].as_str().unwrap() {
            "b" => {
                let id = entry["id"].as_str().unwrap();
                assert!(seen.insert(id), "two spans of one id: {entry}");
                open.insert(id, entry);
            }
            "e" => {
                let begin = open.remove(entry["id"].as_str().unwrap());
                let begin = begin.unwrap_or_else(|| panic!("an end without a beginning: {entry}"));
                for key in ["name", "cat", "pid", "tid"] {
                    assert_eq!(begin[key], entry[key], "{key} of {begin} and {entry}");
                }
                assert!(begin["ts"].as_f64() <= entry["ts"].as_f64(), "{begin} ends before: {entry}");
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "spans without an end: {open:?}");
}

fn check(trace: &Value) {
    assert_eq!(trace["displayTimeUnit"], "ns");
    assert_eq!(trace["warpbell"]["schema"], "warpbell.chrome-trace/1");
    check_entries(trace);
    check_spans(trace);
}

/// For each queue the commands that each doorbell told of: those with an index between the tails.
fn batches(trace: &Value) -> Vec<usize> {
    let mut indices: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for begin in phase(trace, "b") {
        indices.entry(number(&begin["args"], "qid")).or_default().push(number(&begin["args"], "index"));
    }
    let mut tails: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for bell in phase(trace, "i").filter(|mark| mark["name"] == "sq doorbell") {
        tails.entry(number(&bell["args"], "qid")).or_default().push(number(&bell["args"], "index"));
    }
    let mut batches = Vec::new();
    for (qid, tails) in &mut tails {
        tails.sort_unstable();
        let mut from = 0;
        for tail in tails {
            batches.push(indices[qid].iter().filter(|index| (from..*tail).contains(*index)).count());
            from = *tail;
        }
    }
    batches
}

#[test]
fn a_shared_queue_shows_its_batches_and_agrees_with_the_counters() {
    let folder = tempfile::tempdir().unwrap();
    let flags =
        ["--sharing", "shared", "--warps", "4", "--iodepth", "128", "--bs", "512", "--io-limit", "2m"];
    let (report, trace) = traced(&["soft:size=16m"], &flags, &folder.path().join("t.json"));
    check(&trace);
    let run = &report["runs"][0];
    let (summary, counters) = (&run["trace"], &run["counters"]);
    assert_eq!((number(summary, "overwritten_events"), number(run, "ios")), (0, 4096));
    // The trace is complete: what it has is what the executor counted.
    for (ours, counted) in
        [("commands", "sqes"), ("sq_doorbells", "sq_doorbells"), ("cq_doorbells", "cq_doorbells")]
    {
        assert_eq!(number(summary, ours), number(counters, counted), "{ours}: {run:#}");
    }
    assert_eq!(number(summary, "commands"), number(summary, "answers"));
    assert_eq!(phase(&trace, "b").count() as u64, number(counters, "sqes"));
    let marks = |name| phase(&trace, "i").filter(|mark| mark["name"] == name).count() as u64;
    assert_eq!(marks("sq doorbell"), number(counters, "sq_doorbells"));
    let collected = phase(&trace, "i").filter(|mark| mark["name"] == "reap");
    let collected: u64 = collected.map(|reap| number(&reap["args"], "completions")).sum();
    assert_eq!(collected, number(counters, "cqes"));
    // One doorbell announces the commands of several warps.
    let batches = batches(&trace);
    assert_eq!(batches.iter().sum::<usize>() as u64, number(counters, "sqes"));
    let largest = *batches.iter().max().unwrap();
    assert!(largest >= 32, "{batches:?}");
    assert_eq!(number(summary, "largest_batch").max(batches[0] as u64), largest as u64);
    assert!(summary["commands_per_doorbell"].as_f64().unwrap() > 8.0, "{summary}");
    let warps: HashSet<u64> = phase(&trace, "b").map(|begin| number(begin, "tid")).collect();
    assert_eq!(warps.len(), 4);
    let queue = &run["queues"][0];
    assert_eq!(number(queue, "commands"), 4096);
    assert_eq!(number(queue, "sq_doorbells"), number(counters, "sq_doorbells"));
    assert_eq!((number(queue, "late"), number(queue, "spurious")), (0, 0));
    assert_eq!(number(&run["ssds"][0], "rmw"), number(counters, "rmw"));
}

#[test]
fn each_ssd_is_a_process_and_its_counts_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let devices = ["soft:size=4m", "soft:size=8m,block=4096"];
    let flags = ["--api", "raw", "--queues", "2", "--rw", "randrw", "--iodepth", "8", "--io-limit", "256k"];
    let (report, trace) = traced(&devices, &flags, &folder.path().join("t.json"));
    check(&trace);
    for (index, device) in report["devices"].as_array().unwrap().iter().enumerate() {
        let own = |ph| phase(&trace, ph).filter(move |entry| number(entry, "pid") == index as u64 + 1);
        assert_eq!(own("b").count() as u64, number(&device["runs"][0]["trace"], "commands"));
        let track = |entry: &Value| number(entry, "tid");
        assert_eq!(own("b").map(track).collect::<HashSet<_>>(), HashSet::from([1, 2]));
        let ssd = &report["runs"][0]["ssds"][index];
        assert_eq!(ssd["device"], devices[index]);
        assert_eq!((number(ssd, "commands"), number(ssd, "rmw")), (64, 0));
        assert_eq!(trace["warpbell"]["ssds"][index]["device"], devices[index]);
    }
}

#[test]
fn what_was_overwritten_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--iodepth", "32", "--bs", "512", "--io-limit", "1m", "--trace-events", "64"];
    let (report, trace) = traced(&["soft:size=4m"], &flags, &folder.path().join("t.json"));
    check(&trace);
    let summary = &report["runs"][0]["trace"];
    assert!(number(summary, "events") <= 64, "{summary}");
    // Two events for each command, at least.
    assert!(number(summary, "events") + number(summary, "overwritten_events") >= 2 * 2048, "{summary}");
    assert!(report["runs"][0]["queues"][0]["sq_doorbells"].is_null(), "not counted where events are missing");
}

#[test]
fn virtual_time_is_the_traces_clock() {
    let folder = tempfile::tempdir().unwrap();
    let device = "soft:size=64m,profile=tlc,time=virtual";
    let flags = ["--iodepth", "4", "--io-limit", "400k"];
    let (_, trace) = traced(&[device], &flags, &folder.path().join("t.json"));
    check(&trace);
    assert_eq!(trace["warpbell"]["clock"]["source"], "virtual");
    let first = phase(&trace, "b").next().unwrap();
    let end = phase(&trace, "e").find(|end| end["id"] == first["id"]).unwrap();
    let took_us = end["ts"].as_f64().unwrap() - first["ts"].as_f64().unwrap();
    assert!(took_us >= 65.0, "a read of this profile takes 65 us: {took_us}");
}
