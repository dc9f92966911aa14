//! Waiting for completions without spinning: asleep until the queue's vector fires, or by polling.

use std::time::Duration;

use crate::interrupts::{LONGEST_SLEEP, Vector};
use crate::{Completion, IoQueue};

use super::POLLS_PER_CHECK;
use super::deadlines::STEPS;

/// How long after its completion an interrupt may come and not be missed: interrupts that are gathered come 25.5 ms after the
/// first completion at the latest.
const LATEST_INTERRUPT: Duration = Duration::from_millis(30);

impl IoQueue {
    /// The next completion or timeout; waits for it for up to `limit`. `None` then, or at once if nothing is
    /// outstanding that could still come. Rings first: what was pushed must not wait for itself.
    ///
    /// A queue pair with an interrupt vector lets the thread sleep until that fires; others are polled. Interrupts can
    /// get lost: after a tenth of a second at most it polls all the same. For what it finds it waits for the interrupt,
    /// up to 30 ms, and then counts it ([`IoCounters::missed_interrupts`](crate::IoCounters)).
    pub fn wait(&mut self, limit: Duration) -> Option<Completion> {
        self.ring();
        let end = self.now().saturating_add(limit);
        loop {
            // Before the poll, so that no interrupt after it is missed.
            let seen = self.seen();
            if let Some(completion) = self.pop() {
                return Some(completion);
            }
            let left = end.saturating_sub(self.now());
            if left.is_zero() || self.outstanding() == self.slots.quarantined() {
                return None;
            }
            self.rest(seen, left);
        }
    }

    /// The queue's vector's count of interrupts, for [`rest`](Self::rest).
    pub(super) fn seen(&self) -> u64 {
        self.pair.vector.as_ref().map_or(0, |vector| vector.seen())
    }

    /// Sleeps until the vector has fired more often than `seen`, for up to `limit`; lets time pass where there is none.
    pub(super) fn rest(&mut self, seen: u64, limit: Duration) {
        let limit = self.next_retry().map_or(limit, |due| limit.min(due.saturating_sub(self.now())));
        let Some(vector) = self.pair.vector.clone() else {
            return self.pause(Duration::ZERO);
        };
        // A controller need not interrupt again before what was taken is reported to it.
        if self.head != self.reported {
            self.tell();
        }
        self.counters.sleeps += 1;
        let step = (self.deadlines.limit() / STEPS).max(Duration::from_millis(1));
        let fired = self.sleep(&vector, seen, limit.min(step).min(LONGEST_SLEEP));
        self.empty_polls = POLLS_PER_CHECK;
        // The controller posts a completion before it interrupts: a sleep may end in between.
        let early = !fired && self.cq.poll(self.head).is_some();
        if early && !self.sleep(&vector, seen, LATEST_INTERRUPT) {
            self.counters.missed_interrupts += 1;
            tracing::warn!(device = %self.pair.name, qid = %self.pair.qid, vector = vector.number,
                "a completion came without an interrupt");
        }
    }

    /// Sleeps until the vector has fired more often than `seen`, for up to `limit`. Where time passes only while somebody
    /// pauses, the sleeper lets it pass, and takes nothing before the vector fires either.
    fn sleep(&self, vector: &Vector, seen: u64, limit: Duration) -> bool {
        let clock = self.pair.device().clock();
        if clock.passes_by_itself() {
            return vector.sleep(seen, limit);
        }
        let end = clock.now().saturating_add(limit);
        loop {
            match vector.sleep(seen, Duration::ZERO) {
                true => return true,
                false if clock.now() >= end => return false,
                false => clock.pause(Duration::ZERO),
            }
        }
    }

    fn now(&self) -> Duration {
        self.pair.device().clock().now()
    }
}
