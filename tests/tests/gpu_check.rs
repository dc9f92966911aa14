//! `gpu-check` where something hangs or crashes: it ends, says which check it was, and has the results of all others.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

/// No machine is so slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// The three checks of volumes, with these options.
fn volumes(json: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-check"));
    command.args(["--target", "cpu", "--quick", "--only", "volume: ", "--json"]).arg(json).args(options);
    let begin = Instant::now();
    let output = command.output().unwrap();
    assert!(begin.elapsed() < PATIENCE, "{options:?}: ended after {:?}", begin.elapsed());
    output
}

fn document(json: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap()
}

/// Name and outcome of each check, and its text.
fn outcomes(document: &Value) -> Vec<(String, String, String)> {
    let text = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
    let checks = document["checks"].as_array().unwrap().iter();
    checks.map(|check| (text(check, "name"), text(check, "outcome"), text(check, "text"))).collect()
}

fn only_replicate_failed(options: &[&str], why: &str) {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("results.json");
    let output = volumes(&json, options);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let found = document(&json);
    assert_eq!(found["complete"], true);
    let outcomes = outcomes(&found);
    let words: Vec<_> = outcomes.iter().map(|(name, outcome, _)| (name.as_str(), outcome.as_str())).collect();
    let expected =
        [("volume: stripe", "passed"), ("volume: replicate", "failed"), ("volume: concatenate", "passed")];
    assert_eq!(words, expected, "{said}");
    assert!(outcomes[1].2.contains(why), "{said}");
    assert!(said.contains("FAILED  volume: replicate"), "{said}");
    assert!(said.contains("2 passed, 1 failed, 0 skipped"), "{said}");
}

#[test]
fn a_hang_ends_in_its_limit_and_the_others_run() {
    let options = ["--plant-hang", "volume: replicate", "--limit", "20"];
    only_replicate_failed(&options, "did not end within 20 s: its process was killed");
}

#[test]
fn a_crash_is_told_and_the_others_run() {
    only_replicate_failed(
        &["--plant-crash", "volume: replicate"],
        "its process ended before it did: signal: 6",
    );
}

#[test]
fn what_no_time_is_left_for_is_skipped_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("results.json");
    let output = volumes(&json, &["--plant-hang", "volume: stripe", "--within", "2.5"]);
    assert_eq!(output.status.code(), Some(1));
    let outcomes = outcomes(&document(&json));
    assert!(outcomes[0].1 == "failed" || outcomes[0].1 == "skipped", "{outcomes:?}");
    for (name, outcome, text) in &outcomes[1..] {
        assert_eq!(
            (outcome.as_str(), text.as_str()),
            ("skipped", "no time left of the 2.5 s for all"),
            "{name}"
        );
    }
}

#[test]
fn results_are_there_while_a_later_check_runs() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("results.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-check"));
    command.args(["--target", "cpu", "--quick", "--only", "volume: ", "--plant-hang", "volume: replicate"]);
    let mut child = command.arg("--json").arg(&json).spawn().unwrap();
    let begin = Instant::now();
    let found = loop {
        assert!(begin.elapsed() < PATIENCE, "the second check does not begin");
        std::thread::sleep(Duration::from_millis(50));
        let now = std::fs::read(&json).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        match now {
            Some(found) if found["running"] == "volume: replicate" => break found,
            _ => {}
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(found["complete"], false);
    assert_eq!(found["checks"][0]["outcome"], "passed");
}

#[test]
fn parts_are_all_there_is() {
    let list = |options: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_gpu-check")).arg("--list").args(options).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let parts = list(&["--only", "correctness"]) + &list(&["--only", "figures"]);
    assert_eq!(parts, list(&[]));
    assert!(list(&["--only", "figures"]).lines().all(|line| line.starts_with("figure")));
}
