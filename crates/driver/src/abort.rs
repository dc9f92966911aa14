//! Abort: asking that a command end before its time.

use std::time::Duration;

use warpbell_hw::{Cid, Qid};
use warpbell_nvme::command::{self, AbortResult};

use crate::DriverError;
use crate::controller::Controller;
use crate::data::Data;

/// What a controller answered to an Abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AbortOutcome {
    /// The command was aborted: its own completion is there or is about to come.
    Aborted,
    /// It was not: it completed before, is about to, or is out of the controller's reach.
    NotAborted,
}

impl Controller {
    /// Asks that a command be aborted, best effort: true if the controller says that it was. Its identifier
    /// and buffer stay in use until its own completion in any case.
    pub fn abort(&self, qid: Qid, cid: Cid) -> Result<bool, DriverError> {
        let outcome = self.abort_within(qid, cid, self.core.options.admin_timeout)?;
        Ok(outcome == AbortOutcome::Aborted)
    }

    /// Like [`abort`](Self::abort), answered within `limit`.
    ///
    /// Of all threads together, at most [`abort_limit`](Self::abort_limit) Aborts are outstanding, those included that
    /// were not answered in time; a thread waits for one of them to be answered, as long as `limit` lasts.
    ///
    /// It is sent once, whatever its status says: whoever sends it again looks first whether the identifier still is
    /// that command's.
    #[tracing::instrument(level = "info", name = "abort", skip_all, fields(device = %self.name(), qid = qid.0, cid = cid.0, ?limit))]
    pub fn abort_within(&self, qid: Qid, cid: Cid, limit: Duration) -> Result<AbortOutcome, DriverError> {
        let cqe = self.core.execute_within(command::abort(qid.0, cid.0), Data::None, limit)?;
        Ok(match AbortResult::from_bits(cqe.dw0).not_aborted() {
            true => AbortOutcome::NotAborted,
            false => AbortOutcome::Aborted,
        })
    }

    /// Whether the controller takes an Abort now: fewer than it takes at a time are outstanding.
    pub fn takes_abort(&self) -> bool {
        let mut admin = self.core.admin.lock();
        admin.reap();
        admin.takes_abort()
    }

    /// Abort commands that may be outstanding at a time (ACL + 1).
    pub fn abort_limit(&self) -> u32 {
        self.identify.abort_limit()
    }
}
