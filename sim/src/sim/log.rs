//! What happened, for people: kept only where a run is told.

use std::time::Duration;

use warpbell_kernels::abi;

use crate::memory::peek;

/// Lines kept; a run that goes on for longer is told from its beginning.
const MOST_LINES: usize = 20_000;

/// The story of one run.
#[derive(Debug, Default)]
pub(super) struct Log {
    on: bool,
    lines: Vec<(Duration, String)>,
    queues: Vec<Seen>,
}

/// The rings of a queue as the story knows them.
#[derive(Debug)]
struct Seen {
    queue: abi::QueueRef,
    tail: u64,
    fetched: u64,
    posted: u64,
}

impl Log {
    pub(super) fn new(on: bool) -> Log {
        Log { on, ..Log::default() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn note(&mut self, now: Duration, text: impl FnOnce() -> String) {
        if self.on && self.lines.len() < MOST_LINES {
            self.lines.push((now, text()));
        }
    }

    /// Nobody acts, and time leaps. Many leaps in a row are one line.
    pub(super) fn leap(&mut self, now: Duration) {
        const LEAPS: &str = "nobody acts: time leaps to here";
        match self.lines.last_mut().filter(|(_, text)| text == LEAPS) {
            Some((time, _)) => *time = now,
            None => self.note(now, || LEAPS.to_owned()),
        }
    }

    /// From now on the rings of these queues are looked at.
    pub(super) fn watch(&mut self, queues: &[abi::QueueRef], start: u64) {
        if self.on {
            let seen =
                |queue: &abi::QueueRef| Seen { queue: *queue, tail: start, fetched: start, posted: start };
            self.queues = queues.iter().map(seen).collect();
        }
    }

    /// So are those of this one.
    pub(super) fn watch_also(&mut self, queue: &abi::QueueRef, start: u64) {
        if self.on {
            self.queues.retain(|seen| seen.queue.sq_doorbell != queue.sq_doorbell);
            self.queues.push(Seen { queue: *queue, tail: start, fetched: start, posted: start });
        }
    }

    /// The rings are about to go.
    pub(super) fn forget(&mut self) {
        self.queues.clear();
    }

    /// A doorbell is written.
    pub(super) fn ring(&mut self, now: Duration, address: u64, value: u32) {
        let mut text = None;
        for seen in &mut self.queues {
            let qid = seen.queue.qid;
            let mask = (1u64 << seen.queue.sq_shift) - 1;
            if address == seen.queue.sq_doorbell {
                seen.tail += u64::from(value).wrapping_sub(seen.tail) & mask;
                text = Some(format!("queue {qid}: tail rung = {value} (entries before {})", seen.tail));
            } else if address == seen.queue.cq_doorbell {
                text = Some(format!("queue {qid}: head rung = {value} (completions reaped)"));
            }
        }
        self.note(now, || {
            text.unwrap_or_else(|| format!("a doorbell that is none of the queues' = {value}"))
        });
    }

    /// The controller has done something: what, as the rings show it.
    pub(super) fn look(&mut self, now: Duration) {
        let mut found = Vec::new();
        for seen in &mut self.queues {
            seen.look(&mut found);
        }
        for text in found {
            self.note(now, || text);
        }
    }

    /// The story, with lines that others contribute, in the order of time.
    pub(super) fn told(&self, mut more: Vec<(Duration, String)>) -> String {
        more.extend(self.lines.iter().cloned());
        more.sort_by_key(|(time, _)| *time);
        more.iter()
            .map(|(time, text)| format!("  {:>14.3} us  {text}\n", time.as_nanos() as f64 / 1e3))
            .collect()
    }
}

impl Seen {
    fn look(&mut self, found: &mut Vec<String>) {
        let (qid, mask) = (self.queue.qid, (1u64 << self.queue.sq_shift) - 1);
        // What was fetched is overwritten.
        while self.fetched < self.tail && peek::<u32>(self.queue.sq + (self.fetched & mask) * 64) == u32::MAX
        {
            found.push(format!("queue {qid}: entry {} fetched", self.fetched));
            self.fetched += 1;
        }
        loop {
            let entry: u64 = peek(self.queue.cq + (self.posted & mask) * 16 + 8);
            if (entry >> 48 ^ self.posted >> self.queue.cq_shift) & 1 == 0 {
                return;
            }
            let (cid, status) = ((entry >> 32) & 0xffff, entry >> 49);
            found.push(format!(
                "queue {qid}: cid {cid:#06x} completed, status {status:#x} (entry {})",
                self.posted
            ));
            self.posted += 1;
        }
    }
}
