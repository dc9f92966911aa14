//! Blocks from the soft controller's threads to the target's memory, beside what a plain copy does.

use std::time::Instant;

use warpbell::OpenOptions;
use warpbell_hw::{CopyDirection, RemoteCopy, RemoteMemory, Window};
use warpbell_workload::{Access, Api, BenchOptions, ByteSize, Control, Run, Sharing, bench, resolve};

use crate::report::Row;
use crate::run::Fixture;

const MIB: u64 = 1 << 20;
/// The share of the copy rate that reads of 1 MiB are to reach.
const SHARE: f64 = 0.9;

/// How fast host memory is copied into the target's, in pieces of 1 MiB, bytes per second.
fn copy_rate(fixture: &Fixture) -> anyhow::Result<f64> {
    let bytes = fixture.sized(256) * MIB;
    let from = Window::host(bytes as usize)?;
    from.fill(0, bytes as usize, 0x5a)?;
    let target = fixture.target.open()?;
    let rounds = if fixture.quick { 1 } else { 8 };
    let Some(gpu) = target.gpu() else { return host_copy_rate(&from, rounds) };
    let to = gpu.allocate(bytes as usize)?;
    let _pinned = to.pin(&from)?;
    let mut queue = to.queue()?;
    let begin = Instant::now();
    for round in 0..rounds {
        for at in (0..bytes).step_by(MIB as usize) {
            let host = from.slice(at as usize, MIB as usize)?;
            queue.push(RemoteCopy { direction: CopyDirection::ToRemote, at, host }, round)?;
        }
        queue.submit()?;
    }
    for _ in 0..rounds * (bytes / MIB) {
        loop {
            if let Some((_, result)) = queue.finished() {
                result?;
                break;
            }
        }
    }
    Ok((rounds * bytes) as f64 / begin.elapsed().as_secs_f64())
}

fn host_copy_rate(from: &Window, rounds: u64) -> anyhow::Result<f64> {
    let to = Window::host(from.len())?;
    to.populate()?;
    let mut piece = vec![0; MIB as usize];
    let begin = Instant::now();
    for _ in 0..rounds {
        for at in (0..from.len()).step_by(MIB as usize) {
            from.read(at, &mut piece)?;
            to.write(at, &piece)?;
        }
    }
    Ok((rounds * from.len() as u64) as f64 / begin.elapsed().as_secs_f64())
}

/// Reads of `bs` bytes by kernels, served by so many threads.
fn reads(fixture: &Fixture, bs: u64, pollers: u32) -> anyhow::Result<Run> {
    let options = if fixture.on_gpu() { fixture.device_data()? } else { OpenOptions::default() };
    let ssd =
        fixture.soft(&format!("size={},pollers={pollers},mdts=9", fixture.sized(1024) * MIB), &options)?;
    let queues = if fixture.on_gpu() { 8 } else { 1 };
    let options = BenchOptions {
        rw: Access::RandRead,
        bs: ByteSize(bs),
        iodepth: if bs >= MIB { 16 } else { 128 },
        queues,
        sharing: Sharing::Exclusive,
        api: Api::Io,
        runtime: Some(fixture.runtime()),
        threads: Some(1),
        ..BenchOptions::default()
    };
    let job = resolve(&ssd, &options)?;
    let run = bench(&ssd, fixture.target, &job, &Control::new())?;
    anyhow::ensure!(run.clean(), "{bs} bytes: {:?} {:?}", run.violation_examples, run.failures);
    Ok(run)
}

/// Sizes from one block to 1 MiB, as a share of the copy rate.
pub fn sizes(fixture: &Fixture) -> anyhow::Result<Vec<Row>> {
    let limit = copy_rate(fixture)?;
    let pollers = if fixture.on_gpu() { 8 } else { 1 };
    let mut rows = vec![Row::new("plain copies of 1 MiB", limit / 1e9, "GB/s")];
    for bs in [512, 4096, 16 << 10, 64 << 10, 256 << 10, MIB] {
        let run = reads(fixture, bs, pollers)?;
        let share = run.total.bytes_per_s / limit;
        let what = format!("{} reads, {pollers} controller threads", ByteSize(bs));
        let iops = format!("{:.3} M IOPS, {:.0} % of the plain copies", run.total.iops / 1e6, share * 100.0);
        rows.push(Row::new(what, run.total.bytes_per_s / 1e9, "GB/s").note(iops));
        if bs == MIB {
            rows.push(Row::new("1 MiB reads, share of the plain copies", share, "").at_least(SHARE));
        }
    }
    Ok(rows)
}

/// 1 MiB and 4 KiB by more and more threads.
pub fn controller_threads(fixture: &Fixture) -> anyhow::Result<Vec<Row>> {
    let counts: &[u32] = if fixture.on_gpu() { &[1, 2, 4, 8] } else { &[1, 2] };
    let mut rows = Vec::new();
    for bs in [4096, MIB] {
        for &pollers in counts {
            let run = reads(fixture, bs, pollers)?;
            let what = format!("{} reads, {pollers} controller threads", ByteSize(bs));
            rows.push(Row::new(what, run.total.bytes_per_s / 1e9, "GB/s"));
        }
    }
    Ok(rows)
}
