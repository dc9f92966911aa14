//! `cold`: the first I/Os after nothing was there.

use std::time::{Duration, Instant};

use super::host_reads::{HostReads, Shape};
use super::{Figures, Lab, figures_of};
use crate::error::RunError;
use crate::options::{Api, BenchOptions};
use crate::random::SplitMix64;
use crate::size::ByteSize;

/// Reads after the first, whose median is what a warm one takes.
const WARM: usize = 1001;

/// Runs it: the host's first read against later ones, and the kernels' first launch against the second.
pub(super) fn run(lab: &mut Lab<'_>) -> Result<(), RunError> {
    lab.in_real_time()?;
    for size in lab.options.sizes.clone() {
        if lab.control.stopped() {
            break;
        }
        match Shape::of(lab, size)? {
            Ok(shape) => host(lab, size, shape)?,
            Err(reason) => lab.skip(&format!("host bs={size}"), reason),
        }
        kernels(lab, size)?;
    }
    Ok(())
}

fn host(lab: &mut Lab<'_>, size: ByteSize, shape: Shape) -> Result<(), RunError> {
    let commands = lab.admin_commands();
    let begin = Instant::now();
    let buffer = lab.ssd.buffer(shape.bytes as usize)?;
    let mut reads = HostReads::new(lab, shape, 1)?;
    let queue = begin.elapsed();
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
    lab.row(format!("host bs={size}"), figures.with("later_p50_ns", nanoseconds(took[took.len() / 2])));
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
        let figures = Figures::default().with("setup_ns", nanoseconds(around));
        let figures = figures.with_counted("admin_commands", since(lab, commands));
        lab.row(name, figures.merged(figures_of(&run)));
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
