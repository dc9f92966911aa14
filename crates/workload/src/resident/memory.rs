//! The memory of a GPU-resident controller and its clients: rings and doorbells with no SSD behind them.

use warpbell::{
    CidLayout, KernelQueues, KernelQueuesSpec, LANES, OpenTarget, Regions, RingAddresses, SharedMemory,
};
use warpbell_kernels::abi::{
    self, BufferRef, NamespaceRef, ResidentArgs, ResidentFlight, ResidentQueue, WarpResult,
};

use super::geometry::Geometry;
use super::spec::{ResidentSpec, Wait};
use crate::array::{Array, mailbox, reset_mailbox};
use crate::cpu::nanoseconds;
use crate::error::RunError;
use crate::job::Job;
use crate::options::{Api, Sharing};

/// Bytes of a block.
pub const BLOCK_BYTES: u32 = 512;
/// Blocks of the namespace: 2 TiB, so that no two commands of a run need have the same ones.
pub const BLOCKS: u64 = 1 << 32;
/// MDTS.
pub const MAX_TRANSFER: u64 = 1 << 20;
/// Where the buffer seems to lie. Nothing is there: no data moves.
const IOVA: u64 = 1 << 40;

type Bucket = [u32; abi::HISTOGRAM_BUCKETS as usize];
/// A doorbell comes first in a line of its own.
type Doorbell = [u32; (abi::LINE_BYTES / 4) as usize];

/// What one launch works on, or several after one another.
#[derive(Clone)]
pub struct ResidentMemory {
    args: ResidentArgs,
    clients: KernelQueues,
    queues: Array<ResidentQueue>,
    rings: Rings,
    results: Array<WarpResult>,
    digests: Array<u64>,
    histograms: Option<Array<Bucket>>,
    places: Array<u32>,
    ended: Array<u32>,
    mailbox: SharedMemory,
}

/// Rings and doorbells, queue after queue, and what the controller keeps of each.
#[derive(Clone)]
struct Rings {
    sq: Array<[u32; 16]>,
    cq: Array<[u64; 2]>,
    doorbells: Array<Doorbell>,
    in_flight: Array<[u8; 1 << 16]>,
    flights: Array<ResidentFlight>,
}

impl Rings {
    fn new(target: &OpenTarget, queues: usize, entries: usize, delayed: bool) -> Result<Rings, RunError> {
        let delayed = if delayed { queues } else { 0 };
        Ok(Rings {
            sq: Array::new(target, queues * entries)?,
            cq: Array::new(target, queues * entries)?,
            doorbells: Array::new(target, queues * 2)?,
            in_flight: Array::new(target, delayed)?,
            flights: Array::new(target, delayed * entries)?,
        })
    }

    fn regions(&self) -> Regions {
        let rings = self.doorbells.lend(self.cq.lend(self.sq.lend(Regions::new())));
        self.flights.lend(self.in_flight.lend(rings))
    }
}

impl ResidentMemory {
    /// Memory for `job` on `target`. The rings' counters start at `start`.
    pub fn new(
        target: &OpenTarget,
        spec: &ResidentSpec,
        job: &Job,
        geometry: &Geometry,
        start: u64,
    ) -> Result<ResidentMemory, RunError> {
        let (queues, warps) = (usize::from(job.queues), job.warps as usize);
        let delayed = !spec.delay.is_zero();
        let timed = spec.wait != Wait::None;
        let memory = ResidentMemory {
            args: ResidentArgs::new(),
            clients: KernelQueues::new(target, clients(job, start)?)?,
            queues: Array::new(target, queues)?,
            rings: Rings::new(target, queues, job.ring_entries() as usize, delayed)?,
            results: Array::new(target, warps)?,
            digests: Array::new(target, warps)?,
            histograms: timed.then(|| Array::new(target, warps * LANES as usize)).transpose()?,
            places: Array::new(target, geometry.blocks() as usize)?,
            ended: Array::new(target, 1)?,
            mailbox: mailbox(target)?,
        };
        for index in 0..queues {
            memory.publish(index, job, start, delayed)?;
        }
        if spec.follow {
            // As if all entries had been fetched: none was written.
            memory.rings.sq.fill(abi::RESIDENT_POISONED as u8)?;
        }
        Ok(ResidentMemory { args: memory.arguments(spec, job, geometry), ..memory })
    }

    /// Writes the clients' and the controller's view of queue `index`.
    fn publish(&self, index: usize, job: &Job, start: u64, delayed: bool) -> Result<(), RunError> {
        let entries = job.ring_entries() as usize;
        let rings = RingAddresses {
            sq: self.rings.sq.address_of(index * entries),
            cq: self.rings.cq.address_of(index * entries),
            sq_doorbell: self.rings.doorbells.address_of(index * 2),
            cq_doorbell: self.rings.doorbells.address_of(index * 2 + 1),
            entries: job.ring_entries(),
            qid: index as u16 + 1,
            shadow: None,
        };
        self.clients.publish_in(&self.rings.regions(), index, &rings)?;
        let at = start as u32;
        let mut doorbell = Doorbell::default();
        doorbell[0] = at & (rings.entries - 1);
        self.rings.doorbells.put(index * 2, &[doorbell])?;
        self.rings.doorbells.put(index * 2 + 1, &[doorbell])?;
        if start != 0 {
            self.leave_last_lap(index * entries, at, rings.entries)?;
        }
        let queue = ResidentQueue {
            sq: rings.sq,
            cq: rings.cq,
            sq_doorbell: rings.sq_doorbell,
            cq_doorbell: rings.cq_doorbell,
            in_flight: if delayed { self.rings.in_flight.address_of(index) } else { 0 },
            flights: if delayed { self.rings.flights.address_of(index * entries) } else { 0 },
            shift: rings.entries.trailing_zeros(),
            qid: rings.qid.into(),
            published: at,
            fetched: at,
            accepted: at,
            posted: at,
            taken: at,
            ..ResidentQueue::new()
        };
        Ok(self.queues.put(index, &[queue])?)
    }

    /// Gives the completion ring from entry `first` on the phases that earlier laps would have left.
    fn leave_last_lap(&self, first: usize, at: u32, entries: u32) -> Result<(), RunError> {
        for slot in 0..entries {
            let phase = u64::from(last_phase(at, slot, entries)) << 48;
            self.rings.cq.put(first + slot as usize, &[[0, phase]])?;
        }
        Ok(())
    }

    fn arguments(&self, spec: &ResidentSpec, job: &Job, geometry: &Geometry) -> ResidentArgs {
        let follow = abi::RESIDENT_DIGEST | abi::RESIDENT_POISON | abi::RESIDENT_ECHO;
        let checked = if job.api == Api::Io { abi::RESIDENT_CHECKED } else { 0 };
        let slots = u64::from(job.warps) * u64::from(LANES * abi::RESIDENT_SLOTS);
        ResidentArgs {
            ns: NamespaceRef {
                blocks: BLOCKS,
                nsid: 1,
                block_shift: BLOCK_BYTES.trailing_zeros(),
                max_blocks: job.max_command_blocks,
                flags: abi::NAMESPACE_SGL,
                ..self.clients.namespace()
            },
            buffer: BufferRef { iova: IOVA, bytes: slots * job.bs_bytes, ..BufferRef::new() },
            mailbox: self.mailbox.address(),
            results: self.results.address_of(0),
            digests: self.digests.address_of(0),
            histograms: self.histograms.as_ref().map_or(0, |histograms| histograms.address_of(0)),
            queues: self.queues.address_of(0),
            places: self.places.address_of(0),
            ended: self.ended.address_of(0),
            timeout_ns: nanoseconds(job.timeout),
            delay_ns: nanoseconds(spec.delay),
            controller_blocks: geometry.controller_blocks,
            clients: job.warps,
            iodepth: job.iodepth,
            batch: spec.batch,
            blocks_per_io: job.io_blocks() as u32,
            mode: spec.wait.mode(),
            flags: checked | if spec.follow { follow } else { 0 },
            ..ResidentArgs::new()
        }
    }

    /// Forgets what an earlier launch reported, and returns the next one's arguments: they lack only its end.
    pub fn start(&self) -> Result<ResidentArgs, RunError> {
        reset_mailbox(&self.mailbox)?;
        self.ended.fill(0)?;
        self.results.fill(0)?;
        self.digests.fill(0)?;
        if let Some(histograms) = &self.histograms {
            histograms.fill(0)?;
        }
        Ok(self.args)
    }

    /// All of it, for a launch.
    pub fn regions(&self) -> Regions {
        let clients = self.rings.regions().with(&self.clients).with(&self.mailbox);
        let reports = self.digests.lend(self.results.lend(self.queues.lend(clients)));
        let regions = self.ended.lend(self.places.lend(reports));
        match &self.histograms {
            Some(histograms) => histograms.lend(regions),
            None => regions,
        }
    }

    /// Where the host asks the clients to end.
    pub fn mailbox(&self) -> &SharedMemory {
        &self.mailbox
    }

    /// The clients' view of the queues.
    pub fn clients(&self) -> &KernelQueues {
        &self.clients
    }

    /// The controller's view of each queue.
    pub fn queues(&self) -> &Array<ResidentQueue> {
        &self.queues
    }

    /// What each client did.
    pub fn results(&self) -> &Array<WarpResult> {
        &self.results
    }

    /// The sum of what each client submitted.
    pub fn digests(&self) -> &Array<u64> {
        &self.digests
    }

    /// The multiprocessor of each block.
    pub fn places(&self) -> &Array<u32> {
        &self.places
    }

    /// Clients that have ended.
    pub fn ended(&self) -> &Array<u32> {
        &self.ended
    }

    /// Latency of each lane, where clients wait.
    pub fn histograms(&self) -> Option<&Array<Bucket>> {
        self.histograms.as_ref()
    }

    /// Submission entries, queue after queue.
    pub fn entries(&self) -> &Array<[u32; 16]> {
        &self.rings.sq
    }

    /// Completion entries, queue after queue: two words each.
    pub fn completions(&self) -> &Array<[u64; 2]> {
        &self.rings.cq
    }

    /// Doorbells: the submission tail of a queue, then its completion head.
    pub fn doorbells(&self) -> &Array<Doorbell> {
        &self.rings.doorbells
    }
}

/// The phase that the lap before index `at` left in a slot.
fn last_phase(at: u32, slot: u32, entries: u32) -> u32 {
    let lap = at >> entries.trailing_zeros();
    // Slots before the position were passed in this lap, the others in the one before; phases begin at 1.
    let passed = if slot < at & (entries - 1) { lap } else { lap.wrapping_sub(1) };
    !passed & 1
}

fn clients(job: &Job, start: u64) -> Result<KernelQueuesSpec, RunError> {
    let layout = CidLayout::new(job.queues.into(), job.warps, job.tokens_per_lane);
    Ok(KernelQueuesSpec::new(layout.map_err(warpbell::Error::from)?)
        .sharing(match job.sharing {
            Sharing::Exclusive => warpbell::Sharing::Exclusive,
            Sharing::Shared => warpbell::Sharing::Shared,
        })
        .timeout(job.timeout)
        .start(start))
}

#[cfg(test)]
mod tests {
    use super::last_phase;

    #[test]
    fn rings_begin_as_the_last_lap_left_them() {
        // A fresh ring is zero; after 5 of 4 entries slot 0 has the second lap's phase.
        assert_eq!([0, 1, 2, 3].map(|slot| last_phase(0, slot, 4)), [0; 4]);
        assert_eq!([0, 1, 2, 3].map(|slot| last_phase(5, slot, 4)), [0, 1, 1, 1]);
        assert_eq!([0, 1, 2, 3].map(|slot| last_phase(8, slot, 4)), [0; 4]);
        assert_eq!([0, 1, 2, 3].map(|slot| last_phase(4, slot, 4)), [1; 4]);
    }
}
