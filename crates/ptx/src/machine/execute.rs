//! One lane, until it has to wait or had its turn.

use std::sync::atomic::{Ordering, fence};

use super::block::Common;
use super::bytes::is_aligned;
use super::lane::{Arrival, Lane, State};
use super::space::{Place, address, order_of_load, order_of_store};
use crate::error::{Check, Finding};
use crate::program::{Access, Address, Fence, Function, Op, Order, Reg, Rmw, Scope, Special, Step, Widen};

/// Why a lane stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// It had its turn, or sleeps for the rest of it.
    Turn,
    /// It meets others, arrived where they wait, or ended: `state` says which.
    Waits,
}

/// Calls in calls that a lane has room for.
const DEPTH: usize = 512;
/// Where clocks begin: the short one is soon at its end.
const CLOCK: u64 = (1 << 32) - 4096;

impl Common<'_> {
    /// At most `turn` instructions of a lane that is ready.
    pub(super) fn run(&mut self, lane: &mut Lane, turn: u32) -> Result<Pause, Box<Finding>> {
        let (run, mut done) = (self.run, 0);
        while done < turn {
            let function = &run.module.functions[lane.frame.function as usize];
            done += compute(function, lane, turn - done);
            if done == turn {
                break;
            }
            let step = &function.steps[lane.frame.next as usize];
            lane.frame.next += 1;
            done += 1;
            if is_skipped(&lane.registers[lane.frame.registers..], step) {
                continue;
            }
            if let Some(pause) = self.step(lane, step)? {
                self.instructions += u64::from(done);
                return Ok(pause);
            }
        }
        self.instructions += u64::from(turn);
        Ok(Pause::Turn)
    }

    /// An instruction that `compute` leaves to others.
    fn step(&mut self, lane: &mut Lane, step: &Step) -> Result<Option<Pause>, Box<Finding>> {
        match step.op {
            Op::Pack { to, from, count, bits } => {
                let part = |at: usize| lane.get(from[at]) << (at * usize::from(bits));
                lane.set(to, (0..usize::from(count)).map(part).fold(0, |all, part| all | part));
            }
            Op::Unpack { to, from, count, bits } => unpack(lane, to, lane.get(from), count, bits),
            Op::Special { to, which } => lane.set(to, self.special(lane, which)),
            Op::Load { access, widen, to, at } => self.loads(lane, &access, widen, to, at)?,
            Op::Store { access, from, at } => self.stores(lane, &access, from, at)?,
            Op::Atomic { access, rmw, widen, to, at, b, c } => {
                self.atomic(lane, &access, (rmw, widen), to, at, (b, c))?;
            }
            _ => return self.seldom(lane, step),
        }
        Ok(None)
    }

    /// What is not in every loop.
    fn seldom(&mut self, lane: &mut Lane, step: &Step) -> Result<Option<Pause>, Box<Finding>> {
        match step.op {
            Op::Fence(kind) => self.order(lane, kind),
            Op::Table { index, table } => {
                let function = &self.run.module.functions[lane.frame.function as usize];
                let index = lane.get(index) as usize;
                let Some(to) = function.tables[table as usize].get(index) else {
                    let what = format!("brx.idx {index}: no such target");
                    return Err(self.found(lane, Check::Bounds, what));
                };
                lane.frame.next = *to;
            }
            Op::Call { function, arguments } => self.call(lane, function, arguments)?,
            Op::Return => return Ok(self.leave(lane)),
            Op::Exit => {
                lane.state = State::Ended;
                return Ok(Some(Pause::Waits));
            }
            Op::Trap => return Err(self.found(lane, Check::Trap, "trap".to_owned())),
            Op::Barrier { id, count, waits, aligned } => {
                return self.barrier(lane, (id, count), waits, aligned);
            }
            Op::Meet { meeting, mask, to, also, a, b, c } => {
                let values = [lane.get(a), lane.get(b), lane.get(c)];
                let arrival = Arrival { meeting, mask: lane.get(mask) as u32, values, to, also };
                self.arrives(lane, &arrival)?;
                lane.state = State::Meets(arrival);
                return Ok(Some(Pause::Waits));
            }
            // Any set with the lane itself is one that a GPU could give (PTX ISA 9.0, section 9.7.13.11).
            Op::ActiveMask(to) => lane.set(to, 1 << lane.in_warp()),
            Op::Sleep => return Ok(Some(Pause::Turn)),
            _ => self.asynchronous(lane, &step.op)?,
        }
        Ok(None)
    }

    /// Barriers in memory, copies, and the marks of registers.
    fn asynchronous(&mut self, lane: &mut Lane, op: &Op) -> Result<(), Box<Finding>> {
        match *op {
            Op::Wanted(mark) => self.wanted(lane, mark)?,
            Op::Mbarrier { what, to, at, b, c } => self.mbarrier(lane, what, to, at, (b, c))?,
            Op::Copy(copy) => self.copy(lane, &copy)?,
            Op::Commit { bulk } => self.commit(lane, bulk),
            Op::ArriveBehindCopies { at, counted } => self.arrive_behind_copies(lane, at, counted)?,
            Op::WaitCopies { bulk, but } => {
                self.wait_for_copies(lane, bulk, but.map(|but| lane.get(but)))?;
            }
            _ => return Err(self.found(lane, Check::Trap, "the machine cannot run this".to_owned())),
        }
        Ok(())
    }

    fn loads(
        &mut self,
        lane: &mut Lane,
        access: &Access,
        widen: Widen,
        to: [Option<Reg>; 4],
        at: Address,
    ) -> Result<(), Box<Finding>> {
        if let Some(real) =
            self.nearby(lane, access, at).filter(|(region, _)| !region.registers && !region.is_watched())
        {
            if let Some(to) = to[0] {
                lane.set(to, widened(real.1.load(order_of_load(access)), widen));
            }
            return Ok(());
        }
        let begin = self.whole(lane, access, at)?;
        let (mut values, mut fresh) = ([0; 4], 0);
        for (element, value) in values.iter_mut().take(usize::from(access.elements)).enumerate() {
            let place =
                self.place(lane, access, begin + (element * usize::from(access.bytes)) as u64, false)?;
            if self.run.races.is_some() {
                self.watch(lane, access, place, false)?;
            }
            *value = self.load(lane, access, place);
            fresh += u8::from(self.is_fresh(place, *value));
            if self.run.weak.is_some() {
                self.polls(lane)?;
            }
            if self.run.races.is_some() {
                self.watch_acquire(lane, access, place, *value);
            }
        }
        if fresh == access.elements {
            return Err(self.unwritten(lane, u64::from(access.bytes) * u64::from(fresh), begin));
        }
        for (to, value) in to.into_iter().zip(values) {
            if let Some(to) = to {
                lane.set(to, widened(value, widen));
            }
        }
        Ok(())
    }

    fn stores(
        &mut self,
        lane: &mut Lane,
        access: &Access,
        from: [Reg; 4],
        at: Address,
    ) -> Result<(), Box<Finding>> {
        if let Some((region, real)) = self.nearby(lane, access, at)
            && !region.registers
            && access.order != Order::Mmio
        {
            lane.rang = None;
            real.store(lane.get(from[0]), order_of_store(access));
            return Ok(());
        }
        let begin = self.whole(lane, access, at)?;
        for (element, from) in from.into_iter().take(usize::from(access.elements)).enumerate() {
            let place =
                self.place(lane, access, begin + (element * usize::from(access.bytes)) as u64, true)?;
            let value = lane.get(from);
            if access.order == Order::Mmio {
                self.rings(lane, place, value)?;
            } else {
                lane.rang = None;
            }
            if self.run.races.is_some() {
                self.watch(lane, access, place, true)?;
                self.watch_release(lane, access, place);
            }
            self.store(lane, access, place, value);
            self.stored(access, place, value);
        }
        Ok(())
    }

    fn stored(&mut self, access: &Access, place: Place, value: u64) {
        if self.run.races.is_some() {
            self.watch_value(access, place, value);
        }
        if matches!(place, Place::Shared(_)) {
            self.copies.wrote(place);
        }
    }

    /// The address of an access, which is a multiple of all its elements.
    fn whole(&self, lane: &Lane, access: &Access, at: Address) -> Result<u64, Box<Finding>> {
        let (begin, all) = (address(lane, at), u64::from(access.bytes) * u64::from(access.elements));
        if is_aligned(begin, all) {
            return Ok(begin);
        }
        let what = format!("{all} bytes at {begin:#x}: the address is no multiple of them");
        Err(self.found(lane, Check::Alignment, what))
    }

    fn atomic(
        &mut self,
        lane: &mut Lane,
        access: &Access,
        (rmw, widen): (Rmw, Widen),
        to: Option<Reg>,
        at: Address,
        (b, c): (Reg, Reg),
    ) -> Result<(), Box<Finding>> {
        let place = self.place(lane, access, address(lane, at), true)?;
        let all = if access.bytes == 8 { u64::MAX } else { (1 << (access.bytes * 8)) - 1 };
        let (b, c) = (lane.get(b) & all, lane.get(c) & all);
        self.written(lane, access, place)?;
        let change = |old| match rmw {
            Rmw::Of(run) => run(old, b),
            Rmw::Cas if old == b => c,
            Rmw::Cas => old,
        };
        lane.rang = None;
        self.watch_release(lane, access, place);
        // The update writes there.
        let seen = if let Place::Real(real) = place { real.load(Ordering::Relaxed) } else { 0 };
        let fresh = self.is_fresh(place, seen);
        let old = self.update(lane, access, place, change);
        if fresh && old == seen {
            return Err(self.unwritten(lane, access.bytes.into(), address(lane, at)));
        }
        // A comparison that fails writes nothing.
        let writes = !matches!(rmw, Rmw::Cas) || old == b;
        self.watch(lane, access, place, writes)?;
        self.watch_acquire(lane, access, place, old);
        self.stored(access, place, change(old));
        if let Some(to) = to {
            lane.set(to, widened(old, widen));
        }
        Ok(())
    }

    fn order(&mut self, lane: &mut Lane, kind: Fence) {
        match kind {
            Fence::AcquireRelease(scope) => self.watch_fence(lane, scope, false),
            Fence::SequentiallyConsistent(scope) => self.watch_fence(lane, scope, true),
            Fence::Proxy => self.copies.fence(),
        }
        match kind {
            Fence::AcquireRelease(scope) if self.run.weak.is_some() => self.weak_fence(lane, scope, false),
            Fence::SequentiallyConsistent(scope) if self.run.weak.is_some() => {
                self.weak_fence(lane, scope, true)
            }
            Fence::AcquireRelease(Scope::Cta) | Fence::Proxy => {}
            Fence::AcquireRelease(_) => fence(Ordering::AcqRel),
            Fence::SequentiallyConsistent(_) => fence(Ordering::SeqCst),
        }
    }

    fn wanted(&self, lane: &Lane, mark: Reg) -> Result<(), Box<Finding>> {
        if lane.get(mark) != 0 {
            return Ok(());
        }
        let function = &self.run.module.functions[lane.frame.function as usize];
        let named = function.marked.iter().find(|(of, _)| *of == mark).map_or("", |(_, name)| name.as_str());
        let what = format!("register {named} is read, and nothing was written there");
        Err(self.found(lane, Check::Uninitialized, what))
    }

    fn call(&mut self, lane: &mut Lane, function: u32, arguments: u32) -> Result<(), Box<Finding>> {
        if lane.callers.len() == DEPTH {
            return Err(self.found(
                lane,
                Check::Stack,
                format!("{DEPTH} calls in calls: the stack has no more room"),
            ));
        }
        let caller = lane.frame;
        let module = self.run.module;
        let called = &module.functions[function as usize];
        let frame = lane.next_frame(function, called);
        lane.callers.push(caller);
        lane.enter(frame, called);
        let arguments = &module.functions[caller.function as usize].arguments[arguments as usize];
        for (from, to, bytes) in &arguments.give {
            let from = caller.parameters + *from as usize;
            lane.parameters.copy_within(from..from + *bytes as usize, frame.parameters + *to as usize);
        }
        Ok(())
    }

    /// Gives results to the caller; a kernel's return ends the lane.
    fn leave(&mut self, lane: &mut Lane) -> Option<Pause> {
        let Some(caller) = lane.callers.last().copied() else {
            lane.state = State::Ended;
            return Some(Pause::Waits);
        };
        let module = self.run.module;
        let function = &module.functions[caller.function as usize];
        // The step before the caller's next one is the call.
        if let Op::Call { arguments, .. } = function.steps[caller.next as usize - 1].op {
            for (from, to, bytes) in &function.arguments[arguments as usize].take {
                let from = lane.frame.parameters + *from as usize;
                lane.parameters.copy_within(from..from + *bytes as usize, caller.parameters + *to as usize);
            }
        }
        lane.leave();
        None
    }

    fn clock(&self) -> u64 {
        CLOCK + self.instructions
    }

    fn special(&self, lane: &Lane, which: Special) -> u64 {
        let (in_warp, run) = (lane.in_warp(), self.run);
        let below = (1_u32 << in_warp) - 1;
        let own = 1_u32 << in_warp;
        u64::from(match which {
            Special::Thread(axis) => axis_of(lane.number, run.block, axis),
            Special::Threads(axis) => run.block[usize::from(axis)],
            Special::Block(axis) => axis_of(self.block, run.grid, axis),
            Special::Blocks(axis) => run.grid[usize::from(axis)],
            Special::Lane => in_warp,
            Special::Warp => lane.number / 32,
            Special::Warps => run.block_threads().div_ceil(32),
            Special::Multiprocessor => self.block % run.multiprocessors,
            Special::Multiprocessors => run.multiprocessors,
            Special::MaskEqual => own,
            Special::MaskLess => below,
            Special::MaskLessEqual => below | own,
            Special::MaskGreater => !(below | own),
            Special::MaskGreaterEqual => !below,
            Special::GlobalTimer => return run.nanoseconds(),
            Special::Clock => self.clock() as u32,
            Special::Clock64 => return self.clock(),
            Special::SharedBytes => self.shared.len() as u32,
            Special::DynamicSharedBytes => run.dynamic_shared,
            Special::GridId => return run.grid_number,
        })
    }
}

/// Instructions that work with a function's registers alone: as many as come one after the other, but no more than `most`.
fn compute(function: &Function, lane: &mut Lane, most: u32) -> u32 {
    let registers = &mut lane.registers[lane.frame.registers..];
    let mut next = lane.frame.next as usize;
    for done in 0..most {
        let step = &function.steps[next];
        if is_skipped(registers, step) {
            next += 1;
            continue;
        }
        let get = |register: Reg| registers[register as usize];
        let (to, value) = match step.op {
            Op::One { run, to, a } => (to, run(get(a))),
            Op::Two { run, to, a, b } => (to, run(get(a), get(b))),
            Op::Three { run, to, a, b, c } => (to, run(get(a), get(b), get(c))),
            Op::Four { run, to, of: [a, b, c, d] } => (to, run(get(a), get(b), get(c), get(d))),
            Op::Written(mark) => (mark, 1),
            Op::Jump(to) => {
                next = to as usize;
                continue;
            }
            Op::Nothing => {
                next += 1;
                continue;
            }
            _ => {
                lane.frame.next = next as u32;
                return done;
            }
        };
        registers[to as usize] = value;
        next += 1;
    }
    lane.frame.next = next as u32;
    most
}

/// Whether the predicate of an instruction says that it is not run.
fn is_skipped(registers: &[u64], step: &Step) -> bool {
    step.guard.is_some_and(|(guard, negated)| (registers[guard as usize] != 0) == negated)
}

fn axis_of(number: u32, of: [u32; 3], axis: u8) -> u32 {
    match axis {
        0 => number % of[0],
        1 => number / of[0] % of[1],
        _ => number / of[0] / of[1],
    }
}

fn unpack(lane: &mut Lane, to: [Option<Reg>; 4], value: u64, count: u8, bits: u8) {
    for (at, to) in to.into_iter().take(usize::from(count)).enumerate() {
        if let Some(to) = to {
            let part = value >> (at * usize::from(bits));
            lane.set(to, part & ((1 << bits) - 1));
        }
    }
}

fn widened(value: u64, widen: Widen) -> u64 {
    if widen.sign_from == 0 {
        return value;
    }
    let unused = 64 - u32::from(widen.sign_from);
    let signed = ((value << unused) as i64 >> unused) as u64;
    if widen.bits >= 64 { signed } else { signed & ((1 << widen.bits) - 1) }
}
