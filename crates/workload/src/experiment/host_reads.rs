//! Random reads by a queue of the host's, with something done after each.

use std::time::Duration;

use warpbell::{Buffer, DataPointers, HostQueue, HostQueueSpec, Ssd, describe_status};
use warpbell_base::SplitMix64;
use warpbell_driver::{IoQueueOptions, Outcome};
use warpbell_nvme::command::{self, QueuePriority};

use super::unfit::Unfit;
use super::{Figures, Lab, figures_of_ios};
use crate::cpu;
use crate::error::RunError;
use crate::latency::LatencyHistogram;
use crate::size::ByteSize;
use crate::stopwatch::Stopwatch;

/// The longest that one command may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Completions that are reported at a time, where the ring has room for more commands than are in flight.
const BATCH: u32 = 32;
/// Ring entries at least.
const ENTRIES: u32 = 64;

/// Where reads of one size go, and come from.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) bytes: u64,
    pub(super) block: u64,
    places: u64,
}

impl Shape {
    /// Reads of `size` on the lab's namespace, one at a time; an error says why there are none.
    pub(super) fn of(lab: &Lab<'_>, size: ByteSize) -> Result<Result<Shape, Unfit>, RunError> {
        Shape::of_depth(lab, size, 1)
    }

    /// The same with so many in flight on one queue.
    pub(super) fn of_depth(
        lab: &Lab<'_>,
        size: ByteSize,
        depth: u32,
    ) -> Result<Result<Shape, Unfit>, RunError> {
        let ring = lab.ssd.controller().max_entries();
        let namespace = lab.ssd.namespace(Some(lab.options.nsid))?;
        let (bytes, block) = (size.0, u64::from(namespace.block_size));
        let (all, most) = (namespace.blocks * block, lab.ssd.max_command_bytes());
        Ok(if bytes == 0 || !bytes.is_multiple_of(block) {
            Err(Unfit::Block { bytes, block })
        } else if bytes > most {
            Err(Unfit::Command { bytes, most })
        } else if bytes > all {
            Err(Unfit::Namespace { bytes, all })
        } else if depth >= ring {
            Err(Unfit::Depth { depth, ring })
        } else {
            Ok(Shape { bytes, block, places: all / bytes })
        })
    }

    /// The offset of a random place.
    pub(super) fn draw(&self, random: &mut SplitMix64) -> u64 {
        random.below(self.places) * self.bytes
    }
}

/// A queue, and the reads that are in flight on it.
pub(super) struct HostReads<'a> {
    ssd: &'a Ssd,
    nsid: u32,
    queue: HostQueue,
    shape: Shape,
    clock: Stopwatch<'a>,
    /// By queue slot: which of the reads, and since when.
    flights: Vec<Option<(usize, Duration)>>,
}

impl<'a> HostReads<'a> {
    pub(super) fn new(lab: &Lab<'a>, shape: Shape, depth: u32) -> Result<HostReads<'a>, RunError> {
        HostReads::with(lab, shape, depth, QueuePriority::URGENT)
    }

    /// The same on a queue with a priority.
    pub(super) fn with(
        lab: &Lab<'a>,
        shape: Shape,
        depth: u32,
        priority: QueuePriority,
    ) -> Result<HostReads<'a>, RunError> {
        let most = lab.ssd.controller().max_entries();
        let entries = (depth + 1).next_power_of_two().max(ENTRIES).min(most);
        // A full ring has room for a command as soon as a completion was reported, and not before.
        let batch = BATCH.min(entries.saturating_sub(depth).max(1));
        let options = IoQueueOptions::new().timeout(TIMEOUT).cq_batch(batch);
        let spec = HostQueueSpec::new(entries, options).priority(priority);
        let queue = lab.ssd.host_queue_with(spec, lab.ssd.buffer(1)?)?;
        let flights = vec![None; queue.depth() as usize];
        let clock = Stopwatch::start(lab.ssd);
        Ok(HostReads { ssd: lab.ssd, nsid: lab.options.nsid.get(), queue, shape, clock, flights })
    }

    /// Begins read number `read`, of `offset`, into a buffer.
    pub(super) fn begin(&mut self, read: usize, offset: u64, into: &Buffer, at: u64) -> Result<(), RunError> {
        let Shape { bytes, block, .. } = self.shape;
        let sqe = command::read(self.nsid, offset / block, (bytes / block - 1) as u16);
        let data = DataPointers::new(into.as_ref(), self.ssd.data_path().data_pointer);
        let token = self.queue.push(&data.attach(sqe, at, bytes as u32));
        let token = token.ok_or_else(|| RunError::Unmeasurable("the host's queue has no room".to_owned()))?;
        self.flights[usize::from(token.slot)] = Some((read, self.clock.elapsed()));
        self.queue.ring();
        Ok(())
    }

    /// A read that has ended: its number, and how long it took.
    pub(super) fn poll(&mut self) -> Result<Option<(usize, Duration)>, RunError> {
        let Some(completion) = self.queue.pop() else { return Ok(None) };
        if let Outcome::Completed(status) = completion.outcome
            && !completion.is_ok()
        {
            let text = describe_status(u32::from(status.into_bits()));
            return Err(RunError::Unmeasurable(format!("{}: a read failed: {text}", self.ssd.name())));
        }
        let flight = self.flights[usize::from(completion.token.slot)].take();
        let lost = || RunError::Unmeasurable(format!("{}: a read had no answer in time", self.ssd.name()));
        let (read, begin) = flight.filter(|_| completion.is_ok()).ok_or_else(lost)?;
        Ok(Some((read, self.clock.elapsed().saturating_sub(begin))))
    }

    /// Waits for a read.
    pub(super) fn wait(&mut self) -> Result<(usize, Duration), RunError> {
        let mut polls = 0u32;
        loop {
            if let Some(ended) = self.poll()? {
                return Ok(ended);
            }
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(1 << 12) {
                self.queue.check_deadlines();
            }
            match self.clock {
                Stopwatch::Virtual { .. } => self.clock.wait(),
                Stopwatch::Real(_) => std::thread::yield_now(),
            }
        }
    }
}

/// A read that has ended.
pub(super) struct Ended {
    /// Where its data is in the buffer.
    pub(super) at: usize,
    /// Where it is on the namespace.
    pub(super) offset: u64,
}

/// Keeps `iodepth` random reads in flight for the lab's time. `done` is called for each that has ended, before the next one
/// takes its place; its time counts as latency. How many there were is beside what they were like.
pub(super) fn random_reads(
    lab: &Lab<'_>,
    shape: Shape,
    mut done: impl FnMut(&Buffer, Ended) -> Result<(), RunError>,
) -> Result<(Figures, u64), RunError> {
    let depth = lab.iodepth;
    let buffer = lab.ssd.buffer(depth as usize * shape.bytes as usize)?;
    let mut reads = HostReads::new(lab, shape, depth)?;
    let (mut random, mut latencies) = (SplitMix64::new(lab.options.seed, 0), LatencyHistogram::new());
    let (clock, cpu) = (Stopwatch::start(lab.ssd), cpu::thread_time());
    let mut offsets: Vec<u64> = (0..depth).map(|_| shape.draw(&mut random)).collect();
    for (read, offset) in offsets.iter().enumerate() {
        reads.begin(read, *offset, &buffer, read as u64 * shape.bytes)?;
    }
    let mut in_flight = depth;
    while in_flight > 0 {
        let (read, took) = reads.wait()?;
        let at = read * shape.bytes as usize;
        let after = clock.elapsed();
        done(&buffer, Ended { at, offset: offsets[read] })?;
        latencies.record((took + clock.elapsed() - after).as_nanos() as u64, 1);
        if clock.elapsed() < lab.options.runtime && !lab.control.stopped() {
            offsets[read] = shape.draw(&mut random);
            reads.begin(read, offsets[read], &buffer, at as u64)?;
        } else {
            in_flight -= 1;
        }
    }
    let figures = figures_of_ios(&latencies, shape.bytes, clock.elapsed(), cpu::thread_time() - cpu);
    Ok((lab.of_clients(figures), latencies.count()))
}
