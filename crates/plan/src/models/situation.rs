//! `situation`: five deployments: what the source recommends and expects, and what the other models
//! make of the inputs.

mod cases;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::answer::{Answer, Figure, Sure, Verdict};
use crate::error::Error;
use crate::model::{Outcome, Settings, model};
use crate::param::{Kind, inputs};

inputs! {
    case: u64 = 1, Kind::Count(CASES), "", "situation, 1 to 5";
    gpus: u64 = 8, Kind::Count(4096), "", "GPUs of the node";
    ssds: u64 = 8, Kind::Count(4096), "", "SSDs of the node";
    ssd_gb_per_s: f64 = 14.0, Kind::Positive, "GB/s", "speed of one SSD", measurable;
    latency_us: f64 = 100.0, Kind::Positive, "us", "time of an I/O", measurable;
    in_flight: u64 = 1024, Kind::Count(1 << 32), "", "1, 2: commands in flight, of all SSDs";
    step_us: f64 = 1000.0, Kind::Positive, "us", "2: computing that goes with one fetch of the KV cache";
    step_ios: u64 = 1000, Kind::Count(1 << 32), "", "2: I/Os of 4 KiB of that fetch";
    cxl_ns: f64 = 200.0, Kind::Positive, "ns", "3: latency of the fastest CXL memory";
    spread: f64 = 2.0, Kind::Positive, "", "3: fastest by slowest, of SSDs and of CXL memory";
    warps: u64 = 8448, Kind::Count(1 << 32), "", "4: warps that submit";
    warps_per_queue: u64 = 64, Kind::Count(65536), "", "4: warps that are to share a queue";
    granted: u64 = 1024, Kind::Count(65535), "", "4: queue pairs that the SSD grants";
    depth: u64 = 1024, Kind::Count(65536), "", "4: entries of a queue; one stays free";
    gpu_io: String = "unverified".into(), Kind::Choice(&["unverified", "verified"]), "", "4: whether a kernel of this GPU has read this SSD";
    ranks: u64 = 8, Kind::Count(1 << 20), "", "5: ranks that restore a checkpoint";
    pool_gb_per_s: f64 = 0.0, Kind::Number, "GB/s", "5: measured speed of a pool that all ranks load from; 0: none at hand";
}

/// How many situations there are.
pub const CASES: u64 = 5;

const FORMULA: &[&str] = &[
    "1: 80 GB/s of SSDs, commands in flight and links (plan stripe), into all GPUs or one; latency at most 200 us",
    "2: 1 M I/Os a second of the same; fetch = latency + I/Os / IOPS; utilisation above 90 % (plan kv), with overlap or without",
    "3: latency of SSD by latency of CXL (plan tiers), from slowest by fastest to fastest by slowest; ten is 5 to 20",
    "4: queues for the warps (plan queues); warps of a queue <= depth - 1; whether I/O by the GPU was verified",
    "5: ranks * bytes / pool <= bytes / SSDs (plan ckpt), so that all read the pool as fast as each its part",
];
const SURE: (Sure, &str) = (
    Sure::Model,
    "the situations are those of a table of the article; what is computed of them are bounds, not measurements",
);
const LIMITS: &[&str] = &[
    "a bound that allows an outcome does not promise it",
    "2: a fetch begins one step ahead; what is fetched further ahead hides more latency",
    "5: the gather between GPUs after a sharded restore is not counted",
    "CXL, Ultra Ethernet and peer-to-peer transfers to a real SSD have not been run by us",
];
model!("situation", "which of five deployments fits, and does the article's expectation hold?", presets: &[], plot: None);

/// What a model says of `given`.
fn ask(model: &crate::Model, given: Value) -> Result<Answer, Error> {
    let given = given.as_object().cloned().unwrap_or_default();
    model.answer(&Settings { given, ..Settings::default() })
}

fn number(answer: &Answer, name: &str) -> f64 {
    answer.result(name).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

/// A situation, judged.
struct Case {
    situation: &'static str,
    recommended: &'static str,
    expected: &'static str,
    found: String,
    verdict: Verdict,
    bound: String,
    figures: Vec<Figure>,
}

/// The verdict on an expectation that is possible or not, and that holds as it stands or with an assumption.
fn judged(possible: bool, as_it_stands: bool) -> Verdict {
    match (possible, as_it_stands) {
        (false, _) => Verdict::Contradicted,
        (true, true) => Verdict::Reproduced,
        (true, false) => Verdict::ReproducedWithAssumption,
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    let case = match input.case {
        1 => cases::training(input)?,
        2 => cases::inference(input)?,
        3 => cases::new_cluster(input)?,
        4 => cases::research(input)?,
        _ => cases::shared_checkpoints(input)?,
    };
    let mut results = vec![
        Figure::new("situation", case.situation, "", "the situation"),
        Figure::new("recommended", case.recommended, "", "what the article recommends"),
        Figure::new("expected", case.expected, "", "what the article expects of it"),
        Figure::new("found", case.found, "", "what the models say"),
    ];
    results.extend(case.figures);
    Ok(Outcome { verdict: Some(case.verdict), ..Outcome::new(case.bound, results) })
}
