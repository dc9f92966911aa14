//! I/O queues: how many there are, making and deleting pairs.

use warpbell_hw::{DmaAccess, DmaBuffer, DoorbellKind, Qid, Window};
use warpbell_nvme::command::{self, QueuePriority, Sqe};
use warpbell_nvme::completion::Cqe;
use warpbell_nvme::feature::{FeatureId, NumberOfQueues};
use warpbell_nvme::register::ArbitrationMechanism;

use crate::controller::Controller;
use crate::core::Core;
use crate::data::{Data, PAGE};
use crate::mutation::{Mutation, off};
use crate::queue_pair::{RingBacking, RingMemory, Rings};
use crate::{DriverError, QueuePair, QueueSpec};

/// The largest queue of a controller that reports 0 (one entry), which it cannot mean.
const FALLBACK_ENTRIES: u32 = 64;

/// How many I/O queue pairs were asked for and granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueGrant {
    /// Pairs asked for.
    pub asked: u16,
    /// Submission queues granted; may be more than asked for.
    pub submission: u32,
    /// Completion queues granted; may be more than asked for.
    pub completion: u32,
}

impl QueueGrant {
    /// Pairs that the driver may create: never more than it asked for.
    pub fn usable(&self) -> u16 {
        let granted = self.submission.min(self.completion);
        granted.min(self.asked.into()) as u16
    }
}

/// Asks for queues. Must come before the first of them is created.
pub(crate) fn negotiate(core: &Core) -> Result<QueueGrant, DriverError> {
    let (asked, needed) = (core.options.queues, core.options.min_queues);
    let limit = u16::MAX - 1;
    if asked == 0 || asked > limit {
        return Err(DriverError::QueueCount { device: core.name(), asked, limit });
    }
    let value = NumberOfQueues::new().with_nsqr_z(asked - 1).with_ncqr_z(asked - 1);
    let set = command::set_features(FeatureId::NUMBER_OF_QUEUES, value.into_bits(), 0);
    let granted = NumberOfQueues::from_bits(core.execute(set, Data::None)?.dw0);
    let (submission, completion) = (granted.submission_queues(), granted.completion_queues());
    let grant = QueueGrant { asked, submission, completion };
    if grant.usable() < needed.max(1) {
        let granted = submission.min(completion);
        return Err(DriverError::TooFewQueues { device: core.name(), asked, granted, needed });
    }
    core.book.set_granted(grant.usable());
    Ok(grant)
}

impl Controller {
    /// Entries of the largest I/O queue.
    pub fn max_entries(&self) -> u32 {
        match self.core.cap.mqes_z() {
            0 => FALLBACK_ENTRIES,
            mqes_z => u32::from(mqes_z) + 1,
        }
    }

    /// Creates the completion queue, then the submission queue, under an identifier that is free.
    pub fn create_queue_pair(&self, spec: QueueSpec) -> Result<QueuePair, DriverError> {
        self.check(&spec)?;
        self.reclaim();
        let QueueSpec { entries, sq_memory, cq_memory, vector, priority } = spec;
        let rings = Rings {
            sq: self.ring_memory("submission", sq_memory, entries as usize * size_of::<Sqe>())?,
            cq: self.ring_memory("completion", cq_memory, entries as usize * size_of::<Cqe>())?,
        };
        let qid = self.core.book.take().map_err(|counts| DriverError::NoFreeQueue {
            device: self.core.name(),
            granted: counts.granted,
            in_use: counts.in_use,
            lost: counts.lost,
        })?;
        let created = self.doorbells(qid).and_then(|doorbells| {
            self.create_queues(qid, entries, &rings, vector, priority).map(|()| doorbells)
        });
        match created {
            Ok(doorbells) => Ok(self.pair(qid, entries, rings, doorbells)),
            Err(error) => {
                // Retired or lost was noted where it failed; this frees the memory or keeps it accordingly.
                self.core.book.drop_pair(qid, rings);
                Err(error)
            }
        }
    }

    fn pair(
        &self,
        qid: Qid,
        entries: u32,
        rings: Rings,
        doorbells: (warpbell_hw::Doorbell, warpbell_hw::Doorbell),
    ) -> QueuePair {
        let device = (self.core.regs.device().clone(), self.core.name());
        QueuePair::new(qid, entries, rings, doorbells, device, self.core.book.clone())
    }

    fn check(&self, spec: &QueueSpec) -> Result<(), DriverError> {
        let device = self.core.name();
        let (entries, limit) = (spec.entries, self.max_entries());
        if !entries.is_power_of_two() || !(2..=limit).contains(&entries) {
            return Err(DriverError::QueueEntries { device, entries, limit });
        }
        let count = self.core.regs.device().interrupts().count();
        if let Some(vector) = spec.vector
            && vector >= count
        {
            return Err(DriverError::Vector { device, vector, count });
        }
        let weighted = self.core.regs.cc()?.ams() == ArbitrationMechanism::WEIGHTED_ROUND_ROBIN;
        if spec.priority != QueuePriority::URGENT && !weighted {
            return Err(DriverError::Priority { device, priority: spec.priority });
        }
        Ok(())
    }

    /// Ring memory, zeroed: a stale phase bit would read as a completion.
    fn ring_memory(
        &self,
        ring: &'static str,
        memory: RingMemory,
        need: usize,
    ) -> Result<RingBacking, DriverError> {
        let what = "an I/O queue";
        let backing = match memory {
            RingMemory::Host => {
                let window = Window::host(need).map_err(|error| self.core.dma_error(what, error.into()))?;
                let space = self.core.regs.device().dma();
                let buffer = DmaBuffer::map(space, window, DmaAccess::READ_WRITE);
                RingBacking::Buffer(buffer.map_err(|error| self.core.dma_error(what, error))?)
            }
            RingMemory::Buffer(buffer) => RingBacking::Buffer(buffer),
            RingMemory::Controller if ring == "completion" => {
                return Err(DriverError::RingPlacement { device: self.core.name() });
            }
            RingMemory::Controller => RingBacking::Controller(self.core.controller_ring(need)?),
            RingMemory::Fixed { window, iova } => RingBacking::Fixed { window, iova },
        };
        let (len, iova) = (backing.window().len(), backing.iova());
        if len < need || !iova.0.is_multiple_of(PAGE as u64) {
            let (device, alignment) = (self.core.name(), PAGE);
            return Err(DriverError::RingMemory { device, ring, iova, len, need, alignment });
        }
        let zeroed = backing.window().fill(0, need, 0);
        zeroed.map_err(|error| self.core.dma_error(what, error.into()))?;
        Ok(backing)
    }

    fn doorbells(&self, qid: Qid) -> Result<(warpbell_hw::Doorbell, warpbell_hw::Doorbell), DriverError> {
        let pages = self.core.doorbell_pages.lock();
        let doorbell = |kind| {
            let register = self.core.regs.device().doorbells().doorbell(qid, kind)?;
            Ok(match &*pages {
                Some(pages) => pages.shadowed(register, qid, kind),
                None => register,
            })
        };
        let both = doorbell(DoorbellKind::SqTail).and_then(|sq| Ok((sq, doorbell(DoorbellKind::CqHead)?)));
        both.map_err(|source| {
            self.core.book.retire(qid);
            DriverError::Doorbell { device: self.core.name(), source }
        })
    }

    fn create_queues(
        &self,
        qid: Qid,
        entries: u32,
        rings: &Rings,
        vector: Option<u16>,
        priority: QueuePriority,
    ) -> Result<(), DriverError> {
        let size_z = (entries - 1) as u16;
        let failed = |half, error| {
            let (device, source) = (self.core.name(), Box::new(error));
            DriverError::CreateQueue { device, half, qid, entries, source }
        };
        let create_cq = command::create_io_cq(qid.0, size_z, rings.cq.iova().0, vector);
        if let Err(error) = self.core.execute(create_cq, Data::None) {
            // A status means that there is no queue; anything else, that there may be one.
            if error.status().is_some() {
                self.core.book.retire(qid)
            } else {
                self.core.book.lose(qid)
            }
            return Err(failed("completion queue", error));
        }
        let create_sq = command::create_io_sq(qid.0, size_z, rings.sq.iova().0, qid.0, priority);
        if let Err(error) = self.core.execute(create_sq, Data::None) {
            let deleted = error.status().is_some()
                && self.core.execute(command::delete_io_cq(qid.0), Data::None).is_ok();
            if deleted {
                self.core.book.retire(qid)
            } else {
                self.core.book.lose(qid)
            }
            return Err(failed("submission queue", error));
        }
        Ok(())
    }

    /// Deletes the submission queue, then the completion queue, then frees their memory. If the controller
    /// does not delete both, the memory stays mapped until it is reset, and the identifier stays unused.
    pub fn delete_queue_pair(&self, pair: QueuePair) -> Result<(), DriverError> {
        self.retire_queue_pair(&pair)
    }

    /// Like [`delete_queue_pair`](Self::delete_queue_pair), but memory and identifier are kept until `pair`
    /// is dropped: kernels that were left behind by an error may still store to the rings and doorbells.
    pub fn retire_queue_pair(&self, pair: &QueuePair) -> Result<(), DriverError> {
        if !pair.belongs_to(&self.core.book) {
            let (device, qid, owner) = (self.core.name(), pair.qid(), pair.name.clone());
            return Err(DriverError::ForeignQueue { device, qid, owner });
        }
        if pair.is_retired() {
            return Ok(());
        }
        if off(Mutation::TeardownBeforeDelete) {
            self.core.book.retire(pair.qid());
            return Ok(());
        }
        self.delete_queues(pair.qid()).inspect_err(|_| self.core.book.lose(pair.qid()))?;
        self.core.book.retire(pair.qid());
        Ok(())
    }

    fn delete_queues(&self, qid: Qid) -> Result<(), DriverError> {
        let mut halves = [
            ("submission queue", command::delete_io_sq(qid.0)),
            ("completion queue", command::delete_io_cq(qid.0)),
        ];
        if off(Mutation::CompletionQueueFirst) {
            halves.reverse();
        }
        for (half, sqe) in halves {
            self.core.execute(sqe, Data::None).map_err(|error| {
                let (device, source) = (self.core.name(), Box::new(error));
                DriverError::DeleteQueue { device, half, qid, source }
            })?;
        }
        Ok(())
    }

    /// Deletes the queues of pairs that were dropped without being deleted.
    pub(crate) fn reclaim(&self) {
        for qid in self.core.book.orphans() {
            match self.delete_queues(qid) {
                Ok(()) => self.core.book.bury(qid),
                Err(error) => {
                    tracing::warn!(%error, "cannot delete a dropped queue pair");
                    self.core.book.lose(qid);
                }
            }
        }
    }

    /// Deletes every queue before a shutdown: first all submission queues, then all completion queues.
    pub(crate) fn delete_all_queues(&self) {
        let mut live = self.core.book.live();
        for half in [command::delete_io_sq as fn(u16) -> Sqe, command::delete_io_cq] {
            live.retain(|qid| {
                let deleted = self.core.execute(half(qid.0), Data::None);
                if let Err(error) = &deleted {
                    tracing::warn!(%error, %qid, "queue not deleted before shutdown");
                    self.core.book.lose(*qid);
                }
                deleted.is_ok()
            });
        }
        live.into_iter().for_each(|qid| self.core.book.retire(qid));
    }
}
