//! Barriers in shared memory that count arrivals and bytes (PTX ISA 9.0, section 9.7.13.15). What a barrier's 8 bytes hold
//! is the machine's own.

use super::block::Common;
use super::copies::UnderWay;
use super::lane::Lane;
use super::races::Who;
use super::space::{Place, address};
use crate::error::{Check, Finding};
use crate::program::{Access, Address, Mbarrier, Order, Reg, Scope};
use crate::text::Space;

const COUNT: u64 = (1 << 20) - 1;
const EXPECTED_AT: u32 = 20;
const BYTES_AT: u32 = 40;
/// Bytes are counted from here, so that more may come than were announced, for a while.
const NO_BYTES: u64 = 1 << 20;
const PHASE: u64 = 1 << 61;
const VALID: u64 = 1 << 62;

/// A barrier's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    pending: u64,
    expected: u64,
    /// Announced and not there yet, from `NO_BYTES`.
    bytes: u64,
    phase: bool,
}

impl Word {
    fn of(bits: u64) -> Option<Word> {
        let part = |at: u32| (bits >> at) & COUNT;
        let bytes = (bits >> BYTES_AT) & (COUNT << 1 | 1);
        let word = Word { pending: part(0), expected: part(EXPECTED_AT), bytes, phase: bits & PHASE != 0 };
        (bits & VALID != 0).then_some(word)
    }

    fn bits(self) -> u64 {
        let phase = if self.phase { PHASE } else { 0 };
        VALID | phase | self.bytes << BYTES_AT | self.expected << EXPECTED_AT | self.pending
    }

    /// The next phase begins where all arrived and all bytes are there.
    fn settled(mut self) -> Word {
        if self.pending == 0 && self.bytes == NO_BYTES {
            (self.pending, self.phase) = (self.expected, !self.phase);
        }
        self
    }
}

const ACCESS: Access = Access {
    space: Space::Generic,
    order: Order::Relaxed,
    scope: Scope::Cta,
    bytes: 8,
    elements: 1,
    read_only: false,
};

impl Common<'_> {
    pub(super) fn mbarrier(
        &mut self,
        lane: &mut Lane,
        what: Mbarrier,
        to: Option<Reg>,
        at: Address,
        (b, c): (Reg, Reg),
    ) -> Result<(), Box<Finding>> {
        let at = address(lane, at);
        let (b, c) = (lane.get(b), lane.get(c));
        if what == Mbarrier::Init {
            let place = self.barrier_place(lane, at)?;
            return self.begins(lane, place, b);
        }
        let (place, word) = self.made_barrier(lane, at)?;
        let old = word.bits();
        let mut result = old;
        match what {
            Mbarrier::Init => {}
            Mbarrier::Invalidate => self.store(lane, &ACCESS, place, 0),
            Mbarrier::Arrive => {
                self.counted(lane, "arrivals", b, 1)?;
                self.arrived(lane, place, word, (b, c))?;
            }
            Mbarrier::ExpectBytes => self.arrived(lane, place, word, (0, c))?,
            Mbarrier::Test { parity } => {
                let phase = if parity { b & 1 != 0 } else { b & PHASE != 0 };
                result = u64::from(word.phase != phase);
                if result == 1 {
                    self.watch_acquire(lane, &Access { order: Order::Acquire, ..ACCESS }, place, old);
                }
            }
        }
        if let Some(to) = to {
            lane.set(to, result);
        }
        Ok(())
    }

    /// A barrier that was made ready.
    fn made_barrier(&mut self, lane: &mut Lane, at: u64) -> Result<(Place, Word), Box<Finding>> {
        let place = self.barrier_place(lane, at)?;
        let Some(word) = Word::of(self.load(lane, &ACCESS, place)) else {
            let what = format!("the mbarrier at {at:#x} was not initialized");
            return Err(self.found(lane, Check::Barrier, what));
        };
        Ok((place, word))
    }

    /// One arrives, behind a copy and those before it.
    pub(super) fn one_arrives(
        &mut self,
        lane: &mut Lane,
        at: u64,
        last: Option<Who>,
    ) -> Result<(), Box<Finding>> {
        let (place, word) = self.made_barrier(lane, at)?;
        self.watch_complete(place, last);
        self.arrived(lane, place, word, (1, 0))
    }

    /// The phase awaits one more.
    pub(super) fn awaits_one_more(&mut self, lane: &mut Lane, at: u64) -> Result<(), Box<Finding>> {
        let (place, word) = self.made_barrier(lane, at)?;
        self.counted(lane, "arrivals", word.pending + 1, 1)?;
        self.store(lane, &ACCESS, place, Word { pending: word.pending + 1, ..word }.bits());
        Ok(())
    }

    /// A barrier that so many must arrive at.
    fn begins(&mut self, lane: &mut Lane, place: Place, count: u64) -> Result<(), Box<Finding>> {
        self.counted(lane, "arrivals", count, 1)?;
        let word = Word { pending: count, expected: count, bytes: NO_BYTES, phase: false };
        self.store(lane, &ACCESS, place, word.bits());
        self.copies.wrote(place);
        Ok(())
    }

    /// So many arrive, and announce bytes.
    fn arrived(
        &mut self,
        lane: &mut Lane,
        place: Place,
        mut word: Word,
        (arrivals, bytes): (u64, u64),
    ) -> Result<(), Box<Finding>> {
        if word.pending < arrivals {
            let what = format!("mbarrier: {arrivals} arrive where {} are awaited", word.pending);
            return Err(self.found(lane, Check::Barrier, what));
        }
        self.counted(lane, "bytes", bytes, 0)?;
        self.counted(lane, "bytes to come", (word.bytes + bytes).saturating_sub(NO_BYTES), 0)?;
        word.bytes += bytes;
        word.pending -= arrivals;
        // An arrival is a release of the block (section 9.7.13.15.13).
        let access = Access { order: Order::Release, ..ACCESS };
        self.watch_release(lane, &access, place);
        self.store(lane, &access, place, word.settled().bits());
        Ok(())
    }

    /// Counts of a barrier end at 2^20 - 1 (section 9.7.13.15.2).
    fn counted(&self, lane: &Lane, of: &str, count: u64, least: u64) -> Result<(), Box<Finding>> {
        if (least..=COUNT).contains(&count) {
            return Ok(());
        }
        let what = format!("mbarrier: {count} {of}: {least} to {COUNT}");
        Err(self.found(lane, Check::Barrier, what))
    }

    /// The bytes of an asynchronous copy are there.
    pub(super) fn completes(
        &mut self,
        lane: &mut Lane,
        barrier: u64,
        copy: &UnderWay,
    ) -> Result<(), Box<Finding>> {
        let (place, bytes) = (self.barrier_place(lane, barrier)?, copy.size);
        let old = self.load(lane, &ACCESS, place);
        let Some(mut word) = Word::of(old).filter(|word| word.bytes >= bytes) else {
            let what = format!("a copy of {bytes} bytes counts on an mbarrier that cannot: {old:#x}");
            return Err(self.found(lane, Check::Barrier, what));
        };
        word.bytes -= bytes;
        self.watch_complete(place, copy.who);
        self.store(lane, &ACCESS, place, word.settled().bits());
        Ok(())
    }

    fn barrier_place(&mut self, lane: &Lane, address: u64) -> Result<Place, Box<Finding>> {
        // Barriers are named by shared addresses as well as by generic ones.
        let space = if address >> 60 == 0 { Space::Shared } else { Space::Generic };
        self.place(lane, &Access { space, ..ACCESS }, address, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_ends_when_all_arrived_and_all_bytes_are_there() {
        let begun = Word { pending: 0, expected: 3, bytes: NO_BYTES + 16, phase: false };
        assert_eq!(begun.settled(), begun, "bytes are missing");
        let there = Word { bytes: NO_BYTES, ..begun };
        assert_eq!(there.settled(), Word { pending: 3, phase: true, ..there });
        let one_missing = Word { pending: 1, ..there };
        assert_eq!(one_missing.settled(), one_missing);
    }

    #[test]
    fn a_word_keeps_all_that_a_barrier_is() {
        let word = Word { pending: 7, expected: COUNT, bytes: NO_BYTES - 5, phase: true };
        assert_eq!(Word::of(word.bits()), Some(word));
        assert_eq!(Word::of(0), None);
    }
}
