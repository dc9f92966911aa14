//! Keep Alive: a controller that hears nothing from its host for too long stops.

use std::time::Duration;

use warpbell_nvme::command;
use warpbell_nvme::feature::FeatureId;

use crate::DriverError;
use crate::controller::Controller;
use crate::data::Data;

/// The keep alive timer of an enabled controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeat {
    timeout: Duration,
    /// When the controller last heard of us, in the device's time.
    last: Duration,
}

impl Heartbeat {
    /// Half of the timeout is left for the command to arrive.
    fn is_due(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) >= self.timeout / 2
    }
}

impl Controller {
    /// Has the controller stop in fatal error when it hears nothing from its host for `timeout`, in milliseconds up
    /// to 2^32 - 1; `None` turns that off. A reset sets it again. Returns the timeout that the controller keeps, which may
    /// be longer. From then on [`poll_events`](Controller::poll_events) sends Keep Alive commands when they are due:
    /// call it several times in each timeout.
    pub fn set_keep_alive(&self, timeout: Option<Duration>) -> Result<Option<Duration>, DriverError> {
        let asked = timeout.map_or(0, |timeout| timeout.as_millis().clamp(1, u32::MAX.into()) as u32);
        self.set_feature(FeatureId::KEEP_ALIVE_TIMER, asked, None)?;
        let kept = self.current(FeatureId::KEEP_ALIVE_TIMER)?;
        let kept = (kept > 0).then(|| Duration::from_millis(kept.into()));
        self.start_heartbeat(kept);
        Ok(kept)
    }

    /// From now on the controller counts.
    pub(crate) fn start_heartbeat(&self, timeout: Option<Duration>) {
        let last = self.core.regs.clock().now();
        *self.heartbeat.lock() = timeout.map(|timeout| Heartbeat { timeout, last });
    }

    /// Tells the controller that its host is alive.
    pub fn keep_alive(&self) -> Result<(), DriverError> {
        self.keep_alive_within(self.core.options.admin_timeout)
    }

    fn keep_alive_within(&self, limit: Duration) -> Result<(), DriverError> {
        let now = self.core.regs.clock().now();
        self.core.execute_within(command::keep_alive(), Data::None, limit)?;
        if let Some(heartbeat) = &mut *self.heartbeat.lock() {
            heartbeat.last = now;
        }
        Ok(())
    }

    /// Sends a Keep Alive command if one is due.
    pub(crate) fn keep_alive_if_due(&self, limit: Duration) -> Result<(), DriverError> {
        let now = self.core.regs.clock().now();
        let due = self.heartbeat.lock().is_some_and(|heartbeat| heartbeat.is_due(now));
        if due { self.keep_alive_within(limit) } else { Ok(()) }
    }
}
