//! How far the entries of a completion ring in remote memory are.
//!
//! Copies promise no order among their bytes: an entry must not be seen before all of it is there. So each is copied
//! twice. The first copy, a *draft*, has the phase bit of the pass before, as what lies there has: nobody takes it for
//! a completion. When it has ended, the second one shows the entry as it is, and changes that one bit.

use std::sync::atomic::Ordering;

use warpbell_hw::{AccessError, CopyDirection, PoolPart, Window};
use warpbell_nvme::completion::PHASE_BIT;

use super::cq::SLOT;
use super::distance;
use super::remote::{CopiedRing, RingCopy, run};

/// The copies of a completion ring.
pub(super) struct Sent {
    ring: CopiedRing,
    /// Where drafts are written.
    draft: PoolPart,
    /// First entry that was not shown.
    shown: u32,
    /// First entry of which there is no draft in the ring.
    drafted: u32,
    /// Entries that were posted torn, and whether they are whole since.
    torn: Vec<(u32, bool)>,
    /// What is in flight.
    step: Step,
}

/// One copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Drafts of new entries.
    Draft,
    /// Entries whose drafts are there.
    Show,
    /// An entry that was torn.
    Mend,
}

impl Sent {
    pub(super) fn new(ring: CopiedRing, draft: PoolPart) -> Sent {
        Sent { ring, draft, shown: 0, drafted: 0, torn: Vec::new(), step: Step::Draft }
    }

    /// The entry in a slot is posted torn: the slot is held until it is whole in the ring.
    pub(super) fn tear(&mut self, slot: u32) {
        self.torn.push((slot, false));
    }

    /// It is whole by now.
    pub(super) fn mend(&mut self, slot: u32) {
        self.torn.iter_mut().filter(|(at, _)| *at == slot).for_each(|(_, whole)| *whole = true);
    }

    fn whole(&self) -> Option<u32> {
        self.torn.iter().find(|(_, whole)| *whole).map(|(slot, _)| *slot)
    }

    /// The ring's memory is gone.
    pub(super) fn lose(&mut self) {
        self.ring.lose();
    }

    /// How many of the entries before `tail`, the last ones, copies still read: each slot may be written again once it is
    /// none of them.
    pub(super) fn held(&self, tail: u32, entries: u32) -> u32 {
        if self.ring.has_failed() {
            return 0;
        }
        let firsts = self.torn.iter().map(|(slot, _)| *slot).chain([self.shown]);
        firsts.map(|first| distance(first, tail, entries)).max().unwrap_or(0)
    }

    /// Whether all entries before `tail` are in the ring, or never will be.
    pub(super) fn is_done(&self, tail: u32) -> bool {
        self.ring.has_failed() || self.ring.is_idle() && self.next_step(tail).is_none()
    }

    /// What can be begun.
    pub(super) fn next_step(&self, tail: u32) -> Option<Step> {
        if !self.ring.is_idle() {
            None
        } else if self.drafted != self.shown {
            Some(Step::Show)
        } else if self.shown != tail {
            Some(Step::Draft)
        } else {
            self.whole().map(|_| Step::Mend)
        }
    }

    /// Begins what is next, with all entries that are equally far and lie side by side. `mirror` has them.
    pub(super) fn begin(&mut self, mirror: &Window, tail: u32, entries: u32) -> Option<RingCopy> {
        self.step = self.next_step(tail)?;
        let (first, count) = match self.step {
            Step::Draft => (self.shown, run(self.shown, tail, entries)),
            Step::Show => (self.shown, run(self.shown, self.drafted, entries)),
            Step::Mend => (self.whole()?, 1),
        };
        let (offset, len) = (first as usize * SLOT, count as usize * SLOT);
        let mut host = mirror.slice(offset, len).ok()?;
        if self.step == Step::Draft {
            let draft = self.draft.window().slice(offset, len).ok()?;
            write_drafts(&host, &draft);
            host = draft;
        }
        let end = (first + count) % entries;
        Some(self.ring.begin(CopyDirection::ToRemote, offset, host, end))
    }

    /// It has ended; returns how many entries are shown since.
    pub(super) fn end(&mut self, id: u16, entries: u32, result: Result<(), AccessError>) -> u32 {
        let Some(end) = self.ring.end("completion", id, result) else { return 0 };
        match self.step {
            Step::Draft => self.drafted = end,
            Step::Show => {
                let first = std::mem::replace(&mut self.shown, end);
                return run(first, if end == 0 { entries } else { end }, entries);
            }
            Step::Mend => self.torn.retain(|(slot, _)| (slot + 1) % entries != end),
        }
        0
    }
}

/// Entries with the other phase bit.
fn write_drafts(whole: &Window, draft: &Window) {
    for slot in (0..whole.len()).step_by(SLOT) {
        let (low, high) =
            (whole.load_u64(slot, Ordering::Relaxed), whole.load_u64(slot + 8, Ordering::Relaxed));
        draft.store_u64(slot, low, Ordering::Relaxed);
        draft.store_u64(slot + 8, high ^ PHASE_BIT, Ordering::Relaxed);
    }
}
