//! Registers that are not needed at the same time share a place of the frame. Compilers name a register for each value, by
//! the ten thousand in one function: frames of that size are in no cache, and each call makes one.
//!
//! Nothing changes for what runs. A place that others had before is read after it was written alone: what some way through
//! the function reads first keeps a place of its own, which begins as zero, and so do constants and marks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::flow::{Flow, Values};
use super::op::{FIRST, Function, Reg};
use super::set::Set;

/// No place.
const NONE: u32 = u32::MAX;

/// From the first to the last step at which a register's place is its own.
#[derive(Clone, Copy, Debug)]
struct Life {
    first: usize,
    last: usize,
    /// Others may have its place before and after.
    shares: bool,
}

impl Life {
    /// Of a register that no step names.
    const NONE: Life = Life { first: usize::MAX, last: 0, shares: false };

    fn has(&mut self, step: usize) {
        self.first = self.first.min(step);
        self.last = self.last.max(step);
    }

    fn is_named(&self) -> bool {
        self.first <= self.last
    }
}

/// Gives the function's registers the numbers of their places.
pub(super) fn share(function: &mut Function) {
    let lives = lives(function);
    let (places, count) = places(&lives);
    let mut registers = vec![0; count];
    let own = places.iter().zip(&lives).zip(&function.registers);
    for ((place, _), value) in own.filter(|((place, life), _)| **place != NONE && !life.shares) {
        registers[*place as usize] = *value;
    }
    function.registers = registers;
    for step in &mut function.steps {
        if let Some((guard, _)) = &mut step.guard {
            *guard = places[*guard as usize];
        }
        step.op.registers(|reg, _| *reg = places[*reg as usize]);
    }
    for (mark, _) in &mut function.marked {
        *mark = places[*mark as usize];
    }
}

/// The life of each register.
fn lives(function: &Function) -> Vec<Life> {
    let mut lives = vec![Life::NONE; function.registers.len()];
    for (at, step) in function.steps.iter().enumerate() {
        step.reads(|reg| lives[reg as usize].has(at));
        step.op.writes(|reg| {
            lives[reg as usize].has(at);
            lives[reg as usize].shares = true;
        });
    }
    let flow = Flow::of(function);
    let values = flow.values(function, |step, each| step.reads(each));
    let needed = needed(&flow, &values);
    let life = |number: usize| values.registers[number] as usize;
    for (block, next) in flow.next.iter().enumerate() {
        let steps = flow.steps(block);
        needed[block].each().for_each(|number| lives[life(number)].has(steps.start));
        for after in next {
            needed[*after].each().for_each(|number| lives[life(number)].has(steps.end - 1));
        }
    }
    let marks = function.marked.iter().map(|(mark, _)| *mark as usize);
    needed[0].each().map(life).chain(marks).for_each(|reg| lives[reg].shares = false);
    lives
}

/// The registers that some way from the beginning of each block reads before it writes them.
fn needed(flow: &Flow, values: &Values) -> Vec<Set> {
    let mut needed = values.reads.clone();
    let mut goes_on = true;
    while goes_on {
        goes_on = false;
        // Against the order of the text, in which most ways go.
        for block in (0..flow.count()).rev() {
            let mut own = std::mem::take(&mut needed[block]);
            for next in flow.next[block].iter().filter(|next| **next != block) {
                goes_on |= own.add(&needed[*next], &values.writes[block]);
            }
            needed[block] = own;
        }
    }
    needed
}

/// The place of each register, and how many places there are.
fn places(lives: &[Life]) -> (Vec<Reg>, usize) {
    let (mut places, mut count) = (vec![NONE; lives.len()], 0);
    let mut sharing = Vec::new();
    for (reg, life) in lives.iter().enumerate() {
        if (reg as Reg) < FIRST || (life.is_named() && !life.shares) {
            (places[reg], count) = (count, count + 1);
        } else if life.is_named() {
            sharing.push((life.first, life.last, reg));
        }
    }
    sharing.sort_unstable();
    let (mut taken, mut free) = (BinaryHeap::new(), Vec::new());
    for (first, last, reg) in sharing {
        while let Some(Reverse((_, place))) = taken.peek().copied().filter(|Reverse((ends, _))| *ends < first)
        {
            free.push(place);
            taken.pop();
        }
        // The place that was used last is the nearest.
        let place = free.pop().unwrap_or_else(|| {
            count += 1;
            count - 1
        });
        places[reg] = place;
        taken.push(Reverse((last, place)));
    }
    (places, count as usize)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::program::op::{Op, Step};
    use crate::text::Place;

    /// Of so many registers, with jumps to anywhere.
    fn function(random: &mut Xoshiro256PlusPlus, registers: Reg, steps: u32) -> Function {
        let mut step = |_| {
            let mut reg = || random.random_range(0..registers);
            let (guard, to, a, b) = (reg(), FIRST + reg() % (registers - FIRST), reg(), reg());
            let op = match random.random_range(0..10) {
                0 => Op::Jump(random.random_range(0..=steps)),
                1 => {
                    Op::Unpack { to: [Some(to), None, Some(b.max(FIRST)), None], from: a, count: 3, bits: 16 }
                }
                _ => Op::Two { run: |a, b| a + b, to, a, b },
            };
            Step { guard: random.random_ratio(1, 3).then_some((guard, false)), op }
        };
        let steps: Vec<Step> =
            (0..steps).map(&mut step).chain([Step { guard: None, op: Op::Return }]).collect();
        Function {
            places: vec![Place::default(); steps.len()],
            steps,
            registers: vec![0; registers as usize],
            ..Function::new(String::new())
        }
    }

    /// The steps that wrote what each step reads, by a way that `random` chooses.
    fn sources(function: &Function, random: &mut Xoshiro256PlusPlus) -> Vec<Vec<Option<usize>>> {
        let (mut wrote, mut at) = (vec![None; function.registers.len()], 0);
        let mut sources = Vec::new();
        while sources.len() < 300 {
            let step = &function.steps[at];
            let mut read = Vec::new();
            step.reads(|reg| read.push(wrote[reg as usize]));
            sources.push(read);
            let runs = random.random_bool(0.5) || step.guard.is_none();
            match step.op {
                Op::Return => break,
                Op::Jump(to) if runs => at = to as usize,
                op => {
                    if runs {
                        op.writes(|reg| wrote[reg as usize] = Some(at));
                    }
                    at += 1;
                }
            }
        }
        sources
    }

    #[test]
    fn whatever_way_is_taken_each_step_reads_what_it_read_before() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let (mut before, mut after) = (0, 0);
        for seed in 0..2_000 {
            let registers = random.random_range(FIRST + 1..40);
            let steps = random.random_range(1..80);
            let plain = function(&mut random, registers, steps);
            let mut shared = plain.clone();
            share(&mut shared);
            for way in 0..5 {
                let [plain, shared] = [&plain, &shared]
                    .map(|of| sources(of, &mut Xoshiro256PlusPlus::seed_from_u64(seed << 3 | way)));
                assert_eq!(plain, shared, "function {seed}, way {way}");
            }
            before += plain.registers.len();
            after += shared.registers.len();
        }
        assert!(after < before, "{after} places of {before} registers");
    }

    #[test]
    fn a_chain_of_values_needs_two_places() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut chain = function(&mut random, FIRST + 1_000, 1_000);
        for (at, step) in (FIRST..).zip(chain.steps.iter_mut().take(1_000)) {
            // The first one reads a constant.
            let a = if at == FIRST { 0 } else { at - 1 };
            *step = Step { guard: None, op: Op::Two { run: |a, b| a + b, to: at, a, b: a } };
        }
        share(&mut chain);
        assert_eq!(chain.registers.len() as Reg, FIRST + 2);
    }
}
