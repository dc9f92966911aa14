//! Shutting a controller down, and telling who wants to know.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_base::Time;
use warpbell_nvme::register::Shn;

use crate::controller::Controller;
use crate::registers::Deadline;
use crate::{ControllerState, DriverError};

/// How to shut a controller down (NVMe Base 2.0, 3.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shutdown {
    /// In good order: the queues are deleted, and everything written becomes durable.
    Normal,
    /// As fast as the controller can, because power is about to fail: the queues are left to it.
    Abrupt,
}

impl std::fmt::Display for Shutdown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Shutdown::Normal => "normal",
            Shutdown::Abrupt => "abrupt",
        })
    }
}

/// Something that this driver did to a controller and that concerns everybody who uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A shutdown was begun: nothing may be submitted any more.
    ShutdownBegun(Shutdown),
    /// The controller is shut down and disabled.
    ShutdownDone {
        /// How.
        kind: Shutdown,
        /// How long it took, in the device's time.
        took: Duration,
    },
    /// The shutdown did not end as it should.
    ShutdownFailed {
        /// How it was tried.
        kind: Shutdown,
        /// Why it failed.
        reason: String,
    },
    /// The power state was changed.
    PowerState {
        /// The state before.
        from: u8,
        /// The state now.
        to: u8,
    },
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Notice::ShutdownBegun(kind) => write!(f, "{kind} shutdown begun"),
            Notice::ShutdownDone { kind, took } => write!(f, "{kind} shutdown done after {}", Time(*took)),
            Notice::ShutdownFailed { kind, reason } => write!(f, "{kind} shutdown failed: {reason}"),
            Notice::PowerState { from, to } => write!(f, "power state changed from {from} to {to}"),
        }
    }
}

/// Notices kept until somebody takes them; the oldest go first.
const MOST_NOTICES: usize = 64;

/// Notices that nobody took yet.
#[derive(Debug, Default)]
pub(crate) struct Notices(Mutex<VecDeque<Notice>>);

impl Notices {
    pub(crate) fn add(&self, notice: Notice) {
        tracing::debug!(%notice, "notice");
        let mut notices = self.0.lock();
        if notices.len() == MOST_NOTICES {
            notices.pop_front();
        }
        notices.push_back(notice);
    }
}

impl Controller {
    /// What happened to the controller by its driver since the last call, oldest first. At most the last 64 are kept.
    /// Unlike [`poll_events`](Controller::poll_events) it never fails, also after a shutdown.
    pub fn take_notices(&self) -> Vec<Notice> {
        self.notices.0.lock().drain(..).collect()
    }

    /// Deletes all queues, shuts the controller down in good order and disables it.
    ///
    /// Queue pairs that still exist can only be dropped afterwards.
    pub fn shutdown(self) -> Result<(), DriverError> {
        self.shut_down(Shutdown::Normal, None).map(|_| ())
    }

    /// Shuts the controller down and disables it; everybody who uses it can learn of it by
    /// [`take_notices`](Controller::take_notices). It takes no longer than `limit`; without one, than each of its steps
    /// may: the controller says how long it needs (RTD3E). Returns how long it took.
    ///
    /// Queue pairs that still exist can only be dropped afterwards; a reset brings the controller back.
    pub fn shut_down(&self, kind: Shutdown, limit: Option<Duration>) -> Result<Duration, DriverError> {
        let longest = limit.unwrap_or(Duration::MAX);
        let Some(_alone) = self.resetting.try_lock_for(longest) else {
            let (device, doing) = (self.name(), "waiting for a reset to end");
            return Err(DriverError::OutOfTime { device, doing, limit: longest });
        };
        if self.state() != ControllerState::Ready {
            return Err(self.core.wrong_state("shut down"));
        }
        let begun = self.core.regs.clock().now();
        let deadline = Deadline::after(self.core.regs.clock(), longest);
        self.notices.add(Notice::ShutdownBegun(kind));
        let shn = match kind {
            Shutdown::Normal => Shn::NORMAL,
            Shutdown::Abrupt => Shn::ABRUPT,
        };
        if kind == Shutdown::Normal {
            self.delete_all_queues(deadline);
        }
        let left = deadline.left(self.core.regs.clock()).min(self.core.shutdown_limit());
        let done = self.core.shut_down_within(shn, left);
        let took = self.core.regs.clock().now().saturating_sub(begun);
        self.notices.add(match &done {
            Ok(()) => Notice::ShutdownDone { kind, took },
            Err(error) => Notice::ShutdownFailed { kind, reason: error.to_string() },
        });
        done.map(|()| took)
    }
}
