//! The states of a controller, as its driver sees them.

use std::fmt;

/// Where a controller is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerState {
    /// Being enabled or reset.
    Starting,
    /// Enabled: takes commands.
    Ready,
    /// Enabled, but it reported a fatal status: only a reset helps.
    Fatal,
    /// Not ready any more, though nobody here disabled it: its queues are lost, and only a reset helps.
    Fallen,
    /// Neither enabled nor surely disabled: a transition did not end in time.
    Stuck,
    /// Disabled: it touches no memory.
    Disabled,
    /// The function does not answer any more.
    Gone,
}

impl fmt::Display for ControllerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ControllerState::Starting => "starting",
            ControllerState::Ready => "ready",
            ControllerState::Fatal => "in fatal error",
            ControllerState::Fallen => "not ready any more",
            ControllerState::Stuck => "stuck",
            ControllerState::Disabled => "disabled",
            ControllerState::Gone => "gone",
        })
    }
}
