//! Which registers a step reads and writes.

use super::op::{Op, Reg, Step, Transfer};

/// What a step does with a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Reads,
    Writes,
}

impl Step {
    /// Each register that it reads, and its predicate's.
    pub(super) fn reads(&self, mut each: impl FnMut(Reg)) {
        if let Some((guard, _)) = self.guard {
            each(guard);
        }
        self.op.reads(each);
    }

    /// Each register that it writes, whatever its predicate says.
    pub(super) fn surely_writes(&self, each: impl FnMut(Reg)) {
        if self.guard.is_none() {
            self.op.writes(each);
        }
    }
}

impl Op {
    pub(super) fn reads(mut self, mut each: impl FnMut(Reg)) {
        self.registers(|reg, how| {
            if how == Use::Reads {
                each(*reg);
            }
        });
    }

    pub(super) fn writes(mut self, mut each: impl FnMut(Reg)) {
        self.registers(|reg, how| {
            if how == Use::Writes {
                each(*reg);
            }
        });
    }

    /// Each place where it names a register.
    pub(super) fn registers(&mut self, mut each: impl FnMut(&mut Reg, Use)) {
        use Use::{Reads, Writes};
        match self {
            Op::One { to, a, .. } => named(&mut each, [to], [a]),
            Op::Two { to, a, b, .. } => named(&mut each, [to], [a, b]),
            Op::Three { to, a, b, c, .. } => named(&mut each, [to], [a, b, c]),
            Op::Four { to, of: [a, b, c, d], .. } => named(&mut each, [to], [a, b, c, d]),
            Op::Pack { to, from, count, .. } => {
                from.iter_mut().take(usize::from(*count)).for_each(|from| each(from, Reads));
                each(to, Writes);
            }
            Op::Unpack { to, from, .. } => named(&mut each, to.iter_mut().flatten(), [from]),
            Op::Special { to, .. } | Op::ActiveMask(to) => each(to, Writes),
            Op::Load { to, at, .. } => named(&mut each, to.iter_mut().flatten(), [&mut at.base]),
            Op::Store { access, from, at } => {
                let from = from.iter_mut().take(usize::from(access.elements));
                named(&mut each, [], from.chain([&mut at.base]));
            }
            Op::Atomic { to, at, b, c, .. } | Op::Mbarrier { to, at, b, c, .. } => {
                named(&mut each, to, [&mut at.base, b, c]);
            }
            Op::Table { index, .. } => each(index, Reads),
            Op::Barrier { id, count, .. } => named(&mut each, [], [id, count]),
            Op::Meet { mask, to, also, a, b, c, .. } => {
                named(&mut each, to.iter_mut().chain(also), [mask, a, b, c]);
            }
            Op::ArriveBehindCopies { at, .. } => each(&mut at.base, Reads),
            Op::WaitCopies { but, .. } => named(&mut each, [], but),
            Op::Copy(Transfer { to, from, size, barrier, .. }) => {
                let barrier = barrier.iter_mut().map(|barrier| &mut barrier.base);
                named(&mut each, [], [&mut to.base, &mut from.base, size].into_iter().chain(barrier));
            }
            Op::Wanted(mark) => each(mark, Reads),
            Op::Written(mark) => each(mark, Writes),
            Op::Fence(_) | Op::Jump(_) | Op::Call { .. } | Op::Return | Op::Exit | Op::Trap => {}
            Op::Sleep | Op::Commit { .. } | Op::Nothing => {}
        }
    }
}

fn named<'a>(
    each: &mut impl FnMut(&mut Reg, Use),
    writes: impl IntoIterator<Item = &'a mut Reg>,
    reads: impl IntoIterator<Item = &'a mut Reg>,
) {
    reads.into_iter().for_each(|reg| each(reg, Use::Reads));
    writes.into_iter().for_each(|reg| each(reg, Use::Writes));
}
