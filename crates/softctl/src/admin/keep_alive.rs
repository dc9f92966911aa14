//! Keep Alive (Base 2.0, 3.9 and 5.13): a client that stays silent for too long has died, and the controller stops.
//!
//! Command based: only the Keep Alive command counts, not other traffic.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use warpbell_nvme::Status;

use crate::checker::Rule;
use crate::control::Control;
use crate::core::Core;
use crate::fault::Incident;

/// KAS: the granularity of the timeout, in 100 ms.
pub(crate) const GRANULARITY: u16 = 1;
/// The same in milliseconds.
const GRANULARITY_MS: u32 = 100 * GRANULARITY as u32;
/// The timer is off.
const NEVER: u64 = u64::MAX;

/// The keep alive timer. What it says is changed under the control lock; pollers read when it runs out.
#[derive(Debug)]
pub(crate) struct KeepAlive {
    timeout_ms: AtomicU64,
    /// In nanoseconds.
    due: AtomicU64,
}

impl Default for KeepAlive {
    fn default() -> Self {
        KeepAlive { timeout_ms: AtomicU64::new(0), due: AtomicU64::new(NEVER) }
    }
}

impl KeepAlive {
    /// When the timer runs out, if it runs.
    #[inline]
    pub(crate) fn due(&self) -> Option<Duration> {
        let due = self.due.load(Ordering::Acquire);
        (due != NEVER).then(|| Duration::from_nanos(due))
    }

    /// Starts the timer anew; 0 turns it off.
    fn start(&self, timeout_ms: u32, now: Duration) {
        let timeout = Duration::from_millis(timeout_ms.into());
        let due = if timeout_ms == 0 { NEVER } else { (now + timeout).as_nanos() as u64 };
        self.timeout_ms.store(timeout_ms.into(), Ordering::Relaxed);
        self.due.store(due, Ordering::Release);
    }

    pub(crate) fn stop(&self) {
        self.start(0, Duration::ZERO);
    }
}

/// KATO as the controller keeps it: a multiple of the granularity.
pub(super) fn rounded(kato: u32) -> u32 {
    kato.checked_next_multiple_of(GRANULARITY_MS).unwrap_or(u32::MAX)
}

impl Core {
    /// The feature was set, to a rounded value.
    pub(super) fn set_keep_alive(&self, control: &Control, kato: u32) {
        self.keep_alive.start(kato, control.engine.time.now());
    }

    /// The client is alive.
    pub(super) fn keep_alive(&self, control: &Control) {
        let timeout = self.keep_alive.timeout_ms.load(Ordering::Relaxed) as u32;
        self.keep_alive.start(timeout, control.engine.time.now());
    }

    /// Stops the controller if the client was silent for too long.
    pub(crate) fn expire_keep_alive(&self, control: &mut Control, now: Duration) -> bool {
        if self.keep_alive.due().is_none_or(|due| now < due) {
            return false;
        }
        let timeout = self.keep_alive.timeout_ms.load(Ordering::Relaxed);
        self.keep_alive.stop();
        if !control.running() {
            return false;
        }
        self.errors.note_internal(Status::KEEP_ALIVE_EXPIRED);
        let detail = format!("no Keep Alive command for {timeout} ms, which is the timeout (KATO)");
        self.checker.report(Rule::KeepAliveExpired, detail);
        self.suffer(control, Incident::Fatal);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_multiples_of_the_granularity() {
        let pairs = [(0, 0), (1, 100), (100, 100), (101, 200), (u32::MAX, u32::MAX)];
        assert!(pairs.iter().all(|(asked, kept)| rounded(*asked) == *kept));
    }
}
