//! Completions that a fault has posted twice, until the client has freed them. If a command has their identifier by
//! then, nothing on the wire tells them from its own completion.

use super::PollGroup;

/// A second completion that the client may not have looked at yet.
pub(super) struct Repeated {
    sqid: u16,
    cqid: u16,
    /// Where in the completion queue.
    slot: u32,
    identifier: (u16, u16),
}

impl PollGroup {
    /// The completion of a command of submission queue `index` is about to be posted again.
    pub(super) fn note_repeated(&mut self, index: usize, identifier: (u16, u16)) {
        let sq = &self.sqs[index];
        let cq = &self.cqs[sq.cq];
        self.repeated.push(Repeated { sqid: sq.id, cqid: cq.id, slot: cq.next_slot(), identifier });
    }

    /// The client has freed entries of a completion queue: it had looked at these before.
    pub(super) fn free_repeated(&mut self, cq: usize) {
        let cq = &self.cqs[cq];
        let freed = self.repeated.extract_if(.., |one| one.cqid == cq.id && !cq.is_unread(one.slot));
        for one in freed.collect::<Vec<_>>() {
            let index = self.sqs.iter().position(|sq| sq.id == one.sqid);
            if let Some(index) = index {
                self.tell_if_in_use(index, one.identifier);
            }
        }
    }

    /// A command was fetched.
    pub(super) fn reuse_repeated(&self, sqid: u16, identifier: (u16, u16)) {
        if self.repeated.iter().any(|one| one.sqid == sqid && one.identifier == identifier) {
            self.tell_ambiguous(sqid, identifier.0);
        }
    }

    /// A submission queue goes, or all of them. What its client looks at from now on nobody sees.
    pub(super) fn forget_repeated(&mut self, qid: Option<u16>) {
        let gone = self.repeated.extract_if(.., |one| qid.is_none_or(|qid| one.sqid == qid));
        for one in gone.collect::<Vec<_>>() {
            self.tell_ambiguous(one.sqid, one.identifier.0);
        }
    }

    /// Tells, if the identifier is in use again, or may be: of entries behind a shadow doorbell the poll group may not know yet.
    pub(super) fn tell_if_in_use(&self, index: usize, (cid, upper): (u16, u16)) {
        let sq = &self.sqs[index];
        if sq.is_in_flight(cid, upper) || sq.is_pending(cid) || sq.bell.shadowed() {
            self.tell_ambiguous(sq.id, cid);
        }
    }

    fn tell_ambiguous(&self, sqid: u16, cid: u16) {
        if let Some(injector) = &self.engine.injector {
            injector.lock().ambiguous(sqid, cid, self.engine.time.now());
        }
    }
}
