//! The queues of one attachment: which slot holds which, and who may still be on an old one.
//!
//! A queue that was given up stays in its slot until no lane has a hazard slot there (`abi.h`). A lane that was sent to a slot
//! takes it, looks whether the queue there runs, and only then reads where its rings and doorbells are: so nothing
//! happens if the slot was used again on its way. The slot that a starting kernel finds is kept until it finds
//! another, which changes only while there is no launch.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_driver::{Controller, DriverError, QueuePair, QueueSpec, RingMemory};
use warpbell_hw::{Nsid, Qid};
use warpbell_kernels::abi;
use warpbell_nvme::command::QueuePriority;

use super::ladder::{Command, Facts, Stage, Step};
use super::mutation::{Mutation, off};
use super::{QueueName, RecoveryPolicy};
use crate::queues::doorbells::DoorbellMapping;
use crate::queues::mapping::{RingMapping, ShadowMapping};
use crate::{Error, KernelQueues, QueueCounters};

/// What a table is made of.
pub(crate) struct TableParts {
    pub(crate) number: u32,
    pub(crate) nsid: Nsid,
    pub(crate) priority: QueuePriority,
    /// Of each ring.
    pub(crate) entries: u32,
    /// Whether alarms are answered.
    pub(crate) recovers: bool,
    pub(crate) controller: Arc<Controller>,
    pub(crate) queues: KernelQueues,
    /// Of each slot.
    pub(crate) rings: Vec<RingMapping>,
    pub(crate) doorbells: DoorbellMapping,
    pub(crate) shadows: ShadowMapping,
}

/// The queues of one attachment.
pub(crate) struct QueueTable {
    pub(crate) parts: TableParts,
    books: Mutex<Books>,
}

struct Books {
    slots: Vec<Slot>,
    queues: Vec<Queue>,
    /// Launches that exist.
    launches: usize,
}

/// What a slot holds.
struct Slot {
    holds: Holds,
    /// Until its identifier is free.
    pair: Option<Arc<QueuePair>>,
    qid: Qid,
    epoch: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// Nothing that anybody may look at.
    Nothing,
    /// A queue in use, or one that was not given up yet.
    Queue,
    /// One that was given up.
    Old,
}

struct Queue {
    /// The slot of the newest queue.
    newest: usize,
    /// The slot that starting kernels find, and the epoch of what it holds.
    named: (usize, u32),
    stage: Stage,
    /// Commands that were counted as given up.
    seen: HashSet<Command>,
    /// What kernels counted on queues whose slot was used again.
    past: QueueCounters,
    /// An alarm that was answered, for those who ask.
    alarmed: bool,
}

/// Why a queue has no successor yet.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// All slots are still in use.
    Slot,
    /// All identifiers are.
    Identifier(DriverError),
    /// It could not be made.
    Failed(Error),
}

/// A look at a queue.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) alarmed: bool,
    /// Commands that were given up since the last pass, whether they completed meanwhile or not.
    pub(crate) new: Vec<Command>,
    pub(crate) facts: Facts,
}

impl QueueTable {
    /// A table over pairs that lie in the first slots, and are published.
    pub(crate) fn new(parts: TableParts, pairs: Vec<QueuePair>) -> QueueTable {
        let queues = (0..pairs.len()).map(|newest| Queue {
            newest,
            named: (newest, 0),
            stage: Stage::Running,
            seen: HashSet::new(),
            past: QueueCounters::default(),
            alarmed: false,
        });
        let (queues, count) = (queues.collect(), parts.rings.len());
        let mut slots: Vec<Slot> = pairs.into_iter().map(Slot::of).collect();
        slots.resize_with(count, || Slot { holds: Holds::Nothing, pair: None, qid: Qid(0), epoch: 0 });
        QueueTable { parts, books: Mutex::new(Books { slots, queues, launches: 0 }) }
    }

    /// Queues.
    pub(crate) fn len(&self) -> usize {
        self.parts.queues.layout().queues as usize
    }

    /// What a queue is called.
    pub(crate) fn name(&self, index: usize) -> QueueName {
        let books = self.books.lock();
        let qid = books.slots[books.queues[index].newest].qid;
        QueueName { attachment: self.parts.number, index: index as u32, qid }
    }

    /// The newest pairs, but for those that were given up and whose identifiers are free again.
    pub(crate) fn pairs(&self) -> Vec<Arc<QueuePair>> {
        let books = self.books.lock();
        books.queues.iter().filter_map(|queue| books.slots[queue.newest].pair.clone()).collect()
    }

    /// The newest pair of a queue.
    pub(crate) fn pair(&self, index: usize) -> Option<Arc<QueuePair>> {
        let books = self.books.lock();
        books.slots[books.queues[index].newest].pair.clone()
    }

    /// Kernels that are launched from now on find the newest queues, if there is no launch yet.
    pub(crate) fn refresh(&self) -> Result<(), Error> {
        self.name_newest(&mut self.books.lock())
    }

    /// The reference of a queue as a kernel finds it that is launched now.
    pub(crate) fn reference(&self, index: usize) -> Result<abi::QueueRef, Error> {
        self.refresh()?;
        self.parts.queues.queue(index)
    }

    /// Kernels that are launched from now on find the newest queues, unless others run that may still be starting.
    fn name_newest(&self, books: &mut Books) -> Result<(), Error> {
        if books.launches != 0 {
            return Ok(());
        }
        for index in 0..self.len() {
            let (slots, queue) = books.parts(index);
            let newest = (queue.newest, slots[queue.newest].epoch);
            // Not one that was given up: if no lane ever came there, its slot is about to be used again.
            if queue.named != newest && slots[queue.newest].holds == Holds::Queue {
                self.parts.queues.name(index, queue.newest)?;
                queue.named = newest;
            }
        }
        Ok(())
    }

    /// One more launch. Until [`leave`](Self::leave), starting kernels find what this one finds.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        let mut books = self.books.lock();
        self.name_newest(&mut books)?;
        books.launches += 1;
        Ok(())
    }

    /// A launch is gone, and its kernels are. With the last one, no lane is on any queue, whatever they left behind.
    pub(crate) fn leave(&self) {
        let mut books = self.books.lock();
        books.launches -= 1;
        if books.launches == 0 {
            (0..books.slots.len()).for_each(|slot| self.parts.queues.pages().clear_hazards(slot));
        }
    }

    /// Whether kernels may use a queue, whichever.
    pub(crate) fn is_usable(&self) -> bool {
        self.books.lock().queues.iter().any(|queue| queue.stage.is_usable())
    }

    /// Whether there is a launch, so that an alarm may come.
    pub(crate) fn is_in_use(&self) -> bool {
        self.books.lock().launches != 0
    }

    /// Whether a queue waits for its next step, its alarm is on, or it was declared lost.
    pub(crate) fn is_urgent(&self) -> bool {
        let books = self.books.lock();
        let pages = self.parts.queues.pages();
        let changed = |queue: &Queue| match queue.stage {
            Stage::Running => {
                pages.is_alarmed(queue.newest) || pages.state(queue.newest) != abi::QUEUE_RUNNING
            }
            Stage::Dead => false,
            _ => true,
        };
        books.queues.iter().any(changed)
    }

    /// What kernels counted on a queue, those included that it replaced.
    pub(crate) fn counters(&self, index: usize) -> Result<QueueCounters, Error> {
        let books = self.books.lock();
        let queue = &books.queues[index];
        let mut sum = self.parts.queues.counters(queue.newest)?;
        add(&mut sum, &queue.past);
        for slot in self.parts.queues.slots_of(index).filter(|slot| *slot != queue.newest) {
            add(&mut sum, &books.slots[slot].counted(&self.parts.queues, slot)?);
        }
        Ok(sum)
    }

    /// Commands that the controller may still work on, on which queue: the first such.
    pub(crate) fn pending(&self) -> Result<Option<(Qid, usize)>, Error> {
        let books = self.books.lock();
        for (slot, held) in books.slots.iter().enumerate() {
            if !held.is_forgotten() {
                let pending = self.parts.queues.pending(slot)?;
                if pending != 0 {
                    return Ok(Some((held.qid, pending)));
                }
            }
        }
        Ok(None)
    }

    /// Whether the alarm of a queue was raised since the last call.
    pub(crate) fn take_alarm(&self, index: usize) -> bool {
        let mut books = self.books.lock();
        let queue = &mut books.queues[index];
        let raised = self.parts.queues.take_alarm(queue.newest);
        std::mem::take(&mut queue.alarmed) || raised
    }

    /// Tells kernels that a queue is lost. What follows is for the next pass.
    pub(crate) fn declare_lost(&self, index: usize) {
        let books = self.books.lock();
        let slot = books.queues[index].newest;
        if self.parts.queues.pages().state(slot) == abi::QUEUE_RUNNING {
            self.parts.queues.pages().set_state(slot, abi::QUEUE_LOST);
        }
    }

    /// The next step of a queue, by what was found on it.
    pub(crate) fn next(&self, index: usize, facts: Facts, now: Duration, policy: &RecoveryPolicy) -> Step {
        self.books.lock().queues[index].stage.next(facts, now, policy)
    }

    /// Changes how a queue stands.
    pub(crate) fn with_stage<R>(&self, index: usize, change: impl FnOnce(&mut Stage) -> R) -> R {
        change(&mut self.books.lock().queues[index].stage)
    }

    /// Looks at a queue: quickly, if nothing is wrong with it.
    pub(crate) fn scan(&self, index: usize) -> Result<Scan, Error> {
        let mut books = self.books.lock();
        let (slots, queue) = books.parts(index);
        if !queue.stage.is_usable() {
            return Ok(Scan::default());
        }
        let (slot, pages) = (queue.newest, self.parts.queues.pages());
        let alarmed = pages.is_alarmed(slot) && pages.take_alarm(slot);
        queue.alarmed |= alarmed;
        let declared_lost = pages.state(slot) != abi::QUEUE_RUNNING;
        let forgotten = slots[slot].is_forgotten();
        let facts = Facts { declared_lost, forgotten, given_up: Vec::new() };
        if !alarmed && queue.stage == Stage::Running {
            return Ok(Scan { facts, ..Scan::default() });
        }
        let (all, given_up) = self.quarantined(slot, slots[slot].pair.as_deref())?;
        let new = all.iter().filter(|command| !queue.seen.contains(command)).copied().collect();
        queue.seen = all;
        Ok(Scan { alarmed, new, facts: Facts { given_up, ..facts } })
    }

    /// Whether a command of the last pass is still given up, and has not completed. One that cannot be looked at is not:
    /// the next pass says why.
    pub(crate) fn is_missing(&self, index: usize, command: Command) -> bool {
        let books = self.books.lock();
        let slot = books.queues[index].newest;
        let pair = books.slots[slot].pair.as_deref();
        self.quarantined(slot, pair).is_ok_and(|(_, missing)| missing.contains(&command))
    }

    /// Gives a queue up: kernels return from it. Nobody is sent to it any more.
    pub(crate) fn lose(&self, index: usize, now: Duration) {
        let mut books = self.books.lock();
        let (slots, queue) = books.parts(index);
        let pages = self.parts.queues.pages();
        if !off(Mutation::StateAfterDeletion) {
            pages.set_state(queue.newest, abi::QUEUE_LOST);
        }
        slots[queue.newest].holds = Holds::Old;
        for slot in self.parts.queues.slots_of(index) {
            pages.set_successor(slot, 0);
        }
        queue.stage = Stage::Lost { since: now };
        queue.seen.clear();
    }

    /// Tells kernels that a queue has no successor, whatever it is waiting for.
    pub(crate) fn abandon(&self, index: usize) {
        let mut books = self.books.lock();
        let (slots, queue) = books.parts(index);
        for slot in self.parts.queues.slots_of(index) {
            if slots[slot].holds != Holds::Nothing {
                slots[slot].holds = Holds::Old;
                self.parts.queues.pages().set_state(slot, abi::QUEUE_DEAD);
            }
        }
        queue.stage = Stage::Dead;
    }

    /// Makes the successor of a queue that the controller has forgotten: kernels that wait for it go there.
    pub(crate) fn replace(&self, index: usize, limit: Duration) -> Result<(Qid, u32), Obstacle> {
        let Some(slot) = self.free_slot(index) else { return Err(Obstacle::Slot) };
        let rings = &self.parts.rings[slot];
        let spec = QueueSpec::new(self.parts.entries)
            .sq_memory(RingMemory::Reserved(rings.sq.clone()))
            .cq_memory(RingMemory::Reserved(rings.cq.clone()))
            .priority(self.parts.priority);
        let pair =
            self.parts.controller.create_queue_pair_within(spec, limit).map_err(|error| match error {
                DriverError::NoFreeQueue { .. } => Obstacle::Identifier(error),
                error => Obstacle::Failed(error.into()),
            })?;
        self.publish(index, slot, pair).map_err(Obstacle::Failed)
    }

    fn free_slot(&self, index: usize) -> Option<usize> {
        let books = self.books.lock();
        let queue = &books.queues[index];
        let free = |slot: &usize| books.slots[*slot].holds == Holds::Nothing;
        // One that was lost before any lane came there can be used again itself.
        let newest = (queue.newest != queue.named.0).then_some(queue.newest);
        let deserted = |slot: &usize| {
            let held = &books.slots[*slot];
            held.holds == Holds::Old
                && held.pair.is_none()
                && self.parts.queues.pages().hazards(*slot).is_empty()
        };
        self.parts.queues.slots_of(index).find(free).or(newest.filter(deserted))
    }

    fn publish(&self, index: usize, slot: usize, pair: QueuePair) -> Result<(Qid, u32), Error> {
        let queues = &self.parts.queues;
        let rings = self.parts.rings[slot].addresses(&pair, &self.parts.doorbells, &self.parts.shadows)?;
        let mut books = self.books.lock();
        let (slots, queue) = books.parts(index);
        add(&mut queue.past, &slots[slot].counted(queues, slot)?);
        let epoch = slots[queue.newest].epoch + u32::from(!off(Mutation::EpochKept));
        queues.write(slot, &rings, 0, epoch)?;
        slots[slot] = Slot { epoch, ..Slot::of(pair) };
        (queue.newest, queue.stage) = (slot, Stage::Running);
        let reference = queues.entry_address(slot);
        for older in queues.slots_of(index).filter(|older| slots[*older].holds == Holds::Old) {
            queues.pages().set_successor(older, reference);
        }
        Ok((slots[slot].qid, epoch))
    }

    /// Takes back what no lane can reach any more: identifiers, which are returned, and slots.
    pub(crate) fn tidy(&self, index: usize) -> Vec<Qid> {
        let mut books = self.books.lock();
        let (slots, queue) = books.parts(index);
        let mut freed = Vec::new();
        fence(Ordering::SeqCst);
        for at in self.parts.queues.slots_of(index) {
            let slot = &mut slots[at];
            if slot.holds != Holds::Old {
                continue;
            }
            // Only now: these are as many words as the queue has lanes, and mostly nothing is old.
            let hazards = self.parts.queues.pages().hazards(at);
            let left = hazards.taken == 0 || off(Mutation::IdFreeWhileHeld);
            if left && slot.is_forgotten() && slot.pair.take().is_some() {
                freed.push(slot.qid);
            }
            let kept = at == queue.newest || at == queue.named.0 || slot.pair.is_some();
            if !kept && hazards.is_empty() {
                slot.holds = Holds::Nothing;
            }
        }
        freed
    }

    /// Whether a lane may still touch a queue, whichever.
    pub(crate) fn is_occupied(&self) -> bool {
        let books = self.books.lock();
        let pages = self.parts.queues.pages();
        let held = books.slots.iter().enumerate().filter(|(_, slot)| slot.holds != Holds::Nothing);
        held.into_iter().any(|(at, _)| pages.hazards(at).taken != 0)
    }

    /// All pairs that the controller may have.
    pub(crate) fn living_pairs(&self) -> Vec<Arc<QueuePair>> {
        let books = self.books.lock();
        let living = books.slots.iter().filter(|slot| !slot.is_forgotten());
        living.filter_map(|slot| slot.pair.clone()).collect()
    }

    /// All pairs, to be deleted and dropped: nobody uses the queues any more.
    pub(crate) fn take_pairs(&self) -> Vec<Arc<QueuePair>> {
        let mut books = self.books.lock();
        books.slots.iter_mut().filter_map(|slot| slot.pair.take()).collect()
    }
}

impl Books {
    fn parts(&mut self, index: usize) -> (&mut [Slot], &mut Queue) {
        (&mut self.slots, &mut self.queues[index])
    }
}

impl Slot {
    fn of(pair: QueuePair) -> Slot {
        Slot { holds: Holds::Queue, qid: pair.qid(), epoch: 0, pair: Some(Arc::new(pair)) }
    }

    /// Whether the controller touches nothing of it.
    fn is_forgotten(&self) -> bool {
        self.pair.as_ref().is_none_or(|pair| pair.is_retired())
    }

    /// What kernels counted on the queue that lies, or lay, there.
    fn counted(&self, queues: &KernelQueues, slot: usize) -> Result<QueueCounters, Error> {
        if self.qid == Qid(0) { Ok(QueueCounters::default()) } else { queues.counters(slot) }
    }
}

/// Adds what is counted over all queues that had the same place; ticket and head are each queue's own.
fn add(sum: &mut QueueCounters, more: &QueueCounters) {
    sum.spurious += more.spurious;
    sum.late += more.late;
    sum.sqhd_mismatch += more.sqhd_mismatch;
}
