//! Doorbells whose writes are not seen for a while: a fault.

use std::time::Duration;

use super::PollGroup;

/// A queue pair whose doorbells are stuck.
pub(super) struct Stuck {
    sqid: u16,
    cqid: u16,
    /// `None`: for good.
    until: Option<Duration>,
    /// What was written to the doorbells since, where each write is seen.
    tail: Option<u32>,
    head: Option<u32>,
}

impl PollGroup {
    /// From now on the doorbells of a submission queue and of its completion queue are not polled.
    pub(super) fn stick(&mut self, index: usize, until: Option<Duration>) {
        let sq = &self.sqs[index];
        let (sqid, cqid) = (sq.id, self.cqs[sq.cq].id);
        match self.stuck.iter_mut().find(|stuck| stuck.sqid == sqid) {
            Some(stuck) => stuck.until = stuck.until.zip(until).map(|(one, other)| one.max(other)),
            None => self.stuck.push(Stuck { sqid, cqid, until, tail: None, head: None }),
        }
    }

    #[inline]
    pub(super) fn is_sq_stuck(&self, index: usize) -> bool {
        !self.stuck.is_empty() && self.stuck.iter().any(|stuck| stuck.sqid == self.sqs[index].id)
    }

    #[inline]
    pub(super) fn is_cq_stuck(&self, index: usize) -> bool {
        !self.stuck.is_empty() && self.stuck.iter().any(|stuck| stuck.cqid == self.cqs[index].id)
    }

    /// Keeps a doorbell write for later; false if the doorbell is not stuck.
    pub(super) fn keep_tail(&mut self, qid: u16, value: u32) -> bool {
        let stuck = self.stuck.iter_mut().find(|stuck| stuck.sqid == qid);
        stuck.map(|stuck| stuck.tail = Some(value)).is_some()
    }

    /// As [`PollGroup::keep_tail`], for a completion queue.
    pub(super) fn keep_head(&mut self, qid: u16, value: u32) -> bool {
        let stuck = self.stuck.iter_mut().find(|stuck| stuck.cqid == qid);
        stuck.map(|stuck| stuck.head = Some(value)).is_some()
    }

    /// Looks again at doorbells whose time has come, and takes what was written to them last.
    pub(super) fn unstick(&mut self, now: Duration) {
        let over = |stuck: &mut Stuck| stuck.until.is_some_and(|until| until <= now);
        let freed: Vec<Stuck> = self.stuck.extract_if(.., over).collect();
        for stuck in freed {
            if let Some(head) = stuck.head {
                self.ring_cq(stuck.cqid, head);
            }
            if let Some(tail) = stuck.tail {
                self.ring_sq(stuck.sqid, tail);
            }
        }
    }

    /// Takes what was written to stuck doorbells; they stay stuck.
    pub(super) fn take_kept(&mut self) {
        for stuck in &mut self.stuck {
            let cq = self.cqs.iter_mut().find(|cq| cq.id == stuck.cqid);
            let head = cq.zip(stuck.head.take()).map(|(cq, head)| cq.ring_doorbell(head));
            let sq = self.sqs.iter_mut().find(|sq| sq.id == stuck.sqid);
            let tail = sq.zip(stuck.tail.take()).map(|(sq, tail)| sq.ring_doorbell(tail));
            for (rule, detail) in head.into_iter().chain(tail).filter_map(Result::err) {
                self.engine.checker.report_doorbell(rule, detail);
            }
        }
    }

    /// When a doorbell is polled again.
    pub(super) fn next_unstuck(&self) -> Option<Duration> {
        self.stuck.iter().filter_map(|stuck| stuck.until).min()
    }

    /// A submission queue is being deleted. Its completion queue stays, and others may feed it: its head is not lost.
    pub(super) fn forget_stuck(&mut self, sqid: u16) {
        let freed: Vec<Stuck> = self.stuck.extract_if(.., |stuck| stuck.sqid == sqid).collect();
        for stuck in freed {
            if let Some(head) = stuck.head {
                self.ring_cq(stuck.cqid, head);
            }
        }
    }
}
