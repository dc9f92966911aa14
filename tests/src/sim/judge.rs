//! Whether everything that a run left behind can be true.

use std::time::Duration;

use warpbell_kernels::abi;
use warpbell_nvme::{NvmOpcode, Status};
use warpbell_softctl::{FaultKind, InjectedFault};

use super::contents;
use super::kernel;
use super::outcome::{Command, Facts, Who};
use super::plan::Plan;
use crate::breach::Breach;
use crate::findings::Finding;

/// What a status is called.
pub(super) fn status_name(status: u32) -> String {
    let code = status & !abi::STATUS_LIBRARY;
    if status & abi::STATUS_LIBRARY == 0 {
        return Status::from_bits(code as u16).to_string();
    }
    let name = match code {
        abi::TIMED_OUT => "timed_out",
        abi::NOT_SUBMITTED => "not_submitted",
        abi::OUT_OF_RANGE => "out_of_range",
        abi::QUEUE_GONE => "queue_lost",
        abi::NO_CID => "no_cid",
        abi::STALE_TOKEN => "stale_token",
        abi::INVALID_BATCH => "invalid_batch",
        _ => return format!("library code {code}"),
    };
    name.to_owned()
}

/// Adds to the findings what the commands' records, taken together, say against the run.
pub(super) fn judge(plan: &Plan, facts: &mut Facts) {
    let broken_rings = facts.faults.iter().any(|fault| breaks_rings(fault.kind));
    if broken_rings {
        // A controller that breaks the rules makes its client look as if it did.
        facts.findings.retain(|finding| match finding {
            Finding::Breach(breach) => {
                // Not so where two completions of one command are answered in one go: nobody looks twice.
                matches!(breach, Breach::Unfenced { .. } | Breach::Unlocked { .. })
            }
            Finding::Violation(_) => false,
            _ => true,
        });
    }
    let mut judge = Judge { plan, facts, found: Vec::new(), fails: Vec::new() };
    judge.fails = judge.facts.faults.iter().filter(|fault| fault.status.is_some()).cloned().collect();
    let commands = judge.facts.commands.clone();
    commands.iter().for_each(|command| judge.command(command));
    judge.counters();
    let found = judge.found;
    facts.findings.extend(found);
    contents::check(plan, facts);
}

/// Whether a fault writes completions that no controller may write.
fn breaks_rings(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Duplicate | FaultKind::Torn)
}

/// Whether a fault makes commands late, or never complete.
pub(super) fn stalls(kind: FaultKind) -> bool {
    !matches!(kind, FaultKind::Fail | FaultKind::Corrupt | FaultKind::LatePayload | FaultKind::Reorder)
}

struct Judge<'a> {
    plan: &'a Plan,
    facts: &'a Facts,
    found: Vec<Finding>,
    /// Statuses that were injected and that no command was seen to have.
    fails: Vec<InjectedFault>,
}

impl Judge<'_> {
    fn command(&mut self, command: &Command) {
        let record = &command.record;
        if record.asked == 0 {
            let gave_up = self.facts.commands.iter().any(|other| is_timed_out(other.record.status));
            if !gave_up && !self.facts.lost && !self.is_killed() {
                self.wrong(command, "was never asked for");
            }
            return;
        }
        match record.answers {
            1 => {
                self.status(command);
                self.deadlines(command);
                self.losses(command);
            }
            // The host's own queue was taken down with the controller.
            0 if matches!(command.who, Who::Host { .. }) && command.era < self.facts.eras.len() => {}
            0 if self.is_killed() => {}
            answers => self.found.push(Finding::Answers { command: self.index(command), answers }),
        }
    }

    fn index(&self, command: &Command) -> usize {
        self.facts.commands.iter().position(|other| other.who == command.who).unwrap_or(usize::MAX)
    }

    fn wrong(&mut self, command: &Command, why: &str) {
        self.found.push(Finding::Unexplained(format!("{command}: {why}")));
    }

    /// A kernel was given up: that is a finding already.
    fn is_killed(&self) -> bool {
        let bad = |f: &Finding| matches!(f, Finding::Stuck(_) | Finding::Deadlock(_) | Finding::Fault(_));
        self.facts.findings.iter().any(bad)
    }

    fn status(&mut self, command: &Command) {
        let status = command.record.status;
        let stray = command.op.opcode != kernel::FLUSH && !self.plan.inside(&command.op);
        if stray && (status & abi::STATUS_LIBRARY == 0 || command.record.cid != u32::MAX) {
            return self.wrong(command, &format!("leaves the namespace, and got {}", status_name(status)));
        }
        let explained = match status {
            0 => true,
            _ if status & abi::STATUS_LIBRARY != 0 => {
                self.library_code(command, status & !abi::STATUS_LIBRARY, stray)
            }
            _ => self.device_status(command, status),
        };
        if !explained {
            let index = self.index(command);
            self.found.push(Finding::Status { command: index, status });
            self.wrong(command, &format!("nothing explains {}", status_name(status)));
        }
    }

    fn library_code(&self, command: &Command, code: u32, stray: bool) -> bool {
        let stalled =
            self.facts.faults.iter().any(|fault| stalls(fault.kind)) || self.facts.gone || self.facts.stalled;
        let abandons = self.facts.commands.iter().any(|c| c.op.flags & kernel::ABANDON != 0);
        match code {
            abi::OUT_OF_RANGE => stray,
            abi::TIMED_OUT => stalled || self.facts.lost || command.op.flags & kernel::ABANDON != 0,
            abi::NOT_SUBMITTED => stalled || self.facts.lost,
            abi::QUEUE_GONE => self.facts.lost,
            abi::NO_CID => {
                stalled
                    || abandons
                    || self.facts.lost
                    || self.plan.depth > self.plan.tokens.next_power_of_two()
                    // 0xffff is never issued, so that one lane has an identifier less.
                    || self.plan.high != 0
            }
            abi::INVALID_BATCH => {
                self.plan.flags & u64::from(kernel::WHOLE_BATCHES) != 0
                    && self.plan.entries <= self.plan.batch
            }
            _ => false,
        }
    }

    fn device_status(&mut self, command: &Command, status: u32) -> bool {
        let status = Status::from_bits(status as u16);
        let first = command.op.lba;
        let is_it = |fault: &InjectedFault| {
            fault.status.is_some_and(|injected| injected.same_code(status))
                && fault.opcode == opcode(command.op.opcode)
                && (fault.opcode == NvmOpcode::FLUSH || fault.lba == first)
        };
        if let Some(at) = self.fails.iter().position(is_it) {
            self.fails.swap_remove(at);
            return true;
        }
        // A completion too many gives room that is not there: entries are overwritten before their fetch.
        let overrun = self.facts.faults.iter().any(|fault| fault.kind == FaultKind::Duplicate);
        overrun
            || status.same_code(Status::ABORT_REQUESTED) && self.facts.aborts > 0
            || status.same_code(Status::ABORTED_SQ_DELETION) && !self.facts.retired.is_empty()
    }

    /// Nothing outlives its deadline: each call of the library, and each command of the host's own queue.
    fn deadlines(&mut self, command: &Command) {
        let record = &command.record;
        let host = matches!(command.who, Who::Host { .. });
        // An eighth: how exactly the host's queue keeps time; the rest is what a look takes.
        let slack = |limit: Duration| (limit + limit / if host { 2 } else { 4 }).as_nanos() as u64;
        let submitting = record.submitted - record.asked;
        if submitting > slack(self.plan.submit_limit()) {
            self.found.push(Finding::Stuck(format!("{command}: its submission took {submitting} ns")));
        }
        let waiting = record.answered.saturating_sub(record.waited);
        if waiting > slack(self.plan.wait_limit()) {
            self.found.push(Finding::Stuck(format!("{command}: was waited for {waiting} ns")));
        }
    }

    /// Whoever waits on a queue that the host has given up learns it long before his deadline.
    fn losses(&mut self, command: &Command) {
        let Who::Lane { warp, .. } = command.who else { return };
        let queue = (self.plan.warp_numbers().1 + warp) % self.plan.queues;
        let record = &command.record;
        let limit = (self.plan.wait_limit().min(self.plan.submit_limit()) / 4).as_nanos() as u64;
        for (of, _, when) in self.facts.losses.iter().filter(|(_, era, _)| *era == command.era) {
            let when = when.as_nanos() as u64;
            let waits = [(record.asked, record.submitted), (record.waited, record.answered)];
            let late = |(from, to): &(u64, u64)| *to > when && to - when.max(*from) > limit;
            if of.is_none_or(|of| of == queue) && waits.iter().any(late) {
                let text = format!("{command}: waited on after its queue was lost at {when} ns");
                self.found.push(Finding::Stuck(text));
            }
        }
    }

    fn counters(&mut self) {
        let duplicates = self.facts.faults.iter().any(|fault| breaks_rings(fault.kind));
        if self.facts.spurious != 0 && !duplicates {
            self.found.push(Finding::Spurious(self.facts.spurious));
        }
        if self.facts.sqhd_mismatch != 0 && !duplicates {
            self.found.push(Finding::SqHead(self.facts.sqhd_mismatch));
        }
    }
}

fn opcode(opcode: u32) -> NvmOpcode {
    match opcode {
        kernel::FLUSH => NvmOpcode::FLUSH,
        kernel::WRITE => NvmOpcode::WRITE,
        _ => NvmOpcode::READ,
    }
}

pub(super) fn is_timed_out(status: u32) -> bool {
    status == abi::STATUS_LIBRARY | abi::TIMED_OUT
}
