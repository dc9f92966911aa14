//! Commands whose data engines copy: they leave a poll group's pass as jobs, and come back when their copies have ended.

use std::time::{Duration, Instant};

use warpbell_nvme::Status;

use super::PollGroup;
use super::flights::{Flight, Stage};
use crate::copying::{Job, Owner};
use crate::engine::Command;

/// Stepped mode: how long after one poll of the engines the next is due.
const LOOK: Duration = Duration::from_micros(1);
/// How long a shutdown waits for copies.
const PATIENCE: Duration = Duration::from_secs(5);

impl PollGroup {
    /// A command goes on as a job.
    pub(super) fn copy(&mut self, mut flight: Flight, job: Box<Job>) {
        flight.stage = Stage::Copying(job);
        let slot = self.flights.push_copying(flight);
        self.carry_on(slot);
    }

    /// Takes a job on as far as it goes; completes its command if it is over. Returns whether it is.
    fn carry_on(&mut self, slot: usize) -> bool {
        let Some(Flight { sq, sqe, stage: Stage::Copying(job), .. }) = self.flights.at(slot) else {
            return false;
        };
        let command = Command { sqid: self.sqs[*sq].id, sqe };
        self.engine.begin();
        let Some(result) = self.engine.carry_on(job, command, slot) else { return false };
        let late = job.late;
        let flight = self.flights.take_copying(slot);
        if late {
            if let Err(status) = result {
                tracing::debug!(%status, "late data was not moved");
            }
            return true;
        }
        let command = Command { sqid: self.sqs[flight.sq].id, sqe: &flight.sqe };
        let status = self.engine.conclude(command, result);
        self.answer(flight, status);
        true
    }

    /// Whether any command's data is being copied.
    #[inline]
    pub(super) fn is_copying(&self) -> bool {
        self.flights.copying() > 0
    }

    /// Sees what has ended, lets jobs go on, and submits their copies as one batch. Returns whether anything is in
    /// flight, or was done.
    #[cold]
    pub(super) fn tend_copies(&mut self) -> bool {
        if !self.state.goes_on() {
            return false;
        }
        self.poll_copies();
        self.go_on_copying();
        if self.remote_rings {
            self.begin_ring_copies();
            self.interrupt_all();
        }
        self.engine.copier.submit();
        self.engine.copier.is_busy() || self.is_copying()
    }

    /// Sees which copies have ended; returns whether there are any.
    pub(super) fn poll_copies(&mut self) -> bool {
        self.engine.copier.poll();
        self.engine.copier.has_ended()
    }

    /// Lets every job go on for which something has changed. Those that wait go first come, first served.
    pub(super) fn go_on_copying(&mut self) {
        // What a job waits for comes from the copies of others: of this poll group, or, if it has none, of another.
        if !self.note_ended() && self.engine.copier.is_busy() {
            return;
        }
        self.refresh();
        let mut completed = false;
        for slot in self.flights.copying_slots() {
            let goes_on = |job: &Job| job.moved || job.waits;
            if matches!(self.flights.at(slot), Some(Flight { stage: Stage::Copying(job), .. }) if goes_on(job))
            {
                completed |= self.carry_on(slot);
            }
        }
        if completed {
            self.interrupt_all();
        }
    }

    /// Tells jobs and rings which of their copies have ended; returns whether any has.
    pub(super) fn note_ended(&mut self) -> bool {
        let any = self.engine.copier.has_ended();
        while let Some((owner, result)) = self.engine.copier.next_ended() {
            let Owner::Data { slot, piece } = owner else {
                self.note_ring_copied(owner, result);
                continue;
            };
            match self.flights.at(slot) {
                Some(Flight { stage: Stage::Copying(job), .. }) => job.note(piece, result),
                _ => tracing::error!(?owner, "a copy has ended that belongs to no command"),
            }
        }
        any
    }

    /// Waits until no copy is in flight. No job goes on meanwhile.
    pub(crate) fn settle_copies(&mut self) {
        if self.engine.copier.is_busy() {
            self.engine.copier.wait();
            self.note_ended();
        }
    }

    /// Lets all jobs come to their end; those that do not in time fail.
    pub(super) fn drain_copies(&mut self) {
        let begin = Instant::now();
        while self.is_copying() && begin.elapsed() < PATIENCE {
            self.tend_copies();
            std::thread::yield_now();
        }
        self.settle_copies();
        for slot in self.flights.copying_slots() {
            let flight = self.flights.take_copying(slot);
            if flight.outstanding() {
                self.answer(flight, Status::DATA_TRANSFER_ERROR);
            }
        }
    }

    /// Stepped mode: when to poll the engines again.
    pub(super) fn next_poll(&self) -> Option<Duration> {
        self.has_copies().then(|| self.engine.time.now() + LOOK)
    }
}
