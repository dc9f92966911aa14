//! A kernel, a controller and time as one system of which every move is known: what may happen next, and what happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpbell_kernels::cpu::{Explorer, Hooks, Launch, Next, Waiting};

use super::arena::Arena;
use super::device::Device;
use super::locals::{Input, Locals};
use super::roles::Roles;
use super::symmetry::Symmetry;
use crate::launches::restore;

/// Loads that nobody is known to disturb, one after the other, before others get a turn all the same: the lane may
/// wait for somebody who was not seen to write yet.
const MOST_QUIET_LOADS: u32 = 64;
/// By how much the clock leaps: more than any deadline.
const LEAP_NS: u64 = 1_000_000_000_000;

/// Something that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// A lane does what it stopped before; with a fence or its return, all its stores drain first.
    Step {
        /// The lane.
        lane: u8,
    },
    /// A store leaves its lane's buffer.
    Drain {
        /// The lane.
        lane: u8,
        /// Number of the store, oldest first.
        index: u8,
    },
    /// The controller fetches an entry.
    Fetch,
    /// The controller posts the completion of a command.
    Complete {
        /// Number of the command in flight.
        index: u8,
    },
    /// All deadlines that run pass.
    Leap,
}

/// Why a move was not the start of more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A rule is broken.
    Broken(String),
    /// Something else than what was assumed about who writes where: start again, now knowing better.
    Restart,
}

/// The system. It starts where it was made.
pub struct Model {
    pub(super) explorer: Explorer,
    /// Memory.
    pub arena: Arena,
    /// The controller, if there is one.
    pub device: Option<Device>,
    pub(super) clock: Arc<AtomicU64>,
    leaps: u64,
    roles: Roles,
    reduce: bool,
    /// Lanes that moved since the last `mark` or `restore`, a bit each.
    pub(super) moved: u32,
    /// Where each lane can stand, and where it stands.
    pub(super) locals: Vec<Locals>,
    pub(super) place: Vec<u32>,
    /// Which warps are alike, if that is made use of.
    pub(super) symmetry: Option<Symmetry>,
    /// By renaming and lane: for a place of that lane the place of the lane that it becomes.
    pub(super) renamed: Vec<Vec<Option<u32>>>,
    spare: Vec<u64>,
    pub(super) scratch: Vec<u64>,
}

impl Model {
    /// `launch` over memory that its arguments point into. `leaps`: how often all deadlines may pass. With `reduce`,
    /// moves that make no difference to others are not tried in every order.
    pub fn new(
        launch: &Launch,
        arena: Arena,
        device: Option<Device>,
        leaps: u64,
        reduce: bool,
    ) -> anyhow::Result<Model> {
        let clock = Arc::new(AtomicU64::new(1));
        let read = clock.clone();
        let hooks = Hooks::new().clock(move || read.load(Ordering::Relaxed));
        let explorer = Explorer::new(&launch.clone().hooks(hooks))?;
        anyhow::ensure!(explorer.lanes() < 8, "{} lanes: at most 7 can be explored", explorer.lanes());
        let roles = Roles::new(arena.base(), arena.len());
        let lanes = explorer.lanes();
        let mut model = Model {
            explorer,
            arena,
            device,
            clock,
            leaps,
            roles,
            reduce,
            moved: 0,
            locals: (0..lanes).map(|_| Locals::default()).collect(),
            place: vec![0; lanes],
            symmetry: None,
            renamed: Vec::new(),
            spare: Vec::new(),
            scratch: Vec::new(),
        };
        (0..lanes).for_each(|lane| model.arrive_at(lane, None));
        Ok(model)
    }

    /// The same, of warps that are alike: states that differ in their numbers only count as one.
    pub fn with_symmetry(mut self, symmetry: Symmetry) -> Model {
        self.renamed = vec![Vec::new(); symmetry.renamings().len() * self.explorer.lanes()];
        self.symmetry = Some(symmetry);
        self
    }

    /// Notes what everybody is about to do where the system starts.
    pub fn begin(&mut self) -> Result<(), Stop> {
        let rings = self.device.iter().flat_map(Device::writes);
        for (at, bytes) in rings {
            let at = self.arena.base() + at as u64;
            self.roles.writes(self.explorer.lanes(), at, bytes).map_err(|_| Stop::Restart)?;
        }
        (0..self.explorer.lanes()).try_for_each(|lane| self.settle(lane))
    }

    /// What was learnt so far of who writes where.
    pub fn roles(&self) -> Roles {
        self.roles.clone()
    }

    /// Goes back to what was known then.
    pub fn set_roles(&mut self, roles: &Roles) {
        self.roles.clone_from(roles);
    }

    /// Appends the whole state.
    pub fn save(&self, to: &mut Vec<u64>) {
        to.extend([self.clock.load(Ordering::Relaxed), self.leaps]);
        self.arena.save(to);
        self.device.iter().for_each(|device| device.save(to));
        for lane in 0..self.explorer.lanes() {
            to.extend([u64::from(self.place[lane]), u64::from(self.explorer.stores(lane))]);
            (0..self.explorer.stores(lane))
                .for_each(|index| to.extend(packed(&self.explorer.waiting(lane, index))));
        }
    }

    /// From here on, what moves is to be put back by [`restore_moved`](Model::restore_moved).
    pub fn mark(&mut self) {
        self.moved = 0;
    }

    /// Puts the system back to where it was saved.
    pub fn restore(&mut self, from: &[u64]) {
        self.moved = u32::MAX;
        self.restore_moved(from);
    }

    /// The same, where the system was marked or restored last in the state `from`.
    pub fn restore_moved(&mut self, from: &[u64]) {
        self.clock.store(from[0], Ordering::Relaxed);
        self.leaps = from[1];
        let mut rest = self.arena.restore(&from[2..]);
        if let Some(device) = &mut self.device {
            rest = device.restore(rest);
        }
        self.restore_lanes(rest);
    }

    fn restore_lanes(&mut self, mut from: &[u64]) {
        for lane in 0..self.explorer.lanes() {
            let (buffer, after) = from[2..].split_at(from[1] as usize * Explorer::STORE_WORDS);
            if self.moved >> lane & 1 != 0 {
                self.put(lane, from[0] as u32, from[1], buffer);
            }
            from = after;
        }
        self.moved = 0;
    }

    /// Puts a lane to a place, with so many stores in its buffer.
    pub(super) fn put(&mut self, lane: usize, place: u32, stores: u64, buffer: &[u64]) {
        self.spare.clear();
        self.spare.extend_from_slice(self.locals[lane].control(place));
        self.spare[1] = stores;
        self.spare.extend_from_slice(buffer);
        restore(&mut self.explorer, lane, &self.spare);
        self.place[lane] = place;
    }

    /// Lets `lane` do what it does next.
    pub(super) fn advance(&mut self, lane: usize) {
        let input = self.input(lane);
        let from = self.place[lane];
        self.explorer.advance(lane);
        self.arrive_at(lane, Some((from, input)));
    }

    fn arrive_at(&mut self, lane: usize, origin: Option<(u32, Input)>) {
        self.spare.clear();
        self.explorer.save(lane, &mut self.spare);
        self.place[lane] = self.locals[lane].number(&self.spare, origin);
    }

    /// What `lane` is about to read: memory, or what it stored and nobody else has seen.
    fn input(&self, lane: usize) -> Input {
        let (clock, buffer) = (self.clock.load(Ordering::Relaxed), self.shape(lane));
        let (Next::Load { address, bytes } | Next::Rmw { address, bytes }) = self.explorer.next(lane) else {
            return Input { address: self.arena.base(), bytes: 0, value: 0, clock, buffer };
        };
        assert!(bytes == 4 || bytes == 8, "a load of {bytes} bytes");
        let offset = address.wrapping_sub(self.arena.base()) as usize;
        let memory = if bytes == 4 { u64::from(self.arena.half(offset)) } else { self.arena.word(offset) };
        let mut value = memory.to_le_bytes();
        for index in 0..self.explorer.stores(lane) {
            let store = self.explorer.waiting(lane, index);
            for (at, byte) in store.value.iter().take(store.bytes as usize).enumerate() {
                let to = (store.address + at as u64).wrapping_sub(address);
                if to < u64::from(bytes) {
                    value[to as usize] = *byte;
                }
            }
        }
        Input { address, bytes, value: u64::from_le_bytes(value), clock, buffer }
    }

    /// Whether every lane has returned and every store has drained.
    pub fn finished(&self) -> bool {
        (0..self.explorer.lanes()).all(|lane| self.returned(lane) && self.explorer.stores(lane) == 0)
    }

    fn returned(&self, lane: usize) -> bool {
        self.explorer.next(lane) == Next::Done
    }

    pub(super) fn waiting(&self, lane: usize) -> Vec<Waiting> {
        (0..self.explorer.stores(lane)).map(|index| self.explorer.waiting(lane, index)).collect()
    }

    /// What can happen next, and has to be tried. Empty: nothing will ever happen.
    pub fn moves(&self) -> Vec<Move> {
        let buffers: Vec<Vec<Waiting>> = (0..self.explorer.lanes()).map(|lane| self.waiting(lane)).collect();
        let mut moves = Vec::with_capacity(8);
        for (lane, buffer) in buffers.iter().enumerate() {
            if self.can_step(lane, buffer) {
                moves.push(Move::Step { lane: lane as u8 });
            }
        }
        self.add_drains(&buffers, &mut moves);
        if let Some(device) = &self.device {
            moves.extend(device.next_fetch().map(|_| Move::Fetch));
            moves.extend((0..device.flights() as u8).map(|index| Move::Complete { index }));
        }
        if self.leaps > 0 && (0..self.explorer.lanes()).any(|lane| !self.returned(lane)) {
            moves.push(Move::Leap);
        }
        moves
    }

    fn can_step(&self, lane: usize, buffer: &[Waiting]) -> bool {
        match self.explorer.next(lane) {
            Next::Load { .. } => true,
            Next::Rmw { .. } | Next::Fence => self.reduce || !self.forced(lane, buffer).contains(&true),
            Next::Done => self.reduce && !buffer.is_empty(),
            Next::Fault => false,
        }
    }

    /// Which of its stores drain with the next step of `lane`, at the latest.
    fn forced(&self, lane: usize, buffer: &[Waiting]) -> Vec<bool> {
        let mut forced: Vec<bool> = match self.explorer.next(lane) {
            Next::Rmw { address, bytes } => {
                buffer.iter().map(|store| store.fenced || store.overlaps(address, bytes)).collect()
            }
            Next::Fence | Next::Done => vec![true; buffer.len()],
            Next::Load { .. } | Next::Fault => vec![false; buffer.len()],
        };
        add_predecessors(buffer, &mut forced);
        forced
    }

    /// A store has to be tried where it makes a difference: just before somebody else looks at its bytes or writes
    /// them. Before that it may as well wait, and what is never looked at drains when it must.
    fn add_drains(&self, buffers: &[Vec<Waiting>], moves: &mut Vec<Move>) {
        let forced: Vec<Vec<bool>> =
            buffers.iter().enumerate().map(|(lane, buffer)| self.forced(lane, buffer)).collect();
        let mut wanted: Vec<Vec<bool>> = Vec::with_capacity(buffers.len());
        for (lane, buffer) in buffers.iter().enumerate() {
            let wants = |store| self.is_wanted(lane, store, buffers, &forced);
            wanted.push(buffer.iter().map(wants).collect());
        }
        // Two stores to the same bytes: if one may drain now, so must the other, or their order is not tried.
        while let Some((lane, index)) = newly_wanted(buffers, &wanted) {
            wanted[lane][index] = true;
        }
        for (lane, index) in all_of(buffers).filter(|&(lane, index)| wanted[lane][index]) {
            let older = &buffers[lane][..index];
            // With what has to go before it, or, without reduction, only where there is nothing.
            if self.reduce || !older.iter().any(|older| older.drains_before(&buffers[lane][index])) {
                moves.push(Move::Drain { lane: lane as u8, index: index as u8 });
            }
        }
    }

    fn is_wanted(
        &self,
        lane: usize,
        store: &Waiting,
        buffers: &[Vec<Waiting>],
        forced: &[Vec<bool>],
    ) -> bool {
        if !self.reduce || store.doorbell {
            return true;
        }
        let fetch = self.device.as_ref().and_then(Device::next_fetch);
        if fetch.is_some_and(|at| store.overlaps(self.arena.base() + at as u64, 64)) {
            return true;
        }
        (0..buffers.len()).any(|other| {
            let accessed = match self.explorer.next(other) {
                Next::Load { address, bytes } => store.overlaps(address, bytes),
                Next::Rmw { address, bytes } => other != lane && store.overlaps(address, bytes),
                Next::Fence | Next::Done | Next::Fault => false,
            };
            let written = || {
                let forced = buffers[other].iter().zip(&forced[other]).filter(|(_, forced)| **forced);
                other != lane && forced.map(|(e, _)| e).any(|e| store.overlaps(e.address, e.bytes))
            };
            accessed || written()
        })
    }

    /// Lets it happen.
    pub fn perform(&mut self, action: Move) -> Result<(), Stop> {
        if let Move::Step { lane } | Move::Drain { lane, .. } = action {
            self.moved |= 1 << lane;
        }
        match action {
            Move::Step { lane } => self.step(usize::from(lane)),
            Move::Drain { lane, index } => {
                let buffer = self.waiting(usize::from(lane));
                let mut which = vec![false; buffer.len()];
                which[usize::from(index)] = true;
                add_predecessors(&buffer, &mut which);
                self.drain_all(usize::from(lane), &which)
            }
            Move::Fetch => self.on_device(|device, arena| device.fetch(arena)),
            Move::Complete { index } => {
                self.on_device(|device, arena| device.complete(usize::from(index), arena))
            }
            Move::Leap => {
                self.leaps -= 1;
                self.clock.fetch_add(LEAP_NS, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    fn on_device(&mut self, act: impl FnOnce(&mut Device, &Arena) -> Result<(), String>) -> Result<(), Stop> {
        let device = self.device.as_mut().ok_or_else(|| Stop::Broken("there is no controller".into()))?;
        act(device, &self.arena).map_err(Stop::Broken)
    }

    fn step(&mut self, lane: usize) -> Result<(), Stop> {
        let next = self.explorer.next(lane);
        let forced = self.forced(lane, &self.waiting(lane));
        self.drain_all(lane, &forced)?;
        if next != Next::Done {
            self.advance(lane);
        }
        self.settle(lane)
    }

    /// Lets those stores of `lane` drain that `which` has, oldest first.
    fn drain_all(&mut self, lane: usize, which: &[bool]) -> Result<(), Stop> {
        let drains = (0..which.len()).filter(|index| which[*index]);
        // Each that is gone moves those behind it up.
        for (gone, index) in drains.enumerate() {
            self.drain(lane, (index - gone) as u32).map_err(Stop::Broken)?;
        }
        Ok(())
    }

    /// Notes what `lane` is about to do; lets it do what others cannot disturb.
    fn settle(&mut self, lane: usize) -> Result<(), Stop> {
        let mut known = 0;
        for quiet in 0.. {
            for index in known..self.explorer.stores(lane) {
                self.note_store(lane, index)?;
            }
            known = self.explorer.stores(lane);
            match self.explorer.next(lane) {
                Next::Load { address, bytes } => {
                    let alone = self.note_read(lane, address, bytes);
                    if !alone || !self.reduce || quiet == MOST_QUIET_LOADS {
                        break;
                    }
                }
                Next::Rmw { address, bytes } => {
                    self.note_read(lane, address, bytes);
                    return self.note_write(lane, address, bytes);
                }
                Next::Fault => return Err(Stop::Broken(self.explorer.fault())),
                Next::Fence | Next::Done => break,
            }
            self.advance(lane);
        }
        Ok(())
    }

    fn note_store(&mut self, lane: usize, index: u32) -> Result<(), Stop> {
        let store = self.explorer.waiting(lane, index);
        if store.doorbell { Ok(()) } else { self.note_write(lane, store.address, store.bytes) }
    }

    fn note_write(&mut self, lane: usize, address: u64, bytes: u32) -> Result<(), Stop> {
        if !self.arena.keeps(address, bytes) {
            let name = self.arena.name(address);
            return Err(Stop::Broken(format!("warp {lane} writes to {name}, which is no part of the state")));
        }
        let Some(symmetry) = &self.symmetry else {
            return self.roles.writes(lane, address, bytes).map_err(|_| Stop::Restart);
        };
        // What one warp does any other may do in its place.
        let mut wrong = Ok(());
        for by in symmetry.renamings() {
            let (lane, address) = (symmetry.lane(by, lane), symmetry.address(by, address));
            wrong = self.roles.writes(lane, address, bytes).and(wrong);
        }
        wrong.map_err(|_| Stop::Restart)
    }

    /// Whether nobody else is known to write there.
    fn note_read(&mut self, lane: usize, address: u64, bytes: u32) -> bool {
        let others = self.symmetry.iter().flat_map(|symmetry| {
            let renamed = |by| (symmetry.lane(by, lane), symmetry.address(by, address));
            symmetry.renamings().iter().map(renamed)
        });
        for (lane, address) in others {
            self.roles.reads(lane, address, bytes);
        }
        self.roles.reads(lane, address, bytes)
    }

    fn drain(&mut self, lane: usize, index: u32) -> Result<(), String> {
        let store = self.explorer.drain(lane, index);
        let offset = store.address.wrapping_sub(self.arena.base()) as usize;
        match &mut self.device {
            Some(device) if store.doorbell => device.ring(offset, store.number() & 0xffff_ffff),
            Some(device) => device.stored(offset),
            None if store.doorbell => Err("a doorbell without a controller".into()),
            None => Ok(()),
        }
    }
}

/// A store that waits, as words of a state.
fn packed(store: &Waiting) -> [u64; Explorer::STORE_WORDS] {
    let half = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&store.value[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let flags = u64::from(store.bytes) | u64::from(store.doorbell) << 32;
    [store.address, flags, u64::from(store.epoch) | u64::from(store.fenced) << 32, half(0), half(8)]
}

/// Adds the stores that have to drain before those in `set`.
fn add_predecessors(buffer: &[Waiting], set: &mut [bool]) {
    for index in (0..buffer.len()).rev().filter(|index| *index > 0) {
        if set[index] {
            (0..index).for_each(|older| set[older] |= buffer[older].drains_before(&buffer[index]));
        }
    }
}

fn all_of(buffers: &[Vec<Waiting>]) -> impl Iterator<Item = (usize, usize)> + Clone + '_ {
    buffers.iter().enumerate().flat_map(|(lane, buffer)| (0..buffer.len()).map(move |index| (lane, index)))
}

/// A store that is not wanted yet, to bytes that another buffer writes with a wanted store or before it.
fn newly_wanted(buffers: &[Vec<Waiting>], wanted: &[Vec<bool>]) -> Option<(usize, usize)> {
    let mut drains = wanted.to_vec();
    buffers.iter().zip(&mut drains).for_each(|(buffer, set)| add_predecessors(buffer, set));
    all_of(buffers).filter(|&(lane, index)| !wanted[lane][index]).find(|&(lane, index)| {
        let store = &buffers[lane][index];
        all_of(buffers).any(|(other, at)| {
            let e = &buffers[other][at];
            other != lane && drains[other][at] && store.overlaps(e.address, e.bytes)
        })
    })
}
