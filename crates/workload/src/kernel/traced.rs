//! What kernels leave on their queues: counters, and traces.

use std::sync::Arc;

use warpbell::QueueCounters;
use warpbell_kernels::abi::QueueRef;

use super::KernelRunner;
use crate::error::RunError;
use crate::outcome::Outcome;
use crate::queues::QueueReport;
use crate::trace::{TraceSummary, collected};

impl KernelRunner<'_> {
    /// What kernels have counted so far on each queue, and which queue it is.
    pub(super) fn counters(&self) -> Result<Vec<(QueueCounters, QueueRef)>, RunError> {
        let all = 0..self.attachment.layout().queues as usize;
        all.map(|index| Ok((self.attachment.counters(index)?, self.attachment.queue(index)?))).collect()
    }

    /// Takes in the trace, if one was asked for.
    pub(super) fn add_trace(&self, outcome: &mut Outcome) -> Result<(), RunError> {
        if let Some(memory) = self.attachment.queues().trace() {
            let (events, written) = collected(memory)?;
            outcome.trace = Some((TraceSummary::of(&events, written), Arc::new(events)));
        }
        Ok(())
    }

    /// Takes in what was counted on each queue since `before`.
    pub(super) fn add_queues(
        &self,
        before: &[(QueueCounters, QueueRef)],
        outcome: &mut Outcome,
    ) -> Result<(), RunError> {
        let after = self.counters()?;
        for (index, ((first, was), (last, is))) in before.iter().zip(&after).enumerate() {
            let replaced = was.epoch != is.epoch;
            let mut queue = QueueReport::of_kernels(index, is.qid as u16, first, last, replaced);
            if let Some((summary, events)) = &outcome.trace {
                queue.traced(before.len(), summary, events);
            }
            outcome.queues.push(queue);
        }
        Ok(())
    }
}
