//! Deciding, command by command, which fault to inject; and the record of what was injected.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use warpbell_nvme::{AdminOpcode, NvmOpcode, Sqe, Status};

use super::plan::{Fault, FaultAction, FaultKind, FaultPlan};
use warpbell_hw::{Lba, Nsid};

/// Injected faults kept in the record; further ones are only counted.
const RECORD_LIMIT: usize = 65536;

/// A fault that was injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectedFault {
    /// What was done.
    pub kind: FaultKind,
    /// When the command was fetched, on the device's clock.
    pub at: Duration,
    /// How much later something happens, for kinds that say so; `Duration::MAX` for what never happens.
    pub by: Option<Duration>,
    /// Opcode of the command; of an admin command (`queue` is 0) the number stands for an admin opcode.
    pub opcode: NvmOpcode,
    /// Submission queue of the command.
    pub queue: u16,
    /// Identifier of the command.
    pub cid: u16,
    /// Namespace of the command.
    pub nsid: Nsid,
    /// The block that was corrupted, or the first of the command.
    pub lba: Lba,
    /// The status injected by a `fail`.
    pub status: Option<Status>,
    /// Byte offset of a corruption in its block.
    pub offset: Option<u32>,
    /// The byte as it is stored, for a corruption.
    pub expected: Option<u8>,
    /// The byte that the client got, for a corruption.
    pub actual: Option<u8>,
    /// When a duplicate could first be taken for another command's completion: that command has its identifier, in the
    /// same queue, and was there before the client freed the duplicate, or may have been. Nothing on the wire tells the
    /// client which it is.
    pub ambiguous_at: Option<Duration>,
}

/// A command that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) opcode: u8,
    pub(crate) queue: u16,
    pub(crate) cid: u16,
    pub(crate) nsid: u32,
    /// First and last LBA; `None` for a command without an LBA range.
    pub(crate) lbas: Option<(u64, u64)>,
    /// When it was fetched.
    pub(crate) at: Duration,
}

/// A fault that was chosen for a command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) action: FaultAction,
    target: Target,
    /// First and last block that the fault is about.
    blocks: (u64, u64),
}

/// Blocks to corrupt, and by how many bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corruption {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) bits: u32,
}

/// A namespace that is slow for a while.
#[derive(Clone, Copy, Debug)]
struct SlowNamespace {
    nsid: u32,
    by: Duration,
    until: Duration,
}

struct Armed {
    fault: Fault,
    matched: u64,
    injected: u64,
}

/// A plan at work.
pub(crate) struct Injector {
    armed: Vec<Armed>,
    slow: Vec<SlowNamespace>,
    random: Xoshiro256PlusPlus,
    record: Vec<InjectedFault>,
    counts: BTreeMap<FaultKind, u64>,
}

impl Target {
    /// The command `sqe` of submission queue `queue`. What it says of blocks was not checked yet.
    pub(crate) fn of(queue: u16, sqe: &Sqe, at: Duration) -> Target {
        let ranged = [
            NvmOpcode::READ,
            NvmOpcode::WRITE,
            NvmOpcode::WRITE_UNCORRECTABLE,
            NvmOpcode::COMPARE,
            NvmOpcode::WRITE_ZEROES,
            NvmOpcode::VERIFY,
        ];
        let has_range = queue != 0 && ranged.contains(&NvmOpcode(sqe.opcode()));
        let last = || sqe.slba().saturating_add(u64::from(sqe.blocks()) - 1);
        let lbas = has_range.then(|| (sqe.slba(), last()));
        Target { opcode: sqe.opcode(), queue, cid: sqe.cid(), nsid: sqe.nsid, lbas, at }
    }
}

impl Chosen {
    /// The record of it.
    pub(crate) fn injected(&self) -> InjectedFault {
        let status = match self.action {
            FaultAction::Fail { status } => Some(status),
            _ => None,
        };
        InjectedFault {
            kind: self.action.kind(),
            at: self.target.at,
            by: self.action.lateness(),
            opcode: NvmOpcode(self.target.opcode),
            queue: self.target.queue,
            cid: self.target.cid,
            nsid: Nsid(self.target.nsid),
            lba: Lba(self.target.lbas.map_or(0, |(first, _)| first)),
            status,
            offset: None,
            expected: None,
            actual: None,
            ambiguous_at: None,
        }
    }

    /// What to corrupt, if this is a corruption.
    pub(crate) fn corruption(&self) -> Option<Corruption> {
        match self.action {
            FaultAction::Corrupt { bits } => {
                Some(Corruption { first: self.blocks.0, last: self.blocks.1, bits })
            }
            _ => None,
        }
    }
}

impl Injector {
    pub(crate) fn new(plan: &FaultPlan, seed: u64) -> Injector {
        let armed = plan.faults.iter().map(|fault| Armed { fault: fault.clone(), matched: 0, injected: 0 });
        Injector {
            armed: armed.collect(),
            slow: Vec::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ plan.seed.rotate_left(32)),
            record: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Chooses the fault of a command that was fetched, and records it. A `fail` and a corruption are recorded when
    /// they happen: a command that is wrong by itself fails for that.
    pub(crate) fn judge(&mut self, target: Target) -> Option<Chosen> {
        let index = (0..self.armed.len()).find(|index| self.applies(*index, target))?;
        let armed = &mut self.armed[index];
        armed.injected += 1;
        let whole = target.lbas.unwrap_or((0, 0));
        let blocks = match &armed.fault.selector.lba {
            Some(range) => (whole.0.max(range.start().get()), whole.1.min(range.end().get())),
            None => whole,
        };
        let chosen = Chosen { action: armed.fault.action, target, blocks };
        if !matches!(chosen.action, FaultAction::Fail { .. } | FaultAction::Corrupt { .. }) {
            self.note(chosen.injected());
        }
        Some(chosen)
    }

    fn applies(&mut self, index: usize, target: Target) -> bool {
        let armed = &mut self.armed[index];
        let selector = &armed.fault.selector;
        if !armed.fault.matches(target) || selector.count.is_some_and(|count| armed.injected >= count) {
            return false;
        }
        armed.matched += 1;
        let Some(number) = armed.matched.checked_sub(selector.after).filter(|number| *number > 0) else {
            return false;
        };
        number.is_multiple_of(selector.every)
            && (selector.probability >= 1.0 || self.random.random_bool(selector.probability))
    }

    /// A namespace takes longer from `now` on.
    pub(crate) fn slow_down(&mut self, nsid: u32, by: Duration, now: Duration, lasting: Duration) {
        self.slow.retain(|slow| slow.until > now);
        self.slow.push(SlowNamespace { nsid, by, until: now.saturating_add(lasting) });
    }

    /// How much longer a command of a namespace takes that is fetched at `now`.
    pub(crate) fn slowness(&self, nsid: u32, now: Duration) -> Duration {
        self.slow.iter().filter(|slow| slow.nsid == nsid && slow.until > now).map(|slow| slow.by).sum()
    }

    /// Picks one bit of a corruption: block, byte in the block, mask.
    pub(crate) fn pick(&mut self, corruption: Corruption, block_size: u32) -> (u64, u32, u8) {
        let lba = self.random.random_range(corruption.first..=corruption.last);
        (lba, self.random.random_range(0..block_size), 1 << self.random.random_range(0..8))
    }

    /// Records a fault.
    pub(crate) fn note(&mut self, fault: InjectedFault) {
        *self.counts.entry(fault.kind).or_default() += 1;
        if self.record.len() < RECORD_LIMIT {
            self.record.push(fault);
        }
    }

    /// From `now` on the second completion of this command may be taken for another's; the first report counts.
    pub(crate) fn ambiguous(&mut self, queue: u16, cid: u16, now: Duration) {
        let is_it = |fault: &&mut InjectedFault| {
            fault.kind == FaultKind::Duplicate && (fault.queue, fault.cid) == (queue, cid)
        };
        if let Some(fault) = self.record.iter_mut().rev().find(is_it) {
            fault.ambiguous_at.get_or_insert(now);
        }
    }

    pub(crate) fn record(&self) -> Vec<InjectedFault> {
        self.record.clone()
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    pub(crate) fn counts(&self) -> BTreeMap<FaultKind, u64> {
        self.counts.clone()
    }
}

impl Fault {
    fn matches(&self, target: Target) -> bool {
        let selector = &self.selector;
        if target.queue == 0 {
            let opcode = AdminOpcode(target.opcode);
            return selector.admin.contains(&opcode)
                && selector.nsid.is_none_or(|nsid| nsid.get() == target.nsid);
        }
        let overlaps = |range: &RangeInclusive<Lba>| {
            target.lbas.is_some_and(|(first, last)| first <= range.end().get() && last >= range.start().get())
        };
        let opcode = NvmOpcode(target.opcode);
        selector.admin.is_empty()
            && self.action.kind().suits(opcode)
            && selector.nsid.is_none_or(|nsid| nsid.get() == target.nsid)
            && selector.queue.is_none_or(|queue| queue == target.queue)
            && (selector.opcodes.is_empty() || selector.opcodes.contains(&opcode))
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
        Target {
            opcode: NvmOpcode::READ.0,
            queue: 3,
            cid: 9,
            nsid: 1,
            lbas: Some((lba, lba + 7)),
            at: Duration::from_micros(lba),
        }
    }

    #[test]
    fn every_nth_and_count_are_exact() {
        let mut injector = injector("[[fault]]\nkind='fail'\nstatus='Internal Error'\nevery=3\ncount=2");
        let failed: Vec<_> = (0..20).filter(|i| injector.judge(read(*i)).is_some()).collect();
        assert_eq!(failed, [2, 5]);
        assert_eq!(injector.count(), 0, "a fail is recorded when it happens");
    }

    #[test]
    fn selectors_all_have_to_match() {
        let plan = "[[fault]]\nkind='fail'\nstatus='Internal Error'\nnsid=1\nopcode='read'\nlba=[100,109]";
        let mut injector = injector(plan);
        assert_eq!(injector.judge(read(92)), None);
        assert!(injector.judge(read(93)).is_some());
        assert!(injector.judge(read(109)).is_some());
        assert_eq!(injector.judge(read(110)), None);
        assert_eq!(injector.judge(Target { nsid: 2, ..read(100) }), None);
        assert_eq!(injector.judge(Target { opcode: NvmOpcode::WRITE.0, ..read(100) }), None);
        assert_eq!(injector.judge(Target { lbas: None, ..read(100) }), None);
    }

    #[test]
    fn probability_follows_the_seed() {
        let plan = "[[fault]]\nkind='fail'\nstatus='Internal Error'\nprobability=0.25";
        let run = || {
            let mut injector = injector(plan);
            (0..4000).map(|i| injector.judge(read(i)).is_some()).collect::<Vec<_>>()
        };
        let hits = run().into_iter().filter(|hit| *hit).count();
        assert!((800..1200).contains(&hits), "{hits} of 4000");
        assert_eq!(run(), run());
    }

    #[test]
    fn a_corruption_stays_inside_its_selector() {
        let mut injector = injector("[[fault]]\nkind='corrupt'\nlba=[3,4]");
        let corruption = injector.judge(read(0)).unwrap().corruption().unwrap();
        assert_eq!((corruption.first, corruption.last), (3, 4));
        for _ in 0..100 {
            let (lba, byte, mask) = injector.pick(corruption, 512);
            assert!((3..=4).contains(&lba) && byte < 512 && mask.count_ones() == 1);
        }
        let write = Target { opcode: NvmOpcode::WRITE.0, ..read(3) };
        assert_eq!(injector.judge(write), None, "only reads carry payload to the client");
    }

    #[test]
    fn after_skips_and_every_counts_the_rest() {
        let mut injector = injector("[[fault]]\nkind='drop'\nafter=4\nevery=3\ncount=2");
        let dropped: Vec<_> = (0..20).filter(|i| injector.judge(read(*i)).is_some()).collect();
        assert_eq!(dropped, [6, 9]);
        assert_eq!((injector.count(), injector.record()[1].lba), (2, Lba(9)));
        assert_eq!((injector.record()[0].queue, injector.record()[0].cid), (3, 9));
        assert_eq!(
            (injector.record()[0].at, injector.record()[0].by),
            (Duration::from_micros(6), Some(Duration::MAX))
        );
    }

    #[test]
    fn queues_and_admin_commands_are_told_apart() {
        let mut queues = injector("[[fault]]\nkind='drop'\nqueue=3");
        assert!(queues.judge(read(0)).is_some());
        assert_eq!(queues.judge(Target { queue: 4, ..read(0) }), None);
        let mut admin = injector("[[fault]]\nkind='drop'\nadmin='abort'");
        let abort = Target { opcode: AdminOpcode::ABORT.0, queue: 0, lbas: None, ..read(0) };
        assert!(admin.judge(abort).is_some());
        assert_eq!(admin.judge(Target { opcode: AdminOpcode::IDENTIFY.0, ..abort }), None);
        let write_zeroes = Target { opcode: NvmOpcode::WRITE_ZEROES.0, ..read(0) };
        assert_eq!(write_zeroes.opcode, abort.opcode);
        assert_eq!(admin.judge(write_zeroes), None, "an I/O opcode with the same number");
    }

    #[test]
    fn a_slow_namespace_recovers() {
        let mut injector = injector("");
        let us = Duration::from_micros;
        injector.slow_down(1, us(5), us(100), us(10));
        injector.slow_down(1, us(7), us(104), us(10));
        assert_eq!(injector.slowness(1, us(105)), us(12));
        assert_eq!(injector.slowness(2, us(105)), Duration::ZERO);
        assert_eq!(injector.slowness(1, us(110)), us(7));
        assert_eq!(injector.slowness(1, us(114)), Duration::ZERO);
    }
}
