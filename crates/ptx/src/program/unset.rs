//! Registers that a path reads and none before it wrote: found while a module is decoded. The reads that may be such, and
//! the writes of their registers, get a step of their own before them, which keeps a mark; all other steps stay as they are.

use std::collections::HashMap;

use super::op::{Function, Op, Reg, Step, Transfer};
use crate::text::Space;

/// A set of registers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Set(Vec<u64>);

impl Set {
    fn new(count: usize, filled: bool) -> Set {
        Set(vec![if filled { u64::MAX } else { 0 }; count.div_ceil(64)])
    }

    fn put(&mut self, reg: Reg) {
        self.0[reg as usize / 64] |= 1 << (reg % 64);
    }

    fn has(&self, reg: Reg) -> bool {
        self.0[reg as usize / 64] >> (reg % 64) & 1 == 1
    }

    /// Keeps what both have; says whether it had more.
    fn keep(&mut self, other: &Set) -> bool {
        let mut changed = false;
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            changed |= *own & !other != 0;
            *own &= other;
        }
        changed
    }
}

/// What compilers call the generic address of a function's local memory.
const STACK: &str = "%SP";

/// Puts the marks in. `declared` are the registers that the text names, by name.
pub(super) fn mark(function: &mut Function, declared: &[(String, Reg)]) {
    let stack = declared.iter().find(|(name, _)| name == STACK).map(|(_, reg)| *reg);
    let doubtful = doubtful(function, declared, stack);
    if doubtful.is_empty() {
        return;
    }
    let mut marks = HashMap::new();
    for (name, reg) in declared.iter().filter(|(_, reg)| doubtful.has(*reg)) {
        function.registers.push(0);
        let mark = function.registers.len() as Reg - 1;
        marks.insert(*reg, mark);
        function.marked.push((mark, name.clone()));
    }
    insert(function, &marks, stack);
}

impl Set {
    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

/// Registers of which some read may come before every write.
fn doubtful(function: &Function, declared: &[(String, Reg)], stack: Option<Reg>) -> Set {
    let (steps, count) = (&function.steps, function.registers.len());
    let mut begin = Set::new(count, true);
    for (_, reg) in declared {
        begin.0[*reg as usize / 64] &= !(1 << (reg % 64));
    }
    let heads = heads(function);
    let mut before = vec![Set::new(count, true); heads.len()];
    before[0] = begin;
    let (mut found, mut work) = (Set::new(count, false), vec![0]);
    let mut seen = vec![false; heads.len()];
    seen[0] = true;
    // Twice: what is before a block is only known when all ways there are.
    while let Some(block) = work.pop() {
        let mut now = before[block].clone();
        let end = heads.get(block + 1).copied().unwrap_or(steps.len());
        run(&steps[heads[block]..end], &mut now, None, stack);
        for next in follows(function, &steps[end - 1], end, &heads) {
            if before[next].keep(&now) | !seen[next] {
                seen[next] = true;
                work.push(next);
            }
        }
    }
    for block in (0..heads.len()).filter(|block| seen[*block]) {
        let end = heads.get(block + 1).copied().unwrap_or(steps.len());
        run(&steps[heads[block]..end], &mut before[block], Some(&mut found), stack);
    }
    found
}

/// What is written after these steps; reads of what was not go to `found`.
fn run(steps: &[Step], now: &mut Set, mut found: Option<&mut Set>, stack: Option<Reg>) {
    for step in steps {
        if let Some(found) = &mut found {
            step.reads(stack, |reg| {
                if !now.has(reg) {
                    found.put(reg);
                }
            });
        }
        if step.guard.is_none() {
            step.op.writes(|reg| now.put(reg));
        }
    }
}

/// Where blocks of steps begin.
fn heads(function: &Function) -> Vec<usize> {
    let mut heads = vec![0];
    for (at, step) in function.steps.iter().enumerate() {
        match step.op {
            Op::Jump(to) => heads.extend([to as usize, at + 1]),
            Op::Table { .. } | Op::Return | Op::Exit | Op::Trap => heads.push(at + 1),
            _ => {}
        }
    }
    heads.extend(function.tables.iter().flatten().map(|to| *to as usize));
    heads.retain(|head| *head < function.steps.len());
    heads.sort_unstable();
    heads.dedup();
    heads
}

/// The blocks that may come after one that ends with this step, before `end`.
fn follows(function: &Function, last: &Step, end: usize, heads: &[usize]) -> Vec<usize> {
    let mut to: Vec<usize> = match last.op {
        Op::Jump(to) => vec![to as usize],
        Op::Table { table, .. } => function.tables[table as usize].iter().map(|to| *to as usize).collect(),
        _ => Vec::new(),
    };
    let ends = matches!(last.op, Op::Jump(_) | Op::Table { .. } | Op::Return | Op::Exit | Op::Trap);
    if end < function.steps.len() && (!ends || last.guard.is_some()) {
        to.push(end);
    }
    to.iter().filter_map(|to| heads.binary_search(to).ok()).collect()
}

/// Steps with marks between them, and jumps that lead to the first step of what they led to.
fn insert(function: &mut Function, marks: &HashMap<Reg, Reg>, stack: Option<Reg>) {
    let (mut steps, mut places, mut moved) = (Vec::new(), Vec::new(), Vec::new());
    for (step, place) in function.steps.iter().zip(&function.places) {
        moved.push(steps.len() as u32);
        let before = steps.len();
        if let Some(mark) = step.guard.and_then(|(guard, _)| marks.get(&guard)) {
            steps.push(Step { guard: None, op: Op::Wanted(*mark) });
        }
        step.op.reads(stack, |reg| {
            if let Some(mark) = marks.get(&reg) {
                steps.push(Step { guard: step.guard, op: Op::Wanted(*mark) });
            }
        });
        step.op.writes(|reg| {
            if let Some(mark) = marks.get(&reg) {
                steps.push(Step { guard: step.guard, op: Op::Written(*mark) });
            }
        });
        steps.push(*step);
        places.extend(std::iter::repeat_n(*place, steps.len() - before));
    }
    for step in &mut steps {
        if let Op::Jump(to) = &mut step.op {
            *to = moved[*to as usize];
        }
    }
    for to in function.tables.iter_mut().flatten() {
        *to = moved[*to as usize];
    }
    (function.steps, function.places) = (steps, places);
}

impl Step {
    fn reads(&self, stack: Option<Reg>, mut each: impl FnMut(Reg)) {
        if let Some((guard, _)) = self.guard {
            each(guard);
        }
        self.op.reads(stack, each);
    }
}

impl Op {
    /// Each register that it reads. `stack` has the address of the function's local memory.
    fn reads(&self, stack: Option<Reg>, mut each: impl FnMut(Reg)) {
        match *self {
            Op::One { a, .. } => each(a),
            Op::Two { a, b, .. } => [a, b].into_iter().for_each(each),
            Op::Three { a, b, c, .. } => [a, b, c].into_iter().for_each(each),
            Op::Four { of, .. } => of.into_iter().for_each(each),
            // Compilers pack registers of which nobody reads the half that was not written.
            Op::Pack { .. } => {}
            Op::Unpack { from, .. } => each(from),
            Op::Load { at, .. } => each(at.base),
            Op::Store { access, from, at } => {
                // They also store a struct's padding with its fields, into a lane's own memory.
                let own = access.space == Space::Local || Some(at.base) == stack;
                let may_be_padding = access.elements > 1 && own;
                let read = if may_be_padding { 0 } else { usize::from(access.elements) };
                from.into_iter().take(read).for_each(&mut each);
                each(at.base);
            }
            Op::Atomic { at, b, c, .. } | Op::Mbarrier { at, b, c, .. } => {
                [at.base, b, c].into_iter().for_each(each);
            }
            Op::Table { index, .. } => each(index),
            Op::Barrier { id, count, .. } => [id, count].into_iter().for_each(each),
            Op::Meet { mask, a, b, c, .. } => [mask, a, b, c].into_iter().for_each(each),
            Op::ArriveBehindCopies { at, .. } => each(at.base),
            Op::WaitCopies { but, .. } => but.into_iter().for_each(each),
            Op::Copy(Transfer { to, from, size, barrier, .. }) => {
                [to.base, from.base, size].into_iter().for_each(&mut each);
                barrier.into_iter().for_each(|barrier| each(barrier.base));
            }
            _ => {}
        }
    }

    /// Each register that it writes.
    fn writes(&self, mut each: impl FnMut(Reg)) {
        match *self {
            Op::One { to, .. }
            | Op::Two { to, .. }
            | Op::Three { to, .. }
            | Op::Four { to, .. }
            | Op::Pack { to, .. }
            | Op::Special { to, .. }
            | Op::ActiveMask(to) => each(to),
            Op::Unpack { to, .. } | Op::Load { to, .. } => to.into_iter().flatten().for_each(each),
            Op::Atomic { to, .. } | Op::Mbarrier { to, .. } => to.into_iter().for_each(each),
            Op::Meet { to, also, .. } => to.into_iter().chain(also).for_each(each),
            _ => {}
        }
    }
}
