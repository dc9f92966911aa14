//! What the device library sustains alone: against the GPU-resident controller.

use warpbell_workload::resident::{self, ResidentSpec, Wait};
use warpbell_workload::{Access, Api, BenchOptions, ByteSize, Control, Run, Sharing};

use crate::report::Row;
use crate::run::Fixture;

/// Commands per second of one multiprocessor, and of the 13 that are a tenth of an H200.
const PER_MULTIPROCESSOR: f64 = 8.0;
const TENTH_OF_GPU: f64 = 100.0;
const TENTH_MULTIPROCESSORS: f64 = 13.0;
/// Of 128 threads that each wait for their own command.
const WAITING: f64 = 1.9;

struct Shape {
    sharing: Sharing,
    wait: Wait,
    queues: u16,
    warps: u32,
    batch: u32,
    iodepth: u32,
}

fn run(fixture: &Fixture, shape: &Shape) -> anyhow::Result<Run> {
    let options = BenchOptions {
        rw: Access::RandRead,
        bs: ByteSize(512),
        iodepth: shape.iodepth,
        queues: shape.queues,
        warps: Some(shape.warps),
        sharing: shape.sharing,
        api: if shape.wait == Wait::None { Api::Raw } else { Api::Io },
        runtime: Some(fixture.runtime()),
        threads: Some(1),
        ..BenchOptions::default()
    };
    let spec = ResidentSpec { batch: shape.batch, wait: shape.wait, ..ResidentSpec::default() };
    let job = resident::resolve(&spec, &options)?;
    let run = resident::bench(fixture.target, &spec, &job, &Control::new())?;
    anyhow::ensure!(run.clean(), "{:?} {:?}", run.violation_examples, run.failures);
    Ok(run)
}

fn row(shape: &Shape, run: &Run) -> Row {
    let Shape { sharing, queues, warps, batch, iodepth, .. } = shape;
    let what = format!("{sharing}, {queues} queues, {warps} warps, batch {batch}, depth {iodepth}");
    let row = Row::new(what, run.total.iops / 1e6, "M/s");
    match run.resident.as_ref().and_then(|figures| figures.multiprocessors) {
        Some(sm) => row.note(format!(
            "{:.2} M/s for each of {} multiprocessors of clients; {} of controllers, {} of both",
            sm.iops_per_client / 1e6,
            sm.client,
            sm.controller,
            sm.mixed
        )),
        None => row,
    }
}

/// As many as a GPU has multiprocessors, and fewer: all blocks must run at the same time.
fn queue_counts(fixture: &Fixture) -> anyhow::Result<Vec<u16>> {
    let target = fixture.target.open()?;
    let Some(gpu) = target.gpu() else { return Ok(vec![1, 2]) };
    let most = gpu.info().multiprocessors.min(1024) as u16;
    Ok([1, 4, 16, 64, 104, 208, 416].into_iter().filter(|&queues| queues <= most).collect())
}

/// Exclusive and shared queues, more and more of them, warps, and sizes of batches; the best of them per multiprocessor.
pub fn throughput(fixture: &Fixture) -> anyhow::Result<Vec<Row>> {
    let counts = queue_counts(fixture)?;
    let mut rows = Vec::new();
    let (mut per_multiprocessor, mut on_thirteen) = (0f64, 0f64);
    for sharing in [Sharing::Exclusive, Sharing::Shared] {
        for &queues in &counts {
            let each = if sharing == Sharing::Shared { 4 } else { 1 };
            for batch in [1, 8, 32] {
                let warps = u32::from(queues) * each;
                let shape = Shape { sharing, wait: Wait::None, queues, warps, batch, iodepth: 128 * each };
                let run = run(fixture, &shape)?;
                rows.push(row(&shape, &run));
                if let Some(sm) = run.resident.as_ref().and_then(|figures| figures.multiprocessors) {
                    per_multiprocessor = per_multiprocessor.max(sm.iops_per_client / 1e6);
                    on_thirteen = on_thirteen
                        .max(run.total.iops / 1e6 * (TENTH_MULTIPROCESSORS / f64::from(sm.client)).min(1.0));
                }
            }
        }
    }
    if fixture.on_gpu() {
        rows.push(
            Row::new("best per multiprocessor of clients", per_multiprocessor, "M/s")
                .at_least(PER_MULTIPROCESSOR),
        );
        rows.push(
            Row::new("13 multiprocessors of clients", on_thirteen, "M/s")
                .at_least(TENTH_OF_GPU)
                .note("the best run, of which 13 parts count where it had more clients"),
        );
    }
    Ok(rows)
}

/// 128 threads, each waiting for its own command.
pub fn waiting(fixture: &Fixture) -> anyhow::Result<Vec<Row>> {
    let shapes = [
        (Sharing::Exclusive, Wait::Each, 4),
        (Sharing::Shared, Wait::Each, 1),
        (Sharing::Shared, Wait::Each, 4),
        (Sharing::Shared, Wait::Thread, 1),
    ];
    let mut rows = Vec::new();
    for (sharing, wait, queues) in shapes {
        let shape = Shape { sharing, wait, queues, warps: 4, batch: 32, iodepth: 128 };
        let run = run(fixture, &shape)?;
        let Row { what, value, note, .. } = row(&shape, &run);
        rows.push(Row::new(format!("wait {wait}: {what}"), value, "M/s").note(note).at_least(WAITING));
    }
    Ok(rows)
}
