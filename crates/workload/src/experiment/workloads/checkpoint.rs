//! `checkpoint`: a state is saved and restored, over one SSD and sharded over all.

use super::Requests;
use crate::error::RunError;
use crate::experiment::{Figures, Lab};
use crate::options::ReplayTiming;
use crate::result::Run;
use crate::size::ByteSize;
use crate::together::bench_together;

/// Runs it: with 1, 2, 4 and 8 shards, as many as there are SSDs, the same state is saved, flushed, and restored.
pub(in crate::experiment) fn run(lab: &mut Lab<'_>) -> Result<(), RunError> {
    let counts = lab.ssd_counts();
    for size in lab.options.sizes.clone() {
        let mut alone = [None; 2];
        for shards in counts.clone() {
            for (way, save) in [("save", true), ("restore", false)] {
                let name = format!("{way} shards={shards} bs={size}");
                let rate = row(lab, &name, shards, save, size, alone[usize::from(save)])?;
                if shards == 1 {
                    alone[usize::from(save)] = rate;
                }
            }
        }
    }
    Ok(())
}

/// Adds a row: bytes of the state each second. The model: as many times those of one SSD as there are shards.
fn row(
    lab: &mut Lab<'_>,
    name: &str,
    shards: usize,
    save: bool,
    size: ByteSize,
    alone: Option<f64>,
) -> Result<Option<f64>, RunError> {
    let pieces = lab.options.ops.div_ceil(shards as u64);
    let mut jobs = Vec::new();
    for ssd in &lab.ssds[..shards] {
        let mut requests = Requests::on(lab, ssd)?;
        let piece = requests.whole(size.0);
        if piece == 0 || pieces.saturating_mul(piece) > requests.room() {
            let (need, room) = (pieces.saturating_mul(piece), requests.room());
            lab.skip(name, format!("{need} bytes of the state, and {} has {room}", ssd.name()));
            return Ok(None);
        }
        for index in 0..pieces {
            match save {
                true => requests.write(index * piece, piece),
                false => requests.read(index * piece, piece, 0),
            }
            requests.next_warp();
        }
        if save {
            requests.flush();
        }
        jobs.push((ssd, crate::bench::resolve(ssd, &requests.options(lab, name, ReplayTiming::Asap))?));
    }
    let jobs: Vec<_> = jobs.iter().map(|(ssd, job)| (*ssd, job)).collect();
    let runs = bench_together(&jobs, lab.target, lab.control);
    let runs = runs.into_iter().collect::<Result<Vec<Run>, RunError>>()?;
    for run in &runs {
        lab.judge(name, run)?;
    }
    if lab.control.stopped() {
        return Ok(None);
    }
    // The state is there when its last shard is.
    let seconds = runs.iter().map(super::seconds).fold(0.0, f64::max);
    let bytes: u64 = runs.iter().map(|run| run.total.bytes).sum();
    let rate = bytes as f64 / seconds;
    let slowest = runs.iter().filter_map(|run| run.lat_ns.map(|latency| latency.p99)).max();
    let figures = Figures::default()
        .with("bytes_per_s", rate)
        .with("seconds", seconds)
        .with_counted("p99_ns", slowest.map(|ns| ns as f64))
        .with_counted("expected_bytes_per_s", alone.map(|alone| alone * shards as f64));
    lab.row(name, figures);
    Ok(Some(rate))
}
