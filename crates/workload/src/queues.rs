//! What was counted on each queue, and on each SSD.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use warpbell::{QueueCounters, Ssd};

use crate::result::{Costs, Run};
use crate::trace::{Event, TraceSummary, What};

/// One queue of a run. What nobody counted is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueReport {
    /// Which of the run's queues.
    pub index: u32,
    /// Its identifier, at last.
    pub qid: u16,
    /// Commands submitted. Of a queue that was replaced meanwhile only a complete trace tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<u64>,
    /// Completions collected, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<u64>,
    /// Writes to its submission doorbell; of kernels where a complete trace tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sq_doorbells: Option<u64>,
    /// Writes to its completion doorbell, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cq_doorbells: Option<u64>,
    /// Collections of completions, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reaps: Option<u64>,
    /// Completions that no pending command owned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spurious: Option<u64>,
    /// Commands that completed after their deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
    /// Completions whose SQ head was not as expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sqhd_mismatches: Option<u64>,
}

impl QueueReport {
    /// A queue of kernels: what they counted between two polls.
    pub(crate) fn of_kernels(
        index: usize,
        qid: u16,
        before: &QueueCounters,
        after: &QueueCounters,
        replaced: bool,
    ) -> QueueReport {
        let since = |pick: fn(&QueueCounters) -> u64| pick(after).saturating_sub(pick(before));
        QueueReport {
            index: index as u32,
            qid,
            commands: (!replaced).then(|| since(|counters| counters.ticket)),
            completions: (!replaced).then(|| since(|counters| counters.head)),
            spurious: Some(since(|counters| counters.spurious)),
            late: Some(since(|counters| counters.late)),
            sqhd_mismatches: Some(since(|counters| counters.sqhd_mismatch)),
            ..QueueReport::default()
        }
    }

    /// A queue of the host's: its worker counts all of these.
    pub(crate) fn of_host(index: u64, qid: u16, costs: &Costs) -> QueueReport {
        QueueReport {
            index: index as u32,
            qid,
            commands: Some(costs.sqes),
            completions: Some(costs.cqes),
            sq_doorbells: Some(costs.sq_doorbells),
            cq_doorbells: Some(costs.cq_doorbells),
            ..QueueReport::default()
        }
    }

    /// Adds what a trace says, if it has all events; the queue is one of `queues`.
    pub(crate) fn traced(&mut self, queues: usize, summary: &TraceSummary, events: &[Event]) {
        if summary.overwritten_events > 0 {
            return;
        }
        // By warp: a queue that was replaced has had several identifiers.
        let own = || events.iter().filter(|event| event.warp as usize % queues.max(1) == self.index as usize);
        let count = |is: fn(&What) -> bool| Some(own().filter(|event| is(&event.what)).count() as u64);
        let sq_doorbells = count(|what| matches!(what, What::SqDoorbell { register: true, .. }));
        let cq_doorbells = count(|what| matches!(what, What::CqDoorbell { register: true, .. }));
        let reaps = count(|what| matches!(what, What::Reap { .. }));
        (self.sq_doorbells, self.cq_doorbells, self.reaps) = (sq_doorbells, cq_doorbells, reaps);
        self.commands = count(|what| matches!(what, What::Submit { .. }));
        let collected = own().map(|event| match event.what {
            What::Reap { completions, .. } => u64::from(completions),
            _ => 0,
        });
        self.completions = Some(collected.sum());
    }
}

/// One SSD of a run. What nobody counted is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsdReport {
    /// The name that it was opened by.
    pub device: String,
    /// I/Os that succeeded.
    pub ios: u64,
    /// Those that did not.
    pub errors: u64,
    /// Commands submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<u64>,
    /// Completions collected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<u64>,
    /// Writes to submission doorbells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sq_doorbells: Option<u64>,
    /// Writes to completion doorbells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cq_doorbells: Option<u64>,
    /// Atomic read-modify-writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmw: Option<u64>,
    /// Completions that no pending command owned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spurious: Option<u64>,
    /// Commands that completed after their deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
    /// Violations of the protocol that the soft controller saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub violations: Option<u64>,
    /// Of a replay: blocks that the soft controller has deallocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_deallocated: Option<u64>,
    /// Faults that the soft controller injected, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<String, u64>,
}

impl SsdReport {
    /// `run` on `ssd`.
    pub(crate) fn of(ssd: &Ssd, run: &Run) -> SsdReport {
        let queues = &run.queues;
        let counted = |pick: fn(&QueueReport) -> Option<u64>| {
            queues.iter().map(pick).try_fold(0, |sum, each| Some(sum + each?))
        };
        let costs = run.counters.as_ref();
        SsdReport {
            device: ssd.name().to_string(),
            ios: run.total.ios,
            errors: run.errors,
            commands: costs.map(|costs| costs.sqes).or_else(|| counted(|queue| queue.commands)),
            completions: costs.map(|costs| costs.cqes).or_else(|| counted(|queue| queue.completions)),
            sq_doorbells: costs.map(|costs| costs.sq_doorbells),
            cq_doorbells: costs.map(|costs| costs.cq_doorbells),
            rmw: costs.map(|costs| costs.rmw),
            spurious: counted(|queue| queue.spurious),
            late: counted(|queue| queue.late),
            violations: ssd.soft().map(|_| run.violations),
            blocks_deallocated: None,
            faults: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_was_replaced_has_the_counts_that_its_trace_has() {
        let after = QueueCounters { ticket: 7, head: 6, spurious: 1, late: 2, sqhd_mismatch: 0 };
        let before = QueueCounters { ticket: 5, head: 5, ..QueueCounters::default() };
        let report = |replaced| QueueReport::of_kernels(1, 9, &before, &after, replaced);
        assert_eq!((report(false).commands, report(false).completions), (Some(2), Some(1)));
        let mut replaced = report(true);
        assert_eq!((replaced.commands, replaced.late), (None, Some(2)));
        let event = |warp, what| Event { clock_ns: 1, warp, lane: 0, qid: 3, what };
        let submit = What::Submit { cid: 0, generation: 1, index: 0, opcode: 2, lba: 0, blocks: 1 };
        let reap = What::Reap { index: 0, completions: 4, spurious: 0 };
        let events = [event(1, submit), event(3, reap), event(2, reap)];
        replaced.traced(2, &TraceSummary { overwritten_events: 1, ..TraceSummary::default() }, &events);
        assert_eq!(replaced.commands, None, "events are missing");
        replaced.traced(2, &TraceSummary::default(), &events);
        assert_eq!((replaced.commands, replaced.completions, replaced.reaps), (Some(1), Some(4), Some(1)));
    }
}
