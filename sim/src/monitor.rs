//! An observer between kernels and the controller: sees every store to a ring and to a doorbell in the order in
//! which they happen, and holds them against the rules, independently of the controller's own checks.
//!
//! It keeps absolute counts: a doorbell value is read as the nearest count above the last one.

mod hazards;

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use warpbell_kernels::abi;
use warpbell_kernels::cpu::{Access, MemoryEvent};

use crate::breach::Breach;
use crate::memory::peek;

/// One queue as seen from outside.
#[derive(Debug)]
struct Watched {
    queue: abi::QueueRef,
    tail: u64,
    head: u64,
    /// The warp that wrote the doorbell and has not handed on yet.
    ringing: Option<u32>,
    telling: Option<u32>,
    /// Identifiers submitted and not completed, and the completion to look at next; where rings are read.
    in_flight: Option<HashSet<u32>>,
    posted: u64,
    /// Identifiers whose word is armed and whose entry was not announced yet.
    armed: HashSet<u32>,
    /// Of the completions posted those of no command in flight: how many the client has reported, and where the
    /// others are.
    nobodys: u64,
    unreported: VecDeque<u64>,
    /// Lanes that have read completions and executed no fence since.
    unfenced: HashSet<(u32, u32)>,
    /// Doorbells go through memory: registers see only some values, so that nothing is said of what they mean.
    shadowed: bool,
    /// The controller has forgotten the queue, so that nothing on it means anything any more.
    forgotten: bool,
    /// Which of the attachment's queues it is.
    index: u32,
    /// Where its lanes' hazard slots are.
    hazards: u64,
}

impl Watched {
    fn new(index: u32, queue: &abi::QueueRef, start: u64) -> Watched {
        Watched {
            queue: *queue,
            tail: start,
            head: start,
            ringing: None,
            telling: None,
            in_flight: None,
            posted: start,
            armed: HashSet::new(),
            nobodys: 0,
            unreported: VecDeque::new(),
            unfenced: HashSet::new(),
            shadowed: false,
            forgotten: false,
            index,
            hazards: 0,
        }
    }

    fn wide(&self) -> bool {
        self.queue.flags & abi::QUEUE_WIDE_CIDS != 0
    }

    /// Its registers are the doorbells, and mean something.
    fn is_rung(&self) -> bool {
        !self.shadowed && !self.forgotten
    }

    /// Entries and completions are looked at, and mean something.
    fn is_read(&self) -> bool {
        self.in_flight.is_some() && !self.forgotten
    }

    fn mask(&self) -> u64 {
        (1 << self.queue.sq_shift) - 1
    }

    /// An exclusive warp may use the room of completions that it has read a moment before it reports them: its
    /// doorbells leave in order.
    fn shared(&self) -> bool {
        self.queue.sharing == abi::SHARING_SHARED
    }

    /// Where in the submission ring `address` lies.
    fn sq_offset(&self, address: u64) -> Option<u64> {
        Some(address.wrapping_sub(self.queue.sq)).filter(|offset| *offset < 64 << self.queue.sq_shift)
    }

    fn in_cq(&self, address: u64) -> bool {
        address.wrapping_sub(self.queue.cq) < 16 << self.queue.cq_shift
    }

    /// The lane whose completion slot lies at `address`, counted over the queue, the identifier that it is of, and
    /// whether it is pending.
    fn word_at(&self, address: u64) -> Option<(u64, u32, bool)> {
        let bytes = (u64::from(self.queue.warp_slots) * 32 * 4) << self.queue.token_shift;
        let offset = Some(address.wrapping_sub(self.queue.words)).filter(|offset| *offset < bytes)?;
        let (lane, k) =
            ((offset / 4) >> self.queue.token_shift, (offset / 4) & !(!0 << self.queue.token_shift));
        let cid = (lane as u32) << (self.queue.local_bits - 5) | k as u32;
        Some((lane, cid, peek::<u32>(address) & abi::SLOT_PENDING != 0))
    }

    /// Commands that the client has reported complete.
    fn done(&self) -> u64 {
        self.head.wrapping_sub(self.nobodys)
    }

    /// The client has reported completions up to the head.
    fn report(&mut self) {
        while self.unreported.front().is_some_and(|index| *index < self.head) {
            self.unreported.pop_front();
            self.nobodys += 1;
        }
    }

    fn is_locked(&self) -> bool {
        let reap = self.queue.state + std::mem::offset_of!(abi::QueueState, reap) as u64;
        peek::<u64>(reap) & abi::REAP_LOCK != 0
    }

    /// Whether the entry at `offset` of the ring is one that the controller has still to fetch, though it was told
    /// of it. What it has fetched it overwrites.
    fn is_wanted(&self, offset: u64) -> bool {
        let place = (offset / 64).wrapping_sub(self.done()) & self.mask();
        let told = place < self.tail.wrapping_sub(self.done());
        if self.shared() || self.in_flight.is_none() {
            return told && self.shared();
        }
        told && offset.is_multiple_of(64) && peek::<u32>(self.queue.sq + offset) != u32::MAX
    }

    /// Takes note of the completions that lie in the ring.
    fn read_completions(&mut self) {
        let (mask, shift, wide) = (self.mask(), self.queue.cq_shift, self.wide());
        let Some(in_flight) = &mut self.in_flight else { return };
        loop {
            let entry: u64 = peek(self.queue.cq + (self.posted & mask) * 16 + 8);
            if (entry >> 48 ^ self.posted >> shift) & 1 == 0 {
                return;
            }
            let upper =
                if wide { peek::<u32>(self.queue.cq + (self.posted & mask) * 16 + 4) << 16 } else { 0 };
            let cid = (entry >> 32) as u32 & 0xffff | upper;
            // Of a command that was not even fetched it is not.
            let unfetched = (0..=mask).any(|slot| entry_of(&self.queue, slot, wide) == Some(cid));
            if unfetched || !in_flight.remove(&cid) {
                self.unreported.push_back(self.posted);
            }
            self.posted += 1;
        }
    }

    /// Takes note of the entries that a doorbell announces; returns what is wrong with them.
    fn read_entries(&mut self, from: u64, to: u64) -> Vec<Breach> {
        let (mask, wide, sq, qid) = (self.mask(), self.wide(), self.queue.sq, self.queue.qid);
        let Some(in_flight) = &mut self.in_flight else { return Vec::new() };
        let mut wrong = Vec::new();
        for index in from..to {
            let entry = sq + (index & mask) * 64;
            let first = peek::<u32>(entry);
            let upper = if wide { peek::<u32>(entry + 8) << 16 } else { 0 };
            let cid = first >> 16 | upper;
            self.armed.remove(&cid);
            if first == u32::MAX {
                wrong.push(Breach::Unwritten { qid, index });
            } else if cid == 0xffff {
                wrong.push(Breach::NoCommandId { qid });
            } else if !in_flight.insert(cid) {
                wrong.push(Breach::CidTwice { qid, cid });
            }
        }
        wrong
    }

    fn holds(&self, address: u64, field: usize) -> bool {
        address == self.queue.state + field as u64
    }
}

/// The identifier of the entry in a slot, unless the controller has fetched that, or there never was one: a command
/// names its namespace.
fn entry_of(queue: &abi::QueueRef, slot: u64, wide: bool) -> Option<u32> {
    let entry = queue.sq + slot * 64;
    let is_there = |first: &u32| *first != u32::MAX && peek::<u32>(entry + 4) != 0;
    let first = Some(peek::<u32>(entry)).filter(is_there)?;
    Some(first >> 16 | if wide { peek::<u32>(entry + 8) << 16 } else { 0 })
}

/// Watches the queues of one attachment.
#[derive(Debug, Default)]
pub struct Monitor {
    queues: Vec<Watched>,
    breaches: Vec<Breach>,
    /// When each of them was seen, where somebody tells the time.
    times: Vec<Duration>,
    rung: u64,
    /// How lanes find their hazard slots, where they must have one.
    hazards: Option<hazards::Hazards>,
}

impl Monitor {
    /// Watches `queues`, whose counters stand at `start`.
    pub fn new(queues: &[abi::QueueRef], start: u64) -> Monitor {
        let watch = |(index, queue)| Watched::new(index as u32, queue, start);
        Monitor { queues: queues.iter().enumerate().map(watch).collect(), ..Monitor::default() }
    }

    /// Also reads entries and completions, to know which identifiers are in flight. The queues must be living ones.
    pub fn reading_rings(mut self) -> Monitor {
        self.queues.iter_mut().for_each(|queue| queue.in_flight = Some(HashSet::new()));
        self
    }

    /// The queues' doorbells go through memory. What needs the values in their registers is not checked.
    pub fn through_shadows(mut self) -> Monitor {
        self.queues.iter_mut().for_each(|queue| queue.shadowed = true);
        self
    }

    /// What was broken so far, oldest first.
    pub fn breaches(&self) -> &[Breach] {
        &self.breaches
    }

    /// Whatever was seen since the last call was seen at `now`.
    pub fn tell_time(&mut self, now: Duration) {
        self.times.resize(self.breaches.len(), now);
    }

    /// What was broken so far, and when.
    pub fn timed_breaches(&self) -> Vec<(Duration, Breach)> {
        self.times.iter().copied().zip(self.breaches.iter().cloned()).collect()
    }

    /// Doorbell stores seen.
    pub fn rung(&self) -> u64 {
        self.rung
    }

    /// Commands made known to the controller on queue `index` and not reported complete.
    pub fn outstanding(&self, index: usize) -> u64 {
        self.queues[index].tail.wrapping_sub(self.queues[index].done())
    }

    /// A doorbell store reaches the controller.
    pub fn doorbell(&mut self, address: u64, value: u32) {
        self.rung += 1;
        for queue in self.queues.iter_mut().filter(|queue| queue.is_rung()) {
            let mask = queue.mask();
            let qid = queue.queue.qid;
            let before = queue.tail;
            if address == queue.queue.sq_doorbell || address == queue.queue.cq_doorbell {
                queue.read_completions();
            }
            let (doorbell, count) = match address {
                a if a == queue.queue.sq_doorbell => ("SQ tail", &mut queue.tail),
                a if a == queue.queue.cq_doorbell => ("CQ head", &mut queue.head),
                _ => continue,
            };
            let step = u64::from(value).wrapping_sub(*count) & mask;
            if step == 0 || u64::from(value) > mask {
                self.breaches.push(Breach::DoorbellValue { qid, doorbell, before: *count, value });
            }
            *count = count.wrapping_add(step);
            queue.report();
            let (head, tail) = (queue.done(), queue.tail);
            self.breaches.extend(queue.read_entries(before, tail));
            let outstanding = tail.wrapping_sub(head) as i64;
            if outstanding < 0 {
                self.breaches.push(Breach::HeadBeyondTail { qid, head, tail });
            } else if outstanding as u64 > mask {
                let outstanding = outstanding as u64;
                self.breaches.push(Breach::Outstanding { qid, outstanding, limit: mask });
            }
        }
    }

    /// A lane is about to access memory.
    pub fn observe(&mut self, event: &MemoryEvent) {
        self.check_hazard(event);
        match event.access {
            Access::Doorbell => self.rings(event.warp, event.address),
            Access::Store => {
                self.stores(event.warp, event.address, event.bytes);
                self.answers(event);
                self.announces(event.address);
            }
            Access::Load => self.reads(event),
            Access::Fence => self.fences(event),
            Access::Acquire => self.acquires(event),
            _ => {}
        }
    }

    /// A shadow doorbell is stored: of the entries written so far the controller may know.
    fn announces(&mut self, address: u64) {
        let shadow = std::mem::offset_of!(abi::QueueState, shadow) as u64;
        let queues = self.queues.iter_mut().filter(|queue| queue.shadowed && !queue.forgotten);
        for queue in queues.filter(|queue| peek::<u64>(queue.queue.state + shadow) == address) {
            queue.read_completions();
            queue.in_flight.iter_mut().for_each(|ids| ids.extend(queue.armed.drain()));
        }
    }

    fn reads(&mut self, event: &MemoryEvent) {
        // The other half has the upper bits of wide identifiers, and is read after the fence.
        let with_phase = event.address & 8 != 0;
        let of = self.queues.iter_mut().find(|queue| queue.is_read() && queue.in_cq(event.address));
        let of = of.filter(|_| with_phase);
        if let Some(queue) = of {
            queue.unfenced.insert((event.warp, event.lane));
        }
    }

    fn fences(&mut self, event: &MemoryEvent) {
        self.queues.iter_mut().for_each(|queue| {
            queue.unfenced.remove(&(event.warp, event.lane));
        });
    }

    /// What was read by a load that acquires needs no fence.
    fn acquires(&mut self, event: &MemoryEvent) {
        self.queues.iter_mut().filter(|queue| queue.in_cq(event.address)).for_each(|queue| {
            queue.unfenced.remove(&(event.warp, event.lane));
        });
    }

    /// A store over a pending completion slot answers its command.
    fn answers(&mut self, event: &MemoryEvent) {
        let (warp, lane) = (event.warp, event.lane);
        let reading = self.queues.iter_mut().filter(|queue| queue.is_read());
        let Some((queue, (owner, cid, pending))) =
            reading.into_iter().find_map(|queue| queue.word_at(event.address).map(|word| (queue, word)))
        else {
            return;
        };
        let qid = queue.queue.qid;
        if !pending {
            // Its own lane arms it. Warps are told apart as far as lanes tell.
            if owner % 32 != u64::from(lane) {
                self.breaches.push(Breach::NotPending { qid, warp, lane });
            } else {
                queue.armed.insert(cid);
            }
            return;
        }
        queue.read_completions();
        if queue.armed.contains(&cid) || queue.in_flight.as_ref().is_some_and(|ids| ids.contains(&cid)) {
            self.breaches.push(Breach::Early { qid, cid });
        }
        if queue.unfenced.contains(&(warp, lane)) {
            self.breaches.push(Breach::Unfenced { qid, warp, lane });
        }
        if queue.shared() && !queue.is_locked() {
            self.breaches.push(Breach::Unlocked { qid, warp });
        }
    }

    /// Warp `warp` executes a doorbell store. With a store buffer it reaches the controller later.
    pub fn rings(&mut self, warp: u32, address: u64) {
        for queue in self.queues.iter_mut().filter(|queue| queue.is_rung()) {
            let qid = queue.queue.qid;
            let (doorbell, writer) = match address {
                a if a == queue.queue.sq_doorbell => ("SQ tail", &mut queue.ringing),
                a if a == queue.queue.cq_doorbell => ("CQ head", &mut queue.telling),
                _ => continue,
            };
            if let Some(first) = writer.filter(|first| *first != warp) {
                self.breaches.push(Breach::Writers { qid, doorbell, first, second: warp });
            }
            // An exclusive queue has one writer for ever, and hands nothing on.
            *writer = Some(warp);
        }
    }

    /// Warp `warp` executes a store of `bytes` bytes.
    pub fn stores(&mut self, warp: u32, address: u64, bytes: u32) {
        for queue in self.queues.iter_mut().filter(|queue| queue.is_rung()) {
            if queue.holds(address, std::mem::offset_of!(abi::QueueState, turn)) {
                queue.ringing = queue.ringing.filter(|ringing| *ringing != warp);
            } else if queue.holds(address, std::mem::offset_of!(abi::QueueState, reap)) {
                queue.telling = queue.telling.filter(|telling| *telling != warp);
            } else if let Some(offset) = queue.sq_offset(address).filter(|_| bytes == 16)
                && queue.is_wanted(offset)
            {
                let (qid, slot, head, tail) = (queue.queue.qid, offset / 64, queue.head, queue.tail);
                self.breaches.push(Breach::Overwritten { qid, slot, head, tail });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monitor() -> Monitor {
        let queue = abi::QueueRef {
            sq: 0x1000,
            sq_doorbell: 0x10,
            cq_doorbell: 0x14,
            state: 0x8000,
            sq_shift: 2,
            cq_shift: 2,
            qid: 1,
            sharing: abi::SHARING_SHARED,
            ..abi::QueueRef::new()
        };
        Monitor::new(&[queue], 0)
    }

    #[test]
    fn a_lawful_exchange_is_no_breach() {
        let mut monitor = monitor();
        for lap in 0..5u32 {
            monitor.stores(0, 0x1000 + u64::from(lap * 3 % 4) * 64, 16);
            monitor.rings(0, 0x10);
            monitor.doorbell(0x10, (lap * 3 + 3) & 3);
            monitor.doorbell(0x14, (lap * 3 + 3) & 3);
        }
        assert_eq!(monitor.breaches(), []);
        assert_eq!(monitor.outstanding(0), 0);
    }

    #[test]
    fn a_tail_that_goes_back_is_outstanding_too_much() {
        let mut monitor = monitor();
        monitor.doorbell(0x10, 2);
        monitor.doorbell(0x10, 1);
        assert!(matches!(monitor.breaches(), [Breach::Outstanding { outstanding: 5, limit: 3, .. }]));
    }

    #[test]
    fn a_repeated_value_and_a_head_beyond_the_tail_are_breaches() {
        let mut monitor = monitor();
        monitor.doorbell(0x10, 0);
        monitor.doorbell(0x14, 1);
        assert!(matches!(monitor.breaches()[0], Breach::DoorbellValue { value: 0, .. }));
        assert!(matches!(monitor.breaches()[1], Breach::HeadBeyondTail { head: 1, tail: 0, .. }));
    }

    #[test]
    fn a_store_into_an_entry_in_use_is_a_breach() {
        let mut monitor = monitor();
        monitor.doorbell(0x10, 2);
        monitor.stores(3, 0x1000 + 2 * 64, 16);
        assert_eq!(monitor.breaches(), []);
        monitor.stores(3, 0x1000 + 64, 16);
        assert!(matches!(monitor.breaches(), [Breach::Overwritten { slot: 1, .. }]));
    }

    #[test]
    fn two_writers_need_a_hand_over() {
        let turn = 0x8000 + std::mem::offset_of!(abi::QueueState, turn) as u64;
        let mut monitor = monitor();
        monitor.rings(0, 0x10);
        monitor.stores(0, turn, 8);
        monitor.rings(1, 0x10);
        assert_eq!(monitor.breaches(), []);
        monitor.rings(2, 0x10);
        assert!(matches!(monitor.breaches(), [Breach::Writers { first: 1, second: 2, .. }]));
    }
}
