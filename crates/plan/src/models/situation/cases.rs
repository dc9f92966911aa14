//! The five situations, each judged by its inputs.

use serde_json::json;

use super::{Case, Input, ask, judged, number};
use crate::answer::{Answer, Figure, Verdict};
use crate::error::Error;
use crate::models::{ckpt, kv, queues, stripe, tiers};
use crate::number::shown;

/// What the source expects of training, in GB/s.
const TRAINING_GB_PER_S: f64 = 80.0;
/// "About 100 us": no more than twice that.
const TRAINING_US: f64 = 200.0;
/// What it expects of inference.
const INFERENCE_IOPS: f64 = 1e6;
const UTILISATION: f64 = 0.9;
const IO_BYTES: u64 = 4096;
/// "Ten times": from half to twice that.
const TEN: std::ops::RangeInclusive<f64> = 5.0..=20.0;

/// What the node's SSDs bring to `gpus` GPUs, in I/Os of `io_bytes`.
fn node(input: &Input, gpus: u64, io_bytes: u64) -> Result<Answer, Error> {
    let given = json!({
        "ssds": input.ssds, "ssd_gb_per_s": input.ssd_gb_per_s, "gpus": gpus, "io_bytes": io_bytes,
        "in_flight": input.in_flight, "latency_us": input.latency_us, "target_gb_per_s": TRAINING_GB_PER_S,
    });
    ask(&stripe::MODEL, given)
}

pub(super) fn training(input: &Input) -> Result<Case, Error> {
    const IO: u64 = 128 << 10;
    let (node, one) = (node(input, input.gpus, IO)?, node(input, 1, IO)?);
    let needed = |bytes: u64| {
        let asked = json!({"bandwidth_gb_per_s": TRAINING_GB_PER_S, "io_bytes": bytes, "latency_us": input.latency_us});
        Ok::<f64, Error>(number(&ask(&queues::MODEL, asked)?, "in_flight"))
    };
    let (all, single) = (number(&node, "bandwidth_gb_per_s"), number(&one, "bandwidth_gb_per_s"));
    let soon = input.latency_us <= TRAINING_US;
    Ok(Case {
        situation: "training now, reliably",
        recommended: "GPUDirect Storage, 8 SSDs, striping over queues",
        expected: "80 to 100 GB/s, about 100 us",
        found: format!(
            "{} GB/s at most into {} GPUs, {} GB/s into one, {} us an I/O",
            shown(all),
            input.gpus,
            shown(single),
            shown(input.latency_us)
        ),
        verdict: judged(all >= TRAINING_GB_PER_S && soon, single >= TRAINING_GB_PER_S),
        bound: node.bound.clone(),
        figures: vec![
            Figure::new("node_gb_per_s", all, "GB/s", "into all GPUs"),
            Figure::new("one_gpu_gb_per_s", single, "GB/s", "into one GPU"),
            Figure::new(
                "needed_efficiency",
                TRAINING_GB_PER_S / all,
                "",
                "share of the bound that 80 GB/s need; above 1: impossible",
            ),
            Figure::new("in_flight_128k", needed(IO)?, "", "commands in flight for 80 GB/s, 128 KiB each"),
            Figure::new("in_flight_4k", needed(IO_BYTES)?, "", "the same, 4 KiB each"),
        ],
    })
}

pub(super) fn inference(input: &Input) -> Result<Case, Error> {
    let node = node(input, input.gpus, IO_BYTES)?;
    let iops = number(&node, "bandwidth_gb_per_s") * 1e9 / IO_BYTES as f64;
    let fetch_us = input.latency_us + input.step_ios as f64 * 1e6 / iops;
    let fetch =
        ask(&kv::MODEL, json!({"iops": INFERENCE_IOPS, "io_bytes": IO_BYTES, "utilisation": UTILISATION}))?;
    let queue = ask(&queues::MODEL, json!({"iops": INFERENCE_IOPS, "latency_us": input.latency_us}))?;
    let (overlapped, serial) =
        (input.step_us / input.step_us.max(fetch_us), input.step_us / (input.step_us + fetch_us));
    let of_fetch = |name, unit, meaning| Figure::new(name, number(&fetch, name), unit, meaning);
    Ok(Case {
        situation: "inference with a KV cache",
        recommended: "GPUDirect Storage, batches of NVMe commands, prefetch",
        expected: "over 1 M I/Os a second, GPU utilisation above 90 %",
        found: format!(
            "{} I/Os a second at most; a GPU computes {} of the time with overlap, {} without",
            shown(iops.round()),
            crate::models::percent(overlapped),
            crate::models::percent(serial)
        ),
        verdict: judged(iops >= INFERENCE_IOPS && overlapped > UTILISATION, serial > UTILISATION),
        bound: node.bound.clone(),
        figures: vec![
            Figure::new("iops", iops, "1/s", "I/Os of 4 KiB a second, at most"),
            Figure::new("fetch_us", fetch_us, "us", "a fetch of the KV cache"),
            Figure::new("utilisation_overlapped", overlapped, "", "of the GPU, fetching while it computes"),
            Figure::new("utilisation_serial", serial, "", "the same, one after the other"),
            Figure::new(
                "in_flight",
                number(&queue, "in_flight"),
                "",
                "commands in flight for 1 M I/Os a second",
            ),
            of_fetch("iops_gb_per_s", "GB/s", "1 M I/Os of 4 KiB a second, as bandwidth"),
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

pub(super) fn new_cluster(input: &Input) -> Result<Case, Error> {
    let ratio = |nvme_us: f64, cxl_ns: f64| {
        let asked = json!({"nvme_us": nvme_us, "cxl_ns": cxl_ns});
        Ok::<f64, Error>(number(&ask(&tiers::MODEL, asked)?, "latency_ratio"))
    };
    let spread = input.spread.max(1.0);
    let least = ratio(input.latency_us / spread, input.cxl_ns * spread)?;
    let most = ratio(input.latency_us, input.cxl_ns)?;
    let (some, all) =
        (least <= *TEN.end() && most >= *TEN.start(), TEN.contains(&least) && TEN.contains(&most));
    Ok(Case {
        situation: "a new cluster that can wait",
        recommended: "a CXL 2.0 tier, Ultra Ethernet",
        expected: "random access ten times better",
        found: format!("these latencies make it {} to {} times", shown(least), shown(most)),
        verdict: judged(some, all),
        bound: format!(
            "the latency of the medium: {} us by {} ns",
            shown(input.latency_us),
            shown(input.cxl_ns)
        ),
        figures: vec![
            Figure::new("least_gain", least, "", "fastest SSD by slowest memory"),
            Figure::new("most_gain", most, "", "slowest SSD by fastest memory"),
        ],
    })
}

pub(super) fn research(input: &Input) -> Result<Case, Error> {
    let asked = json!({
        "warps": input.warps, "warps_per_queue": input.warps_per_queue, "granted": input.granted,
        "depth": input.depth, "latency_us": input.latency_us, "iops": INFERENCE_IOPS,
    });
    let sized = ask(&queues::MODEL, asked)?;
    let (queues, bytes) = (number(&sized, "queues"), number(&sized, "bytes_of_queues"));
    let (sharing, room) = ((input.warps as f64 / queues).ceil(), number(&sized, "in_flight_per_queue"));
    Ok(Case {
        situation: "research and prototypes",
        recommended: "a GPU NVMe driver, after BaM",
        expected: "I/O that the GPU initiates",
        found: format!(
            "{} queues take {} bytes of rings; {} warps share one, which holds {} commands; I/O by the GPU is {}",
            shown(queues),
            shown(bytes),
            shown(sharing),
            shown(room),
            input.gpu_io
        ),
        verdict: judged(sharing <= room, input.gpu_io == "verified"),
        bound: sized.bound.clone(),
        figures: vec![
            Figure::new("queues", queues, "", "queues to ask for"),
            Figure::new("bytes_of_queues", bytes, "B", "their rings"),
            Figure::new("warps_of_a_queue", sharing, "", "warps that share one"),
            Figure::new(
                "in_flight_per_queue",
                room,
                "",
                "commands that one holds: one for each warp at least",
            ),
        ],
    })
}

pub(super) fn shared_checkpoints(input: &Input) -> Result<Case, Error> {
    let links = number(&node(input, input.gpus, 128 << 10)?, "links_gb_per_s");
    let restored = |restore: &str| {
        let asked = json!({
            "ranks": input.ranks, "restore": restore, "ssds": input.ssds, "ssd_gb_per_s": input.ssd_gb_per_s,
            "shared_gb_per_s": links,
        });
        ask(&ckpt::MODEL, asked)
    };
    let (everybody, sharded) = (restored("everybody")?, restored("sharded")?);
    let ratio = number(&everybody, "restore_bytes") / number(&sharded, "restore_bytes");
    let sharded_ms = number(&sharded, "restore_ms");
    let pool_ms = number(&everybody, "restore_bytes") / input.pool_gb_per_s / 1e6;
    let none = input.pool_gb_per_s <= 0.0;
    Ok(Case {
        situation: "checkpoints that many GPUs share",
        recommended: "CXL 3.0 pooling or Ultra Ethernet collectives",
        expected: "one shared pool, no copies between GPUs",
        found: match none {
            true => format!("no pool to verify it on; a sharded restore reads {} times less", shown(ratio)),
            false => {
                format!("{} ms from the pool, {} ms sharded from SSDs", shown(pool_ms), shown(sharded_ms))
            }
        },
        verdict: if none { Verdict::CannotBeVerified } else { judged(pool_ms <= sharded_ms, true) },
        bound: match none {
            true => "bytes read from SSDs: once if sharded, once for each rank if not".to_owned(),
            false => format!("the pool: {} ranks read all of it", input.ranks),
        },
        figures: vec![
            Figure::new(
                "read_ratio",
                ratio,
                "",
                "bytes read when each rank reads all, by bytes read sharded",
            ),
            Figure::new("sharded_ms", sharded_ms, "ms", "each rank reads its part from SSDs"),
            Figure::new("pool_ms", (!none).then_some(pool_ms), "ms", "each rank reads all from the pool"),
        ],
    })
}
