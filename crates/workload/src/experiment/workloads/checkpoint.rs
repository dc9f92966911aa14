//! `checkpoint`: a state is saved and restored, over one SSD and sharded over all.

use warpbell::Ssd;

use super::{Requests, Way, refusal};
use crate::bench::shared_out;
use crate::error::RunError;
use crate::experiment::unfit::Unfit;
use crate::experiment::{Figures, Lab};
use crate::job::Job;
use crate::options::ReplayTiming;
use crate::result::Run;
use crate::size::ByteSize;
use crate::together::bench_together;

/// Its ways: with 1, 2, 4 and 8 shards, as many as there are SSDs, the same state is saved, flushed, and restored.
pub(in crate::experiment) fn ways(lab: &Lab<'_>) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for size in lab.options.sizes.clone() {
        for shards in lab.ssd_counts() {
            for save in [true, false] {
                ways.push(Box::new(move |lab| row(lab, shards, save, size)));
            }
        }
    }
    ways
}

fn name(shards: usize, save: bool, size: ByteSize) -> String {
    let way = if save { "save" } else { "restore" };
    format!("{way} shards={shards} bs={size}")
}

/// Adds a row: bytes of the state each second. The model: as many times those of one SSD as there are shards.
fn row(lab: &mut Lab<'_>, shards: usize, save: bool, size: ByteSize) -> Result<(), RunError> {
    let name = name(shards, save, size);
    let Some(jobs) = jobs(lab, &name, shards, save, size)? else { return Ok(()) };
    let jobs: Vec<_> = lab.ssds.iter().zip(&jobs).collect();
    let runs = bench_together(&jobs, lab.target, lab.control);
    let runs = runs.into_iter().collect::<Result<Vec<Run>, RunError>>()?;
    for run in &runs {
        lab.judge(&name, run)?;
    }
    if lab.control.stopped() {
        return Ok(());
    }
    // The state is there when its last shard is.
    let seconds = runs.iter().map(super::seconds).fold(0.0, f64::max);
    let bytes: u64 = runs.iter().map(|run| run.total.bytes).sum();
    let slowest = runs.iter().filter_map(|run| run.lat_ns.map(|latency| latency.p99)).max();
    let figures = Figures::default()
        .with("bytes_per_s", bytes as f64 / seconds)
        .with("seconds", seconds)
        .with_counted("p99_ns", slowest.map(|ns| ns as f64));
    lab.row(&name, figures);
    if shards > 1 {
        let alone = self::name(1, save, size);
        lab.model(name, move |known| {
            let rate = known.get(&alone, "bytes_per_s")? * shards as f64;
            Some(Figures::default().with("expected_bytes_per_s", rate))
        });
    }
    Ok(())
}

/// The job of each shard.
fn jobs(
    lab: &mut Lab<'_>,
    name: &str,
    shards: usize,
    save: bool,
    size: ByteSize,
) -> Result<Option<Vec<Job>>, RunError> {
    let pieces = lab.options.ops.div_ceil(shards as u64);
    let mut jobs = Vec::new();
    for ssd in &lab.ssds[..shards] {
        let requests = match requests(lab, ssd, (pieces, save), size)? {
            Ok(requests) => requests,
            Err(reason) => {
                lab.skip(name, reason);
                return Ok(None);
            }
        };
        // The processors are for all shards.
        let options = shared_out(requests.options(lab, name, ReplayTiming::Asap), &lab.ssds[..shards]);
        let Some(job) = lab.job_on(ssd, name, &options)? else { return Ok(None) };
        jobs.push(job);
    }
    Ok(Some(jobs))
}

/// A shard of the state; or why there is none.
fn requests(
    lab: &Lab<'_>,
    ssd: &Ssd,
    (pieces, save): (u64, bool),
    size: ByteSize,
) -> Result<Result<Requests, Unfit>, RunError> {
    let mut requests = Requests::on(lab, ssd)?;
    let piece = requests.whole(size.0);
    let (need, room) = (pieces.saturating_mul(piece), requests.room());
    if piece == 0 || need > room {
        return Ok(Err(Unfit::State { bytes: need, ssd: ssd.name().to_string(), room }));
    }
    for index in 0..pieces {
        if requests.is_full() {
            break;
        }
        match save {
            true => requests.write(index * piece, piece),
            false => requests.read(index * piece, piece, 0),
        }
        requests.next_warp();
    }
    if save {
        requests.flush();
    }
    Ok(refusal(&requests).map_or(Ok(requests), Err))
}
