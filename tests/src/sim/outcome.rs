//! What a run left behind.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_softctl::{InjectedFault, SoftDevice, Violation};

use super::kernel::{self, Op, Record};
use super::log::Log;
use crate::breach::Breach;
use crate::findings::Finding;

/// Who asked for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Lane { kernel: u64, warp: u64, lane: u64, command: u64 },
    Host { command: u64 },
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Lane { kernel, warp, lane, command } => {
                write!(f, "kernel {kernel} warp {warp} lane {lane} command {command}")
            }
            Who::Host { command } => write!(f, "host command {command}"),
        }
    }
}

/// One command, and what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) who: Who,
    /// Resets before it.
    pub(super) era: usize,
    /// Its queue.
    pub(super) qid: u16,
    pub(super) op: Op,
    pub(super) record: Record,
}

impl Command {
    /// Whether the controller knows it by this queue and identifier.
    pub(super) fn is(&self, queue: u16, cid: u16) -> bool {
        self.qid == queue && self.record.cid != u32::MAX && self.record.cid as u16 == cid
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Command { who, op, .. } = self;
        let fua = if op.flags & kernel::FUA != 0 { " (FUA)" } else { "" };
        match op.opcode {
            kernel::FLUSH => write!(f, "{who}: flush"),
            kernel::WRITE => write!(f, "{who}: write {} at {} of {:#x}{fua}", op.blocks, op.lba, op.value),
            _ => write!(f, "{who}: read {} at {}", op.blocks, op.lba),
        }
    }
}

/// All that is known of a run.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) findings: Vec<Finding>,
    pub(super) commands: Vec<Command>,
    pub(super) faults: Vec<InjectedFault>,
    /// For each reset: faults injected before it.
    pub(super) eras: Vec<Vec<InjectedFault>>,
    /// Host calls that failed as they may.
    pub(super) excused: u64,
    /// Queues that were deleted while a kernel could still use them.
    pub(super) retired: Vec<u16>,
    /// Some queue was declared lost.
    pub(super) lost: bool,
    /// Which one, or all of them, in which era and when.
    pub(super) losses: Vec<(Option<u16>, usize, Duration)>,
    /// When the controller did nothing, and for how long.
    pub(super) stalls: Vec<(Duration, Duration)>,
    /// What the witness saw, and when.
    pub(super) breaches: Vec<(Duration, Breach)>,
    /// What the controller's checker logged.
    pub(super) violations: Vec<Violation>,
    /// From when to when the host prepared queues, with commands of its own on them.
    pub(super) attaches: Vec<(Duration, Duration)>,
    /// Commands that the host asked the controller to abort: queue and identifier.
    pub(super) aborted: Vec<(u16, u16)>,
    /// By queue: completions without an owner, and those with a wrong SQ head.
    pub(super) counts: Vec<(u16, u64, u64)>,
    /// Doorbells go through memory.
    pub(super) shadowed: bool,
    /// The controller is gone for good.
    pub(super) gone: bool,
    pub(super) aborts: u64,
    pub(super) admin: u64,
    pub(super) late: u64,
    pub(super) elapsed: Duration,
    pub(super) story: Arc<Mutex<Log>>,
    pub(super) clients: u64,
}

impl Facts {
    pub(super) fn host_error(&mut self, text: String) {
        self.findings.push(Finding::Host(text));
    }

    /// The host has reset the controller.
    pub(super) fn end_of_era(&mut self, soft: &SoftDevice) {
        let known: usize = self.eras.iter().map(Vec::len).sum();
        self.eras.push(soft.faults().split_off(known));
    }

    /// Faults injected between two resets.
    pub(super) fn faults_of(&self, era: usize) -> &[InjectedFault] {
        let first: usize = self.eras.iter().take(era).map(Vec::len).sum();
        let count = self.eras.get(era).map_or(usize::MAX, Vec::len);
        let rest = self.faults.get(first..).unwrap_or_default();
        &rest[..count.min(rest.len())]
    }

    pub(super) fn add_client(&mut self, qid: u16, ops: &[Op], records: &[Record]) {
        let first = self.clients;
        self.clients += 1000;
        let era = self.eras.len();
        for (index, (op, record)) in ops.iter().zip(records).enumerate() {
            let who = Who::Host { command: first + index as u64 };
            self.commands.push(Command { who, era, qid, op: *op, record: *record });
        }
    }

    /// The story: what happened, and what each command saw of it.
    pub(super) fn told(&self) -> String {
        let mut lines = Vec::new();
        for command in &self.commands {
            let record = &command.record;
            let at = Duration::from_nanos;
            if record.asked == 0 {
                continue;
            }
            lines.push((at(record.asked), format!("{command}")));
            if record.submitted != record.asked && record.cid != u32::MAX {
                lines.push((
                    at(record.submitted),
                    format!("{}: submitted, cid {:#06x}", command.who, record.cid),
                ));
            }
            if record.answers > 0 {
                lines.push((at(record.answered), answer(command)));
            }
        }
        self.story.lock().told(lines)
    }
}

fn answer(command: &Command) -> String {
    let (record, who) = (&command.record, command.who);
    let status = super::judge::status_name(record.status);
    if command.op.opcode == kernel::READ && record.status == 0 {
        let blocks = command.op.blocks as usize;
        return format!(
            "{who}: {status}, read {:x?} (ends {:x?})",
            &record.first[..blocks],
            &record.last[..blocks]
        );
    }
    format!("{who}: {status}")
}

/// How many commands got each status.
pub(super) fn statuses(commands: &[Command]) -> Vec<(String, u64)> {
    let mut counts = std::collections::BTreeMap::new();
    for command in commands {
        let name = match command.record.answers {
            0 if command.record.asked == 0 => "not asked for".to_owned(),
            0 => "no answer".to_owned(),
            _ => super::judge::status_name(command.record.status),
        };
        *counts.entry(name).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}
