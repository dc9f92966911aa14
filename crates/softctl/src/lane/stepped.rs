//! What a lane without a thread does: one thing at a time, as the seed chooses.

use super::{Lane, LaneState};
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
    /// Complete the held command with this index.
    Complete(usize),
}

impl Lane {
    /// What could be done next, in stepped mode.
    pub(crate) fn work(&self, into: &mut Vec<Work>) {
        let awake = |index: &usize| self.sqs[*index].bell.awake();
        into.extend((0..self.sqs.len()).filter(awake).map(Work::LookAtTail));
        if self.state != LaneState::Running {
            return;
        }
        let wanted = |index: &usize| self.cqs[*index].bell.awake() && self.head_wanted(*index);
        into.extend((0..self.cqs.len()).filter(wanted).map(Work::LookAtHead));
        let ready = |sq: &Sq| sq.pending() > 0 && self.cqs[sq.cq].room() > 0;
        if self.held.len() <= self.mode.window && self.arbiter.is_some() {
            into.extend(self.chosen().map(|(index, _)| Work::Fetch(index)));
        } else if self.held.len() <= self.mode.window {
            let queues = self.sqs.iter().enumerate().filter(|(_, sq)| ready(sq));
            into.extend(queues.map(|(index, _)| Work::Fetch(index)));
        }
        into.extend((0..self.held.len()).map(Work::Complete));
    }

    /// Does one thing that [`Lane::work`] offered.
    pub(crate) fn perform(&mut self, work: Work) {
        self.refresh();
        match work {
            Work::Fetch(index) => {
                self.note_served(index, 1);
                self.fetch(index);
            }
            Work::Complete(choice) => self.complete(choice),
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
        if let Some(value) = cq.bell.step() {
            self.engine.statistics.shadow_updates += 1;
            if let Err((rule, detail)) = cq.ring_doorbell(value) {
                self.engine.checker.report_doorbell(rule, detail);
            }
        }
    }

    /// A write to a doorbell, where each is seen. False if the queue is not here.
    pub(crate) fn ring_sq(&mut self, qid: u16, value: u32) -> bool {
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
        let Some(cq) = self.cqs.iter_mut().find(|cq| cq.id == qid) else { return false };
        self.engine.statistics.cq_doorbells += 1;
        if cq.bell.shadowed() {
            cq.bell.wake();
            return true;
        }
        if let Err((rule, detail)) = cq.ring_doorbell(value) {
            self.engine.checker.report_doorbell(rule, detail);
        }
        true
    }
}
