use serde_json::json;

use super::*;
use Verdict::{CannotBeVerified, Contradicted, Reproduced, ReproducedWithAssumption};

fn verdict(given: Value) -> Verdict {
    ask(&MODEL, given).unwrap().verdict.unwrap()
}

#[test]
fn each_situation_has_a_verdict_and_a_bound() {
    let mut verdicts = Vec::new();
    for case in 1..=CASES {
        let answer = ask(&MODEL, json!({"case": case})).unwrap();
        assert!(!answer.bound.is_empty());
        verdicts.push(answer.verdict.unwrap());
    }
    let assumed = ReproducedWithAssumption;
    assert_eq!(verdicts, [assumed, assumed, Contradicted, assumed, CannotBeVerified]);
}

#[test]
fn training_depends_on_ssds_gpus_latency_and_commands_in_flight() {
    for (given, expected) in [
        (json!({"case": 1}), ReproducedWithAssumption),
        (json!({"case": 1, "gpus": 1}), Contradicted),
        (json!({"case": 1, "ssds": 4}), Contradicted),
        (json!({"case": 1, "latency_us": 10_000, "in_flight": 1 << 20}), Contradicted),
        (json!({"case": 1, "in_flight": 32}), Contradicted),
        (json!({"case": 1, "in_flight": 64}), ReproducedWithAssumption),
    ] {
        assert_eq!(verdict(given.clone()), expected, "{given}");
    }
    let one = ask(&MODEL, json!({"case": 1, "gpus": 1})).unwrap();
    assert!(one.bound.starts_with("the GPUs' links: 57.6"), "{}", one.bound);
}

#[test]
fn inference_depends_on_the_ssd_and_on_how_long_a_fetch_may_take() {
    for (given, expected) in [
        (json!({"case": 2}), ReproducedWithAssumption),
        (json!({"case": 2, "ssds": 1, "latency_us": 10_000}), Contradicted),
        // Fast enough by the second, too late for each step.
        (json!({"case": 2, "latency_us": 10_000, "in_flight": 1 << 20}), Contradicted),
        (json!({"case": 2, "in_flight": 50}), Contradicted),
        (json!({"case": 2, "ssd_gb_per_s": 0.5}), Contradicted),
        // So little is fetched that it need not be hidden.
        (json!({"case": 2, "step_us": 10_000}), Reproduced),
    ] {
        assert_eq!(verdict(given.clone()), expected, "{given}");
    }
}

#[test]
fn a_new_cluster_depends_on_both_latencies() {
    for (given, expected) in [
        (json!({"case": 3}), Contradicted),
        (json!({"case": 3, "latency_us": 3, "cxl_ns": 300, "spread": 1}), Reproduced),
        (json!({"case": 3, "latency_us": 10}), ReproducedWithAssumption),
        (json!({"case": 3, "latency_us": 0.3, "cxl_ns": 300}), Contradicted),
    ] {
        assert_eq!(verdict(given.clone()), expected, "{given}");
    }
}

#[test]
fn research_depends_on_the_grant_and_on_what_was_verified() {
    for (given, expected) in [
        (json!({"case": 4}), ReproducedWithAssumption),
        (json!({"case": 4, "gpu_io": "verified"}), Reproduced),
        // 8,448 warps on one queue of 1,023 commands, whatever was verified.
        (json!({"case": 4, "granted": 1, "gpu_io": "verified"}), Contradicted),
        (json!({"case": 4, "granted": 1, "depth": 16384, "gpu_io": "verified"}), Reproduced),
    ] {
        assert_eq!(verdict(given.clone()), expected, "{given}");
    }
}

#[test]
fn shared_checkpoints_depend_on_a_pool_and_on_the_ranks_that_read_it() {
    for (given, expected) in [
        (json!({"case": 5}), CannotBeVerified),
        (json!({"case": 5, "pool_gb_per_s": 121}), Contradicted),
        (json!({"case": 5, "pool_gb_per_s": 1000}), Reproduced),
        (json!({"case": 5, "pool_gb_per_s": 121, "ranks": 1}), Reproduced),
        (json!({"case": 5, "pool_gb_per_s": 1000, "ssds": 32}), Contradicted),
    ] {
        assert_eq!(verdict(given.clone()), expected, "{given}");
    }
}
