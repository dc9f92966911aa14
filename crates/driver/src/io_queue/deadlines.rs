//! Deadlines of outstanding commands, without a read of the clock per command.

use std::collections::VecDeque;
use std::time::Duration;

use crate::cid_slots::CidSlots;
use crate::mutation::{Mutation, off};

/// A deadline is kept to within one part in this many.
pub(super) const STEPS: u32 = 8;

/// Time in ticks. A command carries the tick that it was pushed in; a tick ends at some known time, before
/// which all its commands were pushed.
pub(super) struct Deadlines {
    limit: Duration,
    /// By slot: the tick in which its command was pushed.
    ticks: Box<[u32]>,
    tick: u32,
    last_end: Duration,
    /// Ticks that ended, and when.
    ended: VecDeque<(u32, Duration)>,
    /// Commands that timed out and were not reported yet: identifier and tick.
    expired: VecDeque<(u16, u32)>,
}

impl Deadlines {
    pub(super) fn new(depth: u32, limit: Duration, now: Duration) -> Deadlines {
        Deadlines {
            limit,
            ticks: vec![0; depth as usize].into(),
            tick: 0,
            last_end: now,
            ended: VecDeque::with_capacity(STEPS as usize + 2),
            expired: VecDeque::new(),
        }
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// The command in `slot` is pushed now.
    #[inline]
    pub(super) fn start(&mut self, slot: u16) {
        self.ticks[usize::from(slot)] = self.tick;
    }

    /// Notes the live commands whose deadline has passed.
    pub(super) fn check(&mut self, now: Duration, slots: &CidSlots) {
        if now.saturating_sub(self.last_end) < self.limit / STEPS || off(Mutation::DeadlineIgnored) {
            return;
        }
        self.last_end = now;
        self.ended.push_back((self.tick, now));
        self.tick = self.tick.wrapping_add(1);
        let mut passed = None;
        while let Some(&(tick, end)) = self.ended.front()
            && now.saturating_sub(end) >= self.limit
        {
            passed = Some(tick);
            self.ended.pop_front();
        }
        if let Some(passed) = passed {
            self.note(passed, slots);
        }
    }

    fn note(&mut self, passed: u32, slots: &CidSlots) {
        self.expired.clear();
        // Ticks first: behind the 65535th slot there is no number for another.
        for (tick, slot) in self.ticks.iter().zip(0..) {
            if let Some(cid) = slots.live(slot)
                && passed.wrapping_sub(*tick) as i32 >= 0
            {
                self.expired.push_back((cid, *tick));
            }
        }
    }

    #[inline]
    pub(super) fn any_expired(&self) -> bool {
        !self.expired.is_empty()
    }

    /// The next identifier whose command timed out. Its slot may have been used again since it was noted, and with
    /// few generations under the same identifier: then its tick is another.
    pub(super) fn next_expired(&mut self, slots: &CidSlots) -> Option<u16> {
        while let Some((cid, tick)) = self.expired.pop_front() {
            if self.ticks[usize::from(slots.slot_of(cid))] == tick {
                return Some(cid);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_was_used_again_under_its_old_identifier_has_not_expired() {
        // So many slots leave one generation: an identifier comes back at once.
        let mut slots = CidSlots::new(65535);
        let second = Duration::from_secs(1);
        let mut deadlines = Deadlines::new(65535, second, Duration::ZERO);
        let (old, slow) = (slots.take().unwrap(), slots.take().unwrap());
        deadlines.start(slots.slot_of(old));
        deadlines.start(slots.slot_of(slow));
        deadlines.check(second, &slots);
        deadlines.check(second * 3, &slots);
        assert!(deadlines.any_expired());

        slots.complete(old);
        assert_eq!(slots.take(), Some(old));
        deadlines.start(slots.slot_of(old));
        assert_eq!(deadlines.next_expired(&slots), Some(slow));
        assert_eq!(deadlines.next_expired(&slots), None);
    }
}
