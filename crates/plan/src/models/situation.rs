//! `situation`: five deployments: what the source recommends and expects, and what the other models say of it.

use serde_json::{Value, json};

use super::{kv, queues, stripe, tiers};
use crate::answer::{Answer, Figure, Sure, Verdict};
use crate::error::Error;
use crate::model::{Outcome, Settings, model};
use crate::number::shown;
use crate::param::{Kind, inputs};

inputs! {
    case: u64 = 1, Kind::Count(CASES), "", "situation, 1 to 5";
    gpus: u64 = 8, Kind::Count(4096), "", "GPUs of the node";
    ssds: u64 = 8, Kind::Count(4096), "", "SSDs of the node";
    ssd_gb_per_s: f64 = 14.0, Kind::Positive, "GB/s", "speed of one SSD", measurable;
    latency_us: f64 = 100.0, Kind::Positive, "us", "time of an I/O", measurable;
    ranks: u64 = 8, Kind::Count(1 << 20), "", "ranks that restore a checkpoint";
}

/// How many situations there are.
pub const CASES: u64 = 5;

const FORMULA: &[&str] = &[
    "1: bandwidth of SSDs and links (plan stripe), commands in flight (plan queues)",
    "2: I/Os a second, in flight and by size (plan queues, plan kv), time to fetch by utilisation (plan kv)",
    "3: latency of SSD by latency of CXL (plan tiers)",
    "4: memory of a queue for each multiprocessor (plan queues)",
    "5: bytes read by ranks, sharded or each all (plan ckpt)",
];
const SURE: (Sure, &str) = (
    Sure::Model,
    "the situations are those of source S2 (L37 to L48); what is computed of them are bounds, not measurements",
);
const LIMITS: &[&str] = &[
    "a bound that allows an outcome does not promise it",
    "CXL, Ultra Ethernet and peer-to-peer transfers to a real SSD have not been run by us",
];
model!("situation", "which of five deployments fits, and does the source's expectation hold?", presets: &[], plot: None);

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

fn answer(input: &Input) -> Result<Outcome, Error> {
    let case = match input.case {
        1 => training(input)?,
        2 => inference(input)?,
        3 => new_cluster()?,
        4 => research(input)?,
        _ => shared_checkpoints(input)?,
    };
    let mut results = vec![
        Figure::new("situation", case.situation, "", "the situation"),
        Figure::new("recommended", case.recommended, "", "what the source recommends"),
        Figure::new("expected", case.expected, "", "what the source expects of it"),
        Figure::new("found", case.found, "", "what the models say"),
    ];
    results.extend(case.figures);
    Ok(Outcome { verdict: Some(case.verdict), ..Outcome::new(case.bound, results) })
}

fn training(input: &Input) -> Result<Case, Error> {
    let given = |gpus: u64| json!({"ssds": input.ssds, "ssd_gb_per_s": input.ssd_gb_per_s, "gpus": gpus, "target_gb_per_s": 80});
    let (node, one) = (ask(&stripe::MODEL, given(input.gpus))?, ask(&stripe::MODEL, given(1))?);
    let in_flight = |bytes: u64| {
        let asked = json!({"bandwidth_gb_per_s": 80, "io_bytes": bytes, "latency_us": input.latency_us});
        Ok::<f64, Error>(number(&ask(&queues::MODEL, asked)?, "in_flight"))
    };
    let (all, single) = (number(&node, "bandwidth_gb_per_s"), number(&one, "bandwidth_gb_per_s"));
    let verdict = match all >= 80.0 {
        true if single >= 80.0 => Verdict::Reproduced,
        true => Verdict::ReproducedWithAssumption,
        false => Verdict::Contradicted,
    };
    let found =
        format!("{} GB/s at most into {} GPUs, {} GB/s into one", shown(all), input.gpus, shown(single));
    Ok(Case {
        situation: "training now, reliably",
        recommended: "GPUDirect Storage, 8 SSDs, striping over queues",
        expected: "80 to 100 GB/s, about 100 us",
        found,
        verdict,
        bound: node.bound.clone(),
        figures: vec![
            Figure::new("node_gb_per_s", all, "GB/s", "into all GPUs"),
            Figure::new("one_gpu_gb_per_s", single, "GB/s", "into one GPU"),
            Figure::new("needed_efficiency", 80.0 / all, "", "share of the bound that 80 GB/s need"),
            Figure::new(
                "in_flight_128k",
                in_flight(128 << 10)?,
                "",
                "commands in flight for 80 GB/s, 128 KiB each",
            ),
            Figure::new("in_flight_4k", in_flight(4096)?, "", "the same, 4 KiB each"),
        ],
    })
}

fn inference(input: &Input) -> Result<Case, Error> {
    let fetch = ask(&kv::MODEL, json!({"iops": 1e6, "io_bytes": 4096, "utilisation": 0.9}))?;
    let queue = ask(&queues::MODEL, json!({"iops": 1e6, "latency_us": input.latency_us}))?;
    let (in_flight, largest) = (number(&queue, "in_flight"), number(&fetch, "largest_io_bytes"));
    let limit = number(&fetch, "fetch_limit_overlapped");
    let of_fetch = |name, unit, meaning| Figure::new(name, number(&fetch, name), unit, meaning);
    Ok(Case {
        situation: "inference with a KV cache",
        recommended: "GPUDirect Storage, batches of NVMe commands, prefetch",
        expected: "over 1 M I/Os a second, GPU utilisation above 90 %",
        found: format!(
            "1 M I/Os a second need {} in flight; 90 % need fetches of at most {} of the computing, with overlap",
            shown(in_flight),
            shown(limit)
        ),
        verdict: Verdict::ReproducedWithAssumption,
        bound: format!("the GPU's link: I/Os of at most {} bytes at 1 M a second", shown(largest)),
        figures: vec![
            Figure::new("in_flight", in_flight, "", "commands in flight for 1 M I/Os a second"),
            of_fetch("iops_gb_per_s", "GB/s", "those I/Os at 4 KiB, as bandwidth"),
            of_fetch("largest_io_bytes", "B", "the largest I/O of which one link carries so many"),
            of_fetch(
                "fetch_limit_overlapped",
                "",
                "fetching, as a share of computing, for 90 % with overlap",
            ),
            of_fetch("fetch_limit_serial", "", "the same without overlap"),
        ],
    })
}

fn new_cluster() -> Result<Case, Error> {
    let near = number(&ask(&tiers::MODEL, json!({"nvme_us": 50, "cxl_ns": 400}))?, "latency_ratio");
    let far = number(&ask(&tiers::MODEL, json!({"nvme_us": 100, "cxl_ns": 200}))?, "latency_ratio");
    Ok(Case {
        situation: "a new cluster that can wait",
        recommended: "a CXL 2.0 tier, Ultra Ethernet",
        expected: "random access ten times better",
        found: format!("the source's own latencies make it {} to {} times", shown(near), shown(far)),
        verdict: Verdict::Contradicted,
        bound: "the latency of the medium: SSD against memory".to_owned(),
        figures: vec![
            Figure::new("least_gain", near, "", "fastest SSD by slowest memory"),
            Figure::new("most_gain", far, "", "slowest SSD by fastest memory"),
        ],
    })
}

fn research(input: &Input) -> Result<Case, Error> {
    let asked =
        json!({"warps": 8448, "warps_per_queue": 64, "granted": 1024, "latency_us": input.latency_us});
    let sized = ask(&queues::MODEL, asked)?;
    let (queues, bytes) = (number(&sized, "queues"), number(&sized, "bytes_of_queues"));
    Ok(Case {
        situation: "research and prototypes",
        recommended: "a GPU NVMe driver, after BaM",
        expected: "I/O that the GPU initiates",
        found: format!(
            "this project; {} queues take {} bytes of rings on an H200",
            shown(queues),
            shown(bytes)
        ),
        verdict: Verdict::ReproducedWithAssumption,
        bound: "the queues that the SSD grants: as many as multiprocessors, or warps share them".to_owned(),
        figures: vec![
            Figure::new("queues", queues, "", "a queue for each multiprocessor of an H200"),
            Figure::new("bytes_of_queues", bytes, "B", "their rings, at a depth of 1,024"),
            Figure::new(
                "assumption",
                "software and emulated SSDs; peer to peer with a real SSD is not verified",
                "",
                "what the verdict assumes",
            ),
        ],
    })
}

fn shared_checkpoints(input: &Input) -> Result<Case, Error> {
    let restored = |restore: &str| {
        let asked = json!({"ranks": input.ranks, "restore": restore, "ssds": input.ssds, "ssd_gb_per_s": input.ssd_gb_per_s});
        Ok::<f64, Error>(number(&ask(&super::ckpt::MODEL, asked)?, "restore_bytes"))
    };
    let ratio = restored("everybody")? / restored("sharded")?;
    Ok(Case {
        situation: "checkpoints that many GPUs share",
        recommended: "CXL 3.0 pooling or Ultra Ethernet collectives",
        expected: "one shared pool, no copies between GPUs",
        found: format!(
            "no hardware to verify it on; a sharded restore reads {} times less instead",
            shown(ratio)
        ),
        verdict: Verdict::CannotBeVerified,
        bound: "bytes read from SSDs: once if sharded, once for each rank if not".to_owned(),
        figures: vec![Figure::new(
            "read_ratio",
            ratio,
            "",
            "bytes read when each rank reads all, by bytes read sharded",
        )],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_situation_has_a_verdict_and_a_bound() {
        let mut verdicts = Vec::new();
        for case in 1..=CASES {
            let answer = ask(&MODEL, json!({"case": case})).unwrap();
            assert!(!answer.bound.is_empty());
            verdicts.push(answer.verdict.unwrap());
        }
        use Verdict::{CannotBeVerified, Contradicted, ReproducedWithAssumption};
        let (assumed, contradicted) = (ReproducedWithAssumption, Contradicted);
        assert_eq!(verdicts, [assumed, assumed, contradicted, assumed, CannotBeVerified]);
    }

    #[test]
    fn training_into_one_gpu_does_not_reach_what_is_expected() {
        let one = ask(&MODEL, json!({"case": 1, "gpus": 1})).unwrap();
        assert_eq!(one.verdict, Some(Verdict::Contradicted));
        assert!(one.bound.starts_with("the GPUs' links: 57.6"), "{}", one.bound);
    }
}
