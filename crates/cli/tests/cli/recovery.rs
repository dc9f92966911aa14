//! Runs over a controller that loses commands: they end on time, with exact counts, and with code 0 only if all went well.

use serde_json::Value;

use crate::common::{json, ok, run};

const DEVICE: &str = "soft:size=1m,profile=optane,time=virtual";

fn plan(folder: &tempfile::TempDir, text: &str) -> String {
    let path = folder.path().join("plan.toml");
    std::fs::write(&path, text).expect("the plan is written");
    path.to_str().expect("the path is UTF-8").to_owned()
}

/// Two that nothing finds, three that an Abort ends, four that fail once.
const LOSSES: &str = r#"
    [[fault]]
    kind = "drop"
    after = 1000
    every = 3000
    count = 2
    [[fault]]
    kind = "hang"
    after = 2000
    every = 2000
    count = 3
    [[fault]]
    kind = "fail"
    status = "Namespace Not Ready"
    every = 500
    count = 4
"#;

fn flags<'a>(plan: &'a str, api: &'a str, sharing: &'a str) -> Vec<&'a str> {
    let mut flags =
        vec!["bench", DEVICE, "--rw", "randrw", "--bs", "512", "--io-limit", "6m", "--fault", plan];
    flags.extend(["--timeout", "20ms", "--iodepth", "32", "--api", api, "--sharing", sharing]);
    flags
}

#[test]
fn a_run_that_lost_commands_ends_well_with_retries_and_counts_them() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&folder, LOSSES);
    for (api, sharing) in [("io", "exclusive"), ("raw", "exclusive"), ("io", "shared")] {
        let flags = [&flags(&plan, api, sharing)[..], &["--retries", "4", "-o", "json"]].concat();
        let report = json(&flags);
        let counts = &report["runs"][0]["recovery"];
        let count = |key: &str| counts[key].as_u64().unwrap_or_else(|| panic!("{key}: {counts:#}"));
        assert_eq!((&report["errors"], &report["ios"]), (&0.into(), &12288.into()), "{api} {sharing}");
        assert_eq!(count("timed_out"), 5, "{api} {sharing}: {counts:#}");
        // Those that failed, and what was in flight on the queue that was replaced.
        assert!(count("retried") >= 9, "{api} {sharing}: {counts:#}");
        let submitted = report["runs"][0]["counters"]["sqes"].as_u64().expect("counted on the CPU");
        // A retry that finds its queue lost leaves no entry.
        let most = 12288 + count("retried");
        assert!((12288 + 9..=most).contains(&submitted), "{api} {sharing}: {submitted} {counts:#}");
        assert!((1..=2).contains(&count("queues_replaced")), "{api} {sharing}: {counts:#}");
        assert_eq!((count("resets"), count("ssds_lost")), (0, 0), "{api} {sharing}: {counts:#}");
        assert_eq!(report["recovery"], *counts, "the sum over one run");
        let events = report["runs"][0]["events"].as_array().expect("events");
        let told = |word: &str| events.iter().filter(|event| text(event).contains(word)).count() as u64;
        assert_eq!((told("timed out"), told("replaced by id")), (5, count("queues_replaced")), "{events:#?}");
        // The controller tells of doorbells that were rung for a queue which it had deleted.
        let ours =
            |event: &Value| event["kind"] == "recovery" || text(event).contains("invalid doorbell register");
        assert!(events.iter().all(|event| ours(event) && event["at_ns"].is_u64()), "{events:#?}");
    }
}

fn text(event: &Value) -> &str {
    event["text"].as_str().expect("text")
}

#[test]
fn the_passes_of_verify_recover_too() {
    let folder = tempfile::tempdir().unwrap();
    // 2048 units: the writes are of the pass before the run, and the reads of the one after it.
    let losses = "[[fault]]\nkind = \"drop\"\nopcode = \"write\"\nafter = 100\nevery = 700\ncount = 2\n\
        [[fault]]\nkind = \"hang\"\nopcode = \"read\"\nafter = 100\nevery = 700\ncount = 2\n";
    let plan = plan(&folder, losses);
    for (api, sharing) in [("io", "exclusive"), ("raw", "shared")] {
        let mut flags = flags(&plan, api, sharing);
        let rw = flags.iter().position(|flag| *flag == "randrw").expect("an access");
        flags[rw] = "randwrite";
        flags.extend(["--verify", "crc32c", "--retries", "4", "-o", "json"]);
        let report = json(&flags);
        let run = &report["runs"][0];
        assert_eq!((&report["errors"], &run["verify"]["mismatches"]), (&0.into(), &0.into()), "{run:#}");
        assert_eq!(run["verify"]["blocks"], 2048, "every unit once: {run:#}");
        assert_eq!(run["recovery"]["timed_out"], 4, "two writes, two reads: {:#}", run["recovery"]);
    }
}

#[test]
fn the_text_has_the_counts_and_events_come_on_stderr() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&folder, LOSSES);
    let flags = [&flags(&plan, "io", "exclusive")[..], &["--retries", "4"]].concat();
    let result = ok(&flags);
    assert!(result.contains("errors=0  violations=0\n  trouble: timed out=5 "), "{result}");
    assert!(result.contains("\n  recovery: aborts="), "{result}");
    let events = String::from_utf8(run(&flags).stderr).unwrap();
    let event = format!("event: {DEVICE}: queue 0 of attachment 1 (id 1): command ");
    assert!(events.lines().any(|line| line.starts_with(&event) && line.ends_with(" timed out")), "{events}");
    // Nothing is said of what did not happen.
    let quiet = ok(&["bench", DEVICE, "--io-limit", "1m"]);
    assert!(!quiet.contains("recovery:") && !quiet.contains("trouble:"), "{quiet}");
}

#[test]
fn without_leave_to_retry_the_run_fails_and_says_what_would_help() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&folder, LOSSES);
    for (more, advice) in [
        (&[][..], "; --retries N submits failed commands again"),
        (&["--no-recover"], "; without --no-recover, queues that do not answer are replaced"),
    ] {
        let output = run(&[&flags(&plan, "io", "exclusive")[..], more].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        let last = error.lines().last().expect("a sentence");
        assert!(last.starts_with("error: ") && last.contains(" I/Os failed; first: "), "{error}");
        assert!(last.ends_with(advice), "{error}");
    }
}

#[test]
fn an_ssd_that_is_gone_ends_the_run_on_time() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&folder, "[[fault]]\nkind = \"remove\"\nafter = 1000\ncount = 1\n");
    for sharing in ["exclusive", "shared"] {
        let output = run(&[&flags(&plan, "io", sharing)[..], &["--retries", "4"]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("the SSD is given up"), "{error}");
    }
}

#[test]
fn a_result_says_how_many_faults_of_each_kind_were_injected() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    let (delays, failures) =
        ("kind = 'delay'\nby = '1us'\nevery = 4\n", "kind = 'fail'\nstatus = 'Internal Error'\ncount = 3\n");
    std::fs::write(&plan, format!("[[fault]]\n{delays}[[fault]]\n{failures}")).unwrap();
    let ssd = "soft:size=1m,time=virtual";
    let flags = ["bench", ssd, "--bs", "512", "--io-limit", "32k", "--fault", plan.to_str().unwrap()];
    for (api, repeat) in [("host", "2"), ("io", "1")] {
        let flags = [&flags[..], &["--api", api, "--repeat", repeat]].concat();
        let text = String::from_utf8(run(&flags).stdout).unwrap();
        assert!(text.contains("  faults injected: delay=16  fail=3\n"), "{api}: {text}");
        let report: serde_json::Value =
            serde_json::from_slice(&run(&[&flags[..], &["-o", "json"]].concat()).stdout).unwrap();
        let faults = |run: usize| &report["runs"][run]["ssds"][0]["faults"];
        assert_eq!(*faults(0), serde_json::json!({ "delay": 16, "fail": 3 }), "{api}");
        if repeat == "2" {
            assert_eq!(*faults(1), serde_json::json!({ "delay": 16 }), "of each run its own");
        }
    }
    assert!(!String::from_utf8(run(&flags[..6]).stdout).unwrap().contains("faults injected"));
}
