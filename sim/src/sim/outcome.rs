//! What a run left behind.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use warpbell::{RecoveryCounters, RecoveryEvent};
use warpbell_nvme::AdminOpcode;
use warpbell_softctl::{FaultKind, InjectedFault, SoftDevice, Violation};

use super::kernel::{self, Move, Op, Record};
use super::lives::Life;
use super::log::Log;
use super::wire::AdminCommand;
use crate::breach::Breach;
use crate::findings::Finding;

/// Who asked for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Lane { kernel: u64, warp: u64, lane: u64, command: u64, attempt: u64 },
    Host { command: u64 },
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Lane { kernel, warp, lane, command, attempt } => {
                write!(f, "kernel {kernel} warp {warp} lane {lane} command {command}")?;
                if *attempt == 0 { Ok(()) } else { write!(f, ", try {}", attempt + 1) }
            }
            Who::Host { command } => write!(f, "host command {command}"),
        }
    }
}

/// One command, or one try of it, and what became of that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) who: Who,
    /// Resets before it.
    pub(super) era: usize,
    /// Its queue.
    pub(super) qid: u16,
    /// Which of the kernels' queue objects that is, where these are told apart.
    pub(super) life: Option<usize>,
    pub(super) op: Op,
    pub(super) record: Record,
}

impl Command {
    /// What the first block of a write brings: each try has a value of its own.
    pub(super) fn value(&self) -> u64 {
        match self.who {
            Who::Lane { attempt, .. } => self.op.value + (attempt << 56),
            Who::Host { .. } => self.op.value,
        }
    }

    /// Whether both were asked for on the same queue object, or at least between the same resets.
    pub(super) fn shares_life(&self, other: &Command) -> bool {
        self.life == other.life && self.era == other.era
    }

    /// From when it was asked for to when it was answered.
    pub(super) fn span(&self) -> RangeInclusive<Duration> {
        Duration::from_nanos(self.record.asked)..=Duration::from_nanos(self.record.answered)
    }

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
            kernel::WRITE => {
                write!(f, "{who}: write {} at {} of {:#x}{fua}", op.blocks, op.lba, self.value())
            }
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
    /// When the host reset the controller.
    pub(super) resets: Vec<Duration>,
    /// Queue objects of kernels, where these recover.
    pub(super) lives: Vec<Life>,
    /// What the library said of its recovery, and counted.
    pub(super) steps: Vec<(Duration, RecoveryEvent)>,
    pub(super) recovery: RecoveryCounters,
    /// Memory of a queue became another's, with what was counted there.
    pub(super) memory_reused: bool,
    /// Rules of recovery that were broken, as the pages between host and kernels tell.
    pub(super) broken: Vec<String>,
    /// Everything that the host asked of the controller by admin commands.
    pub(super) admin_commands: Vec<AdminCommand>,
    /// Abort commands that the controller takes at a time, and its Command Retry Delay Times.
    pub(super) abort_limit: usize,
    pub(super) crdt: [u16; 3],
    /// Changes of queues by warps: kernel and warp.
    pub(super) moves: Vec<(u64, u64, Move)>,
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
    /// What the monitor saw, and when.
    pub(super) breaches: Vec<(Duration, Breach)>,
    /// What the controller's checker logged.
    pub(super) violations: Vec<Violation>,
    /// From when to when the host prepared queues, with commands of its own on them.
    pub(super) attaches: Vec<(Duration, Duration)>,
    /// Commands that the host asked the controller to abort: queue and identifier, and when.
    pub(super) aborted: Vec<(u16, u16, Duration)>,
    /// By queue: completions without an owner, and those with a wrong SQ head.
    pub(super) counts: Vec<(u16, u64, u64)>,
    /// A queue could not be deleted.
    pub(super) kept: bool,
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

    /// Whether some fault hit an admin command, or the whole controller: what the host asked for may not have happened.
    pub(super) fn is_harmed(&self, soft: &SoftDevice) -> bool {
        soft.faults().iter().any(|fault| fault.queue == 0 || super::reasons::ends(fault.kind))
    }

    /// Resets before a time.
    pub(super) fn era_at(&self, at: Duration) -> usize {
        self.resets.iter().filter(|reset| **reset < at).count()
    }

    /// Faults injected between two resets.
    pub(super) fn faults_of(&self, era: usize) -> impl Iterator<Item = &InjectedFault> {
        self.faults.iter().filter(move |fault| self.era_at(fault.at) == era)
    }

    /// The queue object of kernels that had an identifier at a time.
    pub(super) fn life_at(&self, qid: u16, at: Duration) -> Option<usize> {
        let of = |life: &Life| life.qid() == qid && life.made <= at;
        self.lives.iter().rposition(of).filter(|life| self.era_at(self.lives[*life].made) == self.era_at(at))
    }

    /// From when on a command cannot happen any more, whatever its status says: its queue was deleted.
    pub(super) fn last_moment(&self, of: &Command) -> Option<u64> {
        let gone = self.lives[of.life?].gone?;
        let hit =
            |fault: &InjectedFault| fault.kind == FaultKind::LatePayload && of.is(fault.queue, fault.cid);
        // Data that comes late comes all the same.
        (!self.faults.iter().any(hit)).then_some(gone.as_nanos() as u64)
    }

    /// From when on a queue identifier stood for what it stood for at a time.
    pub(super) fn since(&self, qid: u16, at: Duration) -> Duration {
        let reset = self.resets.iter().filter(|reset| **reset < at).max().copied().unwrap_or_default();
        let life = self.life_at(qid, at).map_or(Duration::ZERO, |life| self.lives[life].made);
        reset.max(life)
    }

    pub(super) fn add_client(&mut self, qid: u16, ops: &[Op], records: &[Record]) {
        let first = self.clients;
        self.clients += 1000;
        let now = self.resets.len();
        for (index, (op, record)) in ops.iter().zip(records).enumerate() {
            let who = Who::Host { command: first + index as u64 };
            // What was never asked for belongs to the present.
            let era = if record.asked == 0 { now } else { self.era_at(Duration::from_nanos(record.asked)) };
            self.commands.push(Command { who, era, qid, life: None, op: *op, record: *record });
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
        let hit = |fault: &InjectedFault| {
            let InjectedFault { kind, queue, cid, opcode, by, .. } = fault;
            let opcode = if *queue == 0 { AdminOpcode(opcode.0).to_string() } else { opcode.to_string() };
            format!("fault: {kind:?} of {opcode}, cid {cid:#06x} of queue {queue}, {by:?}")
        };
        lines.extend(self.faults.iter().map(|fault| (fault.at, hit(fault))));
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

/// What happened on the way, in numbers.
pub(super) fn events(facts: &Facts) -> Vec<(&'static str, u64)> {
    let lives = |of: fn(&Life) -> bool| facts.lives.iter().filter(|life| of(life)).count() as u64;
    let moved =
        |of: fn(u32) -> bool| facts.moves.iter().filter(|(_, _, note)| of(note.status)).count() as u64;
    let again = |command: &&Command| matches!(command.who, Who::Lane { attempt: 1.., .. });
    vec![
        ("resets", facts.resets.len() as u64),
        ("admin commands", facts.admin + facts.admin_commands.len() as u64),
        ("aborts", facts.aborts + facts.recovery.aborts),
        ("late completions", facts.late),
        ("host calls that failed for a reason", facts.excused),
        ("queues lost", lives(|life| life.lost.is_some())),
        ("queues replaced", lives(|life| life.replaced.is_some())),
        ("queues dead", lives(|life| life.dead.is_some())),
        ("moves to new queues", moved(|status| status == 1)),
        ("moves that failed", moved(|status| status != 1)),
        ("commands asked for again", facts.commands.iter().filter(again).count() as u64),
        ("identifiers freed", facts.recovery.ids_freed),
    ]
}
