//! What happens to the whole controller at once, and not to one command.

use std::sync::atomic::Ordering;

use super::FaultAction;
use crate::control::Control;
use crate::core::Core;
use crate::poll_group::PollGroupState;
use crate::subsystem::PendingReset;

/// Something that ends the controller's work until a reset, or for good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Incident {
    /// CSTS.CFS.
    Fatal,
    /// The controller resets itself.
    Reset,
    /// The function is gone.
    Remove,
    /// Power fails and comes back; each block that was not flushed survives with this probability.
    PowerLoss(f64),
}

impl Incident {
    /// The incident that an action is, if it is one.
    pub(crate) fn of(action: FaultAction) -> Option<Incident> {
        match action {
            FaultAction::Fatal => Some(Incident::Fatal),
            FaultAction::Reset => Some(Incident::Reset),
            FaultAction::Remove => Some(Incident::Remove),
            FaultAction::PowerLoss { keep } => Some(Incident::PowerLoss(keep)),
            _ => None,
        }
    }
}

impl Core {
    /// Lets an incident happen.
    pub(crate) fn suffer(&self, control: &mut Control, incident: Incident) {
        if self.removed() {
            return;
        }
        match incident {
            Incident::Fatal => {
                control.csts.set_cfs(true);
                self.poll_groups.iter().for_each(|cell| cell.lock().state = PollGroupState::Halted);
            }
            Incident::Reset => self.reset_by_itself(control),
            Incident::Remove => {
                self.removed.store(true, Ordering::Release);
                self.forget_everything(control);
            }
            Incident::PowerLoss(keep) => {
                self.subsystem.lose_power(keep, &mut control.random);
                self.subsystem.note_power_loss(self.cntlid, control.in_use());
                self.subsystem.ask_others(PendingReset::Reset, self.cntlid);
                self.reset_by_itself(control);
            }
        }
    }

    /// As after an NVM subsystem reset. The client learns it from CSTS, and may go on ringing until it looks.
    fn reset_by_itself(&self, control: &mut Control) {
        self.reset_function(control);
        control.csts.set_nssro(true);
        control.surprised = true;
    }

    /// Whether the function was removed.
    #[inline]
    pub(crate) fn removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }
}
