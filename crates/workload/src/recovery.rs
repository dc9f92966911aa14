//! What went wrong in a run and was recovered: counted by its clients, and by the host that watches the SSD.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use warpbell::{RecoveryCounters, RecoveryPolicy, Ssd, SsdEvent, SsdEventKind};
use warpbell_kernels::abi::WarpResult;
use warpbell_softctl::{Rule, Violation};

use crate::cpu::nanoseconds;

/// Commands that did not simply complete, as the clients of a run counted them: kernels, or queues of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// Commands in flight at their deadline.
    pub timed_out: u64,
    /// Commands that the controller ended because it was asked to.
    pub aborted: u64,
    /// Commands whose deadline passed before there was room for them.
    pub not_submitted: u64,
    /// Commands that were submitted once more.
    pub retried: u64,
    /// I/Os that succeeded after a command of theirs had failed.
    pub recovered: u64,
    /// Losses of a queue, counted by each warp that used it.
    pub queue_losses: u64,
    /// Completions that came after their command's deadline.
    pub late_completions: u64,
}

impl Trouble {
    /// What one warp counted.
    pub(crate) fn of(warp: &WarpResult) -> Trouble {
        Trouble {
            timed_out: warp.timed_out,
            aborted: warp.aborted,
            not_submitted: warp.not_submitted,
            retried: warp.retried,
            recovered: warp.recovered,
            queue_losses: warp.queue_losses,
            late_completions: 0,
        }
    }

    /// Adds what another worker counted.
    pub fn add(&mut self, other: &Trouble) {
        let Trouble { timed_out, aborted, not_submitted, retried, recovered, queue_losses, late_completions } =
            other;
        self.timed_out += timed_out;
        self.aborted += aborted;
        self.not_submitted += not_submitted;
        self.retried += retried;
        self.recovered += recovered;
        self.queue_losses += queue_losses;
        self.late_completions += late_completions;
    }
}

/// What recovery did, and what it was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryReport {
    /// As the clients counted.
    #[serde(flatten)]
    pub clients: Trouble,
    /// Abort commands that the host sent.
    pub aborts_sent: u64,
    /// Of these, acknowledged by the controller.
    pub aborts_acknowledged: u64,
    /// Of these, for commands that the controller did not find.
    pub aborts_not_found: u64,
    /// Of these, not answered.
    pub aborts_unanswered: u64,
    /// Queues that the host gave up.
    pub queues_lost: u64,
    /// Queues that were made in place of those.
    pub queues_replaced: u64,
    /// Queues in place of which none was made.
    pub queues_dead: u64,
    /// Resets of the controller.
    pub resets: u64,
    /// Resets that failed.
    pub resets_failed: u64,
    /// SSDs that were given up.
    pub ssds_lost: u64,
    /// Doorbells that kernels rang for queues that had been deleted under them: ignored, and no violations.
    pub late_doorbells: u64,
}

impl RecoveryReport {
    /// What was counted in a run: by its clients, and by the host between these two reads.
    pub fn new(clients: Trouble, before: &RecoveryCounters, after: &RecoveryCounters) -> RecoveryReport {
        let since = |pick: fn(&RecoveryCounters) -> u64| pick(after).saturating_sub(pick(before));
        RecoveryReport {
            // Of kernels' queues the host asks for them, when these are deleted.
            clients: Trouble {
                late_completions: clients.late_completions + since(|counters| counters.late_completions),
                ..clients
            },
            aborts_sent: since(|counters| counters.aborts),
            aborts_acknowledged: since(|counters| counters.aborts_acknowledged),
            aborts_not_found: since(|counters| counters.aborts_not_found),
            aborts_unanswered: since(|counters| counters.aborts_unanswered),
            queues_lost: since(|counters| counters.queues_lost),
            queues_replaced: since(|counters| counters.queues_replaced),
            queues_dead: since(|counters| counters.queues_dead),
            resets: since(|counters| counters.resets),
            resets_failed: since(|counters| counters.resets_failed),
            ssds_lost: since(|counters| counters.ssds_lost),
            late_doorbells: 0,
        }
    }

    /// Adds what another run, or another SSD's, counted.
    pub fn add(&mut self, other: &RecoveryReport) {
        self.clients.add(&other.clients);
        self.aborts_sent += other.aborts_sent;
        self.aborts_acknowledged += other.aborts_acknowledged;
        self.aborts_not_found += other.aborts_not_found;
        self.aborts_unanswered += other.aborts_unanswered;
        self.queues_lost += other.queues_lost;
        self.queues_replaced += other.queues_replaced;
        self.queues_dead += other.queues_dead;
        self.resets += other.resets;
        self.resets_failed += other.resets_failed;
        self.ssds_lost += other.ssds_lost;
        self.late_doorbells += other.late_doorbells;
    }

    /// Whether nothing of all this happened.
    pub fn is_quiet(&self) -> bool {
        *self == RecoveryReport::default()
    }
}

/// How long kernels wait for the host, before they give up what they wait for: until it has done all that its policy
/// allows, step by step.
pub(crate) fn patience(policy: &RecoveryPolicy) -> Duration {
    let queue = policy.alarm_period + policy.abort + policy.settle + policy.delete + policy.replace;
    // A controller reset, and one of the function.
    queue + policy.reset + policy.quiesce + policy.reset + policy.replace
}

impl RecoveryReport {
    /// Whether a violation comes of a queue's loss: whoever rings for a queue that was deleted under him does not know it
    /// yet (docs/protocol.md). The controller sees it at once, or when it makes the next queue with that identifier.
    pub(crate) fn explains(&self, violation: &Violation) -> bool {
        self.queues_lost > 0
            && violation.rule == Rule::DoorbellRegister
            && ["does not exist", "did not exist"].iter().any(|words| violation.detail.contains(words))
    }
}

/// An event of an SSD, for a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventReport {
    /// When, on the device's clock.
    pub at_ns: u64,
    /// `recovery`, `controller`, `health` or `release`.
    pub kind: String,
    /// What happened, in words.
    pub text: String,
}

impl From<&SsdEvent> for EventReport {
    fn from(event: &SsdEvent) -> EventReport {
        let kind = match event.kind {
            SsdEventKind::Recovery(_) => "recovery",
            SsdEventKind::Critical(_) => "health",
            SsdEventKind::ReleaseRequested | SsdEventKind::Released => "release",
            _ => "controller",
        };
        EventReport { at_ns: nanoseconds(event.at), kind: kind.to_owned(), text: event.to_string() }
    }
}

/// The events of `ssd` that nobody has taken yet. The newest, where there are more than a channel of them has room for.
pub(crate) fn take_events(ssd: &Ssd) -> Vec<EventReport> {
    ssd.events().try_iter().map(|event| EventReport::from(&event)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doorbells_of_lost_queues_are_no_violations_whenever_they_are_seen() {
        let lost = RecoveryReport { queues_lost: 1, ..RecoveryReport::default() };
        let violation = |rule, words: &str| Violation {
            rule,
            section: "",
            detail: format!("submission queue 1 {words}; its doorbell was set to 6"),
        };
        for words in ["does not exist", "did not exist"] {
            let late = violation(Rule::DoorbellRegister, words);
            assert!(lost.explains(&late) && !RecoveryReport::default().explains(&late), "{words}");
            assert!(!lost.explains(&violation(Rule::QueueOverlap, words)));
        }
        assert!(!lost.explains(&violation(Rule::DoorbellRegister, "is full")));
    }

    #[test]
    fn a_run_counts_what_happened_in_it() {
        let before = RecoveryCounters { aborts: 3, resets: 1, ..RecoveryCounters::default() };
        let after = RecoveryCounters { aborts: 5, queues_replaced: 1, ..before };
        let clients = Trouble { timed_out: 2, retried: 2, ..Trouble::default() };
        let mut report = RecoveryReport::new(clients, &before, &after);
        assert_eq!((report.aborts_sent, report.queues_replaced, report.resets), (2, 1, 0));
        assert!(!report.is_quiet() && RecoveryReport::default().is_quiet());
        report.add(&report.clone());
        assert_eq!((report.clients.timed_out, report.aborts_sent), (4, 4));
    }
}
