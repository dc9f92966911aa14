//! Commands between their fetch and their completion.

use std::time::Duration;

use rand::RngExt;
use warpbell_nvme::command::NSID_ALL;
use warpbell_nvme::opcode::DataTransfer;
use warpbell_nvme::{NvmOpcode, Sqe, Status};

use super::flights::{Flight, Stage};
use super::{PollGroup, PollGroupState};
use crate::engine::Command;
use crate::fault::{FaultAction, Incident, Target};
use crate::nvm::Outcome;
use crate::profile::Operation;
use crate::queue::Order;
use warpbell_hw::Lba;

impl PollGroup {
    /// Fetches one command, which must be pending with room for its completion, and completes it unless it is held.
    pub(super) fn fetch(&mut self, index: usize) {
        let sq = &mut self.sqs[index];
        let mut sqe = sq.fetch();
        let upper = sq.take_upper(&mut sqe);
        let sqid = sq.id;
        self.cqs[sq.cq].reserve();
        if self.mode.poison {
            sq.poison_fetched();
        }
        let command = Command { sqid, sqe: &sqe };
        let conflict = sq.begin_any(sqe.cid(), upper) && self.engine.conflict(sq, command);
        if conflict {
            let flight = self.flight(index, sqe, upper);
            self.answer(flight, Status::CID_CONFLICT.with_dnr(true));
            // The other command with this identifier is still in flight.
            self.sqs[index].begin_any(sqe.cid(), upper);
            return;
        }
        let flight = self.flight(index, sqe, upper);
        if self.mode.planned {
            self.reuse_repeated(sqid, flight.identifier());
            self.depart(sqid, flight)
        } else {
            self.flights.push(flight)
        }
        if self.flights.ready() > self.mode.window {
            self.complete_any();
            self.interrupt_all();
        }
    }

    fn flight(&mut self, sq: usize, sqe: Sqe, upper: u16) -> Flight {
        let serial = if self.mode.ordered { self.order_of(sq).enter() } else { 0 };
        let mut flight = Flight::new(sq, sqe);
        (flight.upper, flight.serial) = (upper, serial);
        flight
    }

    /// Decides what becomes of a command, and when.
    fn depart(&mut self, sqid: u16, mut flight: Flight) {
        let now = self.engine.time.now();
        if let Some(injector) = self.engine.injector.clone() {
            let mut injector = injector.lock();
            flight.fault = injector.judge(Target::of(sqid, &flight.sqe, now));
            if let Some(FaultAction::Slow { by, lasting }) = flight.fault.map(|fault| fault.action) {
                injector.slow_down(flight.sqe.nsid, by, now, lasting);
            }
            flight.extra = injector.slowness(flight.sqe.nsid, now);
        }
        match flight.fault.map(|fault| fault.action) {
            Some(FaultAction::Delay { by }) => flight.extra += by,
            Some(FaultAction::StuckDoorbell { by }) => self.stick(flight.sq, by.map(|by| now + by)),
            Some(FaultAction::Reorder { by }) => {
                flight.behind = by;
                return self.flights.push_behind(flight);
            }
            Some(action @ (FaultAction::Drop | FaultAction::Hang)) => {
                flight.stage = if action == FaultAction::Drop { Stage::Dropped } else { Stage::Hung };
                if self.mode.ordered {
                    self.order_of(flight.sq).leave(flight.serial);
                }
                return self.flights.push_lost(flight);
            }
            Some(action) => {
                if let Some(incident) = Incident::of(action) {
                    self.incident = Some(incident);
                    self.state = PollGroupState::Halted;
                    return self.flights.push_lost(flight);
                }
            }
            None => {}
        }
        let now = self.wake(&mut flight, now);
        let mut due = self.begin_media(&mut flight, now);
        if flight.unsent == 0 {
            due += flight.extra;
        }
        if due <= self.engine.time.now() {
            self.flights.push(flight)
        } else {
            self.flights.push_at(flight, due)
        }
    }

    /// From when on a command can be executed, for it wakes the controller up.
    fn wake(&self, flight: &mut Flight, now: Duration) -> Duration {
        let Some(power) = &self.engine.power else { return now };
        flight.wakes = true;
        power.begin(now)
    }

    /// When the media are done with a command.
    fn begin_media(&self, flight: &mut Flight, now: Duration) -> Duration {
        let Some(media) = &self.engine.media else { return now };
        let sqe = &flight.sqe;
        let Some((offset, bytes)) = self.media_range(sqe) else { return now };
        let operation = Operation::of(sqe.opcode());
        if operation == Operation::Read {
            flight.unsent = bytes;
        }
        media.lock().begin(operation, offset, bytes, now)
    }

    /// Offset and length of what a command is about on the media, zeros if it is not about blocks; `None` if it will
    /// fail before it gets there.
    fn media_range(&self, sqe: &Sqe) -> Option<(u64, u64)> {
        let opcode = NvmOpcode(sqe.opcode());
        if opcode == NvmOpcode::FLUSH && sqe.nsid == NSID_ALL {
            return Some((0, 0));
        }
        let namespace = self.engine.namespaces.get((sqe.nsid as usize).wrapping_sub(1))?;
        match opcode {
            NvmOpcode::FLUSH | NvmOpcode::DATASET_MANAGEMENT => Some((0, 0)),
            NvmOpcode::READ
            | NvmOpcode::WRITE
            | NvmOpcode::COMPARE
            | NvmOpcode::VERIFY
            | NvmOpcode::WRITE_ZEROES => {
                let (lba, count) = (sqe.slba(), u64::from(sqe.blocks()));
                let bytes = count << namespace.shift;
                let moves = DataTransfer::of(sqe.opcode()) != DataTransfer::NONE;
                let short = !moves || bytes <= self.engine.limits.bytes;
                (short && namespace.contains(Lba(lba), count)).then(|| (namespace.offset(Lba(lba)), bytes))
            }
            _ => None,
        }
    }

    /// Lets those go on whose time has come.
    pub(super) fn ripen(&mut self) {
        let now = self.engine.time.now();
        self.unstick(now);
        let media = self.engine.media.as_ref();
        self.flights.ripen(now, |flight, due| {
            let bytes = std::mem::take(&mut flight.unsent);
            let media = media.filter(|_| bytes > 0)?;
            Some(media.lock().send(bytes, due) + flight.extra)
        });
    }

    /// Lets flights go on, after a pass over the queues that found work or not. Returns whether one did.
    #[cold]
    pub(super) fn go_on(&mut self, busy: bool) -> bool {
        if !self.state.goes_on() || self.flights.is_empty() && self.stuck.is_empty() {
            return false;
        }
        if self.mode.planned {
            self.ripen();
            if !busy {
                self.flights.release_behind();
            }
        }
        let before = self.flights.ready();
        if before == 0 {
            return false;
        }
        self.refresh();
        if !busy {
            // Nothing new comes, so nothing is won by holding back.
            self.complete_any();
        }
        while self.flights.ready() > self.mode.window {
            self.complete_any();
        }
        self.interrupt_all();
        true
    }

    pub(super) fn complete_any(&mut self) {
        let flight = if self.mode.window == 0 {
            self.flights.take_first()
        } else {
            let choice = self.random.random_range(0..self.flights.ready());
            self.flights.take_ready(choice)
        };
        self.complete(flight);
    }

    /// Does what is next for a flight.
    pub(super) fn complete(&mut self, mut flight: Flight) {
        match std::mem::replace(&mut flight.stage, Stage::Fetched) {
            Stage::Fetched => self.execute(flight),
            Stage::Dropped | Stage::Hung => {}
            Stage::Again(status) => {
                self.tell_if_in_use(flight.sq, flight.identifier());
                self.repeat(flight, status);
            }
            Stage::Torn(entry) => self.cqs[self.sqs[flight.sq].cq].finish_torn(entry),
            Stage::Payload(deferred) => {
                if let Some(job) = self.engine.move_deferred(deferred) {
                    self.copy(flight, job);
                }
            }
            // Nobody waits for it, and nothing of it is in flight: it ends here.
            Stage::Copying(_) => {}
        }
    }

    fn execute(&mut self, mut flight: Flight) {
        self.engine.fault = flight.fault;
        let outcome = self.engine.execute(self.sqs[flight.sq].id, &flight.sqe);
        self.engine.fault = None;
        flight.payload = self.engine.deferred.take();
        match outcome {
            Outcome::Done(status) => self.answer(flight, status),
            Outcome::Copying(job) => self.copy(flight, job),
        }
    }

    fn order_of(&mut self, sq: usize) -> &mut Order<(Flight, Status)> {
        self.orders.entry(self.sqs[sq].id).or_default()
    }

    /// Posts the completion of a command: at once, or, in order, as soon as all before it are done.
    pub(super) fn answer(&mut self, flight: Flight, status: Status) {
        if !self.mode.ordered {
            return self.post(flight, status);
        }
        let sq = flight.sq;
        let order = self.order_of(sq);
        if let Some((flight, status)) = order.finish(flight.serial, (flight, status)) {
            self.post(flight, status);
        }
        while let Some((mut flight, status)) = self.order_of(sq).next() {
            // Queues may have moved in the poll group since.
            flight.sq = sq;
            self.post(flight, status);
        }
    }

    fn post(&mut self, mut flight: Flight, status: Status) {
        let sq = &mut self.sqs[flight.sq];
        let (index, sqid, head, cid) = (sq.cq, sq.id, sq.head, flight.identifier());
        sq.end_any(cid.0, cid.1);
        self.cqs[index].release();
        if !self.mode.planned {
            return self.cqs[index].post_any(sqid, head, cid, status);
        }
        if let Some(power) = self.engine.power.as_ref().filter(|_| flight.wakes) {
            power.end(self.engine.time.now());
        }
        self.finish_torn_at(index);
        match flight.fault.map(|fault| fault.action) {
            Some(FaultAction::Torn { by }) => {
                let entry = self.cqs[index].post_torn(sqid, head, cid, status);
                self.follow(&flight, Stage::Torn(entry), by);
            }
            action => {
                self.cqs[index].post_any(sqid, head, cid, status);
                self.aftermath(&mut flight, status, action);
            }
        }
        self.flights.passed(flight.sq);
    }

    /// What a fault does after the completion was posted.
    fn aftermath(&mut self, flight: &mut Flight, status: Status, action: Option<FaultAction>) {
        match action {
            Some(FaultAction::Duplicate) => self.repeat(flight.follower(), status),
            Some(FaultAction::LatePayload { by }) => {
                if let Some(deferred) = flight.payload.take() {
                    self.follow(flight, Stage::Payload(deferred), by);
                }
            }
            _ => {}
        }
    }

    /// Data for the client whose commands have completed arrives now. Not what is still to be fetched from it.
    #[cold]
    pub(crate) fn land_payloads(&mut self) {
        let is_it = |flight: &Flight| matches!(&flight.stage, Stage::Payload(data) if data.is_for_client());
        while let Some(flight) = self.flights.find(is_it) {
            self.refresh();
            self.complete(flight);
        }
    }

    /// Adds what follows a completion after a while.
    fn follow(&mut self, flight: &Flight, stage: Stage, after: Duration) {
        let due = self.engine.time.now() + after;
        let mut follower = flight.follower();
        follower.stage = stage;
        self.flights.push_at(follower, due);
    }

    /// Posts a completion once more, if there is room; else later.
    fn repeat(&mut self, mut flight: Flight, status: Status) {
        let sq = &self.sqs[flight.sq];
        let (index, sqid, head) = (sq.cq, sq.id, sq.head);
        if self.cqs[index].room() == 0 {
            flight.stage = Stage::Again(status);
            return self.flights.push_lost(flight);
        }
        let cid = flight.identifier();
        self.finish_torn_at(index);
        self.note_repeated(flight.sq, cid);
        self.cqs[index].post_any(sqid, head, cid, status);
    }

    /// A client has freed entries: completions that wait for room to be repeated may have it now.
    pub(super) fn repeat_waiting(&mut self, cq: usize) {
        self.free_repeated(cq);
        if self.flights.repeats() == 0 {
            return;
        }
        // A doorbell can be rung after the ring's memory went.
        self.refresh();
        while self.flights.repeats() > 0 && self.cqs[cq].room() > 0 {
            let sqs = &self.sqs;
            let waits = |flight: &Flight| sqs[flight.sq].cq == cq && matches!(flight.stage, Stage::Again(_));
            let Some(flight) = self.flights.find(waits) else { return };
            self.complete(flight);
        }
    }

    /// The slot that is about to be posted to may still lack a part of its last entry.
    fn finish_torn_at(&mut self, cq: usize) {
        if self.flights.torn() == 0 {
            return;
        }
        let (sqs, offset) = (&self.sqs, self.cqs[cq].next_offset());
        let is_it = |flight: &Flight| {
            sqs[flight.sq].cq == cq && matches!(&flight.stage, Stage::Torn(entry) if entry.offset == offset)
        };
        if let Some(flight) = self.flights.find(is_it) {
            self.complete(flight);
        }
    }

    /// Ends all flights of a queue that is being deleted.
    pub(super) fn abandon(&mut self, index: usize) {
        // What is being copied ends, and nothing more of it begins.
        self.settle_copies();
        while let Some(flight) = self.flights.find(|flight| flight.sq == index) {
            if flight.outstanding() {
                self.answer(flight, Status::ABORTED_SQ_DELETION);
            } else if !matches!(flight.stage, Stage::Again(_)) {
                self.complete(flight);
                self.settle_copies();
            }
        }
    }

    /// Aborts a command that has not completed; false if it is not here.
    pub(crate) fn abort(&mut self, sqid: u16, identifier: (u16, u16)) -> bool {
        self.refresh();
        let sqs = &self.sqs;
        let is_it = |flight: &Flight| {
            matches!(flight.stage, Stage::Fetched | Stage::Hung)
                && sqs[flight.sq].id == sqid
                && flight.identifier() == identifier
        };
        let Some(mut flight) = self.flights.find(is_it) else { return false };
        let cq = self.sqs[flight.sq].cq;
        flight.fault = None;
        self.answer(flight, Status::ABORT_REQUESTED);
        self.interrupt(cq);
        true
    }

    /// Completes everything that will complete, before a shutdown.
    pub(super) fn drain(&mut self) {
        self.refresh();
        self.flights.hurry();
        while self.flights.ready() > 0 {
            self.complete_any();
            self.flights.hurry();
        }
        self.drain_copies();
        self.send_completions();
        self.interrupt_all();
    }
}
