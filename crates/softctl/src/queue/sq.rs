//! A submission queue: the client writes, the controller fetches.

use std::collections::HashSet;

use warpbell_hw::{AccessError, CopyDirection, Window};
use warpbell_nvme::Sqe;
use warpbell_nvme::command::QueuePriority;

use super::remote::{CopiedRing, RingCopy, run};
use super::{Bell, DoorbellFault, distance};
use crate::checker::Rule;
use crate::memory::prefetch_read;

/// Bytes of an entry.
pub(crate) const SLOT: usize = size_of::<Sqe>();

/// The command identifier by which error log entries say that they are about no command.
const NO_COMMAND: u16 = u16::MAX;

fn join(cid: u16, upper: u16) -> u32 {
    u32::from(cid) | u32::from(upper) << 16
}

/// A submission queue.
pub(crate) struct Sq {
    pub(crate) id: u16,
    pub(crate) entries: u32,
    /// Next entry to fetch.
    pub(crate) head: u32,
    /// One past the last entry that the client has submitted.
    tail: u32,
    /// One past the last of them that is in `ring`: behind `tail` where an engine has to copy them there.
    arrived: u32,
    /// The doorbell's value when it was last polled, good or bad.
    raw: u32,
    /// QPRIO, of use with weighted round robin.
    pub(crate) priority: QueuePriority,
    /// Which of the poll group's completion queues it completes into.
    pub(crate) cq: usize,
    ring: Window,
    /// Where the ring lies, if it has no pointer; `ring` is its mirror then.
    remote: Option<Box<CopiedRing>>,
    pub(crate) bell: Bell,
    /// One bit per command identifier: fetched and not completed.
    in_flight: Box<[u64]>,
    /// Whether the client has used the identifier that means no command. Until then its bit is set, so that the
    /// way of good commands needs no comparison with it.
    no_command_used: bool,
    /// With 32-bit identifiers, in place of the bits.
    wide: Option<HashSet<u32>>,
}

impl Sq {
    /// A queue over `ring`, which holds `entries` slots. The doorbell starts at zero.
    pub(crate) fn new(id: u16, entries: u32, ring: Window, doorbell: Window) -> Sq {
        let bell = Bell::new(doorbell);
        let mut in_flight = vec![0; 65536 / 64].into_boxed_slice();
        in_flight[usize::from(NO_COMMAND >> 6)] = 1 << (NO_COMMAND & 63);
        Sq {
            id,
            entries,
            head: 0,
            tail: 0,
            arrived: 0,
            raw: 0,
            priority: QueuePriority::URGENT,
            cq: 0,
            ring,
            remote: None,
            bell,
            in_flight,
            no_command_used: false,
            wide: None,
        }
    }

    /// A queue over a ring that an engine copies.
    pub(crate) fn remote(id: u16, entries: u32, ring: CopiedRing, doorbell: Window) -> Sq {
        let remote = Some(Box::new(ring));
        let mirror = remote.as_ref().map(|ring| ring.mirror().clone()).expect("just put there");
        Sq { remote, ..Sq::new(id, entries, mirror, doorbell) }
    }

    /// Looks at the doorbell. `None` if its value is the one last seen.
    #[inline]
    pub(crate) fn poll_doorbell(&mut self) -> Option<Result<(), DoorbellFault>> {
        let value = self.bell.poll()?;
        Some(self.ring_doorbell(value))
    }

    /// Takes a doorbell write. A value that breaks a rule changes nothing.
    #[inline]
    pub(crate) fn ring_doorbell(&mut self, value: u32) -> Result<(), DoorbellFault> {
        let before = std::mem::replace(&mut self.raw, value);
        let added = distance(self.tail, value, self.entries);
        if value < self.entries && value != before && added < self.entries - self.submitted() {
            self.tail = value;
            if self.remote.is_none() {
                self.arrived = value;
            }
            return Ok(());
        }
        Err(self.doorbell_fault(value, before))
    }

    #[cold]
    fn doorbell_fault(&self, value: u32, before: u32) -> DoorbellFault {
        let (id, entries) = (self.id, self.entries);
        if value >= entries {
            let detail = format!("submission queue {id}: tail {value}, but the queue has {entries} entries");
            return (Rule::DoorbellRange, detail);
        }
        if value == before {
            return (Rule::DoorbellRepeated, format!("submission queue {id}: tail {value} again"));
        }
        let added = distance(self.tail, value, entries);
        let free = entries - 1 - self.submitted();
        let tail = self.tail;
        let detail =
            format!("submission queue {id}: tail {tail} to {value} adds {added} entries, {free} are free");
        (Rule::DoorbellOverrun, detail)
    }

    /// The doorbell's value when it was last looked at, good or bad.
    pub(crate) fn raw(&self) -> u32 {
        self.raw
    }

    /// Entries submitted and not yet fetched.
    #[inline]
    fn submitted(&self) -> u32 {
        distance(self.head, self.tail, self.entries)
    }

    /// Entries that can be fetched.
    #[inline]
    pub(crate) fn pending(&self) -> u32 {
        distance(self.head, self.arrived, self.entries)
    }

    /// Whether the ring is copied by an engine.
    pub(crate) fn is_remote(&self) -> bool {
        self.remote.is_some()
    }

    /// Whether entries wait for their copy to begin.
    pub(crate) fn wants_copy(&self) -> bool {
        self.arrived != self.tail && self.remote.as_ref().is_some_and(|ring| ring.is_idle())
    }

    /// The copy that is next: of all entries that have not arrived and lie side by side.
    pub(crate) fn next_copy(&mut self) -> Option<RingCopy> {
        if !self.wants_copy() {
            return None;
        }
        let (first, count) = (self.arrived, run(self.arrived, self.tail, self.entries));
        let offset = first as usize * SLOT;
        let host = self.ring.slice(offset, count as usize * SLOT).ok()?;
        let end = self.position(first, count);
        Some(self.remote.as_mut()?.begin(CopyDirection::FromRemote, offset, host, end))
    }

    /// It has ended.
    pub(crate) fn copied(&mut self, result: Result<(), AccessError>) {
        let Some(ring) = &mut self.remote else { return };
        if let Some(end) = ring.end("submission", self.id, result) {
            self.arrived = end;
        }
    }

    /// Whether an entry that waits has this identifier, or its lower half.
    pub(crate) fn is_pending(&self, cid: u16) -> bool {
        (0..self.pending()).any(|ahead| {
            let sqe: Sqe = zerocopy::transmute!(self.peek(ahead));
            sqe.cid() == cid
        })
    }

    /// The index `ahead` entries after `index`.
    #[inline(always)]
    pub(crate) fn position(&self, index: u32, ahead: u32) -> u32 {
        let index = index + ahead;
        if index >= self.entries { index - self.entries } else { index }
    }

    /// The offset of the slot `ahead` entries after the head.
    #[inline(always)]
    fn slot(&self, ahead: u32) -> usize {
        self.position(self.head, ahead) as usize * SLOT
    }

    /// Starts to load the entry `ahead` entries after the head into the cache.
    #[inline(always)]
    pub(crate) fn prefetch(&self, ahead: u32) {
        prefetch_read(self.ring.as_ptr().wrapping_add(self.slot(ahead)), SLOT);
    }

    /// A copy of the entry `ahead` entries after the head.
    #[inline(always)]
    pub(crate) fn peek(&self, ahead: u32) -> [u64; 8] {
        self.ring.read_words(self.slot(ahead))
    }

    /// Fetches the entry at the head, which must be there (`pending`).
    #[inline]
    pub(crate) fn fetch(&mut self) -> Sqe {
        let words = self.peek(0);
        self.advance();
        zerocopy::transmute!(words)
    }

    /// Passes the entry at the head.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        self.head = if self.head + 1 == self.entries { 0 } else { self.head + 1 };
    }

    /// Overwrites the entry that was fetched last with FFh; of a ring in remote memory, in the mirror alone.
    pub(crate) fn poison_fetched(&self) {
        let last = if self.head == 0 { self.entries - 1 } else { self.head - 1 };
        self.ring.write_words(last as usize * SLOT, &[u64::MAX; 8]);
    }

    /// From now on command identifiers have 32 bits.
    pub(crate) fn widen(&mut self) {
        self.wide = Some(HashSet::new());
    }

    /// Whether command identifiers have 32 bits.
    #[inline(always)]
    pub(crate) fn is_wide(&self) -> bool {
        self.wide.is_some()
    }

    /// Takes bits 31:16 of a 32-bit identifier out of the command, whose dword 2 is then as in any other.
    pub(crate) fn take_upper(&self, sqe: &mut Sqe) -> u16 {
        if self.wide.is_none() {
            return 0;
        }
        let upper = sqe.cdw2 as u16;
        sqe.cdw2 &= 0xffff_0000;
        upper
    }

    /// Like [`Sq::begin`], for an identifier of either kind.
    pub(crate) fn begin_any(&mut self, cid: u16, upper: u16) -> bool {
        match &mut self.wide {
            Some(wide) => !wide.insert(join(cid, upper)),
            None => self.begin(cid),
        }
    }

    /// Like [`Sq::end`], for an identifier of either kind.
    pub(crate) fn end_any(&mut self, cid: u16, upper: u16) {
        match &mut self.wide {
            Some(wide) => {
                wide.remove(&join(cid, upper));
            }
            None => self.end(cid),
        }
    }

    /// Whether a command of this identifier is in flight.
    pub(crate) fn is_in_flight(&self, cid: u16, upper: u16) -> bool {
        match &self.wide {
            Some(wide) => wide.contains(&join(cid, upper)),
            None => self.in_flight[usize::from(cid >> 6)] & 1 << (cid & 63) != 0,
        }
    }

    /// Whether an identifier for which [`Sq::begin`] was true is in flight: the first use of FFFFh is no conflict.
    #[cold]
    pub(crate) fn is_conflict(&mut self, cid: u16) -> bool {
        self.wide.is_some() || cid != NO_COMMAND || std::mem::replace(&mut self.no_command_used, true)
    }

    /// Notes a command identifier as in flight; true if it already was, or is FFFFh for the first time.
    #[inline(always)]
    pub(crate) fn begin(&mut self, cid: u16) -> bool {
        let word = &mut self.in_flight[usize::from(cid >> 6)];
        let bit = 1 << (cid & 63);
        let was = *word & bit != 0;
        *word |= bit;
        was
    }

    /// The command is complete.
    #[inline(always)]
    pub(crate) fn end(&mut self, cid: u16) {
        self.in_flight[usize::from(cid >> 6)] &= !(1 << (cid & 63));
    }

    /// The ring's memory is gone: from now on entries are zeros, which nobody wrote, and from remote memory none come.
    pub(crate) fn disconnect(&mut self) {
        if let Some(ring) = &mut self.remote {
            ring.lose();
            self.arrived = self.head;
            return;
        }
        match Window::host(self.ring.len()) {
            Ok(nowhere) => self.ring = nowhere,
            Err(error) => tracing::error!(queue = self.id, %error, "no memory in place of a lost ring"),
        }
    }

    /// The ring's memory is back.
    pub(crate) fn reconnect(&mut self, ring: Window) {
        self.remote = None;
        self.ring = ring;
    }

    /// Lets go of the doorbell: its register reads zero again.
    pub(crate) fn retire(&self) {
        self.bell.retire();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use proptest::prelude::*;

    use super::*;

    fn queue(entries: u32) -> Sq {
        let memory = Window::host(entries as usize * SLOT).unwrap();
        Sq::new(3, entries, memory, Window::host(4).unwrap())
    }

    fn rule(result: Result<(), DoorbellFault>) -> Rule {
        result.unwrap_err().0
    }

    #[test]
    fn doorbell_rules() {
        let mut sq = queue(8);
        assert_eq!(rule(sq.ring_doorbell(8)), Rule::DoorbellRange);
        assert_eq!(rule(sq.ring_doorbell(0x1_0003)), Rule::DoorbellRange);
        sq.ring_doorbell(3).unwrap();
        assert_eq!(rule(sq.ring_doorbell(3)), Rule::DoorbellRepeated);
        assert_eq!(sq.pending(), 3);
        sq.fetch();
        sq.fetch();
        sq.ring_doorbell(1).unwrap();
        assert_eq!(sq.pending(), 7);
        let (rule, detail) = sq.ring_doorbell(2).unwrap_err();
        assert_eq!(rule, Rule::DoorbellOverrun);
        assert_eq!(detail, "submission queue 3: tail 1 to 2 adds 1 entries, 0 are free");
        assert_eq!(sq.pending(), 7, "a bad value changes nothing");
    }

    #[test]
    fn the_first_write_of_zero_repeats_the_reset_value() {
        assert_eq!(rule(queue(2).ring_doorbell(0)), Rule::DoorbellRepeated);
    }

    #[test]
    fn a_polled_value_is_taken_once() {
        let mut sq = queue(4);
        assert!(sq.poll_doorbell().is_none());
        sq.bell.register().store_u32(0, 9, Ordering::Relaxed);
        assert_eq!(sq.poll_doorbell().unwrap().unwrap_err().0, Rule::DoorbellRange);
        assert!(sq.poll_doorbell().is_none(), "a bad value is reported once");
        sq.bell.register().store_u32(0, 2, Ordering::Relaxed);
        sq.poll_doorbell().unwrap().unwrap();
        assert_eq!(sq.pending(), 2);
    }

    #[test]
    fn identifiers_are_in_flight_once() {
        let mut sq = queue(4);
        assert!(!sq.begin(0xfffe) && sq.begin(0xfffe) && sq.is_conflict(0xfffe) && !sq.begin(0xfffd));
        sq.end(0xfffe);
        assert!(!sq.begin(0xfffe));
    }

    #[test]
    fn the_identifier_that_means_no_command_is_noticed_once() {
        let mut sq = queue(4);
        assert!(sq.begin(0xffff) && !sq.is_conflict(0xffff), "noticed, and no conflict");
        assert!(sq.begin(0xffff) && sq.is_conflict(0xffff), "the first is in flight");
        sq.end(0xffff);
        assert!(!sq.begin(0xffff));
    }

    proptest! {
        #[test]
        fn pending_counts_like_an_unbounded_counter(
            entries in 2u32..40,
            steps in prop::collection::vec((any::<bool>(), 0u32..41), 1..300),
        ) {
            let mut sq = queue(entries);
            let (mut head, mut tail, mut raw) = (0u64, 0u64, 0u32);
            for (fetch, value) in steps {
                if fetch {
                    if tail > head {
                        sq.fetch();
                        head += 1;
                    }
                } else {
                    let added = (u64::from(value) + u64::from(entries) - tail % u64::from(entries)) % u64::from(entries);
                    let good = value < entries && value != raw && tail + added - head < u64::from(entries);
                    prop_assert_eq!(sq.ring_doorbell(value).is_ok(), good);
                    raw = value;
                    tail += if good { added } else { 0 };
                }
                prop_assert_eq!(u64::from(sq.pending()), tail - head);
            }
        }
    }
}
