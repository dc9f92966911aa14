//! Queues whose rings lie in remote memory: entries come and go by copies, beside those of data.

use warpbell_hw::AccessError;

use super::PollGroup;
use crate::copying::Owner;
use crate::queue::{Cq, Sq};

impl PollGroup {
    /// After queues have come or gone.
    pub(super) fn find_remote_rings(&mut self) {
        self.remote_rings = self.sqs.iter().any(Sq::is_remote) || self.cqs.iter().any(Cq::is_remote);
    }

    /// Whether copies of data or of rings are in flight, or are to be begun.
    pub(super) fn has_copies(&self) -> bool {
        self.is_copying() || self.remote_rings && (self.engine.copier.is_busy() || self.ring_wants_copy())
    }

    /// Whether the copy of a ring is to be begun.
    pub(super) fn ring_wants_copy(&self) -> bool {
        self.remote_rings && (self.sqs.iter().any(Sq::wants_copy) || self.cqs.iter().any(Cq::wants_copy))
    }

    /// Adds what is next of each ring to the batch.
    pub(super) fn begin_ring_copies(&mut self) {
        for index in 0..self.sqs.len() {
            let sq = &mut self.sqs[index];
            let Some(next) = sq.next_copy() else { continue };
            let owner = Owner::Submissions(sq.id);
            if let Err(error) = self.engine.copier.push(&next.remote, next.copy, owner) {
                sq.copied(Err(error));
            }
        }
        self.begin_completion_copies();
    }

    fn begin_completion_copies(&mut self) {
        for cq in &mut self.cqs {
            let Some(next) = cq.next_copy() else { continue };
            let owner = Owner::Completions(cq.id);
            if let Err(error) = self.engine.copier.push(&next.remote, next.copy, owner) {
                cq.copied(Err(error));
            }
        }
    }

    /// A copy of a ring has ended. Its queue may have lost the memory meanwhile.
    pub(super) fn note_ring_copied(&mut self, owner: Owner, result: Result<(), AccessError>) {
        match owner {
            Owner::Submissions(id) => {
                if let Some(sq) = self.sqs.iter_mut().find(|sq| sq.id == id) {
                    sq.copied(result);
                }
            }
            Owner::Completions(id) => {
                if let Some(cq) = self.cqs.iter_mut().find(|cq| cq.id == id) {
                    cq.copied(result);
                }
            }
            Owner::Data { .. } => {}
        }
    }

    /// Waits until all completions that were posted are in their rings. No job goes on meanwhile.
    pub(super) fn send_completions(&mut self) {
        while self.remote_rings && !self.cqs.iter().all(Cq::is_sent) {
            self.begin_completion_copies();
            let ended = self.engine.copier.wait();
            self.note_ended();
            if !ended {
                return;
            }
        }
    }
}
