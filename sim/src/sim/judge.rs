//! Whether everything that a run left behind can be true.

use std::time::Duration;

use warpbell_kernels::abi;
use warpbell_nvme::Status;
use warpbell_softctl::{FaultKind, InjectedFault};

use super::contents;
use super::forgiven;
use super::kernel;
use super::outcome::{Command, Facts, Who};
use super::plan::Plan;
use super::reasons::Reasons;
use super::steps;
use crate::findings::Finding;

/// What a status is called.
pub(super) fn status_name(status: u32) -> String {
    let code = status & !abi::STATUS_LIBRARY;
    if status & abi::STATUS_LIBRARY == 0 {
        return Status::from_bits(code as u16).to_string();
    }
    let name = match code {
        abi::STATUS_TIMED_OUT => "timed_out",
        abi::STATUS_NOT_SUBMITTED => "not_submitted",
        abi::STATUS_OUT_OF_RANGE => "out_of_range",
        abi::STATUS_QUEUE_GONE => "queue_lost",
        abi::STATUS_NO_CID => "no_cid",
        abi::STATUS_STALE_TOKEN => "stale_token",
        abi::STATUS_INVALID_BATCH => "invalid_batch",
        abi::STATUS_NO_ROOM => "no_room",
        abi::STATUS_SSD_LOST => "ssd_lost",
        abi::STATUS_OUT_OF_LEASE => "out_of_lease",
        _ => return format!("library code {code}"),
    };
    name.to_owned()
}

/// Adds to the findings what the commands' records, taken together, say against the run.
pub(super) fn judge(plan: &Plan, facts: &mut Facts) {
    let mut found = forgiven::check(facts);
    let mut judge = Judge { plan, facts, reasons: Reasons { plan, facts }, found: Vec::new() };
    facts.commands.iter().for_each(|command| judge.command(command));
    facts.faults.iter().for_each(|fault| judge.fault(fault));
    found.append(&mut judge.found);
    found.extend(steps::check(plan, facts));
    facts.findings.extend(found);
    contents::check(plan, facts);
}

struct Judge<'a> {
    plan: &'a Plan,
    facts: &'a Facts,
    reasons: Reasons<'a>,
    found: Vec<Finding>,
}

impl Judge<'_> {
    fn command(&mut self, command: &Command) {
        let record = &command.record;
        if record.asked == 0 {
            // A second try is asked for where the first one's answer says so, and where there is time for it.
            let later = matches!(command.who, Who::Lane { attempt: 1.., .. });
            if !later && !self.reasons.never_asked(command) && !self.is_killed() {
                self.wrong(command, "was never asked for");
            }
            return;
        }
        match record.answers & !kernel::UNBOUNDED {
            1 => {
                self.status(command);
                self.deadlines(command);
                self.losses(command);
            }
            // The host's own queue was taken down with the controller.
            0 if matches!(command.who, Who::Host { .. })
                && (command.era < self.facts.resets.len() || self.facts.gone) => {}
            0 if self.is_killed() => {}
            answers => self.found.push(Finding::Answers { command: self.index(command), answers }),
        }
    }

    /// A command that was failed has that status, and one that was dropped has none, unless it was given up.
    fn fault(&mut self, fault: &InjectedFault) {
        if fault.queue == 0 || !matches!(fault.kind, FaultKind::Fail | FaultKind::Drop) {
            return;
        }
        let before = |command: &&Command| {
            command.is(fault.queue, fault.cid) && Duration::from_nanos(command.record.asked) <= fault.at
        };
        let (era, life) = (self.facts.era_at(fault.at), self.facts.life_at(fault.queue, fault.at));
        let hit = self
            .facts
            .commands
            .iter()
            .filter(|command| command.era == era && (command.life == life || command.life.is_none()))
            .filter(|c| c.record.asked != 0)
            .filter(before);
        let Some(command) = hit.max_by_key(|command| command.record.asked) else {
            let text = format!(
                "{:?} hit cid {:#06x} of queue {}, which nobody submitted",
                fault.kind, fault.cid, fault.queue
            );
            let preparing = |(from, to): &(Duration, Duration)| (*from..=*to).contains(&fault.at);
            let made = self.facts.lives.iter().map(|life| (life.made, life.from));
            if !self.facts.attaches.iter().copied().chain(made).any(|of| preparing(&of)) {
                self.found.push(Finding::Unexplained(text));
            }
            return;
        };
        let status = command.record.status;
        let given_up = command.record.answers == 0 || status & abi::STATUS_LIBRARY != 0;
        let as_injected =
            fault.status.is_some_and(|injected| injected.same_code(Status::from_bits(status as u16)));
        let deleted = Status::from_bits(status as u16).same_code(Status::ABORTED_SQ_DELETION)
            && self.reasons.is_deleted(command);
        if !given_up && !as_injected && !deleted && !self.reasons.confused(command, command.record.answered) {
            let text = format!("{:?} was injected, and it got {}", fault.kind, status_name(status));
            self.wrong(command, &text);
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
        let proof = matches!(command.who, Who::Lane { kernel, .. } if kernel >= self.plan.kernels);
        let host = matches!(command.who, Who::Host { .. });
        let unleased = !proof && !host && self.plan.leaves_lease(&command.op);
        if unleased && (status & abi::STATUS_LIBRARY == 0 || command.record.cid != u32::MAX) {
            return self.wrong(command, &format!("leaves the lease, and got {}", status_name(status)));
        }
        let explained = match status {
            _ if status == abi::STATUS_LIBRARY | abi::STATUS_OUT_OF_LEASE => unleased,
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
        match code {
            abi::STATUS_OUT_OF_RANGE => stray,
            abi::STATUS_TIMED_OUT => self.reasons.timed_out(command),
            abi::STATUS_NOT_SUBMITTED => self.reasons.not_submitted(command),
            abi::STATUS_QUEUE_GONE => self.reasons.lost(command, command.record.answered),
            abi::STATUS_SSD_LOST => self.reasons.is_dead(command, command.record.answered),
            abi::STATUS_NO_CID => self.reasons.no_cid(command),
            abi::STATUS_INVALID_BATCH => {
                self.plan.flags & u64::from(kernel::WHOLE_BATCHES) != 0
                    && self.plan.entries <= self.plan.batch
            }
            _ => false,
        }
    }

    fn device_status(&self, command: &Command, status: u32) -> bool {
        let status = Status::from_bits(status as u16);
        let is_it = |fault: &InjectedFault| {
            fault.status.is_some_and(|injected| injected.same_code(status))
                && command.is(fault.queue, fault.cid)
                && command.span().contains(&fault.at)
        };
        let aborted = |(qid, cid, at): &(u16, u16, Duration)| {
            command.is(*qid, *cid) && *at <= Duration::from_nanos(command.record.answered)
        };
        self.facts.faults.iter().any(is_it)
            || status.same_code(Status::ABORT_REQUESTED) && self.facts.aborted.iter().any(aborted)
            || status.same_code(Status::ABORTED_SQ_DELETION) && self.reasons.is_deleted(command)
            || self.reasons.confused(command, command.record.answered)
    }

    /// Nothing outlives its deadline: each call of the library, and each command of the host's own queue.
    fn deadlines(&mut self, command: &Command) {
        let record = &command.record;
        let host = matches!(command.who, Who::Host { .. });
        // An eighth: how exactly the host's queue keeps time; the rest is what a pass takes.
        // With recovery deadlines are shorter, and a pass takes as long as ever.
        let look = Duration::from_millis(if self.plan.recovery == 0 { 0 } else { 5 });
        let slack = |limit: Duration| (limit + look + limit / if host { 2 } else { 4 }).as_nanos() as u64;
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
        let Who::Lane { .. } = command.who else { return };
        let record = &command.record;
        let limit = (self.plan.wait_limit().min(self.plan.submit_limit()) / 4).as_nanos() as u64;
        // Whoever waits on since is with the next queue, and waits for what others of his warp have there.
        let replaced = command.life.and_then(|life| self.facts.lives[life].replaced);
        let moved = |from: u64| replaced.is_some_and(|at| at.as_nanos() as u64 <= from);
        for when in self.reasons.losses(command) {
            let when = when.as_nanos() as u64;
            let waits = [(record.asked, record.submitted), (record.waited, record.answered)];
            let late = |(from, to): &(u64, u64)| *to > when && to - when.max(*from) > limit && !moved(*from);
            if waits.iter().any(late) {
                let text = format!("{command}: waited on after its queue was lost at {when} ns");
                self.found.push(Finding::Stuck(text));
            }
        }
    }
}
