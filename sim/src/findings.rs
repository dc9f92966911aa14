//! What a run did wrong, and which check says so.

use std::fmt;

use warpbell_kernels::abi;
use warpbell_softctl::Violation;

use crate::breach::Breach;

/// One thing that a run did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The controller's checker objects.
    Violation(Violation),
    /// The monitor between kernels and controller objects.
    Breach(Breach),
    /// A command with no answer, or more than one.
    Answers {
        /// Number of the command: (warp * 32 + lane) * commands + index.
        command: usize,
        /// Answers it got.
        answers: u32,
    },
    /// A status that the run should not have.
    Status {
        /// The command.
        command: usize,
        /// Its status.
        status: u32,
    },
    /// Data read that is not what the block holds.
    Payload {
        /// The command.
        command: usize,
        /// Its block.
        lba: u64,
        /// The word found.
        found: u64,
    },
    /// Data written that did not reach its block.
    Stored {
        /// The block.
        lba: u64,
        /// The word found there.
        found: u64,
    },
    /// Completions that no pending command owned.
    Spurious(u64),
    /// Completions whose SQ head makes no sense.
    SqHead(u64),
    /// Lanes that can never run again.
    Deadlock(String),
    /// Misuse of the executor, or a crash of the run's own machinery.
    Fault(String),
    /// Not done long after every deadline.
    Stuck(String),
    /// Contents of a block that no order of the commands explains.
    Contents(String),
    /// Contents of a block after a loss of power that a flush forbids.
    Durability(String),
    /// Something about a command that nothing in the plan explains.
    Unexplained(String),
    /// A call of the host failed, and nothing was wrong with the controller.
    Host(String),
    /// A step of the recovery that breaks a rule of it.
    Recovery(String),
    /// Something that was there at the start, or was used on the way, and is not free at the end.
    Leak(String),
}

impl Finding {
    /// The check that found it, in a word or two.
    pub fn check(&self) -> String {
        match self {
            Finding::Violation(violation) => format!("violation {}", violation.rule),
            Finding::Breach(Breach::DoorbellValue { .. }) => "monitor: doorbell value".into(),
            Finding::Breach(Breach::Outstanding { .. }) => "monitor: outstanding".into(),
            Finding::Breach(Breach::HeadBeyondTail { .. }) => "monitor: head beyond tail".into(),
            Finding::Breach(Breach::Writers { .. }) => "monitor: two writers".into(),
            Finding::Breach(Breach::CidTwice { .. }) => "monitor: identifier in flight".into(),
            Finding::Breach(Breach::Unfenced { .. }) => "monitor: answer before a fence".into(),
            Finding::Breach(Breach::Unlocked { .. }) => "monitor: answer without the lock".into(),
            Finding::Breach(Breach::Unwritten { .. }) => "monitor: entry not written".into(),
            Finding::Breach(Breach::NotPending { .. }) => "monitor: answered before".into(),
            Finding::Breach(Breach::Early { .. }) => "monitor: answer before its completion".into(),
            Finding::Breach(Breach::NoCommandId { .. }) => "monitor: identifier 0xffff".into(),
            Finding::Breach(Breach::Overwritten { .. }) => "monitor: entry overwritten".into(),
            Finding::Breach(Breach::NoHazard { .. }) => "monitor: queue not held".into(),
            Finding::Breach(Breach::ForeignDoorbell { .. }) => "monitor: foreign doorbell".into(),
            Finding::Answers { answers: 0, .. } => "record: no answer".into(),
            Finding::Answers { .. } => "record: answered twice".into(),
            Finding::Status { status, .. }
                if status & 0xffff == abi::STATUS_LIBRARY | abi::STATUS_TIMED_OUT =>
            {
                "no progress: timed out".into()
            }
            Finding::Status { status, .. }
                if status & 0xffff == abi::STATUS_LIBRARY | abi::STATUS_NOT_SUBMITTED =>
            {
                "no progress: not submitted".into()
            }
            Finding::Status { .. } => "record: status".into(),
            Finding::Payload { .. } => "payload".into(),
            Finding::Stored { .. } => "stored data".into(),
            Finding::Spurious(_) => "spurious completion".into(),
            Finding::SqHead(_) => "SQ head".into(),
            Finding::Deadlock(_) => "deadlock".into(),
            Finding::Fault(_) => "fault".into(),
            Finding::Stuck(_) => "deadline".into(),
            Finding::Contents(_) => "contents".into(),
            Finding::Durability(_) => "durability".into(),
            Finding::Host(_) => "host call".into(),
            Finding::Recovery(_) => "recovery".into(),
            Finding::Leak(_) => "leak".into(),
            Finding::Unexplained(_) => "unexplained".into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Violation(violation) => write!(f, "{violation}"),
            Finding::Breach(breach) => write!(f, "{breach}"),
            Finding::Answers { command, answers } => write!(f, "command {command}: {answers} answers"),
            Finding::Status { command, status } => write!(f, "command {command}: status {status:#06x}"),
            Finding::Payload { command, lba, found } => {
                write!(f, "command {command}: block {lba} read as {found:#018x}")
            }
            Finding::Stored { lba, found } => write!(f, "block {lba} holds {found:#018x}"),
            Finding::Spurious(count) => write!(f, "{count} spurious completions"),
            Finding::SqHead(count) => write!(f, "{count} completions with a wrong SQ head"),
            Finding::Deadlock(text) | Finding::Fault(text) | Finding::Stuck(text) => f.write_str(text),
            Finding::Contents(text) | Finding::Durability(text) | Finding::Host(text) => f.write_str(text),
            Finding::Unexplained(text) | Finding::Recovery(text) | Finding::Leak(text) => f.write_str(text),
        }
    }
}

/// The first findings as lines, for messages.
pub fn lines(findings: &[Finding]) -> String {
    let mut text: Vec<String> = findings.iter().take(8).map(|f| format!("  {}: {f}", f.check())).collect();
    if findings.len() > text.len() {
        text.push(format!("  and {} more", findings.len() - text.len()));
    }
    text.join("\n")
}
