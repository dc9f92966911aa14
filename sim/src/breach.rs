//! What a store, a fence that is missing or a doorbell can break.

use std::fmt;

/// What a store broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// A doorbell was written with the value that it had, or with one outside the ring.
    DoorbellValue {
        /// The queue.
        qid: u32,
        /// "SQ tail" or "CQ head".
        doorbell: &'static str,
        /// The value before.
        before: u64,
        /// The value written.
        value: u32,
    },
    /// More commands outstanding than entries - 1. A doorbell that goes back looks the same.
    Outstanding {
        /// The queue.
        qid: u32,
        /// Commands submitted and not reported complete.
        outstanding: u64,
        /// The most there may be.
        limit: u64,
    },
    /// The CQ head went beyond what was submitted.
    HeadBeyondTail {
        /// The queue.
        qid: u32,
        /// Completions reported.
        head: u64,
        /// Commands submitted.
        tail: u64,
    },
    /// Two warps wrote one doorbell with no hand-over between them.
    Writers {
        /// The queue.
        qid: u32,
        /// "SQ tail" or "CQ head".
        doorbell: &'static str,
        /// Who wrote last, and has not handed on.
        first: u32,
        /// Who wrote now.
        second: u32,
    },
    /// A command was submitted under an identifier whose command had not completed.
    CidTwice {
        /// The queue.
        qid: u32,
        /// The identifier.
        cid: u32,
    },
    /// A completion was handed on with no fence since it was read (F5), so that its payload may be seen later.
    Unfenced {
        /// The queue.
        qid: u32,
        /// The warp.
        warp: u32,
        /// Its lane.
        lane: u32,
    },
    /// A completion slot was written that was not pending, by a lane that it is not for.
    NotPending {
        /// The queue.
        qid: u32,
        /// The warp.
        warp: u32,
        /// Its lane.
        lane: u32,
    },
    /// A command was answered before its own completion was posted.
    Early {
        /// The queue.
        qid: u32,
        /// Its identifier.
        cid: u32,
    },
    /// A completion was handed on by a warp that held no lock.
    Unlocked {
        /// The queue.
        qid: u32,
        /// The warp.
        warp: u32,
    },
    /// A doorbell announced an entry that was never written, or was fetched before and not written since.
    Unwritten {
        /// The queue.
        qid: u32,
        /// The entry, counted from the start of the queue's life.
        index: u64,
    },
    /// The identifier that error log entries use for "no command" was submitted.
    NoCommandId {
        /// The queue.
        qid: u32,
    },
    /// A store into the slot of an entry that is submitted and not reported complete.
    Overwritten {
        /// The queue.
        qid: u32,
        /// The slot.
        slot: u64,
        /// Completions reported.
        head: u64,
        /// Commands submitted.
        tail: u64,
    },
    /// A lane touched rings, words, state or doorbells of a queue without having taken its hazard slot there.
    NoHazard {
        /// The queue.
        qid: u32,
        /// The warp.
        warp: u32,
        /// Its lane.
        lane: u32,
    },
    /// A doorbell of a queue that is gone reached a living one.
    ForeignDoorbell {
        /// The living queue.
        qid: u32,
        /// The warp.
        warp: u32,
        /// Its lane.
        lane: u32,
    },
}

impl Breach {
    /// The queue on which it was.
    pub fn qid(&self) -> u32 {
        match self {
            Breach::DoorbellValue { qid, .. }
            | Breach::Outstanding { qid, .. }
            | Breach::HeadBeyondTail { qid, .. }
            | Breach::Writers { qid, .. }
            | Breach::CidTwice { qid, .. }
            | Breach::Unfenced { qid, .. }
            | Breach::NotPending { qid, .. }
            | Breach::Early { qid, .. }
            | Breach::Unlocked { qid, .. }
            | Breach::Unwritten { qid, .. }
            | Breach::NoCommandId { qid }
            | Breach::NoHazard { qid, .. }
            | Breach::ForeignDoorbell { qid, .. }
            | Breach::Overwritten { qid, .. } => *qid,
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::DoorbellValue { qid, doorbell, before, value } => {
                write!(f, "queue {qid}: {doorbell} doorbell went from count {before} to value {value}")
            }
            Breach::Outstanding { qid, outstanding, limit } => {
                write!(
                    f,
                    "queue {qid}: {outstanding} commands outstanding (or a tail that went back), limit {limit}"
                )
            }
            Breach::HeadBeyondTail { qid, head, tail } => {
                write!(f, "queue {qid}: CQ head {head} beyond SQ tail {tail}")
            }
            Breach::Writers { qid, doorbell, first, second } => {
                write!(
                    f,
                    "queue {qid}: warps {first} and {second} wrote the {doorbell} doorbell without a hand-over"
                )
            }
            Breach::CidTwice { qid, cid } => {
                write!(f, "queue {qid}: command identifier {cid:#06x} submitted while it is in flight")
            }
            Breach::Unfenced { qid, warp, lane } => {
                write!(
                    f,
                    "queue {qid}: warp {warp} lane {lane} answered a command with no fence after the completion"
                )
            }
            Breach::NotPending { qid, warp, lane } => {
                write!(f, "queue {qid}: warp {warp} lane {lane} answered a command that was answered before")
            }
            Breach::Early { qid, cid } => {
                write!(f, "queue {qid}: command {cid:#06x} was answered before its completion was posted")
            }
            Breach::Unlocked { qid, warp } => {
                write!(f, "queue {qid}: warp {warp} answered a command without the lock")
            }
            Breach::Unwritten { qid, index } => {
                write!(f, "queue {qid}: entry {index} was announced before it was written")
            }
            Breach::NoCommandId { qid } => {
                write!(f, "queue {qid}: a command was submitted as 0xffff, which stands for none")
            }
            Breach::NoHazard { qid, warp, lane } => {
                write!(
                    f,
                    "queue {qid}: warp {warp} lane {lane} used it while nothing kept it from being replaced"
                )
            }
            Breach::ForeignDoorbell { qid, warp, lane } => {
                write!(f, "queue {qid}: warp {warp} lane {lane} rang it for a queue that is gone")
            }
            Breach::Overwritten { qid, slot, head, tail } => {
                write!(f, "queue {qid}: store into slot {slot}, which holds one of entries {head} to {tail}")
            }
        }
    }
}
