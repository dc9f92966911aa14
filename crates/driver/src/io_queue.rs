//! The host's own way to drive a queue pair: one thread, no locks, no allocation per command.

mod deadlines;
mod retries;
mod types;
mod waiting;

use std::sync::atomic::Ordering;
use std::time::Duration;

use warpbell_hw::{AccessError, Cid, CqRing, Doorbell, Nsid, Qid, SqRing, Window};
use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::completion::Cqe;
use warpbell_nvme::register::offset;

use crate::cid_slots::{CidSlots, Completed};
use crate::mutation::{Mutation, off};
use crate::{DriverError, QueuePair, SpuriousCompletion};

use deadlines::Deadlines;
use retries::Retries;
pub use types::{Completion, IoCounters, IoQueueOptions, Outcome, Token};

/// Empty polls of the completion ring between two reads of the clock.
const POLLS_PER_CHECK: u32 = 4096;

/// Drives one queue pair from one thread.
///
/// [`push`](Self::push) writes a command, [`ring`](Self::ring) tells the controller of all that were written,
/// [`submit`](Self::submit) is both. [`pop`](Self::pop) takes one completion or timeout, [`poll`](Self::poll) all that
/// are there. Each pushed command is reported exactly once. Room comes back when completions are reported to
/// the controller, never by its submission queue head, which is only compared.
pub struct IoQueue {
    sq: SqRing,
    cq: CqRing,
    sq_doorbell: Doorbell,
    cq_doorbell: Doorbell,
    /// Commands pushed.
    tail: u64,
    /// Commands that were reported to the controller.
    rung: u64,
    /// `tail` may not pass it: completions reported to the controller + depth.
    limit: u64,
    /// Completions taken.
    head: u64,
    /// Completions that were reported to the controller.
    reported: u64,
    /// Commands that the controller has fetched, by its word.
    fetched: u64,
    mask: u32,
    depth: u32,
    sq_batch: u64,
    cq_batch: u64,
    slots: CidSlots,
    empty_polls: u32,
    flush: bool,
    /// The memory that data lies in, where it is not the host's: a flush reads its first word, too.
    read_back: Option<Window>,
    /// Commands that may be submitted again, if the options ask for it.
    retries: Option<Box<Retries>>,
    /// Whether there is more to do for each command than usual: one of the two above.
    careful: bool,
    counters: IoCounters,
    /// `tail` and `head` where the counters began.
    origin: (u64, u64),
    deadlines: Deadlines,
    pair: QueuePair,
}

impl IoQueue {
    /// Takes over an idle queue pair.
    pub fn new(pair: QueuePair, options: IoQueueOptions) -> Result<IoQueue, DriverError> {
        let Some(base) = pair.index_base() else {
            return Err(DriverError::QueueIndex { device: pair.name.clone(), qid: pair.qid() });
        };
        let (Some(sq), Some(cq)) = (pair.sq.clone(), pair.cq.clone()) else {
            let what =
                format!("{} cannot be driven by the host, which needs rings in host memory", pair.qid());
            let cause = AccessError::NoPointer { iova: pair.cq_iova() };
            return Err(DriverError::Ring { device: pair.name.clone(), what, cause });
        };
        let entries = pair.entries();
        let depth = entries - 1;
        Ok(IoQueue {
            sq,
            cq,
            sq_doorbell: pair.sq_doorbell.clone(),
            cq_doorbell: pair.cq_doorbell.clone(),
            tail: base,
            rung: base,
            limit: base + u64::from(depth),
            head: base,
            reported: base,
            fetched: base,
            mask: entries - 1,
            depth,
            sq_batch: options.sq_batch.max(1).into(),
            cq_batch: options.cq_batch.clamp(1, (entries / 4).max(1)).into(),
            slots: CidSlots::new(depth),
            empty_polls: 0,
            flush: options.flush,
            read_back: None,
            careful: options.flush || options.retry.attempts > 0,
            retries: Retries::new(options.retry, depth),
            counters: IoCounters::default(),
            origin: (base, base),
            deadlines: Deadlines::new(depth, options.timeout, pair.device().clock().now()),
            pair,
        })
    }

    /// Where it flushes: data lies in `memory`, of another function, whose first word each flush reads as well.
    pub fn read_back(&mut self, memory: Window) {
        self.read_back = Some(memory);
    }

    /// The queue's identifier.
    pub fn qid(&self) -> Qid {
        self.pair.qid()
    }

    /// The most commands that can be outstanding: one fewer than entries.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Commands that can be pushed now.
    #[inline]
    pub fn room(&self) -> u32 {
        (self.limit - self.tail) as u32
    }

    /// Commands pushed and not completed, timed out ones included.
    pub fn outstanding(&self) -> u32 {
        self.slots.outstanding()
    }

    /// What was counted so far.
    pub fn counters(&self) -> IoCounters {
        IoCounters { sqes: self.tail - self.origin.0, cqes: self.head - self.origin.1, ..self.counters }
    }

    /// Writes a command without telling the controller, unless a batch is full. `None` if there is no room.
    #[inline(always)]
    pub fn push(&mut self, sqe: &Sqe) -> Option<Token> {
        self.push_with(|_| *sqe)
    }

    /// Like [`push`](Self::push) with the command made for its slot.
    // Always: a command that passes through memory is stored in other pieces than it is loaded in, and the load waits until
    // all stores before it, of earlier commands too, have their cache lines.
    #[inline(always)]
    pub fn push_with(&mut self, make: impl FnOnce(Token) -> Sqe) -> Option<Token> {
        if self.tail == self.limit && !self.found_room() {
            return None;
        }
        let cid = self.slots.take()?;
        let token = Token { slot: self.slots.slot_of(cid), cid: Cid(cid) };
        let sqe = make(token).with_cid(cid);
        self.sq.write(self.tail as u32, &sqe);
        if self.careful {
            // A copy: no address is taken of the command that goes into the ring.
            self.keep(token, &{ sqe });
        }
        self.deadlines.start(token.slot);
        self.tail += 1;
        if self.tail - self.rung >= self.sq_batch {
            self.ring();
        }
        Some(token)
    }

    /// With commands that may never complete, the rest must not wait for a full batch of completions.
    #[cold]
    fn found_room(&mut self) -> bool {
        if self.slots.quarantined() > 0 && self.head != self.reported {
            self.tell();
        }
        self.tail != self.limit
    }

    /// Tells the controller of all pushed commands.
    #[inline]
    pub fn ring(&mut self) {
        if self.rung != self.tail {
            let trap = self.sq_doorbell.ring(self.tail as u32 & self.mask);
            self.rung = self.tail;
            self.counters.sq_doorbells += u64::from(trap);
            self.counters.shadow_stores += u64::from(self.sq_doorbell.shadow().is_some());
        }
    }

    /// The same by a store of somebody else's, who gets the value: a kernel's. A shadow doorbell is not written.
    pub fn ring_by<E>(&mut self, store: impl FnOnce(u32) -> Result<(), E>) -> Result<(), E> {
        store(self.tail as u32 & self.mask)?;
        self.rung = self.tail;
        Ok(())
    }

    /// Pushes a command and tells the controller at once.
    #[inline]
    pub fn submit(&mut self, sqe: &Sqe) -> Option<Token> {
        let token = self.push(sqe)?;
        self.ring();
        Some(token)
    }

    /// The next completion or timeout, if there is one. Never waits.
    #[inline]
    pub fn pop(&mut self) -> Option<Completion> {
        loop {
            let Some(cqe) = self.cq.poll(self.head) else { return self.pop_expired() };
            self.head += 1;
            let ours = cqe.sqid == self.pair.qid.0;
            let unknown = Completed::Unknown { expected: None };
            match if ours { self.slots.complete(cqe.cid) } else { unknown } {
                Completed::Slot(slot) => {
                    self.compare_sqhd(cqe.sqhd);
                    self.tell_lazily();
                    let mut token = Token { slot, cid: Cid(cqe.cid) };
                    if self.careful {
                        match self.take_care(token, cqe) {
                            Some(known) => token = known,
                            None => continue,
                        }
                    }
                    let outcome = Outcome::Completed(cqe.status());
                    return Some(Completion { token, outcome, result: cqe.dw0 });
                }
                unusual => self.take_unusual(cqe, unusual),
            }
        }
    }

    /// What is to be done before a completion is reported, and under which name; `None`: the command is submitted again.
    #[cold]
    fn take_care(&mut self, token: Token, cqe: Cqe) -> Option<Token> {
        if self.flush {
            self.flush_data();
        }
        let known = self.known_as(token);
        (!self.try_again(token.slot, cqe.status())).then_some(known)
    }

    /// The answer to a read does not overtake what the controller wrote before it on the same path (PCIe 6.0, 2.4.1).
    /// Data for a BAR leaves that path at a switch, and has done so by then: a read of the BAR stays behind it.
    fn flush_data(&mut self) {
        self.pair.device().registers().read32(offset::CSTS);
        self.counters.flushes += 1;
        self.counters.register_reads += 1;
        if let Some(memory) = &self.read_back {
            memory.load_u32(0, Ordering::Acquire);
            self.counters.register_reads += 1;
        }
    }

    /// Hands all completions and timeouts that are there to `report`, and says how many.
    #[inline]
    pub fn poll(&mut self, mut report: impl FnMut(Completion)) -> usize {
        let mut count = 0;
        while let Some(completion) = self.pop() {
            report(completion);
            count += 1;
        }
        count
    }

    #[inline]
    fn tell_lazily(&mut self) {
        if self.head - self.reported >= self.cq_batch && !off(Mutation::HeadNeverReported) {
            self.tell();
        }
    }

    /// Reports all taken completions to the controller, which frees their slots.
    fn tell(&mut self) {
        // The entries were copied out before: the controller may overwrite them from here on.
        let trap = self.cq_doorbell.ring(self.head as u32 & self.mask);
        self.reported = self.head;
        self.limit = self.head - self.counters.spurious + u64::from(self.depth);
        self.counters.cq_doorbells += u64::from(trap);
        self.counters.shadow_stores += u64::from(self.cq_doorbell.shadow().is_some());
    }

    /// The controller must have fetched what it completed, and cannot have fetched what was not reported to it,
    /// nor less than it said before.
    #[inline]
    fn compare_sqhd(&mut self, sqhd: u16) {
        let completed = self.head - self.counters.spurious;
        let ahead = u64::from((u32::from(sqhd)).wrapping_sub(completed as u32) & self.mask);
        let fetched = completed + ahead;
        if fetched > self.rung || fetched < self.fetched {
            self.counters.sqhd_mismatches += 1;
        } else {
            self.fetched = fetched;
        }
    }

    /// A completion of a command that had timed out, or of none.
    #[cold]
    fn take_unusual(&mut self, cqe: Cqe, completed: Completed) {
        if let Completed::Unknown { expected } = completed {
            tracing::warn!(device = %self.pair.name, qid = %self.pair.qid, cid = cqe.cid, ?expected,
                "completion of no outstanding command");
            self.counters.spurious += 1;
            self.counters.last_spurious = Some(SpuriousCompletion { cid: cqe.cid, expected });
        } else {
            self.counters.late += 1;
        }
        self.tell_lazily();
    }

    #[inline]
    fn pop_expired(&mut self) -> Option<Completion> {
        self.empty_polls += 1;
        if self.careful {
            self.resubmit_due();
        }
        if self.empty_polls >= POLLS_PER_CHECK {
            self.check_deadlines();
        }
        if self.deadlines.any_expired() { self.report_expired() } else { None }
    }

    #[cold]
    fn report_expired(&mut self) -> Option<Completion> {
        while let Some(cid) = self.deadlines.next_expired(&self.slots) {
            // It may have completed since it was noted.
            if self.forget_waiting(cid) || self.slots.quarantine(cid) {
                self.counters.timed_out += 1;
                let token = self.known_as(Token { slot: self.slots.slot_of(cid), cid: Cid(cid) });
                return Some(Completion { token, outcome: Outcome::TimedOut, result: 0 });
            }
        }
        None
    }

    /// Looks at the clock and notes the commands whose deadline has passed; [`pop`](Self::pop) reports them.
    /// `pop` does this by itself now and then, so it need not be called.
    #[cold]
    pub fn check_deadlines(&mut self) {
        self.empty_polls = 0;
        let now = self.pair.device().clock().now();
        self.deadlines.check(now, &self.slots);
    }

    /// Lets time pass on the device's clock, for callers that have nothing to do. In a simulation this is
    /// what makes the controller work.
    pub fn pause(&mut self, hint: Duration) {
        self.pair.device().clock().pause(hint);
        self.empty_polls = POLLS_PER_CHECK;
    }

    /// Executes one command on an idle queue and waits for it.
    pub fn execute(&mut self, sqe: &Sqe) -> Result<Completion, DriverError> {
        self.require_idle("a single command")?;
        if self.is_retired() {
            // Its doorbell leads nowhere any more.
            return Err(self.retired_error());
        }
        // An idle queue has room, though completions may not have been reported yet.
        if self.room() == 0 {
            self.tell();
        }
        let token = self.submit(sqe);
        debug_assert!(token.is_some(), "an idle queue has room");
        loop {
            let seen = self.seen();
            match self.pop() {
                Some(Completion { outcome: Outcome::TimedOut, token, .. }) => {
                    return Err(self.timeout_error(token));
                }
                Some(completion) => return Ok(completion),
                None => self.rest(seen, Duration::MAX),
            }
        }
    }

    /// Whether the controller has forgotten the queue, in a reset or because it was deleted: nothing completes any more.
    /// It is to be made again.
    pub fn is_retired(&self) -> bool {
        self.pair.is_retired()
    }

    fn timeout_error(&self, token: Token) -> DriverError {
        if self.is_retired() {
            return self.retired_error();
        }
        let (device, qid, limit) = (self.pair.name.clone(), self.pair.qid, self.deadlines.limit());
        DriverError::IoTimeout { device, qid, cid: token.cid, limit }
    }

    fn retired_error(&self) -> DriverError {
        DriverError::QueueRetired { device: self.pair.name.clone(), qid: self.pair.qid }
    }

    fn require_idle(&self, doing: &'static str) -> Result<(), DriverError> {
        match self.outstanding() {
            0 => Ok(()),
            outstanding => {
                let (device, qid) = (self.pair.name.clone(), self.pair.qid);
                Err(DriverError::QueueBusy { device, qid, doing, outstanding })
            }
        }
    }

    /// Lets the running counters go on at `start`, on an idle queue: flushes `nsid` as often as it takes for
    /// both rings to stand where `start` would put them (the same slot and phase). For tests, which must see
    /// counters wrap, and for kernels that take the queue over.
    pub fn advance_to(&mut self, start: u64, nsid: Nsid) -> Result<(), DriverError> {
        self.require_idle("moving its counters")?;
        let lap = 2 * (u64::from(self.mask) + 1);
        let steps = start.wrapping_sub(self.head) & (lap - 1);
        // A flush that was submitted again would take another entry.
        let retries = self.retries.take();
        let flushed = self.flush_times(steps, nsid);
        self.retries = retries;
        flushed?;
        if self.counters.spurious != 0 {
            return Err(DriverError::QueueIndex { device: self.pair.name.clone(), qid: self.pair.qid });
        }
        if self.head != self.reported {
            self.tell();
        }
        let shift = start.wrapping_sub(self.head);
        let (sqes, cqes) = self.origin;
        self.origin = (sqes.wrapping_add(shift), cqes.wrapping_add(shift));
        (self.tail, self.rung, self.head, self.reported, self.fetched) = (start, start, start, start, start);
        self.limit = start + u64::from(self.depth);
        Ok(())
    }

    /// Ends when each flush has ended, in time or not: their completions are nobody else's.
    fn flush_times(&mut self, count: u64, nsid: Nsid) -> Result<(), DriverError> {
        let flush = command::flush(nsid.0);
        let (mut pushed, mut done) = (0, 0);
        let mut failed = None;
        while done < pushed || (failed.is_none() && pushed < count) {
            while failed.is_none() && pushed < count && self.push(&flush).is_some() {
                pushed += 1;
            }
            self.ring();
            let seen = self.seen();
            match self.pop() {
                Some(Completion { outcome, token, .. }) => {
                    done += 1;
                    if outcome == Outcome::TimedOut && failed.is_none() {
                        failed = Some(self.timeout_error(token));
                    }
                }
                None => self.rest(seen, Duration::MAX),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Returns the pair. If the queue is idle, its [`index_base`](QueuePair::index_base) says where the next party
    /// goes on; if commands are outstanding, it can only be deleted, and their buffers must live until then.
    pub fn into_pair(mut self) -> QueuePair {
        let idle = self.outstanding() == 0 && self.counters.spurious == 0;
        if idle && self.head != self.reported {
            self.tell();
        }
        self.pair.index_base = idle.then_some(self.head);
        self.pair
    }
}

impl std::fmt::Debug for IoQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("IoQueue");
        debug.field("pair", &self.pair).field("outstanding", &self.outstanding());
        debug.field("counters", &self.counters()).finish_non_exhaustive()
    }
}
