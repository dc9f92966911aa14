//! The host's model of contents: what each block may have held, and after a loss of power may hold.

use std::collections::BTreeSet;
use std::time::Duration;

use warpbell_kernels::abi;
use warpbell_softctl::{FaultKind, InjectedFault};

use super::forgiven::{is_early_answer, is_mistaken};
use super::kernel::{self, MOST_BLOCKS};
use super::model::{self, Access, Kind, NEVER};
use super::outcome::{Command, Facts, Who};
use super::plan::Plan;
use crate::breach::Breach;
use crate::findings::Finding;
use warpbell_hw::Lba;

/// Checks every block, from one loss of power to the next.
pub(super) fn check(plan: &Plan, facts: &mut Facts) {
    let mut found = Vec::new();
    let spoiled = Spoiled { facts };
    for lba in (0..plan.blocks + MOST_BLOCKS as u64).filter(|lba| !spoiled.block(*lba)) {
        Block { plan, facts, lba, found: &mut found }.check();
    }
    facts.findings.extend(found);
}

/// What faults make unknowable.
struct Spoiled<'a> {
    facts: &'a Facts,
}

impl Spoiled<'_> {
    fn of_kind(&self, kind: FaultKind) -> impl Iterator<Item = &InjectedFault> {
        self.facts.faults.iter().filter(move |fault| fault.kind == kind)
    }

    /// Whether a second completion may have answered this command before its time, or one whose buffer it has now.
    fn early(&self, command: &Command) -> bool {
        let during = command.span();
        let early = Breach::Early { qid: u32::from(command.qid), cid: command.record.cid };
        // It may find that completion when its queue is gone already.
        let seen = |(when, breach): &(Duration, Breach)| {
            *breach == early
                && during.contains(when)
                && is_early_answer(self.facts, *during.start(), *when, breach)
        };
        is_mistaken(self.facts, command.qid, *during.end()) || self.facts.breaches.iter().any(seen)
    }

    /// Whether late data came, or went, while this command of the same lane may have used its buffer.
    fn overtaken(&self, command: &Command) -> bool {
        let (asked, answered) = command.span().into_inner();
        self.of_kind(FaultKind::LatePayload).any(|fault| {
            let during =
                fault.at <= answered && asked <= fault.at + fault.by.unwrap_or_default() + LATE_AT_MOST;
            let victim = |other: &Command| other.is(fault.queue, fault.cid) && same_lane(other, command);
            during && self.facts.commands.iter().any(victim)
        })
    }

    /// Whether what lies in a block is not what its writers brought: their buffers were another's by then.
    fn block(&self, lba: u64) -> bool {
        let writes = self.facts.commands.iter().filter(|command| command.op.opcode == kernel::WRITE);
        let mut here = writes.filter(|c| (c.op.lba..c.op.lba + u64::from(c.op.blocks)).contains(&lba));
        here.any(|command| self.overtaken(command))
    }
}

/// What the controller may take besides until it moves late data: as long as the longest stall.
const LATE_AT_MOST: Duration = Duration::from_secs(1);

fn same_lane(one: &Command, other: &Command) -> bool {
    let lane = |command: &Command| match command.who {
        Who::Lane { kernel, warp, lane, .. } => Some((kernel, warp, lane)),
        Who::Host { .. } => None,
    };
    lane(one) == lane(other) && one.shares_life(other)
}

struct Block<'a> {
    plan: &'a Plan,
    facts: &'a Facts,
    lba: u64,
    found: &'a mut Vec<Finding>,
}

impl Block<'_> {
    fn check(&mut self) {
        let mut initial = Some(self.plan.initial(self.lba));
        let mut era = 0;
        while era <= self.facts.resets.len() {
            // Resets without a loss of power change nothing in the contents.
            let lost = |of: &usize| self.facts.faults_of(*of).any(|f| f.kind == FaultKind::PowerLoss);
            let end = (era..self.facts.resets.len()).find(lost);
            let accesses = self.accesses(era..=end.unwrap_or(usize::MAX));
            if let Err(anomaly) = model::check(&accesses, initial) {
                self.found.push(Finding::Contents(format!("block {}: {anomaly}", self.lba)));
                return;
            }
            let Some(end) = end else { return };
            let survivors = self.survivors(&accesses, initial, era..=end);
            initial = self.first_seen(end + 1);
            if let Some(seen) = initial.filter(|seen| !survivors.contains(seen)) {
                let text =
                    format!("block {} holds {seen:#x} after a loss of power; may: {survivors:x?}", self.lba);
                self.found.push(Finding::Durability(text));
                return;
            }
            era = end + 1;
        }
    }

    fn commands(&self, eras: std::ops::RangeInclusive<usize>) -> impl Iterator<Item = (usize, &Command)> {
        let all = self.facts.commands.iter().enumerate();
        all.filter(move |(_, command)| eras.contains(&command.era) && command.record.asked != 0)
    }

    fn accesses(&mut self, eras: std::ops::RangeInclusive<usize>) -> Vec<Access> {
        let mut accesses = Vec::new();
        let mut torn = Vec::new();
        let spoiled = Spoiled { facts: self.facts };
        for (who, command) in self.commands(eras) {
            let (op, record) = (&command.op, &command.record);
            let Some(block) = self.lba.checked_sub(op.lba).filter(|block| *block < u64::from(op.blocks))
            else {
                continue;
            };
            let early = spoiled.early(command);
            if op.opcode == kernel::READ && (early || spoiled.overtaken(command)) {
                continue;
            }
            let kind = match (op.opcode, record.status) {
                (kernel::WRITE, 0) if early => Kind::Attempt(command.value() + block),
                (kernel::WRITE, 0) if record.answers > 0 => Kind::Write(command.value() + block),
                (kernel::WRITE, status) if may_happen(status) => Kind::Attempt(command.value() + block),
                (kernel::READ, 0) if record.answers > 0 => match self.value(command, block as usize) {
                    Ok(value) => Kind::Read(value),
                    Err(why) => {
                        torn.push(Finding::Contents(why));
                        continue;
                    }
                },
                _ => continue,
            };
            let to = match kind {
                Kind::Attempt(_) => self.facts.last_moment(command).unwrap_or(NEVER),
                _ => record.answered,
            };
            accesses.push(Access { kind, from: record.asked, to, who });
        }
        self.found.extend(torn);
        accesses
    }

    /// What a read brought, with what the plan corrupted put right.
    fn value(&self, command: &Command, block: usize) -> Result<u64, String> {
        let (first, last) = (command.record.first[block], command.record.last[block]);
        if first == last && self.known().contains(&first) {
            return Ok(first);
        }
        let end = self.plan.block_bytes() - 8;
        for (at, word, other) in [(0, first, last), (end, last, first)] {
            if let Some(right) = self.repaired(word, at).filter(|right| *right == other || end == 0) {
                return Ok(right);
            }
        }
        // Both words hit: each must be put right to the same.
        match (self.repaired(first, 0), self.repaired(last, end)) {
            (Some(one), Some(other)) if one == other => Ok(one),
            _ if first == last => Ok(first),
            _ => Err(format!("{command}: block {} begins with {first:#x} and ends with {last:#x}", self.lba)),
        }
    }

    /// A word of the block at byte `at`, with the bytes that were corrupted as they are stored. Of faults that hit
    /// the same byte any subset may have hit this read.
    fn repaired(&self, word: u64, at: usize) -> Option<u64> {
        let mut bytes = word.to_le_bytes();
        let mut changed = false;
        let hits =
            self.facts.faults.iter().filter(|f| f.kind == FaultKind::Corrupt && f.lba == Lba(self.lba));
        for fault in hits {
            let Some(byte) =
                fault.offset.and_then(|offset| (offset as usize).checked_sub(at)).filter(|b| *b < 8)
            else {
                continue;
            };
            if let (Some(expected), Some(actual)) = (fault.expected, fault.actual)
                && bytes[byte] == actual
            {
                bytes[byte] = expected;
                changed = true;
            }
        }
        changed.then(|| u64::from_le_bytes(bytes))
    }

    /// Everything that was ever written to the block.
    fn known(&self) -> BTreeSet<u64> {
        let writes = self.facts.commands.iter().filter(|command| command.op.opcode == kernel::WRITE);
        let values = writes.filter_map(|command| {
            let block = self.lba.checked_sub(command.op.lba)?;
            (block < u64::from(command.op.blocks)).then_some(command.value() + block)
        });
        values.chain([self.plan.initial(self.lba)]).collect()
    }

    fn survivors(
        &self,
        accesses: &[Access],
        initial: Option<u64>,
        eras: std::ops::RangeInclusive<usize>,
    ) -> Vec<u64> {
        let spoiled = Spoiled { facts: self.facts };
        let succeeded = |command: &Command| {
            command.record.answers > 0 && command.record.status == 0 && !spoiled.early(command)
        };
        let flushes: Vec<u64> = self
            .commands(eras)
            .filter(|(_, command)| command.op.opcode == kernel::FLUSH && succeeded(command))
            .map(|(_, command)| command.record.asked)
            .collect();
        model::survivors(accesses, initial, &flushes, |who| {
            let command = self.facts.commands.get(who);
            command.is_some_and(|command| command.op.flags & kernel::FUA != 0 && succeeded(command))
        })
    }

    /// What the first reads from an era on saw that was not written since.
    fn first_seen(&mut self, era: usize) -> Option<u64> {
        let accesses = self.accesses(era..=usize::MAX);
        let written = |value: u64| {
            accesses.iter().any(|access| access.value() == value && !matches!(access.kind, Kind::Read(_)))
        };
        let mut reads: Vec<&Access> = accesses.iter().filter(|a| matches!(a.kind, Kind::Read(_))).collect();
        reads.sort_by_key(|read| read.from);
        reads.into_iter().map(Access::value).find(|value| !written(*value))
    }
}

/// Whether a command with this status may have happened, or still happen.
fn may_happen(status: u32) -> bool {
    let never = [
        abi::STATUS_NOT_SUBMITTED,
        abi::STATUS_NO_CID,
        abi::STATUS_OUT_OF_RANGE,
        abi::STATUS_INVALID_BATCH,
        abi::STATUS_NO_ROOM,
        abi::STATUS_OUT_OF_LEASE,
    ];
    !never.iter().any(|code| status == abi::STATUS_LIBRARY | code)
}
