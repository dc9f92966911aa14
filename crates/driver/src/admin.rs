//! The admin queue pair: any number of callers, each waiting for its own command.

use std::collections::{HashMap, VecDeque};

use warpbell_hw::{CqRing, DmaBuffer, Doorbell, Iova, Qid, SqRing};
use warpbell_nvme::command::Sqe;
use warpbell_nvme::completion::Cqe;
use warpbell_nvme::opcode::AdminOpcode;

use crate::SpuriousCompletion;
use crate::cid_slots::{CidSlots, Completed};
use crate::mutation::{Mutation, off};

/// Names a submitted admin command for as long as the driver lives, unlike its identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket {
    serial: u64,
    pub(crate) cid: u16,
}

/// What a command's completion is for.
#[derive(Debug)]
enum Owner {
    /// A caller waits for it. The buffer belongs to the command until it completed.
    Caller { serial: u64, buffer: Option<DmaBuffer>, about: About },
    /// An asynchronous event request.
    Event,
}

/// What others must know of an outstanding command, whether its caller still waits or gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// It aborts another.
    Abort,
    /// It creates or deletes a queue.
    Queue { qid: Qid, creates: bool },
    /// Nothing.
    Nothing,
}

impl About {
    fn of(sqe: &Sqe) -> About {
        let qid = Qid(sqe.cdw10 as u16);
        match AdminOpcode(sqe.opcode()) {
            AdminOpcode::ABORT => About::Abort,
            AdminOpcode::CREATE_IO_SQ | AdminOpcode::CREATE_IO_CQ => About::Queue { qid, creates: true },
            AdminOpcode::DELETE_IO_SQ | AdminOpcode::DELETE_IO_CQ => About::Queue { qid, creates: false },
            _ => About::Nothing,
        }
    }
}

/// Why a command cannot be submitted now.
#[derive(Debug)]
pub(crate) enum NoRoom {
    /// Every slot is taken.
    Full,
    /// As many Aborts are outstanding as the controller takes.
    Aborts(u32),
}

/// What became of a command.
#[derive(Debug)]
pub(crate) enum Progress {
    Pending,
    Done(Cqe, Option<DmaBuffer>),
    /// The queue was restarted meanwhile.
    Lost,
}

/// The admin queue's parts that the controller knows.
pub(crate) struct AdminRings {
    pub(crate) sq_memory: DmaBuffer,
    pub(crate) cq_memory: DmaBuffer,
    pub(crate) sq_doorbell: Doorbell,
    pub(crate) cq_doorbell: Doorbell,
}

/// The admin queue pair. Room is reaped completions: with `entries - 1` identifiers neither ring
/// can overflow.
pub(crate) struct AdminQueue {
    rings: Option<AdminRings>,
    sq: SqRing,
    cq: CqRing,
    tail: u32,
    head: u64,
    slots: CidSlots,
    owners: Vec<Option<Owner>>,
    finished: HashMap<u64, (Cqe, Option<DmaBuffer>)>,
    serial: u64,
    events: VecDeque<Cqe>,
    /// Abort commands that may be outstanding (ACL + 1).
    pub(crate) abort_limit: u32,
    /// Commands submitted again because of their status.
    pub(crate) retried: u64,
    spurious: u64,
    last_spurious: Option<SpuriousCompletion>,
}

impl AdminQueue {
    pub(crate) fn new(rings: AdminRings, entries: u32) -> AdminQueue {
        let sq = SqRing::new(rings.sq_memory.window().clone(), entries);
        let cq = CqRing::new(rings.cq_memory.window().clone(), entries);
        AdminQueue {
            rings: Some(rings),
            sq,
            cq,
            tail: 0,
            head: 0,
            slots: CidSlots::new(entries - 1),
            owners: (1..entries).map(|_| None).collect(),
            finished: HashMap::new(),
            serial: 0,
            events: VecDeque::new(),
            // As many as every controller takes, until Identify tells.
            abort_limit: 1,
            retried: 0,
            spurious: 0,
            last_spurious: None,
        }
    }

    /// Where the controller finds the rings: submission, completion.
    pub(crate) fn addresses(&self) -> Option<(Iova, Iova)> {
        self.rings.as_ref().map(|rings| (rings.sq_memory.iova(), rings.cq_memory.iova()))
    }

    /// As after creation: all commands are lost, their buffers free. Only while the controller is disabled.
    pub(crate) fn restart(&mut self) {
        let kept = off(Mutation::RingsKeptAtReset);
        for window in [self.sq.window(), self.cq.window()].into_iter().filter(|_| !kept) {
            let zeroed = window.fill(0, window.len(), 0);
            debug_assert!(zeroed.is_ok(), "the whole window is in the window");
        }
        (self.tail, self.head) = (0, 0);
        self.slots.reset();
        self.owners.fill_with(|| None);
        self.events.clear();
    }

    /// Leaks the memory that the controller may still access.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(self.rings.take());
        std::mem::forget(std::mem::take(&mut self.owners));
    }

    /// Submits a command, or releases its buffer and says why not.
    pub(crate) fn submit(
        &mut self,
        sqe: Sqe,
        buffer: Option<DmaBuffer>,
    ) -> Result<Ticket, (Option<DmaBuffer>, NoRoom)> {
        let (serial, about) = (self.serial, About::of(&sqe));
        let aborts = if about == About::Abort { self.aborts() } else { 0 };
        if aborts >= self.abort_limit {
            return Err((buffer, NoRoom::Aborts(aborts)));
        }
        match self.start(sqe, Owner::Caller { serial, buffer, about }) {
            Ok(cid) => {
                self.serial += 1;
                Ok(Ticket { serial, cid })
            }
            Err(Owner::Caller { buffer, .. }) => Err((buffer, NoRoom::Full)),
            Err(Owner::Event) => Err((None, NoRoom::Full)),
        }
    }

    /// What commands are about that have not completed, those included that nobody waits for any longer.
    fn outstanding_about(&self) -> impl Iterator<Item = About> {
        self.owners.iter().flatten().filter_map(|owner| match owner {
            Owner::Caller { about, .. } => Some(*about),
            Owner::Event => None,
        })
    }

    fn aborts(&self) -> u32 {
        self.outstanding_about().filter(|about| *about == About::Abort).count() as u32
    }

    pub(crate) fn takes_abort(&self) -> bool {
        self.aborts() < self.abort_limit
    }

    /// Queues that an outstanding command creates or deletes: it may be executed at any time.
    pub(crate) fn queues_in_question(&self) -> Vec<Qid> {
        let queue = |about| match about {
            About::Queue { qid, .. } => Some(qid),
            _ => None,
        };
        self.outstanding_about().filter_map(queue).collect()
    }

    /// Whether a queue with this identifier may still come into being.
    pub(crate) fn may_be_created(&self, qid: Qid) -> bool {
        self.outstanding_about().any(|about| about == About::Queue { qid, creates: true })
    }

    /// Submits an asynchronous event request. False if the queue is full.
    pub(crate) fn submit_event_request(&mut self, sqe: Sqe) -> bool {
        self.start(sqe, Owner::Event).is_ok()
    }

    fn start(&mut self, sqe: Sqe, owner: Owner) -> Result<u16, Owner> {
        let Some(rings) = &self.rings else { return Err(owner) };
        let Some(cid) = self.slots.take() else { return Err(owner) };
        self.owners[usize::from(self.slots.slot_of(cid))] = Some(owner);
        self.sq.write(self.tail, &sqe.with_cid(cid));
        self.tail = (self.tail + 1) & (self.sq.entries() - 1);
        rings.sq_doorbell.ring(self.tail);
        Ok(cid)
    }

    /// Takes all completions that are there.
    pub(crate) fn reap(&mut self) {
        let before = self.head;
        while let Some(cqe) = self.cq.poll(self.head) {
            self.head += 1;
            self.finish(cqe);
        }
        if let (true, Some(rings)) = (self.head != before, &self.rings) {
            rings.cq_doorbell.ring(self.head as u32 & (self.cq.entries() - 1));
        }
    }

    fn finish(&mut self, cqe: Cqe) {
        let slot = match self.slots.complete(cqe.cid) {
            Completed::Slot(slot) => slot,
            Completed::Late(slot) => {
                tracing::debug!(cid = cqe.cid, "late completion of an admin command");
                self.owners[usize::from(slot)] = None;
                return;
            }
            Completed::Unknown { expected } => return self.count_spurious(cqe.cid, expected),
        };
        match self.owners[usize::from(slot)].take() {
            Some(Owner::Caller { serial, buffer, .. }) => {
                self.finished.insert(serial, (cqe, buffer));
            }
            Some(Owner::Event) => self.events.push_back(cqe),
            None => self.count_spurious(cqe.cid, None),
        }
    }

    fn count_spurious(&mut self, cid: u16, expected: Option<u16>) {
        tracing::warn!(cid, ?expected, "admin completion of no outstanding command");
        self.spurious += 1;
        self.last_spurious = Some(SpuriousCompletion { cid, expected });
    }

    /// The result of a command; `Done` is told once.
    pub(crate) fn progress(&mut self, ticket: Ticket) -> Progress {
        if let Some((cqe, buffer)) = self.finished.remove(&ticket.serial) {
            return Progress::Done(cqe, buffer);
        }
        if self.is_outstanding(ticket) { Progress::Pending } else { Progress::Lost }
    }

    fn is_outstanding(&self, ticket: Ticket) -> bool {
        let slot = usize::from(self.slots.slot_of(ticket.cid));
        matches!(self.owners.get(slot), Some(Some(Owner::Caller { serial, .. })) if *serial == ticket.serial)
    }

    /// Nobody waits any longer: identifier and buffer stay reserved until the completion comes.
    pub(crate) fn give_up(&mut self, ticket: Ticket) {
        self.finished.remove(&ticket.serial);
        if self.is_outstanding(ticket) {
            self.slots.quarantine(ticket.cid);
        }
    }

    /// A completed asynchronous event request.
    pub(crate) fn next_event(&mut self) -> Option<Cqe> {
        self.events.pop_front()
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.slots.outstanding() as usize
    }

    pub(crate) fn quarantined(&self) -> u32 {
        self.slots.quarantined()
    }

    pub(crate) fn spurious(&self) -> (u64, Option<SpuriousCompletion>) {
        (self.spurious, self.last_spurious)
    }
}
