//! Abort (Base 2.0, 5.1).

use warpbell_nvme::command::{AbortCdw10, AbortResult};
use warpbell_nvme::{Cqe, Status};

use crate::control::{AdminQueue, Control};
use crate::core::Core;
use crate::engine::Command;

impl Core {
    /// Aborts a command that is held back, or a waiting Asynchronous Event Request. Whatever else is outstanding was
    /// not fetched yet or is about to complete, and does. Returns dword 0.
    pub(super) fn abort(&self, control: &mut Control, admin: &mut AdminQueue, command: Command<'_>) -> u32 {
        let target = AbortCdw10::from_bits(command.sqe.cdw10);
        // Elsewhere dword 11 is reserved, and ignored.
        let upper = if control.wide_cids { command.sqe.cdw11 as u16 } else { 0 };
        let aborted = if target.sqid() == 0 {
            Self::abort_event_request(control, admin, target.cid())
        } else {
            let lane = control.sqs.get(&target.sqid()).map(|entry| entry.lane);
            lane.is_some_and(|lane| self.lanes[lane].lock().abort(target.sqid(), (target.cid(), upper)))
        };
        AbortResult::new().with_not_aborted(!aborted).into_bits()
    }

    /// The request completes before the Abort does. Both need room; without it the request stays.
    fn abort_event_request(control: &mut Control, admin: &mut AdminQueue, cid: u16) -> bool {
        if admin.cq.room() < 2 || !control.events.withdraw(cid) {
            return false;
        }
        admin.sq.end(cid);
        admin.cq.post(&Cqe::new(0, admin.sq.head as u16, cid, Status::ABORT_REQUESTED, false));
        true
    }
}
