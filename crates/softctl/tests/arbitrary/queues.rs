//! The client's idea of its queues: which commands it submitted, and which completions it owes nothing for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

use warpbell_hw::Window;
use warpbell_nvme::{AdminOpcode, Cqe, Sqe, Status};

/// A submission queue.
pub struct Submission {
    pub qid: u16,
    pub entries: u32,
    pub cqid: u16,
    pub ring: Window,
    pub base: u64,
    /// One past the last entry that the controller was told of.
    pub rung: u32,
    /// One past the last entry that the client wrote.
    pub written: u32,
    /// The controller's head, as completions report it.
    pub head: u32,
    /// Entries that the controller was told of since then; it may have fetched some of them.
    ahead: u32,
    /// Commands that have no completion yet, oldest first.
    pub outstanding: VecDeque<Sqe>,
    /// Whether its memory was unmapped, so that nobody knows what the controller fetches.
    pub lost: bool,
}

impl Submission {
    pub fn new(qid: u16, entries: u32, cqid: u16, base: u64, ring: Window) -> Submission {
        let outstanding = VecDeque::new();
        Submission {
            qid,
            entries,
            cqid,
            ring,
            base,
            rung: 0,
            written: 0,
            head: 0,
            ahead: 0,
            outstanding,
            lost: false,
        }
    }

    fn distance(&self, from: u32, to: u32) -> u32 {
        (to + self.entries - from) % self.entries
    }

    /// Whether one more entry may be written.
    pub fn has_room(&self) -> bool {
        self.ahead + self.distance(self.rung, self.written) < self.entries - 1
    }

    pub fn slot(&self, index: u32) -> Sqe {
        let words: [u64; 8] = self.ring.read_words(index as usize * 64);
        zerocopy::transmute!(words)
    }

    /// The controller took a doorbell value: the entries up to it are submitted. Returns them.
    pub fn accepted(&mut self, value: u32) -> Vec<Sqe> {
        // After a completion that a fault took, the controller's queue may be another than the client knows.
        if self.lost || value >= self.entries {
            return Vec::new();
        }
        let count = self.distance(self.rung, value);
        let fresh: Vec<Sqe> = (0..count).map(|i| self.slot((self.rung + i) % self.entries)).collect();
        self.outstanding.extend(&fresh);
        self.ahead += count;
        if self.distance(self.rung, self.written) < count {
            self.written = value;
        }
        self.rung = value;
        fresh
    }

    /// A completion came: returns the command that it is for.
    pub fn complete(&mut self, entry: &Cqe) -> Sqe {
        let qid = self.qid;
        let sqhd = u32::from(entry.sqhd);
        assert!(sqhd < self.entries, "queue {qid}: SQHD {sqhd} of {} entries", self.entries);
        let fetched = self.distance(self.head, sqhd);
        assert!(fetched <= self.ahead, "queue {qid}: SQHD from {} to {sqhd}, tail {}", self.head, self.rung);
        self.ahead -= fetched;
        self.head = sqhd;
        let alike = |sqe: &&Sqe| sqe.cid() == entry.cid;
        let count = self.outstanding.iter().filter(alike).count();
        assert!(count > 0, "queue {qid}: completion of {:#06x}, which is not outstanding", entry.cid);
        // Of two commands with one identifier the later is refused.
        let conflict = entry.status().same_code(Status::CID_CONFLICT);
        assert!(!conflict || count > 1, "queue {qid}: {:#06x} conflicts with nothing", entry.cid);
        let mut positions =
            (0..self.outstanding.len()).filter(|index| self.outstanding[*index].cid() == entry.cid);
        let position = positions.nth(usize::from(conflict)).expect("counted above");
        self.outstanding.remove(position).expect("a position inside")
    }

    /// A completion came that may be nonsense: returns the command that it may be for.
    pub fn complete_if_outstanding(&mut self, entry: &Cqe) -> Option<Sqe> {
        let position = self.outstanding.iter().position(|sqe| sqe.cid() == entry.cid)?;
        let sqhd = u32::from(entry.sqhd);
        if sqhd < self.entries {
            self.ahead = self.ahead.saturating_sub(self.distance(self.head, sqhd));
            self.head = sqhd;
        }
        self.outstanding.remove(position)
    }

    /// Commands that must still be answered.
    pub fn unanswered(&self) -> usize {
        let parked = |sqe: &&Sqe| self.qid == 0 && sqe.opcode() == AdminOpcode::ASYNC_EVENT_REQUEST.0;
        self.outstanding.len() - self.outstanding.iter().filter(parked).count()
    }
}

/// A completion queue.
pub struct Completion {
    pub entries: u32,
    pub ring: Window,
    pub base: u64,
    /// Entries read since the queue exists.
    pub read: u64,
    /// The doorbell value that the controller took last.
    pub freed: u32,
    /// Whether the controller refused a doorbell value, so that the right one may look repeated to it.
    pub tainted: bool,
    /// Whether its memory was unmapped, so that completions get lost.
    pub lost: bool,
}

impl Completion {
    /// A queue over zeroed memory.
    pub fn new(entries: u32, base: u64, ring: Window) -> Completion {
        Completion { entries, ring, base, read: 0, freed: 0, tainted: false, lost: false }
    }

    pub fn poll(&mut self) -> Option<Cqe> {
        if self.lost {
            return None;
        }
        let slot = (self.read % u64::from(self.entries)) as usize * 16;
        let phase = (self.read / u64::from(self.entries)).is_multiple_of(2);
        let high = self.ring.load_u64(slot + 8, Ordering::Acquire);
        if (high >> 48 & 1 == 1) != phase {
            return None;
        }
        let low = self.ring.load_u64(slot, Ordering::Relaxed);
        self.read += 1;
        let words = [low, high];
        Some(zerocopy::transmute!(words))
    }

    /// The doorbell value that frees everything read.
    pub fn head(&self) -> u32 {
        (self.read % u64::from(self.entries)) as u32
    }

    /// Whether the client made it impossible to free what was read: the value that would do so was refused before.
    pub fn stuck(&self) -> bool {
        self.tainted && self.head() != self.freed
    }
}

/// All queues of an enabled controller.
#[derive(Default)]
pub struct Queues {
    pub submission: BTreeMap<u16, Submission>,
    pub completion: BTreeMap<u16, Completion>,
}

impl Queues {
    pub fn clear(&mut self) {
        self.submission.clear();
        self.completion.clear();
    }

    /// A range of IOVAs is no longer mapped. Returns whether a queue was in it.
    pub fn lose(&mut self, iova: u64, len: usize) -> bool {
        let overlap = |base: u64, bytes: u64| iova < base + bytes && base < iova + len as u64;
        let sqs =
            self.submission.values_mut().filter(|queue| overlap(queue.base, u64::from(queue.entries) * 64));
        let sqs = sqs.map(|queue| queue.lost = true).count();
        let cqs =
            self.completion.values_mut().filter(|queue| overlap(queue.base, u64::from(queue.entries) * 16));
        sqs + cqs.map(|queue| queue.lost = true).count() > 0
    }

    /// Whether a range of IOVAs touches a queue that exists.
    pub fn touches(&self, iova: u64, len: usize) -> bool {
        let overlap = |base: u64, bytes: u64| iova < base + bytes && base < iova.saturating_add(len as u64);
        self.submission.values().any(|queue| overlap(queue.base, u64::from(queue.entries) * 64))
            || self.completion.values().any(|queue| overlap(queue.base, u64::from(queue.entries) * 16))
    }
}
