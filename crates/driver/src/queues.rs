//! I/O queues: how many there are, making and deleting pairs.

use std::sync::Arc;
use std::time::Duration;

use warpbell_hw::{DoorbellKind, Qid};
use warpbell_nvme::command::{self, QueuePriority, Sqe};
use warpbell_nvme::completion::Cqe;
use warpbell_nvme::feature::{FeatureId, NumberOfQueues};
use warpbell_nvme::register::ArbitrationMechanism;

use crate::controller::Controller;
use crate::core::Core;
use crate::data::{Data, PAGE};
use crate::interrupts::Vector;
use crate::queue_pair::{RingBacking, RingMemory, Rings};
use crate::registers::Deadline;
use crate::{DriverError, Notification, QueuePair, QueueSpec};

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
        let entries = match self.core.cap.mqes_z() {
            0 => FALLBACK_ENTRIES,
            mqes_z => u32::from(mqes_z) + 1,
        };
        entries.min(self.core.quirks.max_entries)
    }

    /// Creates the completion queue, then the submission queue, under an identifier that is free.
    #[tracing::instrument(level = "info", name = "create_queue_pair", skip_all, fields(device = %self.name(), entries = spec.entries, qid = tracing::field::Empty))]
    pub fn create_queue_pair(&self, spec: QueueSpec) -> Result<QueuePair, DriverError> {
        self.create_queue_pair_within(spec, self.core.options.admin_timeout.saturating_mul(2))
    }

    /// The same, with a limit for both commands together; each has the admin queue's own limit besides. A queue of which
    /// it is not known whether it was created keeps its identifier and its memory until it is, or until a reset.
    pub fn create_queue_pair_within(
        &self,
        spec: QueueSpec,
        limit: Duration,
    ) -> Result<QueuePair, DriverError> {
        let until = Deadline::after(self.core.regs.clock(), limit);
        self.check(&spec)?;
        self.reclaim();
        let vector = self.vector(spec.notification)?;
        let QueueSpec { entries, sq_memory, cq_memory, priority, .. } = spec;
        let priority = self.core.quirks.priority.unwrap_or(priority);
        let number = vector.as_ref().map(|vector| vector.number);
        let rings = Rings {
            sq: self.ring_memory("submission", sq_memory, entries as usize * size_of::<Sqe>())?,
            cq: self.ring_memory("completion", cq_memory, entries as usize * size_of::<Cqe>())?,
        };
        let in_question = self.core.admin.lock().queues_in_question();
        let qid = self.core.book.take(&in_question).map_err(|counts| DriverError::NoFreeQueue {
            device: self.core.name(),
            granted: counts.granted,
            in_use: counts.in_use,
            lost: counts.lost,
        })?;
        tracing::Span::current().record("qid", qid.0);
        let created = self.doorbells(qid).and_then(|doorbells| {
            self.create_queues(qid, entries, &rings, number, priority, until).map(|()| doorbells)
        });
        match created {
            Ok(doorbells) => {
                self.core.pause(self.core.quirks.create_delay);
                let mut pair = self.pair(qid, entries, rings, doorbells);
                pair.vector = vector;
                Ok(pair)
            }
            Err(error) => {
                // Retired or lost was noted where it failed; this frees the memory or keeps it accordingly.
                self.core.book.drop_pair(qid, rings);
                Err(error)
            }
        }
    }

    fn vector(&self, notification: Notification) -> Result<Option<Arc<Vector>>, DriverError> {
        match notification {
            Notification::Polled => Ok(None),
            Notification::Interrupt => self.core.vector_for_queue().map(Some),
            Notification::Vector(number) => self.core.vector(number).map(Some),
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
        let weighted = self.core.regs.cc()?.ams() == ArbitrationMechanism::WEIGHTED_ROUND_ROBIN;
        if spec.priority != QueuePriority::URGENT && !weighted {
            return Err(DriverError::Priority { device, priority: spec.priority });
        }
        Ok(())
    }

    /// Ring memory, zeroed: a stale phase bit would read as a completion.
    pub(crate) fn ring_memory(
        &self,
        ring: &'static str,
        memory: RingMemory,
        need: usize,
    ) -> Result<RingBacking, DriverError> {
        let what = "an I/O queue";
        let backing = match memory {
            RingMemory::Host => {
                let buffer = self.core.arena.buffer(need);
                RingBacking::Buffer(buffer.map_err(|error| self.core.dma_error(what, error))?)
            }
            RingMemory::Buffer(buffer) => RingBacking::Buffer(buffer),
            RingMemory::Remote(ring) => RingBacking::Remote(ring),
            RingMemory::Controller if ring == "completion" => {
                return Err(DriverError::RingPlacement { device: self.core.name() });
            }
            RingMemory::Controller => RingBacking::Controller(self.core.controller_ring(need)?),
            RingMemory::Fixed { window, iova } => RingBacking::Fixed { window, iova },
            RingMemory::Reserved(memory) => RingBacking::Reserved(memory),
        };
        let (len, iova) = (backing.len(), backing.iova());
        if len < need || !iova.0.is_multiple_of(PAGE as u64) {
            let (device, alignment) = (self.core.name(), PAGE);
            return Err(DriverError::RingMemory { device, ring, iova, len, need, alignment });
        }
        self.core.check_reach(what, iova, need as u64)?;
        backing.zero(need).map_err(|cause| {
            let what = format!("a {ring} ring is not zeroed");
            DriverError::Ring { device: self.core.name(), what, cause }
        })?;
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
        both.map_err(|cause| {
            self.core.book.retire(qid);
            DriverError::Doorbell { device: self.core.name(), cause }
        })
    }

    fn create_queues(
        &self,
        qid: Qid,
        entries: u32,
        rings: &Rings,
        vector: Option<u16>,
        priority: QueuePriority,
        until: Deadline,
    ) -> Result<(), DriverError> {
        let create = |sqe| {
            let left = until.left(self.core.regs.clock()).min(self.core.options.admin_timeout);
            self.core.execute_within(sqe, Data::None, left)
        };
        let size_z = (entries - 1) as u16;
        let failed = |half, error| {
            let (device, cause) = (self.core.name(), Box::new(error));
            DriverError::CreateQueue { device, half, qid, entries, cause }
        };
        let create_cq = command::create_io_cq(qid.0, size_z, rings.cq.iova().0, vector);
        if let Err(error) = create(create_cq) {
            // A status means that there is no queue; anything else, that there may be one.
            if error.status().is_some() {
                self.core.book.retire(qid)
            } else {
                self.core.book.lose(qid)
            }
            return Err(failed("completion queue", error));
        }
        let create_sq = command::create_io_sq(qid.0, size_z, rings.sq.iova().0, qid.0, priority);
        if let Err(error) = create(create_sq) {
            self.undo_half(qid, error.status().is_some(), until);
            return Err(failed("submission queue", error));
        }
        Ok(())
    }

    /// Deletes the completion queue whose submission queue could not be created. `refused`: there is surely none.
    fn undo_half(&self, qid: Qid, refused: bool, until: Deadline) {
        if !refused {
            return self.core.book.lose(qid);
        }
        self.core.book.halve(qid);
        let left = until.left(self.core.regs.clock()).min(self.core.options.admin_timeout);
        if self.core.execute_within(command::delete_io_cq(qid.0), Data::None, left).is_ok() {
            self.core.book.retire(qid);
        }
    }
}
