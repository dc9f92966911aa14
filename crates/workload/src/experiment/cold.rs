//! `cold`: the first I/Os after nothing was there.

use std::time::{Duration, Instant};

use super::host_reads::{HostReads, Shape};
use super::{Figures, Lab, Way, figures_of};
use crate::error::RunError;
use crate::options::{Api, BenchOptions};
use crate::size::ByteSize;
use crate::stopwatch::Stopwatch;
use warpbell_base::SplitMix64;

/// Reads after the first, whose median is what a warm one takes.
const WARM: usize = 1001;
/// Admin commands that create a pair of queues, and that delete it.
const CREATED: f64 = 2.0;
const DELETED: f64 = 2.0;

/// Its ways: the host's first read against later ones, and the kernels' first launch against the second. In virtual time
/// nothing is loaded, and admin commands take no time: first and later reads are alike.
pub(super) fn ways(lab: &Lab<'_>) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for size in lab.options.sizes.clone() {
        ways.push(Box::new(move |lab| host(lab, size)));
        ways.push(Box::new(move |lab| kernels(lab, size)));
    }
    ways
}

fn host(lab: &mut Lab<'_>, size: ByteSize) -> Result<(), RunError> {
    let shape = match Shape::of(lab, size)? {
        Ok(shape) => shape,
        Err(reason) => {
            lab.skip(&format!("host bs={size}"), reason);
            return Ok(());
        }
    };
    let commands = lab.admin_commands();
    let clock = Stopwatch::start(lab.ssd);
    let buffer = lab.ssd.buffer(shape.bytes as usize)?;
    let mut reads = HostReads::new(lab, shape, 1)?;
    let queue = clock.elapsed();
    let commands = since(lab, commands);
    let mut random = SplitMix64::new(lab.options.seed, 0);
    let mut took = Vec::with_capacity(WARM + 1);
    for _ in 0..=WARM {
        reads.begin(0, shape.draw(&mut random), &buffer, 0)?;
        took.push(reads.wait()?.1);
    }
    let first = took.remove(0);
    took.sort_unstable();
    let figures =
        Figures::default().with("queue_ns", nanoseconds(queue)).with("first_read_ns", nanoseconds(first));
    let figures = figures.with("time_to_first_byte_ns", nanoseconds(queue + first));
    let figures = figures.with_counted("admin_commands", commands);
    let figures = figures.with_counted("expected_admin_commands", commands.map(|_| CREATED));
    let figures = figures.with("later_p50_ns", nanoseconds(took[took.len() / 2]));
    let model = lab.in_virtual_time().then(|| lab.read_latency(size, 1)).flatten();
    let model = model.and_then(|model| model.get("expected_p50_ns"));
    lab.row(format!("host bs={size}"), figures.with_counted("expected_later_p50_ns", model));
    Ok(())
}

fn kernels(lab: &mut Lab<'_>, size: ByteSize) -> Result<(), RunError> {
    for pass in ["first", "second"] {
        let name = format!("kernels {pass} bs={size}");
        let options = BenchOptions { api: Api::Io, ..lab.reads(size) };
        let commands = lab.admin_commands();
        let begin = Instant::now();
        let Some(run) = lab.point(&name, &options)? else { return Ok(()) };
        // All that was not the measured time: queues, the kernel's code, its memory.
        let around = begin.elapsed().saturating_sub(Duration::from_nanos(run.runtime_ns));
        let around = (!lab.in_virtual_time()).then(|| nanoseconds(around));
        let figures = Figures::default().with_counted("setup_ns", around);
        let commands = since(lab, commands);
        let figures = figures.with_counted("admin_commands", commands);
        let figures = figures.with_counted("expected_admin_commands", commands.map(|_| CREATED + DELETED));
        let model = lab.in_virtual_time().then(|| lab.read_latency(size, lab.iodepth)).flatten();
        lab.row(name, figures.merged(figures_of(&run)).merged(model.unwrap_or_default()));
    }
    Ok(())
}

/// Admin commands since then.
fn since(lab: &Lab<'_>, before: Option<u64>) -> Option<f64> {
    lab.admin_commands().zip(before).map(|(after, before)| (after - before) as f64)
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_nanos() as f64
}
