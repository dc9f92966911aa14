//! What recovery counted.

/// What recovery did for one SSD since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryCounters {
    /// Alarms of queues that were answered.
    pub alarms: u64,
    /// Commands that kernels gave up, as the host saw them.
    pub timed_out: u64,
    /// Abort commands.
    pub aborts: u64,
    /// Of these, acknowledged by the controller.
    pub aborts_acknowledged: u64,
    /// Of these, for commands that the controller did not find.
    pub aborts_not_found: u64,
    /// Of these, not answered.
    pub aborts_unanswered: u64,
    /// Commands that completed after their deadline, as kernels counted them.
    pub late_completions: u64,
    /// Queues that were given up.
    pub queues_lost: u64,
    /// Queues that were made in place of those.
    pub queues_replaced: u64,
    /// Queues in place of which none was made.
    pub queues_dead: u64,
    /// Queue identifiers that came back when kernels had left their queue.
    pub ids_freed: u64,
    /// Resets, successful ones.
    pub resets: u64,
    /// Resets that failed.
    pub resets_failed: u64,
    /// 1 if the SSD was given up.
    pub ssds_lost: u64,
    /// Events that a reader was too slow for.
    pub events_lost: u64,
}
