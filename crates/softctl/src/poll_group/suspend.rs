//! Waiting for memory of a queue that a client took away and may release.

use super::{PollGroup, PollGroupState};
use crate::admin::{DoorbellPages, cq_name, sq_name};
use crate::checker::Rule;
use crate::memory::{Claim, IovaSpace};
use warpbell_hw::DmaAccess;

impl PollGroup {
    /// Memory of some queue of the controller is gone: nothing is served until it is back.
    pub(crate) fn suspend(&mut self) {
        if self.state == PollGroupState::Running {
            self.state = PollGroupState::Suspended { told: false };
        }
        self.refresh();
    }

    /// All memory is back.
    pub(crate) fn resume(&mut self) {
        if matches!(self.state, PollGroupState::Suspended { .. }) {
            self.state = PollGroupState::Running;
        }
    }

    /// A client submits commands although this poll group serves nothing.
    #[cold]
    pub(super) fn refuse(&mut self, index: usize) {
        let PollGroupState::Suspended { told: false } = self.state else { return };
        self.state = PollGroupState::Suspended { told: true };
        let Some(claim) = self.engine.view.claims().suspended() else { return };
        let detail = format!("{claim}, unmapped, when submission queue {} was rung", self.sqs[index].id);
        self.engine.checker.report(Rule::QueueMemoryUnmapped, detail);
    }

    /// The memory of one of this poll group's queues is back.
    pub(crate) fn reconnect(&mut self, space: &IovaSpace, claim: &Claim) {
        let ring = |access| space.window(claim.start, claim.len, access);
        if let Some(sq) = self.sqs.iter_mut().find(|sq| sq_name(sq.id) == claim.owner) {
            match ring(DmaAccess::READ) {
                Ok(ring) => sq.reconnect(ring),
                Err(error) => {
                    tracing::warn!(queue = sq.id, %error, "a submission queue stays without memory")
                }
            }
        }
        if let Some(cq) = self.cqs.iter_mut().find(|cq| cq_name(cq.id) == claim.owner) {
            match ring(DmaAccess::WRITE) {
                Ok(ring) => cq.reconnect(ring),
                Err(error) => {
                    tracing::warn!(queue = cq.id, %error, "a completion queue stays without memory")
                }
            }
        }
    }

    /// The client's doorbell pages are back.
    pub(crate) fn find_pages(&mut self, pages: &DoorbellPages) {
        for sq in &mut self.sqs {
            pages.entry(sq.id, false).into_iter().for_each(|at| sq.bell.find_pages(at));
        }
        for cq in &mut self.cqs {
            pages.entry(cq.id, true).into_iter().for_each(|at| cq.bell.find_pages(at));
        }
    }
}
