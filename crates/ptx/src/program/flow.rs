//! The ways through a function: its steps in blocks, which run from their first step to their last.

use std::ops::Range;

use super::op::{Function, Op, Reg, Step};
use super::set::Set;

/// No number of a register or of a block.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Flow {
    /// Where blocks begin, in the order of the text.
    heads: Vec<usize>,
    /// The blocks that may come after each.
    pub(super) next: Vec<Vec<usize>>,
    steps: usize,
}

impl Flow {
    pub(super) fn of(function: &Function) -> Flow {
        let (heads, steps) = (heads(function), function.steps.len());
        let mut flow = Flow { heads, next: Vec::new(), steps };
        flow.next = (0..flow.count()).map(|block| flow.follows(function, flow.steps(block).end)).collect();
        flow
    }

    /// How many blocks there are.
    pub(super) fn count(&self) -> usize {
        self.heads.len()
    }

    /// The steps of a block.
    pub(super) fn steps(&self, block: usize) -> Range<usize> {
        self.heads[block]..self.heads.get(block + 1).copied().unwrap_or(self.steps)
    }

    /// The blocks that may come after the one that ends before this step.
    fn follows(&self, function: &Function, end: usize) -> Vec<usize> {
        let last: &Step = &function.steps[end - 1];
        let mut to: Vec<usize> = match last.op {
            Op::Jump(to) => vec![to as usize],
            Op::Table { table, .. } => {
                function.tables[table as usize].iter().map(|to| *to as usize).collect()
            }
            _ => Vec::new(),
        };
        let ends = matches!(last.op, Op::Jump(_) | Op::Table { .. } | Op::Return | Op::Exit | Op::Trap);
        if end < self.steps && (!ends || last.guard.is_some()) {
            to.push(end);
        }
        to.iter().filter_map(|to| self.heads.binary_search(to).ok()).collect()
    }
}

/// What blocks do with the registers that some block reads before it writes them. Most registers are none of these, and what
/// other blocks do with those does not matter.
#[derive(Debug)]
pub(super) struct Values {
    /// The registers, by the numbers that the sets have.
    pub(super) registers: Vec<Reg>,
    /// Of each block: those that it reads before it writes them.
    pub(super) reads: Vec<Set>,
    /// Those that it writes, whatever its predicates say.
    pub(super) writes: Vec<Set>,
}

impl Flow {
    /// `reads` says which registers a step reads.
    pub(super) fn values(&self, function: &Function, reads: impl Fn(&Step, &mut dyn FnMut(Reg))) -> Values {
        let steps = |block: u32| &function.steps[self.steps(block as usize)];
        let blocks = 0..self.count() as u32;
        let mut numbers = vec![NONE; function.registers.len()];
        // The last block that wrote a register.
        let (mut registers, mut wrote) = (Vec::new(), numbers.clone());
        let mut read = Vec::new();
        for block in blocks.clone() {
            let mut own = Vec::new();
            for step in steps(block) {
                reads(step, &mut |reg| {
                    if wrote[reg as usize] != block {
                        let number = &mut numbers[reg as usize];
                        if *number == NONE {
                            *number = registers.len() as u32;
                            registers.push(reg);
                        }
                        own.push(*number);
                    }
                });
                step.surely_writes(|reg| wrote[reg as usize] = block);
            }
            read.push(own);
        }
        let count = registers.len();
        let writes = |block: u32| {
            let mut written = Vec::new();
            steps(block)
                .iter()
                .for_each(|step| step.surely_writes(|reg| written.push(numbers[reg as usize])));
            Set::of(written.into_iter().filter(|number| *number != NONE), count)
        };
        let reads = read.into_iter().map(|read| Set::of(read.into_iter(), count)).collect();
        Values { registers, reads, writes: blocks.map(writes).collect() }
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
