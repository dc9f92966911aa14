//! What a lane without a thread does: one thing at a time, as the seed chooses.

use super::{Lane, LaneState};
use crate::queue::Sq;

/// One thing that a stepped controller can do next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Fetch a command of the queue with this index.
    Fetch(usize),
    /// Complete the held command with this index.
    Complete(usize),
}

impl Lane {
    /// What could be done next, in stepped mode.
    pub(crate) fn work(&self, into: &mut Vec<Work>) {
        if self.state != LaneState::Running {
            return;
        }
        let ready = |sq: &Sq| sq.pending() > 0 && self.cqs[sq.cq].room() > 0;
        if self.held.len() <= self.mode.window {
            let queues = self.sqs.iter().enumerate().filter(|(_, sq)| ready(sq));
            into.extend(queues.map(|(index, _)| Work::Fetch(index)));
        }
        into.extend((0..self.held.len()).map(Work::Complete));
    }

    /// Does one thing that [`Lane::work`] offered.
    pub(crate) fn perform(&mut self, work: Work) {
        self.engine.refresh();
        match work {
            Work::Fetch(index) => self.fetch(index),
            Work::Complete(choice) => self.complete(choice),
        }
        self.interrupt_all();
    }

    /// A write to a doorbell, where each is seen. False if the queue is not here.
    pub(crate) fn ring_sq(&mut self, qid: u16, value: u32) -> bool {
        let Some(sq) = self.sqs.iter_mut().find(|sq| sq.id == qid) else { return false };
        self.engine.statistics.sq_doorbells += 1;
        let result = sq.ring_doorbell(value);
        self.accept(result);
        true
    }

    /// A write to a completion queue's doorbell, where each is seen. False if the queue is not here.
    pub(crate) fn ring_cq(&mut self, qid: u16, value: u32) -> bool {
        let Some(cq) = self.cqs.iter_mut().find(|cq| cq.id == qid) else { return false };
        self.engine.statistics.cq_doorbells += 1;
        if let Err((rule, detail)) = cq.ring_doorbell(value) {
            self.engine.checker.report_doorbell(rule, detail);
        }
        true
    }
}
