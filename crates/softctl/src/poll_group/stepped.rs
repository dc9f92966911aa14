//! What a poll group without a thread does: one thing at a time, as the seed chooses.

use std::time::Duration;

use super::{PollGroup, PollGroupState};
use crate::queue::Sq;

/// One thing that a stepped controller can do next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Fetch a command of the queue with this index.
    Fetch(usize),
    /// Look at the shadow of a submission queue's tail, or go to sleep on it.
    LookAtTail(usize),
    /// The same for a completion queue's head.
    LookAtHead(usize),
    /// Let commands and rings go on whose copies have ended, and submit a batch.
    Copy,
    /// Let the ready flight with this index go on.
    GoOn(usize),
}

impl PollGroup {
    /// What could be done next, in stepped mode.
    pub(crate) fn work(&mut self, into: &mut Vec<Work>) {
        if !self.state.goes_on() {
            return;
        }
        if self.mode.planned {
            self.ripen();
        }
        if self.is_copying() && !self.engine.copier.is_busy() {
            self.go_on_copying();
        }
        if self.has_copies()
            && (self.poll_copies() || self.engine.copier.has_batch() || self.ring_wants_copy())
        {
            into.push(Work::Copy);
        }
        let awake = |index: &usize| self.sqs[*index].bell.awake() && !self.is_sq_stuck(*index);
        into.extend((0..self.sqs.len()).filter(awake).map(Work::LookAtTail));
        if self.state != PollGroupState::Running {
            return;
        }
        let wanted = |index: &usize| {
            self.cqs[*index].bell.awake() && self.head_wanted(*index) && !self.is_cq_stuck(*index)
        };
        into.extend((0..self.cqs.len()).filter(wanted).map(Work::LookAtHead));
        let ready = |sq: &Sq| sq.pending() > 0 && self.cqs[sq.cq].room() > 0;
        let before = into.len();
        let has_room = self.flights.ready() <= self.mode.window && self.flights.len() < self.mode.slots;
        if has_room && self.arbiter.is_some() {
            into.extend(self.chosen().map(|(index, _)| Work::Fetch(index)));
        } else if has_room {
            let queues = self.sqs.iter().enumerate().filter(|(_, sq)| ready(sq));
            into.extend(queues.map(|(index, _)| Work::Fetch(index)));
        }
        if into.len() == before {
            self.flights.release_behind();
        }
        into.extend((0..self.flights.ready()).map(Work::GoOn));
    }

    /// Counts the time in which commands are outstanding. Called whenever that may have changed.
    pub(crate) fn note_busy(&mut self, now: Duration) {
        let busy = !self.flights.is_empty() || self.sqs.iter().any(|sq| sq.pending() > 0);
        match (busy, self.busy_since) {
            (true, None) => self.busy_since = Some(now),
            (false, Some(since)) => {
                self.engine.statistics.busy += now.saturating_sub(since);
                self.busy_since = None;
            }
            _ => {}
        }
    }

    /// When there will be work although there is none now.
    pub(crate) fn next_event(&mut self) -> Option<Duration> {
        if self.state != PollGroupState::Running {
            return None;
        }
        self.flights.next_due().into_iter().chain(self.next_unstuck()).chain(self.next_poll()).min()
    }

    /// Does one thing that [`PollGroup::work`] offered.
    pub(crate) fn perform(&mut self, work: Work) {
        self.refresh();
        match work {
            Work::Fetch(index) => {
                self.note_served(index, 1);
                self.fetch(index);
            }
            Work::GoOn(choice) => {
                let flight = self.flights.take_ready(choice);
                self.complete(flight);
            }
            Work::Copy => drop(self.tend_copies()),
            Work::LookAtTail(index) => self.step_tail(index),
            Work::LookAtHead(index) => self.step_head(index),
        }
        self.interrupt_all();
    }

    fn step_tail(&mut self, index: usize) {
        let sq = &mut self.sqs[index];
        if let Some(value) = sq.bell.step() {
            self.engine.statistics.shadow_updates += 1;
            let result = sq.ring_doorbell(value);
            self.accept(result);
        }
    }

    fn step_head(&mut self, index: usize) {
        let cq = &mut self.cqs[index];
        let Some(value) = cq.bell.step() else { return };
        self.engine.statistics.shadow_updates += 1;
        if let Err((rule, detail)) = cq.ring_doorbell(value) {
            self.engine.checker.report_doorbell(rule, detail);
        }
        if self.mode.planned {
            self.repeat_waiting(index);
        }
    }

    /// A write to a doorbell, where each is seen. False if the queue is not here.
    pub(crate) fn ring_sq(&mut self, qid: u16, value: u32) -> bool {
        if self.keep_tail(qid, value) {
            return true;
        }
        let Some(sq) = self.sqs.iter_mut().find(|sq| sq.id == qid) else { return false };
        self.engine.statistics.sq_doorbells += 1;
        if sq.bell.shadowed() {
            // The shadow has the value, or a newer one.
            sq.bell.wake();
            return true;
        }
        let result = sq.ring_doorbell(value);
        self.accept(result);
        true
    }

    /// A write to a completion queue's doorbell, where each is seen. False if the queue is not here.
    pub(crate) fn ring_cq(&mut self, qid: u16, value: u32) -> bool {
        if self.keep_head(qid, value) {
            return true;
        }
        let Some(index) = self.cqs.iter().position(|cq| cq.id == qid) else { return false };
        self.engine.statistics.cq_doorbells += 1;
        if self.cqs[index].bell.shadowed() {
            self.cqs[index].bell.wake();
            return true;
        }
        if let Err((rule, detail)) = self.cqs[index].ring_doorbell(value) {
            self.engine.checker.report_doorbell(rule, detail);
        }
        if self.mode.planned {
            self.repeat_waiting(index);
            self.interrupt(index);
        }
        true
    }
}
