//! Experiments in virtual time beside the models of `warpbell plan`, which know nothing of how they are run.

use std::process::Command;

use serde_json::Value;

use super::experiments::{OPTANE, figure, json};

/// A result of a model of `warpbell plan`.
fn plan(model: &str, inputs: &[(&str, String)], result: &str) -> f64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpbell"));
    command.args(["plan", model, "-o", "json"]);
    for (flag, value) in inputs {
        command.arg(format!("--{flag}={value}"));
    }
    let output = command.output().expect("the command starts");
    assert!(output.status.success(), "{inputs:?}: {}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let found = &document["results"][result]["value"];
    found.as_f64().unwrap_or_else(|| panic!("plan {model} has no {result}: {document:#}"))
}

/// Within 5 %: the last pieces of an SSD have no others beside them.
#[test]
fn a_sharded_checkpoint_takes_the_time_that_plan_says() {
    let pieces = 400;
    let ops = pieces.to_string();
    let found = json(&[&["checkpoint"][..], &[OPTANE; 4], &["--bs", "128k", "--ops", &ops]].concat());
    let bytes = f64::from(pieces * 128 * 1024);
    for way in ["save", "restore"] {
        let of = |shards: u32| figure(&found, &format!("{way} shards={shards} "), "bytes_per_s");
        for shards in [2, 4] {
            let inputs = [
                ("bytes", bytes.to_string()),
                ("ssds", shards.to_string()),
                ("ssd-gb-per-s", (of(1) / 1e9).to_string()),
                ("shared-gb-per-s", "1000".to_owned()),
            ];
            let ratio = bytes / of(shards) * 1e3 / plan("ckpt", &inputs, "time_ms");
            assert!((0.98..1.05).contains(&ratio), "{way} on {shards} SSDs: {ratio} of the model's time");
        }
    }
}

/// Within 2 %: the warp's last round may have fewer lanes.
#[test]
fn shared_doorbells_are_as_many_as_plan_says() {
    let found = json(&["batching", OPTANE, "--runtime", "5ms"]);
    for lanes in [1_u32, 2, 4, 8, 16, 32] {
        let row = format!("gather={lanes} ");
        let iops = figure(&found, &row, "iops");
        let inputs = [("iops", iops.to_string()), ("sq-batch", lanes.to_string())];
        let model = plan("doorbell", &inputs, "sq_doorbells_per_s");
        let ratio = figure(&found, &row, "sq_doorbells_per_io") * iops / model;
        assert!((ratio - 1.0).abs() < 0.02, "{row}: {ratio} of the model's doorbells");
    }
}

/// Within two hundredths of the run: the first samples are waited for.
#[test]
fn a_trainer_is_as_busy_as_plan_says() {
    let found = json(&["loader", OPTANE, "--ops", "4000"]);
    for taken in [50, 90, 200] {
        // Loading a sample takes 1, computing on it 100 / taken: the shares of a run that does one after the other.
        let computing = 100.0 / f64::from(taken);
        let inputs = [
            ("overlap", "full".to_owned()),
            ("gain", "1".to_owned()),
            ("load-share", (1.0 / (1.0 + computing)).to_string()),
        ];
        let busy = plan("loader", &inputs, "utilisation_after");
        let stalled = figure(&found, &format!("trainer takes {taken}% "), "stall_share");
        assert!(
            (stalled - (1.0 - busy)).abs() < 0.02,
            "{taken} %: stalled {stalled}, the model is busy {busy}"
        );
    }
}
