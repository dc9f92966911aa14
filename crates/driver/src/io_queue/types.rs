//! What goes into an I/O queue and comes out of it.

use std::time::Duration;

use warpbell_hw::Cid;
use warpbell_nvme::status::Status;

use crate::{RetryPolicy, SpuriousCompletion};

warpbell_base::options! {
    /// How to drive an I/O queue.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct IoQueueOptions {
        /// How long a command may take before it is reported as timed out (up to an eighth later).
        pub timeout: Duration,
        /// Rings the submission doorbell by itself after so many pushed commands, at least 1.
        pub sq_batch: u32,
        /// Rings the completion doorbell after so many completions, at least 1. It is cut to a quarter of the
        /// ring, so that completions which were not reported yet never starve the queue of room.
        pub cq_batch: u32,
        /// Reads a register of the controller before a completion is reported: what the controller wrote before that, the
        /// data, has then arrived, even where data and completions lie in different memory.
        pub flush: bool,
        /// Whether commands are submitted again whose status says that this may help. Their deadline is that of the first
        /// try.
        pub retry: RetryPolicy,
    }
}

impl Default for IoQueueOptions {
    fn default() -> Self {
        IoQueueOptions {
            timeout: Duration::from_secs(10),
            sq_batch: 32,
            cq_batch: 32,
            flush: false,
            retry: RetryPolicy::default(),
        }
    }
}

/// Names a command while it is outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// A number below [`IoQueue::depth`](crate::IoQueue::depth) that no other outstanding command has: the index of what the
    /// caller keeps per command, such as its buffer.
    pub slot: u16,
    /// The command identifier on the wire, at the first try.
    pub cid: Cid,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The controller completed it with this status.
    Completed(Status),
    /// Its deadline passed. Slot and buffer stay in use until its completion comes, which is not reported
    /// any more, or until the queue is deleted.
    TimedOut,
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The command.
    pub token: Token,
    /// How it ended.
    pub outcome: Outcome,
    /// Dword 0 of the completion.
    pub result: u32,
}

impl Completion {
    /// Whether the controller completed the command successfully.
    pub fn is_ok(&self) -> bool {
        matches!(self.outcome, Outcome::Completed(status) if status.is_ok())
    }
}

/// What a queue counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounters {
    /// Commands written to the submission ring.
    pub sqes: u64,
    /// Completions taken from the completion ring, whatever they were.
    pub cqes: u64,
    /// Writes to the submission queue tail doorbell register.
    pub sq_doorbells: u64,
    /// Writes to the completion queue head doorbell register.
    pub cq_doorbells: u64,
    /// Writes to shadow doorbells, of both kinds.
    pub shadow_stores: u64,
    /// Completions of no outstanding command.
    pub spurious: u64,
    /// The last of those.
    pub last_spurious: Option<SpuriousCompletion>,
    /// Commands reported as timed out.
    pub timed_out: u64,
    /// Commands submitted again because their status said that this may help.
    pub retried: u64,
    /// Commands that succeeded after they had been submitted again.
    pub recovered: u64,
    /// Completions that came after their command was reported as timed out.
    pub late: u64,
    /// Completions whose submission queue head cannot be true.
    pub sqhd_mismatches: u64,
    /// Completions before which data was made to arrive.
    pub flushes: u64,
    /// Reads that this took: of a register each, and of the memory that data lies in.
    pub register_reads: u64,
    /// Times that a wait slept for an interrupt.
    pub sleeps: u64,
    /// Sleeps that ended without an interrupt, though there was a completion, and none came for longer than any
    /// coalescing takes.
    pub missed_interrupts: u64,
}
