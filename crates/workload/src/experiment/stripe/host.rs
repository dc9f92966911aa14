//! Reads of a volume by the host.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use warpbell::{AttachOptions, Attachment, Ssd, Volume, VolumeIo, VolumeIoSpec, VolumeLayout};
use warpbell_base::SplitMix64;

use super::super::unfit::Unfit;
use super::super::{Figures, Lab, figures_of_ios};
use super::{Measured, Places, Shape, refusal};
use crate::cpu;
use crate::error::RunError;
use crate::latency::LatencyHistogram;
use crate::size::ByteSize;

pub(super) fn measure(
    lab: &Lab<'_>,
    ssds: &[Ssd],
    shape: Shape,
    size: ByteSize,
) -> Result<Result<Measured, Unfit>, RunError> {
    let options = AttachOptions::new().target(lab.target).nsid(Some(lab.options.nsid));
    let queues = ssds.iter().map(|ssd| ssd.attach(&options)).collect::<Result<Vec<Attachment>, _>>()?;
    let volume = Arc::new(shape.volume(&queues)?);
    match refusal(&volume, size.0) {
        Some(reason) => Ok(Err(reason)),
        None => {
            let places = Places::of(shape, &queues);
            let (figures, wanted) = random_reads(lab, &volume, (shape, &places), size.0)?;
            Ok(Ok(Measured { figures, wanted, places }))
        }
    }
}

/// Keeps `iodepth` reads in flight for each SSD, for the lab's time.
fn random_reads(
    lab: &Lab<'_>,
    volume: &Arc<Volume>,
    (shape, parts): (Shape, &Places),
    bytes: u64,
) -> Result<(Figures, Option<Vec<u64>>), RunError> {
    let (depth, block) = (lab.iodepth * shape.ssds as u32, u64::from(volume.block_bytes()));
    // Copies are read from whichever SSD is free.
    let mut wanted = (shape.layout != VolumeLayout::Replicate).then(|| vec![0; shape.ssds]);
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
            parts.count(wanted, place * bytes, bytes);
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
