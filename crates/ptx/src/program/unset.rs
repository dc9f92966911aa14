//! Registers that a path reads and none before it wrote: found while a module is decoded. The reads that may be such, and
//! the writes of their registers, get a step of their own before them, which keeps a mark; all other steps stay as they are.

use super::names::Declared;
use super::op::{Function, Op, Reg, Step, Transfer, ZERO};
use crate::text::Space;

/// What compilers call the generic address of a function's local memory.
const STACK: &str = "%SP";
/// No number of a register, of a candidate or of a block.
const NONE: u32 = u32::MAX;

/// A set of candidates: registers that some block of steps reads before it writes them. Most registers are none, and what
/// other blocks did with them does not matter.
#[derive(Clone, Debug)]
struct Set(Vec<u64>);

impl Set {
    fn new(count: usize, filled: bool) -> Set {
        Set(vec![if filled { u64::MAX } else { 0 }; count.div_ceil(64)])
    }

    fn put(&mut self, candidate: u32) {
        self.0[candidate as usize / 64] |= 1 << (candidate % 64);
    }

    fn has(&self, candidate: u32) -> bool {
        self.0[candidate as usize / 64] >> (candidate % 64) & 1 == 1
    }

    /// Keeps what both of two others have, too; says whether it had more.
    fn keep(&mut self, one: &Set, other: &Set) -> bool {
        let mut changed = 0;
        for ((own, one), other) in self.0.iter_mut().zip(&one.0).zip(&other.0) {
            let kept = *own & (one | other);
            changed |= *own ^ kept;
            *own = kept;
        }
        changed != 0
    }
}

/// Puts the marks in. `declared` are the registers that the text names.
pub(super) fn mark(function: &mut Function, declared: &[Declared<'_>]) {
    let stack = declared.iter().find(|of| of.name == STACK).map(|of| of.first);
    let doubtful = doubtful(function, declared, stack);
    if doubtful.is_empty() {
        return;
    }
    let mut marks = vec![ZERO; function.registers.len()];
    for reg in doubtful {
        function.registers.push(0);
        let mark = function.registers.len() as Reg - 1;
        marks[reg as usize] = mark;
        let of = declared.iter().find(|of| of.registers().contains(&reg));
        function.marked.push((mark, of.map_or_else(String::new, |of| of.name_of(reg))));
    }
    insert(function, &marks, stack);
}

/// What a block of steps does with registers.
#[derive(Debug, Default)]
struct Block {
    /// Reads before it writes them.
    reads: Vec<Reg>,
    /// Writes, whatever its predicates say.
    writes: Vec<Reg>,
}

/// The registers of the text that a path reads before it wrote them, in their order.
fn doubtful(function: &Function, declared: &[Declared<'_>], stack: Option<Reg>) -> Vec<Reg> {
    let heads = heads(function);
    let blocks = blocks(function, &heads, declared, stack);
    // Numbers of candidates.
    let (mut numbers, mut count) = (vec![NONE; function.registers.len()], 0);
    for reg in blocks.iter().flat_map(|block| &block.reads) {
        let number = &mut numbers[*reg as usize];
        if *number == NONE {
            (*number, count) = (count, count + 1);
        }
    }
    if count == 0 {
        return Vec::new();
    }
    let written = |block: &Block| {
        let mut set = Set::new(count as usize, false);
        let numbers = block.writes.iter().map(|reg| numbers[*reg as usize]);
        numbers.filter(|number| *number != NONE).for_each(|number| set.put(number));
        set
    };
    let before = before(function, &heads, &blocks.iter().map(written).collect::<Vec<Set>>(), count as usize);
    let mut found: Vec<Reg> = Vec::new();
    for (block, before) in blocks.iter().zip(&before) {
        let Some(before) = before else { continue };
        found.extend(block.reads.iter().filter(|reg| !before.has(numbers[**reg as usize])));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// What each block reads and writes, of the registers that the text names.
fn blocks(function: &Function, heads: &[usize], declared: &[Declared<'_>], stack: Option<Reg>) -> Vec<Block> {
    let mut named = vec![false; function.registers.len()];
    declared.iter().flat_map(Declared::registers).for_each(|reg| named[reg as usize] = true);
    // The last block that read a register, and the last that wrote it.
    let (mut read, mut wrote) = (vec![NONE; named.len()], vec![NONE; named.len()]);
    let ends = heads[1..].iter().copied().chain([function.steps.len()]);
    let steps = heads.iter().zip(ends).map(|(head, end)| &function.steps[*head..end]);
    let of = |(number, steps): (u32, &[Step])| {
        let mut block = Block::default();
        for step in steps {
            step.reads(stack, |reg| {
                let reg_at = reg as usize;
                if named[reg_at] && wrote[reg_at] != number && read[reg_at] != number {
                    read[reg_at] = number;
                    block.reads.push(reg);
                }
            });
            if step.guard.is_none() {
                step.op.writes(|reg| {
                    let reg_at = reg as usize;
                    if named[reg_at] && wrote[reg_at] != number {
                        wrote[reg_at] = number;
                        block.writes.push(reg);
                    }
                });
            }
        }
        block
    };
    (0..).zip(steps).map(of).collect()
}

/// Which candidates all ways to each block have written, where it writes those of `written`; nothing of one that no way
/// leads to.
fn before(function: &Function, heads: &[usize], written: &[Set], count: usize) -> Vec<Option<Set>> {
    let steps = &function.steps;
    let end = |block: usize| heads.get(block + 1).copied().unwrap_or(steps.len());
    let next: Vec<Vec<usize>> =
        (0..heads.len()).map(|of| follows(function, &steps[end(of) - 1], end(of), heads)).collect();
    let mut before = vec![None; heads.len()];
    before[0] = Some(Set::new(count, false));
    let mut work = vec![false; heads.len()];
    work[0] = true;
    // In the order of the text, in which most ways go.
    while work.contains(&true) {
        for block in 0..heads.len() {
            if !std::mem::take(&mut work[block]) {
                continue;
            }
            let Some(own) = before[block].take() else { continue };
            for to in next[block].iter().copied().filter(|to| *to != block) {
                let known = before[to].is_some();
                let set = before[to].get_or_insert_with(|| Set::new(count, true));
                work[to] |= set.keep(&own, &written[block]) || !known;
            }
            before[block] = Some(own);
        }
    }
    before
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
fn insert(function: &mut Function, marks: &[Reg], stack: Option<Reg>) {
    let mark_of = |reg: Reg| Some(marks[reg as usize]).filter(|mark| *mark != ZERO);
    let (mut steps, mut places, mut moved) = (Vec::new(), Vec::new(), Vec::new());
    for (step, place) in function.steps.iter().zip(&function.places) {
        moved.push(steps.len() as u32);
        let before = steps.len();
        if let Some(mark) = step.guard.and_then(|(guard, _)| mark_of(guard)) {
            steps.push(Step { guard: None, op: Op::Wanted(mark) });
        }
        step.op.reads(stack, |reg| {
            if let Some(mark) = mark_of(reg) {
                steps.push(Step { guard: step.guard, op: Op::Wanted(mark) });
            }
        });
        step.op.writes(|reg| {
            if let Some(mark) = mark_of(reg) {
                steps.push(Step { guard: step.guard, op: Op::Written(mark) });
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
