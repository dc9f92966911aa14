//! Traces of runs, and replays of them.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

mod chrome;
mod log;
mod msr;
mod refusals;
mod replay;

use std::path::Path;

use serde_json::Value;

use crate::common::json;

/// Runs `bench DEVICES FLAGS --trace FILE`; its report and the trace.
fn traced(devices: &[&str], flags: &[&str], file: &Path) -> (Value, Value) {
    let file_name = file.to_str().unwrap();
    let report = json(&[&["bench"], devices, flags, &["--trace", file_name, "-o", "json"]].concat());
    (report, serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap())
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no number {key} in {value}"))
}

fn entries(trace: &Value) -> &Vec<Value> {
    trace["traceEvents"].as_array().expect("the events of the format")
}

/// Those of one phase.
fn phase<'a>(trace: &'a Value, ph: &'a str) -> impl Iterator<Item = &'a Value> {
    entries(trace).iter().filter(move |entry| entry["ph"] == ph)
}
