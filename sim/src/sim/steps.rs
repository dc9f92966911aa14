//! What the host did to recover, step by step: held against what was seen of it from outside, and against what kernels
//! noted.

use std::time::Duration;

use warpbell::RecoveryEvent;
use warpbell_kernels::abi;
use warpbell_nvme::AdminOpcode;
use warpbell_nvme::status::Retry;
use warpbell_softctl::FaultKind;

use super::kernel;
use super::lives::Life;
use super::outcome::{Command, Facts, Who};
use super::plan::Plan;
use super::wire::AdminCommand;
use crate::findings::Finding;

/// Everything that is wrong with the recoveries of a run.
pub(super) fn check(plan: &Plan, facts: &Facts) -> Vec<Finding> {
    if plan.recovery == 0 {
        return Vec::new();
    }
    let mut steps = Steps { plan, facts, found: Vec::new() };
    steps.aborts();
    steps.lives();
    steps.moves();
    steps.counters();
    steps.tries();
    let broken = facts.broken.iter().cloned();
    broken.chain(steps.found).map(Finding::Recovery).collect()
}

struct Steps<'a> {
    plan: &'a Plan,
    facts: &'a Facts,
    found: Vec<String>,
}

impl Steps<'_> {
    fn sent(&self, opcode: AdminOpcode) -> impl Iterator<Item = &AdminCommand> {
        self.facts.admin_commands.iter().filter(move |command| command.opcode == opcode)
    }

    /// Only what a lane gave up is aborted, and not more at a time than the controller takes.
    fn aborts(&mut self) {
        let mut wrong = Vec::new();
        for abort in self.sent(AdminOpcode::ABORT) {
            let (qid, cid) = (abort.qid(), abort.aborted_cid());
            let life = self.facts.life_at(qid, abort.at);
            let given_up = |command: &Command| {
                let record = &command.record;
                // The host is told before the lane has noted the answer.
                let before = Duration::from_nanos(record.waited) <= abort.at;
                command.is(qid, cid)
                    && command.life == life
                    && before
                    && is(record.status, abi::STATUS_TIMED_OUT)
            };
            // The newest that had the identifier: one that has it anew is another.
            let had = |command: &&Command| {
                let submitted = Duration::from_nanos(command.record.submitted);
                command.is(qid, cid) && command.life == life && submitted <= abort.at
            };
            let newest =
                self.facts.commands.iter().filter(had).max_by_key(|command| command.record.submitted);
            if !newest.is_some_and(given_up) {
                wrong.push(format!(
                    "command {cid:#06x} of queue {qid} was aborted, and nobody had given it up"
                ));
            }
            let open = |other: &&AdminCommand| {
                let reset = self.facts.resets.iter().any(|reset| (other.at..=abort.at).contains(reset));
                other.at <= abort.at && !reset && other.done.is_none_or(|(done, _)| done > abort.at)
            };
            // One that is never answered counts until its controller's end, for the driver as for us.
            let (open, limit) = (self.sent(AdminOpcode::ABORT).filter(open).count(), self.facts.abort_limit);
            if open > limit {
                wrong.push(format!("{open} Aborts at a time, and the controller takes {limit}"));
            }
        }
        self.found.extend(wrong);
    }

    /// Whatever is lost has a successor, or is dead, before long; and nothing is dead that has not to be.
    fn lives(&mut self) {
        let limit = self.plan.ladder_limit();
        for life in &self.facts.lives {
            let Some(lost) = life.lost else { continue };
            let end = life.replaced.or(life.dead);
            if let Some(took) = end.map(|end| end - lost).filter(|took| *took > limit) {
                let text = format!("queue {} was replaced {took:?} after its loss", life.qid());
                self.found.push(text);
            }
            if life.dead.is_some() && !self.may_be_dead(life) {
                self.found.push(format!("queue {} was given up for good without need", life.qid()));
            }
        }
    }

    /// A queue is dead for good where the SSD is gone, or cannot be brought back, or where all replacement_queues are in use.
    fn may_be_dead(&self, life: &Life) -> bool {
        let dead = life.dead.unwrap_or_default();
        let removed = self.facts.faults.iter().any(|f| f.kind == FaultKind::Remove && f.at <= dead);
        let resets = self.facts.resets.iter().filter(|reset| **reset <= dead).count() as u64;
        let epochs = self.facts.lives.iter().filter(|other| other.index == life.index && other.from <= dead);
        // After a controller reset that failed comes one of the function; after that nothing.
        let failed = self.facts.steps.iter().filter(|(at, _)| *at <= dead);
        let failed =
            failed.filter(|(_, step)| matches!(step, RecoveryEvent::ResetFailed { .. })).count() >= 2;
        // A successor that could not be created, and not after a reset either.
        let since = life.lost.unwrap_or_default();
        let creations = [AdminOpcode::CREATE_IO_SQ, AdminOpcode::CREATE_IO_CQ];
        let uncreated = self.facts.faults.iter().any(|fault| {
            let creation = fault.queue == 0 && creations.iter().any(|opcode| opcode.0 == fault.opcode.0);
            creation && (since..=dead).contains(&fault.at)
        });
        // One whose namespace the controller refuses to identify, and says that asking again will not help.
        let unidentified = self.facts.faults.iter().any(|fault| {
            let identify = fault.queue == 0 && fault.opcode.0 == AdminOpcode::IDENTIFY.0;
            identify
                && fault.status.is_some_and(|status| status.retry() == Retry::Never)
                && (since..=dead).contains(&fault.at)
        });
        removed
            || failed
            || uncreated
            || unidentified
            || resets >= self.plan.resets
            || epochs.count() as u64 > self.plan.replacement_queues
    }

    /// Who goes over to another queue is answered in time, with what there was.
    fn moves(&mut self) {
        let limit = self.plan.successor_limit() + self.plan.successor_limit() / 4 + Duration::from_millis(1);
        for (kernel, warp, note) in &self.facts.moves {
            let (from, to) = (Duration::from_nanos(note.from), Duration::from_nanos(note.to));
            let name = format!("kernel {kernel} warp {warp}: its move from queue {:#x}", note.queue);
            let status = note.status - 1;
            let lives = &self.facts.lives;
            let right = match status {
                0 => {
                    let is_it = |life: &Life| life.name() == note.next_queue && life.from <= to;
                    note.next_queue != note.queue && lives.iter().any(is_it)
                }
                _ if is(status, abi::STATUS_SSD_LOST) => {
                    lives.iter().any(|life| life.dead.is_some_and(|dead| dead <= to))
                }
                // Whoever waits for what cannot come has been told so.
                _ => {
                    let dead =
                        |life: &Life| life.name() == note.queue && life.dead.is_some_and(|dead| dead < from);
                    is(status, abi::STATUS_QUEUE_GONE) && !lives.iter().any(dead)
                }
            };
            if !right {
                self.found.push(format!("{name} came to {}", super::judge::status_name(status)));
            }
            if to - from > limit {
                self.found.push(format!("{name} took {:?}, and may take {limit:?}", to - from));
            }
        }
    }

    /// What the library counted is what was seen.
    fn counters(&mut self) {
        let (counted, facts) = (self.facts.recovery, self.facts);
        let lives = |of: fn(&Life) -> Option<Duration>| facts.lives.iter().filter_map(of).count() as u64;
        let said =
            |of: fn(&RecoveryEvent) -> bool| facts.steps.iter().filter(|(_, step)| of(step)).count() as u64;
        let aborts = self.sent(AdminOpcode::ABORT).count() as u64;
        let equal = [
            ("Aborts", counted.aborts, aborts),
            (
                "answers to Aborts",
                counted.aborts_acknowledged + counted.aborts_not_found + counted.aborts_unanswered,
                counted.aborts,
            ),
            ("queues replaced", counted.queues_replaced, lives(|life| life.replaced)),
            (
                "identifiers that came back",
                counted.ids_freed,
                said(|step| matches!(step, RecoveryEvent::IdFree { .. })),
            ),
            ("resets", counted.resets, said(|step| matches!(step, RecoveryEvent::ResetDone { .. }))),
        ];
        for (what, counted, seen) in equal.into_iter().filter(|(_, counted, seen)| counted != seen) {
            self.found.push(format!("the library counted {counted} {what}, and there were {seen}"));
        }
        // Some may be declared dead without being lost before, and some when their attachment is about to go.
        if counted.queues_dead < lives(|life| life.dead) {
            self.found.push(format!("{} dead queues counted, and there were more", counted.queues_dead));
        }
        let (lost, dead) = (lives(|life| life.lost), lives(|life| life.dead));
        if counted.queues_lost < lost - dead {
            self.found.push(format!("{} queues lost counted, and there were {lost}", counted.queues_lost));
        }
        let resets = said(|step| matches!(step, RecoveryEvent::ResetStarted { function: false, .. }));
        if resets > self.plan.resets {
            self.found.push(format!("{resets} resets, and no more than {} may be tried", self.plan.resets));
        }
        // Of a queue whose memory was used again nothing is left to be read.
        let (late, seen) = (counted.late_completions, facts.late);
        if late < seen || late > seen && !facts.memory_reused {
            self.found.push(format!("the library counted {late} late completions, and there were {seen}"));
        }
    }

    /// A command is asked for again only where its last answer permits it, and not before its time.
    fn tries(&mut self) {
        for again in &self.facts.commands {
            if again.record.answers & kernel::UNBOUNDED != 0 {
                self.found.push(format!("{}: would be asked for again, after the last try", again.who));
            }
            let Who::Lane { attempt: 1.., .. } = again.who else { continue };
            let Some(before) = self.before(again) else {
                self.found.push(format!("{}: there was no try before it", again.who));
                continue;
            };
            let status = before.record.status;
            let wire = status & abi::STATUS_LIBRARY == 0;
            let permitted = match status {
                0 => false,
                _ if wire => self.plan.retry != 0 && status >> 14 & 1 == 0,
                _ if is(status, abi::STATUS_QUEUE_GONE) => self.plan.ask_again != 0,
                _ => {
                    self.plan.retry != 0
                        && [abi::STATUS_NOT_SUBMITTED, abi::STATUS_NO_CID]
                            .iter()
                            .any(|code| is(status, *code))
                }
            };
            if !permitted {
                let name = super::judge::status_name(status);
                self.found.push(format!("{}: asked for again after {name}", again.who));
            }
            let units = match (status >> 11 & 3) as usize {
                crd @ 1.. if wire => self.facts.crdt[crd - 1],
                _ => 0,
            };
            let after = Duration::from_millis(100) * units.into();
            let waited = Duration::from_nanos(again.record.asked - before.record.answered);
            if waited < after {
                self.found
                    .push(format!("{}: asked for again after {waited:?} in place of {after:?}", again.who));
            }
        }
    }

    fn before(&self, again: &Command) -> Option<Command> {
        let Who::Lane { kernel, warp, lane, command, attempt } = again.who else { return None };
        let who = Who::Lane { kernel, warp, lane, command, attempt: attempt - 1 };
        self.facts.commands.iter().find(|command| command.who == who).copied()
    }
}

fn is(status: u32, code: u32) -> bool {
    status == abi::STATUS_LIBRARY | code
}
