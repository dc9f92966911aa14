//! Ctrl-C ends the work, and what was measured so far is still printed.

use std::time::{Duration, Instant};

use crate::common::{await_that, cpu_seconds, signal, spawn};

#[test]
fn partial_results_are_marked() {
    for api in ["host", "io", "agent"] {
        let start = Instant::now();
        let child = spawn(&["bench", "soft:size=1m", "--runtime", "60s", "--api", api, "-o", "json"]);
        await_that(|| cpu_seconds(&child) > 0.3);
        signal(&child, "-INT");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(start.elapsed() < Duration::from_secs(60));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["partial"], true);
        assert!(report["ios"].as_u64().unwrap() > 0, "{api}: {report:#}");
        assert_eq!(report["errors"], 0);
    }
}

#[test]
fn a_signal_that_comes_twice_at_once_is_one() {
    // `timeout` sends its signal to the command, and to the group, which has the command.
    for name in ["-INT", "-TERM"] {
        let arguments = ["bench", "soft:size=1m", "--runtime", "60s", "--api", "io", "-o", "json"];
        let child = spawn(&arguments);
        await_that(|| cpu_seconds(&child) > 0.3);
        for _ in 0..3 {
            signal(&child, name);
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the results");
        assert_eq!(report["partial"], true);
    }
}

#[test]
fn a_second_signal_ends_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("slow.toml");
    std::fs::write(&plan, "[[fault]]\nkind = \"delay\"\nby = \"180s\"\nopcode = \"read\"\n").unwrap();
    let device = format!("soft:size=1m,faults={}", plan.display());
    let mut child = spawn(&["bench", &device, "--runtime", "600s", "--api", "host", "-o", "json"]);
    await_that(|| cpu_seconds(&child) > 0.3);
    let (start, mut sent) = (Instant::now(), 0);
    // Of a process that does not get to run, signals of a second may come at once, and be one.
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(60), "it waits for no command of the SSD");
        signal(&child, "-INT");
        sent += 1;
        std::thread::sleep(Duration::from_millis(700));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(130), 0));
    assert!(sent > 1, "the first asks it to end");
}
