//! Deciding, command by command, which fault to inject; and the record of what was injected.

use std::ops::RangeInclusive;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use warpbell_nvme::{NvmOpcode, Status};

use super::plan::{Fault, FaultAction, FaultKind, FaultPlan};

/// Injected faults kept in the record; further ones are only counted.
const RECORD_LIMIT: usize = 65536;

/// A fault that was injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectedFault {
    /// What was done.
    pub kind: FaultKind,
    /// Opcode of the command.
    pub opcode: NvmOpcode,
    /// Namespace of the command.
    pub nsid: u32,
    /// The block that was corrupted, or the first of the command.
    pub lba: u64,
    /// The status injected by a `fail`.
    pub status: Option<Status>,
    /// Byte offset of a corruption in its block.
    pub offset: Option<u32>,
    /// The byte as it is stored, for a corruption.
    pub expected: Option<u8>,
    /// The byte that the client got, for a corruption.
    pub actual: Option<u8>,
}

/// What is about to be executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) opcode: NvmOpcode,
    pub(crate) nsid: u32,
    /// First and last LBA; `None` for a command without an LBA range.
    pub(crate) lbas: Option<(u64, u64)>,
}

/// What to do with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Execute it.
    Proceed,
    /// Complete it with this status.
    Fail(Status),
    /// Execute it, then corrupt its payload.
    Corrupt(Corruption),
}

/// Blocks to corrupt, and by how many bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corruption {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) bits: u32,
}

struct Armed {
    fault: Fault,
    matched: u64,
    injected: u64,
}

/// A plan at work.
pub(crate) struct Injector {
    armed: Vec<Armed>,
    random: Xoshiro256PlusPlus,
    record: Vec<InjectedFault>,
    injected: u64,
}

impl Injector {
    pub(crate) fn new(plan: &FaultPlan, seed: u64) -> Injector {
        let armed = plan.faults.iter().map(|fault| Armed { fault: fault.clone(), matched: 0, injected: 0 });
        Injector {
            armed: armed.collect(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ plan.seed.rotate_left(32)),
            record: Vec::new(),
            injected: 0,
        }
    }

    /// Decides about a command. A `fail` is recorded here, a corruption by [`Injector::flip`].
    pub(crate) fn judge(&mut self, target: Target) -> Verdict {
        let Some(index) = (0..self.armed.len()).find(|index| self.applies(*index, target)) else {
            return Verdict::Proceed;
        };
        let armed = &mut self.armed[index];
        armed.injected += 1;
        let whole = target.lbas.unwrap_or((0, 0));
        match armed.fault.action {
            FaultAction::Fail { status } => {
                self.note(InjectedFault {
                    kind: FaultKind::Fail,
                    opcode: target.opcode,
                    nsid: target.nsid,
                    lba: whole.0,
                    status: Some(status),
                    offset: None,
                    expected: None,
                    actual: None,
                });
                Verdict::Fail(status)
            }
            FaultAction::Corrupt { bits } => {
                let (first, last) = match &armed.fault.selector.lba {
                    Some(range) => (whole.0.max(*range.start()), whole.1.min(*range.end())),
                    None => whole,
                };
                Verdict::Corrupt(Corruption { first, last, bits })
            }
        }
    }

    fn applies(&mut self, index: usize, target: Target) -> bool {
        let armed = &mut self.armed[index];
        if !armed.fault.matches(target)
            || armed.fault.selector.count.is_some_and(|count| armed.injected >= count)
        {
            return false;
        }
        armed.matched += 1;
        let selector = &armed.fault.selector;
        armed.matched.is_multiple_of(selector.every)
            && (selector.probability >= 1.0 || self.random.random_bool(selector.probability))
    }

    /// Picks one bit of a corruption: block, byte in the block, mask.
    pub(crate) fn pick(&mut self, corruption: Corruption, block_size: u32) -> (u64, u32, u8) {
        let lba = self.random.random_range(corruption.first..=corruption.last);
        (lba, self.random.random_range(0..block_size), 1 << self.random.random_range(0..8))
    }

    /// Records a fault.
    pub(crate) fn note(&mut self, fault: InjectedFault) {
        self.injected += 1;
        if self.record.len() < RECORD_LIMIT {
            self.record.push(fault);
        }
    }

    pub(crate) fn record(&self) -> Vec<InjectedFault> {
        self.record.clone()
    }

    pub(crate) fn count(&self) -> u64 {
        self.injected
    }
}

impl Fault {
    fn matches(&self, target: Target) -> bool {
        let selector = &self.selector;
        let overlaps = |range: &RangeInclusive<u64>| {
            target.lbas.is_some_and(|(first, last)| first <= *range.end() && last >= *range.start())
        };
        (self.action.kind() != FaultKind::Corrupt || target.opcode == NvmOpcode::READ)
            && selector.nsid.is_none_or(|nsid| nsid == target.nsid)
            && (selector.opcodes.is_empty() || selector.opcodes.contains(&target.opcode))
            && selector.lba.as_ref().is_none_or(overlaps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn injector(text: &str) -> Injector {
        Injector::new(&FaultPlan::from_toml(text).unwrap(), 1)
    }

    fn read(lba: u64) -> Target {
        Target { opcode: NvmOpcode::READ, nsid: 1, lbas: Some((lba, lba + 7)) }
    }

    #[test]
    fn every_nth_and_count_are_exact() {
        let mut injector = injector("[[fault]]\nkind='fail'\nstatus='Internal Error'\nevery=3\ncount=2");
        let failed: Vec<_> = (0..20).filter(|i| injector.judge(read(*i)) != Verdict::Proceed).collect();
        assert_eq!(failed, [2, 5]);
        assert_eq!(injector.count(), 2);
        assert_eq!(injector.record()[1].lba, 5);
    }

    #[test]
    fn selectors_all_have_to_match() {
        let plan = "[[fault]]\nkind='fail'\nstatus='Internal Error'\nnsid=1\nopcode='read'\nlba=[100,109]";
        let mut injector = injector(plan);
        assert_eq!(injector.judge(read(92)), Verdict::Proceed);
        assert_ne!(injector.judge(read(93)), Verdict::Proceed);
        assert_ne!(injector.judge(read(109)), Verdict::Proceed);
        assert_eq!(injector.judge(read(110)), Verdict::Proceed);
        assert_eq!(injector.judge(Target { nsid: 2, ..read(100) }), Verdict::Proceed);
        assert_eq!(injector.judge(Target { opcode: NvmOpcode::WRITE, ..read(100) }), Verdict::Proceed);
        assert_eq!(injector.judge(Target { lbas: None, ..read(100) }), Verdict::Proceed);
    }

    #[test]
    fn probability_follows_the_seed() {
        let plan = "[[fault]]\nkind='fail'\nstatus='Internal Error'\nprobability=0.25";
        let run = || {
            let mut injector = injector(plan);
            (0..4000).map(|i| injector.judge(read(i)) != Verdict::Proceed).collect::<Vec<_>>()
        };
        let hits = run().into_iter().filter(|hit| *hit).count();
        assert!((800..1200).contains(&hits), "{hits} of 4000");
        assert_eq!(run(), run());
    }

    #[test]
    fn a_corruption_stays_inside_its_selector() {
        let mut injector = injector("[[fault]]\nkind='corrupt'\nlba=[3,4]");
        let Verdict::Corrupt(corruption) = injector.judge(read(0)) else { panic!("must corrupt") };
        assert_eq!((corruption.first, corruption.last), (3, 4));
        for _ in 0..100 {
            let (lba, byte, mask) = injector.pick(corruption, 512);
            assert!((3..=4).contains(&lba) && byte < 512 && mask.count_ones() == 1);
        }
        let write = Target { opcode: NvmOpcode::WRITE, ..read(3) };
        assert_eq!(injector.judge(write), Verdict::Proceed, "only reads carry payload to the client");
    }
}
