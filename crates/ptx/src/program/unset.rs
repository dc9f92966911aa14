//! Registers that a path reads and none before it wrote: found while a module is decoded. The reads that may be such, and
//! the writes of their registers, get a step of their own before them, which keeps a mark; all other steps stay as they are.

use super::flow::{Flow, Values};
use super::names::Declared;
use super::op::{Function, Op, Reg, Step, ZERO};
use super::set::Set;
use crate::text::Space;

/// What compilers call the generic address of a function's local memory.
const STACK: &str = "%SP";
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

/// The registers of the text that a path reads before it wrote them, in their order.
fn doubtful(function: &Function, declared: &[Declared<'_>], stack: Option<Reg>) -> Vec<Reg> {
    let mut named = vec![false; function.registers.len()];
    declared.iter().flat_map(Declared::registers).for_each(|reg| named[reg as usize] = true);
    let flow = Flow::of(function);
    let values = flow.values(function, |step, each| {
        step.needs(stack, |reg| {
            if named[reg as usize] {
                each(reg);
            }
        });
    });
    if values.registers.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<Reg> = Vec::new();
    for (reads, before) in values.reads.iter().zip(before(&flow, &values)) {
        let Some(before) = before else { continue };
        found.extend(
            reads.each().filter(|number| !before.has(*number)).map(|number| values.registers[number]),
        );
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Which registers all ways to each block have written; nothing of one that no way leads to.
fn before(flow: &Flow, values: &Values) -> Vec<Option<Set>> {
    let count = values.registers.len();
    let mut before = vec![None; flow.count()];
    before[0] = Some(Set::new(count, false));
    let mut work = vec![false; flow.count()];
    work[0] = true;
    // In the order of the text, in which most ways go.
    while work.contains(&true) {
        for block in 0..flow.count() {
            if !std::mem::take(&mut work[block]) {
                continue;
            }
            let Some(own) = before[block].take() else { continue };
            for to in flow.next[block].iter().copied().filter(|to| *to != block) {
                let known = before[to].is_some();
                let set = before[to].get_or_insert_with(|| Set::new(count, true));
                work[to] |= set.keep(&own, &values.writes[block]) || !known;
            }
            before[block] = Some(own);
        }
    }
    before
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
        step.op.needs(stack, |reg| {
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
    fn needs(&self, stack: Option<Reg>, mut each: impl FnMut(Reg)) {
        if let Some((guard, _)) = self.guard {
            each(guard);
        }
        self.op.needs(stack, each);
    }
}

impl Op {
    /// Each register that it reads, but for those of which compilers know that nobody reads what becomes of them. `stack` has
    /// the address of the function's local memory.
    fn needs(&self, stack: Option<Reg>, mut each: impl FnMut(Reg)) {
        match *self {
            // They pack registers of which nobody reads the half that was not written.
            Op::Pack { .. } => {}
            // They also store a struct's padding with its fields, into a lane's own memory.
            Op::Store { access, at, .. }
                if access.elements > 1 && (access.space == Space::Local || Some(at.base) == stack) =>
            {
                each(at.base);
            }
            _ => self.reads(each),
        }
    }
}
