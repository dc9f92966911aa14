//! `report costs`.

use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{ok, refusal};

/// On a machine without nvcc.
fn without_nvcc(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpbell"));
    command.args(arguments).env("WARPBELL_NVCC", "none").output().expect("the command ends")
}

#[test]
fn costs_are_known_on_a_machine_without_nvcc() {
    let output = without_nvcc(&["report", "costs", "-o", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], "warpbell.report.costs/1");
    assert_eq!((report["met"].as_bool(), report["origin"].as_str()), (Some(true), Some("checked-in")));
    assert!(report["stale"].is_boolean() && report["compiler"].as_str().unwrap().starts_with("nvcc "));
    let calls = report["calls"].as_array().unwrap();
    let find = |call: &str, mode: &str, arch: &str| {
        let is = |one: &&Value| {
            one["layer"] == "queue" && one["call"] == call && one["mode"] == mode && one["arch"] == arch
        };
        calls.iter().find(is).unwrap_or_else(|| panic!("no {call} {mode} {arch}"))
    };
    // Whole kernels on sm_90.
    for (call, mode, instructions, registers, atomics) in [
        ("try_submit", "shared", 450, 36, 2),
        ("try_submit", "exclusive", 450, 38, 0),
        ("try_wait", "shared", 290, 24, 0),
        ("try_wait", "exclusive", 330, 24, 0),
        ("reap", "shared", 485, 28, 1),
        ("reap", "exclusive", 480, 28, 0),
    ] {
        let figures = &find(call, mode, "sm_90")["figures"];
        assert!(figures["instructions"].as_i64().unwrap() <= instructions, "{call} {mode}: {figures}");
        assert!(figures["registers"].as_i64().unwrap() <= registers, "{call} {mode}: {figures}");
        assert!(figures["rmw_sites"].as_i64().unwrap() <= atomics, "{call} {mode}: {figures}");
        for none in ["spill_bytes", "division_sites", "bounded_spill_bytes"] {
            assert_eq!(figures[none], 0, "{call} {mode} {none}");
        }
        for arch in ["sm_75", "sm_80", "sm_100", "sm_120"] {
            assert_eq!(find(call, mode, arch)["met"], true);
        }
    }
    assert_eq!(find("try_submit", "shared", "sm_90")["budgets"]["instructions"]["at_most"], 450);
    assert_eq!(find("reap", "shared", "sm_90")["budgets"]["fence_gpu_sites"]["exactly"], 2);
}

#[test]
fn costs_are_a_table_for_people() {
    let text = ok(&["report", "costs", "--arch", "80,90"]);
    let row = |line: &&str| line.starts_with("queue.try_submit") || line.starts_with(" queue.try_submit");
    assert_eq!(text.lines().filter(row).count(), 4, "{text}");
    assert!(
        text.contains("\nsm_80\n") && text.contains("\nsm_90\n") && !text.contains("\nsm_75\n"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_counted_is_refused_with_what_would_help() {
    let arguments = ["report", "costs", "--arch", "70"];
    let (code, line) = refusal(&arguments, &without_nvcc(&arguments));
    assert_eq!((code, line.as_str()), (2, "--arch 70: figures are kept for 75, 80, 90, 100, 120"));
    let arguments = ["report", "costs", "--measure"];
    let (code, line) = refusal(&arguments, &without_nvcc(&arguments));
    assert_eq!(code, 4);
    assert!(line.contains("no nvcc") && line.contains("leave --measure out"), "{line}");
}
