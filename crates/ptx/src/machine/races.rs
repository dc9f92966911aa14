//! Accesses that nothing orders (PTX ISA 9.0, sections 8.7 and 8.9): two of one byte by two threads, one of them a write,
//! neither of which is before the other in causality order, and which are not both strong in scopes that have both.
//!
//! Each thread has a vector clock. What is released is kept for good where it was released: who acquires there gets all of
//! it, also what was released later than the value that it reads. So more is in order here than PTX says: races are
//! missed, and none is told that is none. The host takes part as one thread: it gets what is released to the system, and
//! gives it to who acquires at the system a value that no kernel stored.
//!
//! An asynchronous copy is a thread of its own (section 8.9.1.1): it begins behind what its lane did, and what it does is
//! before nothing until it was waited for. Copies take turns in some places of threads: who waited for a later one of a
//! place counts as having waited for those before it there.

use std::collections::HashMap;

use super::words::Words;
use crate::program::{Order, Scope};
use crate::text::Place;

/// Accesses of a word that are remembered: older ones are forgotten.
const MOST: usize = 24;

/// A word: its block's number, or zero for what all reach, and its address.
pub(super) type Key = (u64, u64);

/// Times of threads, by their number.
#[derive(Clone, Debug, Default)]
struct Clock(Vec<u32>);

impl Clock {
    fn of(&self, thread: u32) -> u32 {
        self.0.get(thread as usize).copied().unwrap_or(0)
    }

    fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own = (*own).max(*other));
    }

    /// What this thread did up to then is known.
    fn raise(&mut self, thread: u32, time: u32) {
        let thread = thread as usize;
        if self.0.len() <= thread {
            self.0.resize(thread + 1, 0);
        }
        self.0[thread] = self.0[thread].max(time);
    }
}

/// Who accesses, and where the instruction is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    /// Its number among all threads of the GPU.
    pub(super) slot: u32,
    /// Its block's number among all of the GPU.
    pub(super) block: u64,
    pub(super) thread: u32,
    pub(super) place: Place,
    /// Of an asynchronous copy: its time, in the place of a thread that `slot` is. Zero: the thread itself.
    pub(super) copy: u32,
}

/// What an access does, beside its address.
#[derive(Clone, Copy, Debug)]
pub(super) struct What {
    /// Bytes of the word, from the lowest bit.
    pub(super) mask: u8,
    pub(super) writes: bool,
    pub(super) order: Order,
    pub(super) scope: Scope,
    /// A register of a device: its stores are in an order, strong or not.
    pub(super) device: bool,
}

impl What {
    fn strong(&self) -> bool {
        self.order != Order::Weak && !self.device
    }

    fn releases(&self) -> bool {
        self.writes && matches!(self.order, Order::Release | Order::AcquireRelease)
    }
}

#[derive(Clone, Copy, Debug)]
struct Record {
    who: Who,
    time: u32,
    what: What,
}

impl Record {
    /// Both are strong, and each is in the other's scope: then they are no race.
    fn strong_with(&self, who: &Who, what: &What) -> bool {
        let wide = self.what.scope >= Scope::Gpu && what.scope >= Scope::Gpu;
        let same = self.what.mask == what.mask && (wide || self.who.block == who.block);
        self.what.strong() && what.strong() && same
    }
}

/// What was released at a word by threads of a block; `wide`: to other blocks, too.
#[derive(Debug)]
struct Released {
    block: u64,
    wide: bool,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Location {
    records: Vec<Record>,
    released: Vec<Released>,
    /// Counts releases.
    version: u64,
    /// What kernels stored last, where they did.
    stored: (u8, u64),
}

#[derive(Debug, Default)]
struct Thread {
    clock: Clock,
    /// What its last fence released: to its block, and to others.
    fenced: [Option<Clock>; 2],
    /// What relaxed loads saw, for a fence that follows.
    pending: [Clock; 2],
    /// A relaxed load saw what the host stored.
    host: bool,
    /// The release that it saw last.
    seen: Option<(Key, u64, bool)>,
    /// The time of the last copy that began in this place.
    copies: u32,
}

/// All threads of a GPU, and the words that they access.
#[derive(Debug, Default)]
pub(super) struct Races {
    threads: Vec<Thread>,
    /// First threads and sizes of blocks that ended.
    free: Vec<(u32, u32)>,
    words: Words<Location>,
    /// Of shared memory, by block.
    shared: Words<Words<Location>>,
    host: Clock,
    /// What fences of one order have passed on.
    consistent: Clock,
    /// What grids did that have ended.
    ended: Clock,
    /// What copies know that barriers tell of, by place and time.
    copies: HashMap<(u32, u32), Clock>,
    grids: u64,
}

impl Races {
    /// A grid begins. What was before all that run is in order with it.
    pub(super) fn begin(&mut self) {
        if self.grids == 0 {
            *self = Races::default();
        }
        self.grids += 1;
    }

    pub(super) fn end(&mut self) {
        self.grids -= 1;
    }

    /// Threads of a block that begins: the first of their numbers. The host launched it, and saw others end.
    pub(super) fn enter(&mut self, count: u32) -> u32 {
        let free = self.free.iter().position(|(_, size)| *size == count);
        let first = match free {
            Some(at) => self.free.swap_remove(at).0,
            None => {
                self.threads.extend((0..count).map(|_| Thread::default()));
                self.threads.len() as u32 - count
            }
        };
        let mut clock = self.ended.clone();
        clock.join(&self.host);
        clock.0.resize(clock.0.len().max((first + count) as usize), 0);
        for slot in first..first + count {
            let before = &self.threads[slot as usize];
            let time = before.clock.of(slot).max(before.copies) + 1;
            let mut clock = clock.clone();
            clock.0[slot as usize] = time;
            self.threads[slot as usize] = Thread { clock, copies: time, ..Thread::default() };
        }
        first
    }

    /// Its end. What it did is before what is launched later.
    pub(super) fn leave(&mut self, first: u32, count: u32, block: u64) {
        for slot in first..first + count {
            let thread = &self.threads[slot as usize];
            self.ended.join(&thread.clock);
            self.ended.raise(slot, thread.copies);
        }
        self.free.push((first, count));
        self.shared.remove(&block);
    }

    /// What an access is in a race with, if it is.
    pub(super) fn access(&mut self, key: Key, who: Who, what: What) -> Option<Who> {
        let clock = &self.threads[who.slot as usize].clock;
        let records = &mut location(&mut self.words, &mut self.shared, key).records;
        let conflicts = |of: &Record| {
            let other = (of.who.slot, of.who.copy) != (who.slot, who.copy);
            other && of.what.mask & what.mask != 0 && (of.what.writes || what.writes)
        };
        let before = |of: &Record| clock.of(of.who.slot) >= of.time;
        let racing = records.iter().find(|of| conflicts(of) && !before(of) && !of.strong_with(&who, &what));
        if let Some(racing) = racing {
            return Some(racing.who);
        }
        // What is after this one is after those that were before it.
        records
            .retain(|of| of.what.mask & !what.mask != 0 || !before(of) || (of.what.writes && !what.writes));
        if records.len() >= MOST {
            records.remove(0);
        }
        let time = if who.copy == 0 { clock.of(who.slot) } else { who.copy };
        records.push(Record { who, time, what });
        None
    }

    /// A copy of the thread `by` begins in the place `slot`: its time. `told`: a barrier says when it is done.
    pub(super) fn fork(&mut self, slot: u32, by: u32, told: bool) -> u32 {
        let clock = self.threads[by as usize].clock.clone();
        self.threads[by as usize].tick(by);
        let place = &mut self.threads[slot as usize];
        place.copies += 1;
        let time = place.copies;
        place.clock = clock;
        if told {
            self.copies.insert((slot, time), place.clock.clone());
        }
        time
    }

    /// A thread has waited for a copy of its own.
    pub(super) fn waited(&mut self, thread: u32, copy: Who) {
        self.threads[thread as usize].clock.raise(copy.slot, copy.copy);
    }

    /// A copy is done, and who acquires at this barrier knows it.
    pub(super) fn complete(&mut self, key: Key, copy: Who) {
        let mut clock = self.copies.remove(&(copy.slot, copy.copy)).unwrap_or_default();
        clock.raise(copy.slot, copy.copy);
        location(&mut self.words, &mut self.shared, key).publish(&copy, false, &clock);
    }

    /// What a store or an atomic releases: before others can see what it stores.
    pub(super) fn release(&mut self, key: Key, who: Who, what: &What) {
        if what.order == Order::Weak {
            return;
        }
        let wide = what.scope >= Scope::Gpu;
        let thread = &mut self.threads[who.slot as usize];
        let location = location(&mut self.words, &mut self.shared, key);
        let fenced = thread.fenced.iter().zip([false, wide]).enumerate();
        for (to_others, (clock, fits)) in fenced {
            if let Some(clock) = clock.as_ref().filter(|_| fits || to_others == 0) {
                location.publish(&who, to_others == 1, clock);
            }
        }
        if what.releases() {
            location.publish(&who, wide, &thread.clock);
            if what.scope == Scope::System {
                self.host.join(&thread.clock);
            }
            thread.tick(who.slot);
        }
    }

    /// What a load or an atomic acquires that read this value.
    pub(super) fn acquire(&mut self, key: Key, who: Who, what: &What, value: u64) {
        if what.order == Order::Weak {
            return;
        }
        let wide = what.scope >= Scope::Gpu;
        let thread = &mut self.threads[who.slot as usize];
        let location = location(&mut self.words, &mut self.shared, key);
        let acquires = matches!(what.order, Order::Acquire | Order::AcquireRelease);
        let of_host = what.scope == Scope::System && !location.is_of_kernels(what.mask, value);
        thread.host |= of_host;
        if of_host && acquires {
            thread.clock.join(&self.host);
        }
        if thread.seen == Some((key, location.version, acquires)) {
            return;
        }
        thread.seen = Some((key, location.version, acquires));
        for released in &location.released {
            let own = released.block == who.block;
            if acquires && (own || (wide && released.wide)) {
                thread.clock.join(&released.clock);
            }
            if own {
                thread.pending[0].join(&released.clock);
            }
            if wide && released.wide {
                thread.pending[1].join(&released.clock);
            }
        }
    }

    /// The value that a word has now.
    pub(super) fn stored(&mut self, key: Key, mask: u8, value: u64) {
        let (known, word) = &mut location(&mut self.words, &mut self.shared, key).stored;
        let (bits, shift) = (bits(mask), mask.trailing_zeros() * 8);
        *known |= mask;
        *word = *word & !bits | (value << shift) & bits;
    }

    pub(super) fn fence(&mut self, who: Who, scope: Scope, consistent: bool) {
        let thread = &mut self.threads[who.slot as usize];
        let [of_block, of_all] = &thread.pending;
        thread.clock.join(of_block);
        if scope >= Scope::Gpu {
            thread.clock.join(of_all);
        }
        if scope == Scope::System && thread.host {
            thread.clock.join(&self.host);
        }
        if consistent {
            thread.clock.join(&self.consistent);
            self.consistent.join(&thread.clock);
        }
        thread.fenced[0] = Some(thread.clock.clone());
        if scope >= Scope::Gpu {
            thread.fenced[1] = thread.fenced[0].clone();
        }
        if scope == Scope::System {
            self.host.join(&thread.clock);
        }
        thread.tick(who.slot);
    }

    /// These threads met: each sees what the others did.
    pub(super) fn meet(&mut self, slots: &[u32]) {
        let mut all = Clock::default();
        slots.iter().for_each(|slot| all.join(&self.threads[*slot as usize].clock));
        for slot in slots {
            let thread = &mut self.threads[*slot as usize];
            thread.clock = all.clone();
            thread.tick(*slot);
        }
    }

    /// A thread comes to a barrier that has this key.
    pub(super) fn arrive(&mut self, key: Key, who: Who) {
        let thread = &mut self.threads[who.slot as usize];
        location(&mut self.words, &mut self.shared, key).publish(&who, true, &thread.clock);
        thread.tick(who.slot);
    }

    /// A barrier opens for these threads.
    pub(super) fn open(&mut self, key: Key, slots: &[u32]) {
        let Some(location) = self.shared.get_mut(&key.0).and_then(|words| words.remove(&key.1)) else {
            return;
        };
        for slot in slots {
            let clock = &mut self.threads[*slot as usize].clock;
            location.released.iter().for_each(|released| clock.join(&released.clock));
        }
    }
}

fn location<'a>(
    words: &'a mut Words<Location>,
    shared: &'a mut Words<Words<Location>>,
    (block, at): Key,
) -> &'a mut Location {
    let words = if block == 0 { words } else { shared.entry(block).or_default() };
    words.entry(at).or_default()
}

impl Thread {
    /// What it does from now on is later than what it released.
    fn tick(&mut self, slot: u32) {
        self.clock.0[slot as usize] += 1;
    }
}

impl Location {
    fn publish(&mut self, who: &Who, wide: bool, clock: &Clock) {
        let known = self.released.iter_mut().find(|of| of.block == who.block && of.wide == wide);
        match known {
            // Who knows a thread's time knows all that the thread knew at that time. Copies of one place know what they like.
            Some(released) if who.copy == 0 && released.clock.of(who.slot) >= clock.of(who.slot) => return,
            Some(released) => released.clock.join(clock),
            None => self.released.push(Released { block: who.block, wide, clock: clock.clone() }),
        }
        self.version += 1;
    }

    fn is_of_kernels(&self, mask: u8, value: u64) -> bool {
        let (known, word) = self.stored;
        let (bits, shift) = (bits(mask), mask.trailing_zeros() * 8);
        known & mask == mask && word & bits == (value << shift) & bits
    }
}

/// The bits of the bytes of a word.
fn bits(mask: u8) -> u64 {
    (0..8).filter(|byte| mask >> byte & 1 == 1).fold(0, |bits, byte| bits | 0xff << (byte * 8))
}
