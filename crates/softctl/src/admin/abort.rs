//! Abort (Base 2.0, 5.1).

use warpbell_nvme::command::{AbortCdw10, AbortResult};
use warpbell_nvme::{AdminOpcode, Cqe, Status};

use crate::checker::Rule;
use crate::control::{AdminQueue, Control};
use crate::core::Core;
use crate::engine::{Command, Refused, never};

/// ACL: outstanding Aborts, zero-based.
pub(crate) const LIMIT_Z: u8 = 3;

impl Core {
    /// Aborts a command that is held back or hangs, or a waiting Asynchronous Event Request. Whatever else is outstanding was
    /// not fetched yet or is about to complete, and does. Returns dword 0.
    pub(super) fn abort(
        &self,
        control: &mut Control,
        admin: &mut AdminQueue,
        command: Command<'_>,
    ) -> Result<u32, Refused> {
        check_limit(control, admin, command)?;
        let target = AbortCdw10::from_bits(command.sqe.cdw10);
        // Elsewhere dword 11 is reserved, and ignored.
        let upper = if control.wide_cids { command.sqe.cdw11 as u16 } else { 0 };
        let aborted = if target.sqid() == 0 {
            Self::abort_admin(control, admin, target.cid())
        } else {
            let poll_group = control.sqs.get(&target.sqid()).map(|entry| entry.poll_group);
            poll_group.is_some_and(|poll_group| {
                self.poll_groups[poll_group].lock().abort(target.sqid(), (target.cid(), upper))
            })
        };
        Ok(AbortResult::new().with_not_aborted(!aborted).into_bits())
    }

    /// An event request, or a command that hangs, completes before the Abort does. Both need room; without it the
    /// command stays.
    fn abort_admin(control: &mut Control, admin: &mut AdminQueue, cid: u16) -> bool {
        if admin.cq.room() < 2 || !control.unhang(cid) && !control.events.withdraw(cid) {
            return false;
        }
        admin.sq.end(cid);
        admin.cq.post(&Cqe::new(0, admin.sq.head as u16, cid, Status::ABORT_REQUESTED, false));
        true
    }
}

/// Aborts are answered one after another, so those that are outstanding with this one wait behind it.
fn check_limit(control: &Control, admin: &AdminQueue, command: Command<'_>) -> Result<(), Refused> {
    let is_abort = |ahead: &u32| admin.sq.peek(*ahead)[0] as u8 == AdminOpcode::ABORT.0;
    let outstanding = 1 + (0..admin.sq.pending()).filter(is_abort).count();
    let limit = usize::from(LIMIT_Z) + 1;
    if outstanding > limit {
        let what = format_args!("{outstanding} Aborts are outstanding, the limit is {limit}");
        control.engine.violation(Rule::CommandLimit, command, what);
        return Err(never(Status::ABORT_LIMIT_EXCEEDED));
    }
    Ok(())
}
