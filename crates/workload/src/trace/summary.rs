//! What a trace says in few numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use warpbell_kernels::abi::TRACE_INDEX_BITS;

use super::event::{Event, What};

/// A trace in few numbers. Counts are of the events that were kept: where some were overwritten they are too low.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceSummary {
    /// Events kept.
    pub events: u64,
    /// Events that were overwritten by later ones, and those of lanes that keep none.
    pub overwritten_events: u64,
    /// Commands submitted.
    pub commands: u64,
    /// Commands answered.
    pub answers: u64,
    /// Writes to submission doorbell registers.
    pub sq_doorbells: u64,
    /// Writes to completion doorbell registers.
    pub cq_doorbells: u64,
    /// Collections of completions.
    pub reaps: u64,
    /// Submissions that were refused.
    pub refusals: u64,
    /// Commands that completed after their deadline.
    pub late: u64,
    /// Commands for each time that the controller was told of some, by register or shadow.
    pub commands_per_doorbell: f64,
    /// The most commands that it was told of at once.
    pub largest_batch: u64,
    /// Completions for each collection.
    pub completions_per_reap: f64,
    /// The smallest difference of two clocks that were not the same: the clock ticks at least that often.
    pub smallest_clock_step_ns: Option<u64>,
}

impl TraceSummary {
    /// Of events in the order of their clocks; `written` is how many there were in all.
    pub fn of(events: &[Event], written: u64) -> TraceSummary {
        let kept = events.len() as u64;
        let mut sum = TraceSummary {
            events: kept,
            overwritten_events: written.saturating_sub(kept),
            smallest_clock_step_ns: smallest_step(events),
            ..TraceSummary::default()
        };
        let (mut told, mut completions) = (0u64, 0u64);
        let mut tails: BTreeMap<u16, u32> = BTreeMap::new();
        for event in events {
            match event.what {
                What::Submit { index, .. } => {
                    sum.commands += 1;
                    // What no doorbell told of begins with the first entry.
                    tails.entry(event.qid).or_insert(index);
                }
                What::SqDoorbell { index, register, .. } => {
                    told += 1;
                    sum.sq_doorbells += u64::from(register);
                    if let Some(before) = tails.insert(event.qid, index) {
                        sum.largest_batch = sum.largest_batch.max(ahead(before, index));
                    }
                }
                What::CqDoorbell { register, .. } => sum.cq_doorbells += u64::from(register),
                What::Reap { completions: count, .. } => {
                    sum.reaps += 1;
                    completions += u64::from(count);
                }
                What::Complete { .. } => sum.answers += 1,
                What::Refuse { .. } => sum.refusals += 1,
                What::Late { .. } => sum.late += 1,
                What::Attach { .. } => {}
            }
        }
        sum.commands_per_doorbell = ratio(sum.commands, told);
        sum.completions_per_reap = ratio(completions, sum.reaps);
        sum
    }
}

/// How far index `now` is ahead of `before`; 0 where it is behind: clocks of different lanes may tie.
fn ahead(before: u32, now: u32) -> u64 {
    let distance = now.wrapping_sub(before) & ((1 << TRACE_INDEX_BITS) - 1);
    if distance < 1 << (TRACE_INDEX_BITS - 1) { distance.into() } else { 0 }
}

fn ratio(of: u64, to: u64) -> f64 {
    if to == 0 { 0.0 } else { of as f64 / to as f64 }
}

fn smallest_step(events: &[Event]) -> Option<u64> {
    let steps = events.windows(2).map(|pair| pair[1].clock_ns - pair[0].clock_ns);
    steps.filter(|step| *step > 0).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(clock_ns: u64, what: What) -> Event {
        Event { clock_ns, warp: 0, lane: 0, qid: 1, what }
    }

    #[test]
    fn batches_are_told_from_the_tail_even_where_it_wraps() {
        let bell = |clock, index, register| event(clock, What::SqDoorbell { index, value: 0, register });
        let submit = |clock, index| {
            event(clock, What::Submit { cid: 0, generation: 1, index, opcode: 2, lba: 0, blocks: 1 })
        };
        let last = (1 << TRACE_INDEX_BITS) - 2;
        let events = [
            submit(10, last - 1),
            bell(20, last, true),
            submit(30, last),
            submit(30, last + 1),
            submit(37, 0),
            bell(50, 1, false),
            event(90, What::Reap { index: last - 1, completions: 4, spurious: 0 }),
        ];
        let sum = TraceSummary::of(&events, 10);
        assert_eq!((sum.commands, sum.sq_doorbells, sum.largest_batch), (4, 1, 3));
        assert_eq!(TraceSummary::of(&events[..2], 2).largest_batch, 1, "the first doorbell counts");
        assert_eq!((sum.overwritten_events, sum.smallest_clock_step_ns), (3, Some(7)));
        assert_eq!((sum.commands_per_doorbell, sum.completions_per_reap), (2.0, 4.0));
    }
}
