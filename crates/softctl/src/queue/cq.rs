//! A completion queue: the controller posts, the client frees.

use std::sync::atomic::Ordering;

use warpbell_hw::{AccessError, PoolPart, Window};
use warpbell_nvme::completion::PHASE_BIT;
use warpbell_nvme::{Cqe, Status};

use super::remote::{CopiedRing, RingCopy};
use super::sent::Sent;
use super::{Bell, DoorbellFault, distance};
use crate::checker::Rule;
use crate::memory::prefetch_write;

/// Bytes of an entry.
pub(crate) const SLOT: usize = size_of::<Cqe>();

/// What is still to be written of a torn entry.
#[derive(Debug)]
pub(crate) struct TornEntry {
    /// Where the entry is.
    pub(crate) offset: usize,
    /// Dwords 0 and 1.
    low: u64,
    /// Dword 2.
    middle: u32,
}

/// A completion queue.
pub(crate) struct Cq {
    pub(crate) id: u16,
    pub(crate) entries: u32,
    /// Where the next entry goes.
    tail: u32,
    /// First entry that the client has not freed.
    head: u32,
    /// The doorbell's value when it was last polled, good or bad.
    raw: u32,
    /// Phase bit of the current pass, in place.
    phase: u64,
    /// Slots promised to commands that were fetched and not completed.
    reserved: u32,
    /// Entries posted since the last call of [`Cq::take_interrupt`].
    posted: u32,
    /// Interrupt vector, if interrupts are enabled.
    pub(crate) vector: Option<u16>,
    ring: Window,
    /// Where the ring lies, if it has no pointer; `ring` is its mirror then.
    sent: Option<Box<Sent>>,
    pub(crate) bell: Bell,
}

impl Cq {
    /// A queue over `ring`, which holds `entries` slots. The doorbell starts at zero.
    pub(crate) fn new(id: u16, entries: u32, ring: Window, doorbell: Window, vector: Option<u16>) -> Cq {
        let bell = Bell::new(doorbell);
        let (tail, head, raw, reserved) = (0, 0, 0, 0);
        let (posted, sent) = (0, None);
        Cq { id, entries, tail, head, raw, phase: PHASE_BIT, reserved, posted, vector, ring, sent, bell }
    }

    /// A queue over a ring that an engine copies. `draft` is another mirror of it.
    pub(crate) fn remote(
        id: u16,
        entries: u32,
        (ring, draft): (CopiedRing, PoolPart),
        doorbell: Window,
        vector: Option<u16>,
    ) -> Cq {
        let mirror = ring.mirror().clone();
        let sent = Some(Box::new(Sent::new(ring, draft)));
        Cq { sent, ..Cq::new(id, entries, mirror, doorbell, vector) }
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
        let freed = distance(self.head, value, self.entries);
        if value < self.entries && value != before && freed <= self.unread() {
            self.head = value;
            return Ok(());
        }
        Err(self.doorbell_fault(value, before))
    }

    #[cold]
    fn doorbell_fault(&self, value: u32, before: u32) -> DoorbellFault {
        let (id, entries, unread) = (self.id, self.entries, self.unread());
        if value >= entries {
            let detail = format!("completion queue {id}: head {value}, but the queue has {entries} entries");
            return (Rule::DoorbellRange, detail);
        }
        if value == before {
            return (Rule::DoorbellRepeated, format!("completion queue {id}: head {value} again"));
        }
        let head = self.head;
        let detail =
            format!("completion queue {id}: head {head} to {value}, but {unread} entries were posted");
        (Rule::CqHeadBeyondTail, detail)
    }

    /// The doorbell's value when it was last polled, good or bad.
    pub(crate) fn raw(&self) -> u32 {
        self.raw
    }

    /// Entries posted and not yet freed.
    #[inline]
    fn unread(&self) -> u32 {
        distance(self.head, self.tail, self.entries)
    }

    /// Slots that must not be written: a client has not freed them, or a copy of them is to come or in flight. A client
    /// may free what it sees before the end of the copy that shows it is known here.
    #[inline]
    fn in_use(&self) -> u32 {
        let unread = self.unread();
        self.sent.as_ref().map_or(unread, |sent| unread.max(sent.held(self.tail, self.entries)))
    }

    /// Slots that are neither used nor promised.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        (self.entries - 1 - self.in_use()).saturating_sub(self.reserved)
    }

    /// Promises a slot to a command about to be fetched.
    #[inline]
    pub(crate) fn reserve(&mut self) {
        self.reserved += 1;
    }

    /// Takes a promise back; the slot is about to be used, or the command will not complete for long.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.reserved = self.reserved.saturating_sub(1);
    }

    /// Posts an entry; there must be room for it.
    #[inline]
    pub(crate) fn post(&mut self, entry: &Cqe) {
        self.post_qwords(entry.lo(), entry.hi());
    }

    /// Posts the completion of a command without a result.
    #[inline(always)]
    pub(crate) fn post_status(&mut self, sqid: u16, sqhd: u32, cid: u16, status: Status) {
        let low = u64::from(sqhd as u16) | u64::from(sqid) << 16;
        self.post_qwords(0, low | u64::from(cid) << 32 | u64::from(status.into_bits()) << 49);
    }

    /// Posts the completion of a command whose identifier has bits 31:16 in `upper`.
    pub(crate) fn post_any(&mut self, sqid: u16, sqhd: u32, (cid, upper): (u16, u16), status: Status) {
        let low = u64::from(sqhd as u16) | u64::from(sqid) << 16;
        let high = low | u64::from(cid) << 32 | u64::from(status.into_bits()) << 49;
        self.post_qwords(u64::from(upper) << 32, high);
    }

    #[inline(always)]
    fn post_qwords(&mut self, low: u64, high: u64) {
        let offset = self.tail as usize * SLOT;
        self.ring.store_u64(offset, low, Ordering::Relaxed);
        // Release: payload and first half before the half with the phase bit.
        self.ring.store_u64(offset + 8, high & !PHASE_BIT | self.phase, Ordering::Release);
        self.advance();
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.posted += u32::from(self.sent.is_none());
        self.tail += 1;
        if self.tail == self.entries {
            self.tail = 0;
            self.phase ^= PHASE_BIT;
        }
    }

    /// Where the next entry goes.
    pub(crate) fn next_slot(&self) -> u32 {
        self.tail
    }

    /// The same in bytes.
    pub(crate) fn next_offset(&self) -> usize {
        self.tail as usize * SLOT
    }

    /// Whether the entry in a slot was posted and not yet freed.
    pub(crate) fn is_unread(&self, slot: u32) -> bool {
        distance(self.head, slot, self.entries) < self.unread()
    }

    /// Posts a completion whose last dword, with the identifier and the phase bit, becomes visible before the rest:
    /// a fault. The rest follows by [`Cq::finish_torn`].
    pub(crate) fn post_torn(
        &mut self,
        sqid: u16,
        sqhd: u32,
        (cid, upper): (u16, u16),
        status: Status,
    ) -> TornEntry {
        let offset = self.next_offset();
        let low = u64::from(upper) << 32;
        let entry = TornEntry { offset, low, middle: u32::from(sqhd as u16) | u32::from(sqid) << 16 };
        let high = u64::from(cid) << 32 | u64::from(status.into_bits()) << 49;
        let last = (high & !PHASE_BIT | self.phase) >> 32;
        self.ring.store_u32(offset + 12, last as u32, Ordering::Release);
        if let Some(sent) = &mut self.sent {
            sent.tear(self.tail);
        }
        self.advance();
        entry
    }

    /// Makes the rest of an entry visible.
    pub(crate) fn finish_torn(&mut self, entry: TornEntry) {
        self.ring.store_u64(entry.offset, entry.low, Ordering::Release);
        self.ring.store_u32(entry.offset + 8, entry.middle, Ordering::Release);
        if let Some(sent) = &mut self.sent {
            sent.mend((entry.offset / SLOT) as u32);
        }
    }

    /// Whether the ring is copied by an engine.
    pub(crate) fn is_remote(&self) -> bool {
        self.sent.is_some()
    }

    /// Whether everything that was posted is in the ring, or never will be.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent.as_ref().is_none_or(|sent| sent.is_done(self.tail))
    }

    /// Whether entries wait for a copy to begin.
    pub(crate) fn wants_copy(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.next_step(self.tail).is_some())
    }

    /// The copy that is next.
    pub(crate) fn next_copy(&mut self) -> Option<RingCopy> {
        self.sent.as_mut()?.begin(&self.ring, self.tail, self.entries)
    }

    /// It has ended.
    pub(crate) fn copied(&mut self, result: Result<(), AccessError>) {
        if let Some(sent) = &mut self.sent {
            self.posted += sent.end(self.id, self.entries, result);
        }
    }

    /// Asks for the cache line of the slot `ahead` entries after the next, to write it.
    #[inline(always)]
    pub(crate) fn prefetch(&self, ahead: u32) {
        let index = self.tail + ahead;
        let index = if index >= self.entries { index - self.entries } else { index };
        prefetch_write(self.ring.as_ptr().wrapping_add(index as usize * SLOT), 1);
    }

    /// The vector to signal and the entries posted since the last call, if there are any.
    #[inline]
    pub(crate) fn take_interrupt(&mut self) -> Option<(u16, u32)> {
        let posted = std::mem::take(&mut self.posted);
        if posted > 0 { self.vector.map(|vector| (vector, posted)) } else { None }
    }

    /// The ring's memory is gone: from now on entries are posted to nowhere.
    pub(crate) fn disconnect(&mut self) {
        if let Some(sent) = &mut self.sent {
            return sent.lose();
        }
        match Window::host(self.ring.len()) {
            Ok(nowhere) => self.ring = nowhere,
            Err(error) => tracing::error!(queue = self.id, %error, "no memory in place of a lost ring"),
        }
    }

    /// The ring's memory is back.
    pub(crate) fn reconnect(&mut self, ring: Window) {
        self.sent = None;
        self.ring = ring;
    }

    /// Lets go of the doorbell: its register reads zero again.
    pub(crate) fn retire(&self) {
        self.bell.retire();
    }
}

#[cfg(test)]
mod tests {
    use warpbell_hw::CqRing;

    use super::*;

    fn queue(entries: u32) -> (Cq, Window) {
        let memory = Window::host(entries as usize * SLOT).unwrap();
        (Cq::new(5, entries, memory.clone(), Window::host(4).unwrap(), Some(2)), memory)
    }

    #[test]
    fn a_client_reads_what_was_posted_over_many_passes() {
        let (mut cq, memory) = queue(4);
        let client = CqRing::new(memory, 4);
        for index in 0..64u64 {
            assert!(client.poll(index).is_none());
            assert_eq!(cq.room(), 3);
            cq.post_status(9, 7, index as u16, Status::COMPARE_FAILURE.with_dnr(true));
            let entry = client.poll(index).unwrap();
            assert_eq!((entry.cid, entry.sqid, entry.sqhd), (index as u16, 9, 7));
            assert_eq!(entry.status(), Status::COMPARE_FAILURE.with_dnr(true));
            cq.ring_doorbell((index as u32 + 1) % 4).unwrap();
        }
    }

    #[test]
    fn a_torn_entry_shows_its_phase_first() {
        let (mut cq, memory) = queue(4);
        memory.fill(0, 16, 0xee).unwrap();
        memory.store_u32(12, 0, Ordering::Relaxed);
        let client = CqRing::new(memory, 4);
        let entry = cq.post_torn(9, 7, (3, 0), Status::SUCCESS);
        let early = client.poll(0).unwrap();
        assert_eq!((early.cid, early.sqid, early.sqhd), (3, 0xeeee, 0xeeee));
        cq.finish_torn(entry);
        let whole = client.poll(0).unwrap();
        assert_eq!((whole.cid, whole.sqid, whole.sqhd, whole.dw0), (3, 9, 7, 0));
    }

    #[test]
    fn room_counts_promises() {
        let (mut cq, _memory) = queue(4);
        cq.reserve();
        cq.post(&Cqe::new(1, 0, 2, Status::SUCCESS, false));
        assert_eq!(cq.room(), 1);
        cq.release();
        assert_eq!(cq.room(), 2);
        assert_eq!(cq.take_interrupt(), Some((2, 1)));
        assert_eq!(cq.take_interrupt(), None);
    }

    #[test]
    fn doorbell_rules() {
        let (mut cq, _memory) = queue(4);
        cq.post(&Cqe::zeroed());
        assert_eq!(cq.ring_doorbell(4).unwrap_err().0, Rule::DoorbellRange);
        let (rule, detail) = cq.ring_doorbell(2).unwrap_err();
        assert_eq!(rule, Rule::CqHeadBeyondTail);
        assert_eq!(detail, "completion queue 5: head 0 to 2, but 1 entries were posted");
        cq.ring_doorbell(1).unwrap();
        assert_eq!(cq.ring_doorbell(1).unwrap_err().0, Rule::DoorbellRepeated);
        assert_eq!(cq.room(), 3);
    }
}
