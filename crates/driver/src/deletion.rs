//! Deleting I/O queue pairs: in order, each step remembered, so that a second try goes on where the first one ended.

use std::time::Duration;

use warpbell_hw::Qid;
use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::status::Status;

use crate::controller::Controller;
use crate::data::Data;
use crate::mutation::{Mutation, off};
use crate::queue_ids::Left;
use crate::registers::Deadline;
use crate::{DriverError, QueuePair};

/// A queue of a pair, and the command that deletes it.
type Half = (&'static str, fn(u16) -> Sqe);

const SUBMISSION: Half = ("submission queue", command::delete_io_sq);
const COMPLETION: Half = ("completion queue", command::delete_io_cq);

impl Controller {
    /// Deletes the submission queue, then the completion queue, then frees their memory. If the controller
    /// does not delete both, the memory stays mapped until it does ([`Controller::reclaim_queues`]) or is reset, and
    /// the identifier stays unused.
    pub fn delete_queue_pair(&self, pair: QueuePair) -> Result<(), DriverError> {
        self.retire_queue_pair(&pair)
    }

    /// Like [`delete_queue_pair`](Self::delete_queue_pair), but memory and identifier are kept until `pair`
    /// is dropped: kernels that were left behind by an error may still store to the rings and doorbells.
    pub fn retire_queue_pair(&self, pair: &QueuePair) -> Result<(), DriverError> {
        self.retire_within(pair, None)
    }

    /// Like [`retire_queue_pair`](Self::retire_queue_pair), and takes no longer than `limit` altogether.
    ///
    /// What the controller deleted is remembered: after an error another call goes on with the rest. Once this
    /// succeeded, the controller touches no memory of the pair's commands any more.
    pub fn retire_queue_pair_within(&self, pair: &QueuePair, limit: Duration) -> Result<(), DriverError> {
        self.retire_within(pair, Some(limit))
    }

    #[tracing::instrument(level = "info", name = "delete_queue_pair", skip_all, fields(device = %self.name(), qid = pair.qid().0, ?limit))]
    fn retire_within(&self, pair: &QueuePair, limit: Option<Duration>) -> Result<(), DriverError> {
        if !pair.belongs_to(&self.core.book) {
            let (device, qid, owner) = (self.core.name(), pair.qid(), pair.name.clone());
            return Err(DriverError::ForeignQueue { device, qid, owner });
        }
        if off(Mutation::TeardownBeforeDelete) {
            self.core.book.retire(pair.qid());
            return Ok(());
        }
        self.delete_queues(pair.qid(), limit)?;
        self.core.book.retire(pair.qid());
        Ok(())
    }

    /// Deletes what the controller may have of a pair. The book knows after each step what is left.
    fn delete_queues(&self, qid: Qid, limit: Option<Duration>) -> Result<(), DriverError> {
        let book = &self.core.book;
        let deadline = limit.map(|limit| (Deadline::after(self.core.regs.clock(), limit), limit));
        let left = book.left(qid);
        if left == Left::Nothing {
            return Ok(());
        }
        if off(Mutation::CompletionQueueFirst) {
            self.delete_half(qid, COMPLETION, false, deadline).inspect_err(|_| book.lose(qid))?;
            return self.delete_half(qid, SUBMISSION, false, deadline).inspect_err(|_| book.lose(qid));
        }
        if left != Left::Completion {
            let unsure = left == Left::Unsure;
            self.delete_half(qid, SUBMISSION, unsure, deadline).inspect_err(|_| book.lose(qid))?;
            book.halve(qid);
        }
        self.delete_half(qid, COMPLETION, left != Left::Both, deadline)
    }

    /// Deletes one queue. `unsure`: it may be gone already, by a command that was not answered in time.
    fn delete_half(
        &self,
        qid: Qid,
        (half, delete): Half,
        unsure: bool,
        deadline: Option<(Deadline, Duration)>,
    ) -> Result<(), DriverError> {
        let limit = self.core.options.admin_timeout;
        let time = match deadline {
            None => Ok(limit),
            Some((deadline, whole)) => self.core.time_left(deadline, whole, "deleting a queue pair"),
        };
        let deleted =
            time.and_then(|time| self.core.execute_within(delete(qid.0), Data::None, time.min(limit)));
        match deleted {
            Ok(_) => Ok(()),
            Err(error) if unsure && self.is_gone(qid, &error) => Ok(()),
            Err(error) => {
                let (device, cause) = (self.core.name(), Box::new(error));
                Err(DriverError::DeleteQueue { device, half, qid, cause })
            }
        }
    }

    /// Whether the controller says that there is no such queue, and none can come into being any more.
    fn is_gone(&self, qid: Qid, error: &DriverError) -> bool {
        let unknown = |status: Status| status.same_code(Status::INVALID_QUEUE_IDENTIFIER);
        error.status().is_some_and(unknown) && !self.core.admin.lock().may_be_created(qid)
    }

    /// Tries once more to delete the queues of pairs that were dropped, those included whose deletion failed; takes no
    /// longer than `limit`. Returns how many could not be deleted: their memory stays mapped.
    pub fn reclaim_queues(&self, limit: Duration) -> usize {
        let deadline = Deadline::after(self.core.regs.clock(), limit);
        let orphans = self.core.book.all_orphans();
        let time = || deadline.left(self.core.regs.clock());
        orphans.into_iter().filter(|qid| !self.bury(*qid, Some(time()))).count()
    }

    /// Deletes the queues of pairs that were dropped without being deleted.
    pub(crate) fn reclaim(&self) {
        for qid in self.core.book.orphans() {
            self.bury(qid, None);
        }
    }

    fn bury(&self, qid: Qid, limit: Option<Duration>) -> bool {
        match self.delete_queues(qid, limit) {
            Ok(()) => self.core.book.bury(qid),
            Err(error) => tracing::warn!(%error, "cannot delete a dropped queue pair"),
        }
        self.core.book.left(qid) == Left::Nothing
    }

    /// Deletes every queue before a shutdown: first all submission queues, then all completion queues.
    pub(crate) fn delete_all_queues(&self, deadline: Deadline) {
        let book = &self.core.book;
        let mut live = book.live();
        for (half, delete) in [SUBMISSION, COMPLETION] {
            live.retain(|qid| {
                let limit = deadline.left(self.core.regs.clock()).min(self.core.options.admin_timeout);
                let deleted = self.core.execute_within(delete(qid.0), Data::None, limit);
                match &deleted {
                    Ok(_) if half == SUBMISSION.0 => book.halve(*qid),
                    Ok(_) => book.retire(*qid),
                    Err(error) => {
                        tracing::warn!(%error, %qid, half, "queue not deleted before shutdown");
                        if half == SUBMISSION.0 {
                            book.lose(*qid);
                        }
                    }
                }
                deleted.is_ok()
            });
        }
    }
}
