//! Weak memory, as PTX ISA 9.0, section 8, allows it, chosen against the kernel by a seed.
//!
//! A store is late: it goes from its lane to its block, from there to the GPU, and from there to the host's memory, each
//! step at some time and past others at other addresses. A release of a scope leaves a marker that later stores of its lane
//! do not pass on their way to that scope. A block keeps words that it loaded, and their neighbours, until an acquire.
//! A store to the system that no `fence.sc` keeps before a load behind it is held back for long, so that devices and the
//! host, whose time no seed chooses, find it missing.
//! A load that nothing orders behind another block's store may find what was there before it.
//! A strong load whose scope leaves out who wrote the word last may see what was kept, as a weak one may.
//! Loads are not later than what follows them: load buffering is allowed by PTX, and not shown.

use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::late::{Buffer, Held, Late};
use super::past::{Looked, Past};
use super::polls::Polls;
use super::real::{Real, Region, Span};
use super::words::Words;
use crate::program::{Access, Order, Scope};

/// Late stores that a place holds, at most.
const MOST: usize = 12;
/// Words that a block keeps, at most.
const WORDS: usize = 4096;
/// Words of a sector: what a load brings along.
const SECTOR: u64 = 4;
/// Late stores of the GPU among which none is held back any more.
const FULL: usize = 4 * MOST;

/// What the blocks of a GPU have in common, of all grids that run there.
#[derive(Debug)]
pub(super) struct Gpu(pub(super) Mutex<State>);

#[derive(Debug)]
pub(super) struct State {
    pub(super) late: Buffer,
    /// When a block last wrote a word.
    written: Words<u64>,
    past: Past,
    now: u64,
    /// When somebody last acquired what other devices wrote.
    acquired: u64,
    random: Xoshiro256PlusPlus,
    /// One in so many chances lets something go on: from lanes, from blocks, from the GPU. Each run has its own.
    rates: [u32; 3],
    held: Held,
    /// Grids that run.
    grids: u64,
}

/// What a block keeps: late stores of all its lanes, and words with the time at which they were loaded.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) late: Buffer,
    words: Words<(u64, u64)>,
    looked: Looked,
}

impl Gpu {
    pub(super) fn new() -> Gpu {
        Gpu(Mutex::new(State {
            late: Buffer::default(),
            written: Words::default(),
            past: Past::default(),
            now: 1,
            acquired: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(0),
            rates: [1; 3],
            held: Held::default(),
            grids: 0,
        }))
    }

    /// A block begins: what is seen so far, it sees.
    pub(super) fn block(&self) -> Block {
        Block { looked: Looked::from(self.0.lock().now), ..Block::default() }
    }

    /// A grid begins. The seed of the first of several that run at the same time chooses for all of them.
    pub(super) fn begin(&self, seed: u64) {
        let mut state = self.0.lock();
        state.grids += 1;
        if state.grids == 1 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5745_414b);
            state.rates = [0; 3].map(|_: u32| 2 << random.random_range(0..6));
            state.random = random;
            state.held = Held::default();
            // No block keeps words that these are to be compared with.
            state.written.clear();
            state.past = Past::default();
        }
    }

    /// A grid ended: all that is late reaches the host's memory.
    pub(super) fn end(&self) {
        let mut state = self.0.lock();
        let count = state.late.0.len();
        state.first_reach_memory(count);
        state.grids -= 1;
    }
}

impl State {
    /// The first ones that are late on this GPU reach the host's memory.
    fn first_reach_memory(&mut self, count: usize) {
        self.late.0.drain(..count).for_each(Late::reaches_memory);
    }

    /// What the GPU as a whole sees.
    fn seen(&self, at: Real) -> u64 {
        self.late.over(at, at.load(std::sync::atomic::Ordering::Acquire))
    }
}

impl Block {
    /// One that is late in this block becomes late on the GPU.
    fn reach_gpu(&mut self, index: usize, gpu: &mut State) {
        let late = self.late.0.remove(index);
        self.reaches_gpu(late, gpu);
    }

    /// The first ones that are late in this block do.
    fn first_reach_gpu(&mut self, count: usize, gpu: &mut State) {
        let mut late = std::mem::take(&mut self.late.0);
        late.drain(..count).for_each(|late| self.reaches_gpu(late, gpu));
        self.late.0 = late;
    }

    fn reaches_gpu(&mut self, late: Late, gpu: &mut State) {
        match late {
            Late::Store { to, value, released, .. } => {
                let word = to.span().word();
                gpu.past.stored(to.span(), gpu.seen(to), gpu.now, released);
                self.looked.at(word, gpu.now + 1);
                if let Some((kept, _)) = self.words.get_mut(&word) {
                    *kept = Span::of_word(word).patched(*kept, to.span(), value);
                }
                gpu.written.insert(word, gpu.now);
                gpu.now += 1;
                gpu.late.0.push(late);
            }
            Late::Marker { scope: Scope::System, .. } => gpu.late.0.push(late),
            Late::Marker { .. } => {}
        }
    }

    /// One that is late in a lane becomes late in its block.
    fn take(&mut self, lane: &mut Buffer, index: usize) {
        self.takes(lane.0.remove(index));
    }

    /// The first ones that are late in a lane do.
    pub(super) fn take_first(&mut self, lane: &mut Buffer, count: usize) {
        lane.0.drain(..count).for_each(|late| self.takes(late));
    }

    fn takes(&mut self, late: Late) {
        if !matches!(late, Late::Marker { scope: Scope::Cta, .. }) {
            self.late.0.push(late);
        }
    }

    /// Keeps the sector of a word that was loaded.
    fn keep(&mut self, at: Real, region: &Region, gpu: &State) {
        if self.words.len() >= WORDS {
            self.words.clear();
        }
        let word = at.span().word();
        let first = word - word % (SECTOR * 8);
        for neighbour in (0..SECTOR).map(|index| first + index * 8) {
            if let Some(real) = Real::new(region, neighbour, 8) {
                self.words.entry(neighbour).or_insert_with(|| (gpu.seen(real), gpu.now));
            }
        }
    }
}

/// What is late in a lane, its block and the GPU, while one of its instructions runs.
pub(super) struct Path<'a> {
    pub(super) lane: &'a mut Buffer,
    pub(super) polls: &'a mut Polls,
    pub(super) block: &'a mut Block,
    pub(super) gpu: &'a mut State,
    pub(super) released: &'a mut bool,
    pub(super) owner: u64,
}

impl Path<'_> {
    /// Some of what is late goes on; all that a place has no room for does.
    pub(super) fn drain(&mut self) {
        while self.goes_on(self.lane.0.len(), 0) {
            let Some(index) = self.lane.choose(&mut self.gpu.random) else { break };
            self.block.take(self.lane, index);
        }
        while self.goes_on(self.block.late.0.len(), 1) {
            let Some(index) = self.block.late.choose(&mut self.gpu.random) else { break };
            self.block.reach_gpu(index, self.gpu);
        }
        self.gpu.held.step();
        while self.goes_on(self.gpu.late.0.len(), 2) {
            let State { late, random, held, .. } = &mut *self.gpu;
            let is_full = late.0.len() >= FULL;
            let Some(index) = late.choose_but(|at| held.has(at) && !is_full, random) else { break };
            late.0.remove(index).reaches_memory();
        }
    }

    /// Whether one of so many that are late at a place goes on.
    fn goes_on(&mut self, count: usize, place: usize) -> bool {
        count > MOST || (count > 0 && self.chance(self.gpu.rates[place]))
    }

    /// Once in `of` times.
    fn chance(&mut self, of: u32) -> bool {
        self.gpu.random.random_range(0..of) == 0
    }

    /// All that is ahead of what comes next is seen in this scope.
    pub(super) fn flush(&mut self, scope: Scope) {
        self.block.take_first(self.lane, self.lane.0.len());
        if scope >= Scope::Gpu {
            self.block.first_reach_gpu(self.block.late.0.len(), self.gpu);
        }
        if scope == Scope::System {
            self.gpu.first_reach_memory(self.gpu.late.0.len());
        }
    }

    /// What is ahead of the lane's own last marker is seen in its scope, and what is behind it stays where it is.
    fn flush_marked(&mut self) {
        self.block.take_first(self.lane, self.lane.marked(self.owner));
        self.block.first_reach_gpu(self.block.late.marked(self.owner), self.gpu);
        self.gpu.first_reach_memory(self.gpu.late.marked(self.owner));
    }

    /// The widest scope that a marker of the lane's own keeps.
    fn marked(&self) -> Option<Scope> {
        let markers = [&*self.lane, &self.block.late, &self.gpu.late];
        let scopes = markers.into_iter().flat_map(|buffer| &buffer.0).filter_map(|late| match late {
            Late::Marker { scope, owner } if *owner == self.owner => Some(*scope),
            _ => None,
        });
        scopes.max()
    }

    pub(super) fn release(&mut self, scope: Scope) {
        *self.released = true;
        self.lane.0.push(Late::Marker { scope, owner: self.owner });
    }

    /// All that was released so far may be known: by a fence or an atomic, or a load at the system or of what was released.
    pub(super) fn acquire(&mut self, scope: Scope) {
        if scope >= Scope::Gpu {
            self.block.looked.acquire(self.gpu.now);
        }
        self.drop_kept(scope);
    }

    /// What the block kept is no longer read, as far as this scope asks for.
    fn drop_kept(&mut self, scope: Scope) {
        match scope {
            Scope::Cta => {}
            Scope::Gpu => {
                let State { written, acquired, .. } = &*self.gpu;
                // What only other devices wrote, this scope does not ask for.
                self.block.words.retain(|word, (_, loaded)| {
                    *loaded > *acquired && written.get(word).is_none_or(|at| at < loaded)
                });
            }
            Scope::System => {
                self.block.words.clear();
                self.gpu.acquired = self.gpu.now;
                self.gpu.now += 1;
            }
        }
    }

    pub(super) fn load(&mut self, access: &Access, at: Real, region: &Region) -> u64 {
        if access.scope == Scope::System && matches!(access.order, Order::Relaxed | Order::Acquire) {
            self.hold_back(at);
        }
        let word = at.span().word();
        let unordered = self.is_unordered(access, word);
        let early = match access.order {
            // Registers of a device are read as the text says, and nothing beside them.
            _ if region.registers => false,
            _ if unordered => true,
            Order::Relaxed => self.chance(8),
            _ => false,
        };
        let known = self.block.words.get(&word).copied();
        let kept = known.map(|(kept, _)| at.span().part_of(kept));
        let seen = match kept {
            Some(kept) if early => {
                if unordered {
                    let address = at.span().address();
                    if self.gpu.seen(at) == kept {
                        self.polls.fresh(address)
                    } else {
                        self.polls.old(address)
                    }
                }
                self.block.looked.at(word, known.map_or(0, |(_, loaded)| loaded));
                kept
            }
            _ => {
                let whole = self.block.words.remove(&word).and_then(|_| Real::new(region, word, 8));
                if let Some(whole) = whole {
                    // One location has one order for all who look (section 8.9.1): the word is kept anew.
                    let kept = self.gpu.seen(whole);
                    self.block.looked.at(word, self.gpu.now);
                    self.block.words.insert(word, (kept, self.gpu.now));
                    return self.loaded(access, at, at.span().part_of(kept));
                }
                let seen = self.gpu.seen(at);
                if region.registers {
                    return seen;
                }
                let old = self.gpu.past.of(at.span(), &self.block.looked);
                if let Some(old) = old.filter(|_| access.order != Order::Mmio && self.chance(3)) {
                    return self.loaded(access, at, old);
                }
                self.block.looked.at(word, self.gpu.now);
                if access.order != Order::Mmio && (unordered || self.chance(4)) {
                    self.block.keep(at, region, self.gpu);
                }
                seen
            }
        };
        self.loaded(access, at, seen)
    }

    /// Whether nothing makes a load see the newest value: it is weak, or of a scope without the word's last writer. What no
    /// block has written since it was kept is the host's, a device's, or as it was.
    fn is_unordered(&self, access: &Access, word: u64) -> bool {
        match (access.order, access.scope) {
            (Order::Weak, _) | (Order::Relaxed | Order::Acquire, Scope::Cta) => true,
            (Order::Relaxed | Order::Acquire, Scope::Gpu) => {
                let (kept, written) = (self.block.words.get(&word), self.gpu.written.get(&word));
                kept.is_some_and(|(_, loaded)| written.is_none_or(|at| at < loaded))
            }
            _ => false,
        }
    }

    /// A load of what the host or a device may have written passes a store of its lane's that they may be waiting for: they
    /// shall have time to do what they do without it. `fence.sc` is what forbids that.
    fn hold_back(&mut self, at: Real) {
        let late = [&*self.lane, &self.block.late, &self.gpu.late];
        let store = late.into_iter().find_map(|buffer| buffer.last_of(self.owner, at.span()));
        if let Some(store) = store
            && self.chance(2)
        {
            self.gpu.held.begin(store);
        }
    }

    /// What the lane sees of what its block does.
    fn loaded(&mut self, access: &Access, at: Real, seen: u64) -> u64 {
        let value = self.lane.over(at, self.block.late.over(at, seen));
        if access.order == Order::Acquire {
            // What no thread wrote that had released tells nothing. What the host does is not known.
            if access.scope == Scope::System || self.gpu.past.is_released(at.span().word()) {
                self.acquire(access.scope);
            } else {
                self.drop_kept(access.scope);
            }
        }
        value
    }

    pub(super) fn store(&mut self, access: &Access, to: Real, value: u64) {
        if access.order == Order::Release {
            self.release(access.scope);
        }
        if access.order == Order::Mmio {
            // It waits for nothing but what was released before it.
            self.flush_marked();
            self.ahead_of(to);
            return to.store(value, std::sync::atomic::Ordering::SeqCst);
        }
        let system = access.scope == Scope::System && access.order != Order::Weak;
        self.lane.0.push(Late::Store { to, value, owner: self.owner, system, released: *self.released });
    }

    /// What this lane sees of a word is in memory, before it is written there.
    fn ahead_of(&mut self, at: Real) {
        let covers = |late: &Late| matches!(late, Late::Store { to, .. } if to.span().overlaps(at.span()));
        let pending = [&*self.lane, &self.block.late, &self.gpu.late];
        if pending.into_iter().any(|buffer| buffer.0.iter().any(covers)) {
            self.flush(Scope::System);
        }
        let word = at.span().word();
        self.gpu.past.updated(word, *self.released);
        self.block.looked.at(word, self.gpu.now + 1);
        self.block.words.remove(&word);
        self.gpu.written.insert(word, self.gpu.now);
        self.gpu.now += 1;
    }

    /// Atomics are done in memory, after all that this lane sees of the word.
    pub(super) fn update(&mut self, access: &Access, at: Real, change: impl Fn(u64) -> u64) -> u64 {
        let releases = matches!(access.order, Order::Release | Order::AcquireRelease);
        *self.released |= releases;
        let released = self.marked().max(releases.then_some(access.scope));
        if let Some(scope) = released {
            self.flush(scope);
        }
        self.ahead_of(at);
        let old = at.update(change);
        if matches!(access.order, Order::Acquire | Order::AcquireRelease) {
            self.acquire(access.scope);
        }
        old
    }
}
