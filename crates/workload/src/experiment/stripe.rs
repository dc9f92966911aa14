//! `stripe`: several SSDs as one volume, read by the host.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use warpbell::{AttachOptions, Attachment, Ssd, Volume, VolumeIo, VolumeIoSpec, VolumeLayout, VolumeSpec};

use super::{Figures, Lab, figures_of_ios};
use crate::cpu;
use crate::error::RunError;
use crate::latency::LatencyHistogram;
use crate::random::SplitMix64;
use crate::size::ByteSize;

/// Bytes of a chunk.
const CHUNKS: [u64; 2] = [64 << 10, 256 << 10];

/// A volume that is measured.
#[derive(Clone, Copy)]
struct Shape {
    ssds: usize,
    layout: VolumeLayout,
    chunk: u64,
}

impl Shape {
    /// Adds to each SSD what it has of `bytes` from `at` on, where the layout says so, by arithmetic of its own: SSDs of
    /// `member` bytes each. Copies are read from whichever SSD is free.
    fn count(self, wanted: &mut [u64], member: u64, at: u64, bytes: u64) {
        let (mut next, end) = (at, at + bytes);
        while next < end {
            let (ssd, part) = match self.layout {
                VolumeLayout::Stripe => (next / self.chunk % self.ssds as u64, self.chunk),
                _ => (next / member, member),
            };
            let until = (next / part + 1) * part;
            wanted[ssd as usize] += until.min(end) - next;
            next = until;
        }
    }

    fn says_where(self) -> bool {
        self.layout != VolumeLayout::Replicate
    }
}

/// Runs it: 1, 2, 4 and 8 of the SSDs as a stripe, then all of them in the other layouts.
pub(super) fn run(lab: &mut Lab<'_>) -> Result<(), RunError> {
    lab.in_real_time()?;
    let all = lab.ssds.len();
    let counts = lab.ssd_counts();
    for size in lab.options.sizes.clone() {
        let mut alone = None;
        for ssds in counts.clone() {
            for chunk in CHUNKS {
                let shape = Shape { ssds, layout: VolumeLayout::Stripe, chunk };
                let name = format!("stripe ssds={ssds} chunk={} bs={size}", ByteSize(chunk));
                let iops = row(lab, &name, shape, size, alone)?;
                if ssds == 1 {
                    alone = alone.or(iops);
                }
            }
        }
        for (word, layout) in
            [("concatenate", VolumeLayout::Concatenate), ("replicate", VolumeLayout::Replicate)]
        {
            let shape = Shape { ssds: all, layout, chunk: CHUNKS[0] };
            row(lab, &format!("{word} ssds={all} bs={size}"), shape, size, alone)?;
        }
    }
    Ok(())
}

/// Measures a volume: its IOPS. The model: as many times those of one SSD as there are SSDs, each with as many reads in
/// flight.
fn row(
    lab: &mut Lab<'_>,
    name: &str,
    shape: Shape,
    size: ByteSize,
    alone: Option<f64>,
) -> Result<Option<f64>, RunError> {
    if lab.control.stopped() {
        return Ok(None);
    }
    let ssds = &lab.ssds[..shape.ssds];
    let before = read_by(ssds);
    let (figures, wanted) = match measure(lab, ssds, shape, size)? {
        Ok(measured) => measured,
        Err(reason) => {
            lab.skip(name, reason);
            return Ok(None);
        }
    };
    let read = before.zip(read_by(ssds)).map(|(before, after)| differences(&before, &after));
    let iops = figures.get("iops");
    let expected = alone.map(|alone| alone * shape.ssds as f64);
    let figures = figures.with_counted("expected_iops", expected);
    let figures = figures.with_counted("smallest_share", read.as_deref().and_then(smallest_share));
    let wanted = wanted.as_deref().and_then(smallest_share);
    lab.row(name, figures.with_counted("expected_smallest_share", wanted));
    Ok(iops)
}

/// Bytes that each SSD has read so far, where that is counted.
fn read_by(ssds: &[Ssd]) -> Option<Vec<u64>> {
    ssds.iter().map(|ssd| ssd.soft().map(|soft| soft.statistics().bytes_read)).collect()
}

fn differences(before: &[u64], after: &[u64]) -> Vec<u64> {
    before.iter().zip(after).map(|(before, after)| after - before).collect()
}

/// What the SSD that read least has read, of an even share.
fn smallest_share(read: &[u64]) -> Option<f64> {
    let even = read.iter().sum::<u64>() as f64 / read.len() as f64;
    read.iter().min().map(|least| *least as f64 / even.max(1.0))
}

/// What was measured, and the bytes that each SSD should have read, where the layout says so.
type Measured = (Figures, Option<Vec<u64>>);

fn measure(
    lab: &Lab<'_>,
    ssds: &[Ssd],
    shape: Shape,
    size: ByteSize,
) -> Result<Result<Measured, String>, RunError> {
    let options = AttachOptions::new().target(lab.target).nsid(Some(lab.options.nsid));
    let queues = ssds.iter().map(|ssd| ssd.attach(&options)).collect::<Result<Vec<Attachment>, _>>()?;
    let queues: Vec<&Attachment> = queues.iter().collect();
    let spec = VolumeSpec::new().layout(shape.layout).chunk_bytes(shape.chunk);
    let volume = Arc::new(Volume::new(&queues, &spec)?);
    let block = u64::from(volume.block_bytes());
    let all = volume.blocks() * block;
    Ok(if size.0 == 0 || !size.0.is_multiple_of(block) {
        Err(format!("{} bytes: must be a multiple of the block size, {block} bytes", size.0))
    } else if size.0 > all {
        Err(format!("{} bytes: the volume has {all}", size.0))
    } else {
        Ok(random_reads(lab, &volume, shape, size.0)?)
    })
}

/// Keeps `iodepth` reads in flight for each SSD, for the lab's time.
fn random_reads(lab: &Lab<'_>, volume: &Arc<Volume>, shape: Shape, bytes: u64) -> Result<Measured, RunError> {
    let (depth, block) = (lab.iodepth * shape.ssds as u32, u64::from(volume.block_bytes()));
    let member = volume.blocks() * block / shape.ssds as u64;
    let mut wanted = shape.says_where().then(|| vec![0; shape.ssds]);
    let (places, blocks) = (volume.blocks() * block / bytes, bytes / block);
    let buffer = Arc::new(volume.buffer(depth as usize * bytes as usize)?);
    let mut io = VolumeIo::new(volume, &VolumeIoSpec::new().depth(lab.iodepth))?;
    let (mut random, mut latencies) = (SplitMix64::new(lab.options.seed, 0), LatencyHistogram::new());
    // Queues are made with the first request.
    let first = io.flush()?;
    io.wait(first)?;
    let (begin, cpu) = (Instant::now(), cpu::thread_time());
    let mut flights = HashMap::new();
    let mut start = |io: &mut VolumeIo, slot: u64| {
        let place = random.below(places);
        if let Some(wanted) = &mut wanted {
            shape.count(wanted, member, place * bytes, bytes);
        }
        io.read(&buffer, slot * bytes, warpbell_hw::Lba(place * blocks), blocks)
    };
    for slot in 0..u64::from(depth) {
        let since = Instant::now();
        flights.insert(start(&mut io, slot)?, (slot, since));
    }
    while !flights.is_empty() {
        let Some((request, ended)) = io.poll() else {
            std::thread::yield_now();
            continue;
        };
        ended?;
        let Some((slot, since)) = flights.remove(&request) else { continue };
        latencies.record(since.elapsed().as_nanos() as u64, 1);
        if begin.elapsed() < lab.options.runtime && !lab.control.stopped() {
            let since = Instant::now();
            flights.insert(start(&mut io, slot)?, (slot, since));
        }
    }
    io.close()?;
    Ok((figures_of_ios(&latencies, bytes, begin.elapsed(), cpu::thread_time() - cpu), wanted))
}
