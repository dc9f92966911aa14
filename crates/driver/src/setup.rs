//! Setting a controller up: meanwhile it takes commands of the thread that does so, and of nobody else.

use std::thread::ThreadId;
use std::time::Duration;

use crate::core::{Core, state_after};
use crate::registers::Deadline;
use crate::{ControllerState, DriverError};

/// An opening or a reset.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    /// Who does it: nobody else's commands are executed meanwhile.
    thread: ThreadId,
    /// When it has taken too long.
    until: Deadline,
}

impl Core {
    /// Does something while the controller takes commands of this thread alone, and nothing takes longer than is left
    /// of `limit`. Afterwards the controller is ready, or if it failed, `otherwise`.
    pub(crate) fn set_up<T>(
        &self,
        limit: Duration,
        otherwise: ControllerState,
        work: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        let until = Deadline::after(self.regs.clock(), limit);
        *self.setup.lock() = Some(Setup { thread: std::thread::current().id(), until });
        let done = work();
        let _admin = self.admin.lock();
        *self.setup.lock() = None;
        if self.book.state() == ControllerState::Starting {
            self.book.set_state(match &done {
                Ok(_) => ControllerState::Ready,
                Err(error) => match state_after(error) {
                    ControllerState::Stuck => otherwise,
                    known => known,
                },
            });
        }
        done
    }

    /// The deadline of the opening or reset, if this thread does it.
    pub(crate) fn own_setup(&self) -> Option<Deadline> {
        let setup = (*self.setup.lock())?;
        (setup.thread == std::thread::current().id()).then_some(setup.until)
    }

    pub(crate) fn within_setup(&self, limit: Duration) -> Duration {
        self.own_setup().map_or(limit, |until| limit.min(until.left(self.regs.clock())))
    }

    /// Whether this thread may have commands executed.
    pub(crate) fn takes_commands(&self) -> bool {
        match self.book.state() {
            ControllerState::Ready => true,
            ControllerState::Starting => self.own_setup().is_some(),
            _ => false,
        }
    }

    /// What is left until `deadline`; an error if that is nothing.
    pub(crate) fn time_left(
        &self,
        deadline: Deadline,
        limit: Duration,
        doing: &'static str,
    ) -> Result<Duration, DriverError> {
        let left = deadline.left(self.regs.clock());
        if left.is_zero() {
            return Err(DriverError::OutOfTime { device: self.name(), doing, limit });
        }
        Ok(left)
    }
}
