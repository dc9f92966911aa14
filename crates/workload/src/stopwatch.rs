//! The time that a run measures: real, or the virtual time of a stepped controller.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use warpbell::Ssd;
use warpbell_hw::Device;
use warpbell_softctl::SoftDevice;

/// How much virtual time passes at a poll when only the clients' own deadlines are left to come.
const IDLE: Duration = Duration::from_micros(100);

/// Which clock a run was measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockKind {
    /// The system's.
    Monotonic,
    /// That of a stepped controller: what the profile says, and nothing of this machine.
    Virtual,
}

impl ClockKind {
    /// The clock of runs on `ssd`.
    pub fn of(ssd: &Ssd) -> ClockKind {
        if stepped(ssd).is_some() { ClockKind::Virtual } else { ClockKind::Monotonic }
    }
}

/// Time since its start.
#[derive(Clone, Copy)]
pub(crate) enum Stopwatch<'a> {
    Real(Instant),
    Virtual { soft: &'a SoftDevice, start: Duration },
}

impl<'a> Stopwatch<'a> {
    /// One that starts now.
    pub(crate) fn start(ssd: &'a Ssd) -> Stopwatch<'a> {
        match stepped(ssd) {
            Some(soft) => Stopwatch::Virtual { soft, start: soft.clock().now() },
            None => Stopwatch::Real(Instant::now()),
        }
    }

    #[inline]
    pub(crate) fn elapsed(&self) -> Duration {
        match self {
            Stopwatch::Real(start) => start.elapsed(),
            Stopwatch::Virtual { soft, start } => soft.clock().now().saturating_sub(*start),
        }
    }

    /// The time on the controller's own clock, where that is virtual.
    #[inline]
    pub(crate) fn virtual_now(&self) -> Option<Duration> {
        match self {
            Stopwatch::Virtual { soft, .. } => Some(soft.clock().now()),
            Stopwatch::Real(_) => None,
        }
    }

    /// All clients wait: in virtual time the controller acts, or time passes until it can.
    #[inline]
    pub(crate) fn wait(&self) {
        if let Stopwatch::Virtual { soft, .. } = self {
            wait(soft);
        }
    }
}

/// The soft controller behind it, if that works only when stepped, in virtual time.
pub(crate) fn stepped(ssd: &Ssd) -> Option<&Arc<SoftDevice>> {
    ssd.soft().filter(|soft| soft.is_stepped())
}

/// Lets a stepped controller act, or time pass until it can.
pub(crate) fn wait(soft: &SoftDevice) {
    if !soft.wait() {
        soft.advance(IDLE);
    }
}

/// The stepped controllers of these SSDs, whose clocks go together from now on.
pub(crate) struct OneClock<'a>(Vec<&'a SoftDevice>);

impl<'a> OneClock<'a> {
    /// Of all of `ssds`, once all clocks show what the latest shows; `None` where each is in real time.
    pub(crate) fn of(ssds: &'a [Ssd]) -> Option<OneClock<'a>> {
        let softs: Vec<&SoftDevice> = ssds.iter().filter_map(stepped).map(Arc::as_ref).collect();
        let latest = softs.iter().map(|soft| soft.clock().now()).max()?;
        softs.iter().for_each(|soft| soft.wait_until(latest));
        Some(OneClock(softs))
    }

    /// Lets each controller do all that it can now; where none can do anything, time passes on all clocks until one can.
    pub(crate) fn wait(&self) {
        let all_of = |soft: &SoftDevice| std::iter::from_fn(|| soft.step().then_some(())).count();
        if self.0.iter().map(|soft| all_of(soft)).sum::<usize>() > 0 {
            return;
        }
        let now = self.0.iter().map(|soft| soft.clock().now()).max().unwrap_or_default();
        let event = self.0.iter().filter_map(|soft| soft.next_event()).min();
        let then = event.unwrap_or(now + IDLE);
        self.0.iter().for_each(|soft| soft.wait_until(then));
    }
}
