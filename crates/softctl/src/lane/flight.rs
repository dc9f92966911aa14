//! Commands between their fetch and their completion.

use rand::RngExt;
use warpbell_nvme::{Sqe, Status};

use super::Lane;
use crate::checker::Rule;
use crate::engine::Command;

/// A fetched command that waits for its turn to complete.
pub(super) struct Held {
    /// Index of its queue in the lane.
    pub(super) sq: usize,
    sqe: Sqe,
}

impl Lane {
    /// Fetches one command, which must be pending with room for its completion, and completes it unless it is held.
    pub(super) fn fetch(&mut self, index: usize) {
        let sq = &mut self.sqs[index];
        let sqe = sq.fetch();
        let sqid = sq.id;
        self.cqs[sq.cq].reserve();
        if self.mode.poison {
            sq.poison_fetched();
        }
        let conflict = sq.begin(sqe.cid());
        self.held.push(Held { sq: index, sqe });
        let command = Command { sqid, sqe: &sqe };
        if self.mode.poison && sqe.cdw0.into_bits() == u32::MAX {
            self.engine.violation(Rule::StaleEntry, command, "fetch of an entry that was not written");
        }
        if conflict {
            self.engine.violation(Rule::CidInFlight, command, "its identifier is in flight");
            self.answer(self.held.len() - 1, Status::CID_CONFLICT.with_dnr(true));
            // The other command with this identifier is still in flight.
            self.sqs[index].begin(sqe.cid());
        } else if self.held.len() > self.mode.window {
            self.complete_any();
            self.interrupt_all();
        }
    }

    pub(super) fn complete_any(&mut self) {
        let choice = self.random.random_range(0..self.held.len());
        self.complete(choice);
    }

    pub(super) fn complete(&mut self, choice: usize) {
        let held = &self.held[choice];
        let status = self.engine.execute(self.sqs[held.sq].id, &held.sqe);
        self.answer(choice, status);
    }

    /// Posts the completion of a held command.
    pub(super) fn answer(&mut self, choice: usize, status: Status) {
        let held = self.held.swap_remove(choice);
        let sq = &mut self.sqs[held.sq];
        sq.end(held.sqe.cid());
        let cq = &mut self.cqs[sq.cq];
        cq.release();
        cq.post_status(sq.id, sq.head, held.sqe.cid(), status);
    }

    /// Aborts a command that is held back; false if it is not here.
    pub(crate) fn abort(&mut self, sqid: u16, cid: u16) -> bool {
        self.refresh();
        let is_it = |held: &Held| self.sqs[held.sq].id == sqid && held.sqe.cid() == cid;
        let Some(choice) = self.held.iter().position(is_it) else { return false };
        let cq = self.sqs[self.held[choice].sq].cq;
        self.answer(choice, Status::ABORT_REQUESTED);
        self.interrupt(cq);
        true
    }

    /// Completes everything that is held back, before a shutdown.
    pub(crate) fn drain(&mut self) {
        self.refresh();
        while !self.held.is_empty() {
            self.complete_any();
        }
        self.interrupt_all();
    }
}
