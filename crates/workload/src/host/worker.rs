//! One queue pair, kept full by the host: no kernels.

use std::time::Duration;

use warpbell::{DataPointers, HostQueue, describe_status};
use warpbell_driver::{Completion, IoCounters, Outcome as Ended};
use warpbell_kernels::abi;
use warpbell_nvme::command;
use warpbell_nvme::{Sqe, Status};

use crate::error::RunError;
use crate::job::Job;
use crate::options::Completion as Method;
use crate::outcome::Outcome;
use crate::recovery::Trouble;
use crate::result::{Costs, Failure};
use crate::schedule::{Io, Schedule};
use crate::stopwatch::Stopwatch;
use crate::unit;
use warpbell_hw::Lba;

/// Fruitless polls for completions between two reads of the clock.
const POLLS_PER_CHECK: u32 = 1 << 12;

/// Fruitless polls in a row where nothing else is to be done: the fewer instructions between two, the sooner an answer is seen.
const POLLS_IN_A_ROW: u32 = 1 << 6;

/// The longest sleep without a check of the time and of the wish to stop.
const NAP: Duration = Duration::from_millis(20);

/// What is kept of an I/O in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    unit: u64,
    /// When its first command was written, in nanoseconds of the worker's clock.
    start: u64,
    /// Commands yet to be written and yet to be completed.
    unsent: u32,
    open: u32,
    write: bool,
    failed: bool,
    /// A command timed out: the controller may still use the buffer.
    lost: bool,
}

/// Drives one queue.
pub(super) struct Worker<'a> {
    job: &'a Job,
    queue: HostQueue,
    data: DataPointers,
    schedule: Schedule,
    flights: Vec<Flight>,
    /// Flights that are free, and one that still has commands to write.
    free: Vec<u32>,
    unsent: Option<u32>,
    /// By queue slot: the flight of its command.
    owner: Vec<u32>,
    /// Flights are begun when so many are free.
    batch: usize,
    in_flight: usize,
    now: u64,
    empty_polls: u32,
    /// Fruitless polls of a step, at most.
    in_a_row: u32,
    polls: u64,
    scratch: Vec<u8>,
    outcome: Outcome,
    /// Beginnings of the I/Os that ended in this step, whether they wrote, and how many share each: their end is
    /// read from the clock once for all.
    ended: Vec<(u64, bool, u64)>,
    open: bool,
}

/// What a worker needs.
pub(super) struct Supply<'a> {
    pub(super) job: &'a Job,
    pub(super) queue: HostQueue,
    pub(super) data: DataPointers,
    pub(super) schedule: Schedule,
}

impl<'a> Worker<'a> {
    pub(super) fn new(supply: Supply<'a>) -> Worker<'a> {
        let Supply { job, queue, data, schedule } = supply;
        let flights = job.flights_per_queue();
        let scratch = if job.verify.is_some() { vec![0; job.bs_bytes as usize] } else { Vec::new() };
        Worker {
            job,
            data,
            schedule,
            flights: vec![Flight::default(); flights as usize],
            free: (0..flights).rev().collect(),
            unsent: None,
            owner: vec![0; queue.depth() as usize],
            batch: job.gather.unwrap_or(1) as usize,
            in_flight: 0,
            now: 0,
            empty_polls: 0,
            in_a_row: 1,
            polls: 0,
            scratch,
            outcome: Outcome::default(),
            ended: Vec::new(),
            open: true,
            queue,
        }
    }

    /// Polls several times in each step: no other worker and no virtual clock waits for its end.
    pub(super) fn poll_in_a_row(&mut self) {
        if self.job.completion == Method::Poll {
            self.in_a_row = POLLS_IN_A_ROW;
        }
    }

    /// Begins no more I/Os.
    pub(super) fn close(&mut self) {
        self.open = false;
    }

    /// Whether nothing is in flight and nothing is to come.
    pub(super) fn is_done(&self) -> bool {
        self.in_flight == 0 && self.unsent.is_none() && (!self.open || self.schedule.is_done())
            || self.free.len() + self.in_flight == 0
    }

    /// Begins what can begin and takes what has ended. True where it is time to read the clock
    /// from outside, who says whether there is something to do at a time.
    #[inline]
    pub(super) fn step(
        &mut self,
        clock: Stopwatch<'_>,
        is_eventful: impl FnOnce(u64) -> bool,
    ) -> Result<bool, RunError> {
        self.begin()?;
        let (count, fruitless) = self.poll()?;
        if count > 0 {
            self.polls += u64::from(fruitless);
            self.now = clock.elapsed().as_nanos() as u64;
            // What comes next is on its way while what has ended is recorded, unless I/Os end to begin now.
            if !is_eventful(self.now) {
                self.begin()?;
            }
            self.record();
            return Ok(true);
        }
        if self.job.completion == Method::Interrupt {
            return self.sleep(clock);
        }
        self.polls += u64::from(fruitless);
        self.empty_polls += fruitless;
        if self.empty_polls < POLLS_PER_CHECK {
            return Ok(false);
        }
        self.empty_polls = 0;
        self.queue.pause(Duration::ZERO);
        self.now = clock.elapsed().as_nanos() as u64;
        Ok(true)
    }

    /// Takes completions when some are there, after so many fruitless polls.
    #[inline]
    fn poll(&mut self) -> Result<(u32, u32), RunError> {
        for fruitless in 0..self.in_a_row {
            let count = self.collect()?;
            if count > 0 {
                return Ok((count, fruitless));
            }
        }
        Ok((0, self.in_a_row))
    }

    /// Waits for the next completion, and takes it with those that came with it.
    #[cold]
    fn sleep(&mut self, clock: Stopwatch<'_>) -> Result<bool, RunError> {
        let completion = self.queue.wait(NAP);
        if let Some(completion) = completion {
            self.complete(completion)?;
            self.collect()?;
        }
        self.now = clock.elapsed().as_nanos() as u64;
        self.record();
        Ok(true)
    }

    /// Nanoseconds on the clock at its last read.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// I/Os that succeeded so far.
    #[inline]
    pub(super) fn ios(&self) -> u64 {
        self.outcome.reads + self.outcome.writes
    }

    /// Counts what is in flight as failed: the controller will not complete it any more.
    pub(super) fn abandon(&mut self, why: &str) {
        for index in 0..self.flights.len() as u32 {
            let flight = self.flights[index as usize];
            if flight.open > 0 && !flight.failed {
                self.fail(index, || why.to_owned());
            }
        }
    }

    /// The queue, and what was counted.
    pub(super) fn finish(mut self) -> (HostQueue, Outcome) {
        self.outcome.costs = Some(self.costs());
        self.outcome.trouble.add(&self.trouble());
        (self.queue, self.outcome)
    }

    /// What the queue knows of commands that did not simply complete.
    fn trouble(&self) -> Trouble {
        let IoCounters { timed_out, retried, recovered, late, .. } = self.queue.counters();
        Trouble { timed_out, retried, recovered, late_completions: late, ..Trouble::default() }
    }

    fn costs(&self) -> Costs {
        let counters = self.queue.counters();
        // Every doorbell has a fence before it; a shadow has another before its EventIdx.
        let fences = counters.sq_doorbells + counters.cq_doorbells + 2 * counters.shadow_stores;
        Costs {
            sq_doorbells: counters.sq_doorbells,
            cq_doorbells: counters.cq_doorbells,
            shadow_stores: counters.shadow_stores,
            rmw: 0,
            fences,
            polls: self.polls,
            register_reads: counters.register_reads,
            sqes: counters.sqes,
            cqes: counters.cqes,
        }
    }

    /// Begins I/Os, each as soon as it can or, where they are to wait for each other, by whole batches: then a doorbell pays
    /// for many commands.
    #[inline]
    fn begin(&mut self) -> Result<(), RunError> {
        let few = self.free.len() < self.batch;
        if few && self.in_flight > 0 && self.unsent.is_none() {
            return Ok(());
        }
        // After timeouts there may be fewer I/Os than a batch left; then these are all.
        let keep = if few { 0 } else { self.free.len() % self.batch };
        loop {
            let flight = match self.unsent {
                Some(flight) => Some(flight),
                None if self.free.len() > keep => self.next_flight()?,
                None => None,
            };
            match flight {
                Some(flight) if self.send(flight) => {}
                _ => break,
            }
        }
        self.queue.ring();
        Ok(())
    }

    #[inline]
    fn next_flight(&mut self) -> Result<Option<u32>, RunError> {
        if !self.open || self.free.is_empty() {
            return Ok(None);
        }
        let Some(Io { unit, write }) = self.schedule.next() else { return Ok(None) };
        let Some(index) = self.free.pop() else { return Ok(None) };
        let commands = self.job.commands_per_io;
        self.flights[index as usize] =
            Flight { unit, start: self.now, unsent: commands, open: commands, write, ..Flight::default() };
        self.in_flight += 1;
        if write && self.job.verify.is_some() {
            let lba = self.lba(unit);
            unit::fill(&mut self.scratch, Lba(lba), self.job.seed);
            self.queue.buffer().write(self.offset(index), &self.scratch)?;
        }
        self.unsent = Some(index);
        Ok(Some(index))
    }

    /// Writes the commands of a flight; false if the queue has no room for all of them.
    #[inline]
    fn send(&mut self, index: u32) -> bool {
        while self.flights[index as usize].unsent > 0 {
            if self.queue.outstanding() >= self.job.iodepth {
                return false;
            }
            let sqe = self.command(index);
            let Some(token) = self.queue.push(&sqe) else { return false };
            self.owner[usize::from(token.slot)] = index;
            self.flights[index as usize].unsent -= 1;
        }
        self.unsent = None;
        true
    }

    /// The next command of a flight.
    // Always, as `IoQueue::push_with`.
    #[inline(always)]
    fn command(&self, index: u32) -> Sqe {
        let (job, flight) = (self.job, &self.flights[index as usize]);
        let sent = u64::from(job.commands_per_io - flight.unsent) * u64::from(job.max_command_blocks);
        let blocks = (job.io_blocks() - sent).min(job.max_command_blocks.into());
        let (lba, nlb_z) = (self.lba(flight.unit) + sent, (blocks - 1) as u16);
        // Two calls and not a function pointer: a call through one cannot be inlined, and shows.
        let sqe = if flight.write {
            command::write(job.nsid.get(), lba, nlb_z)
        } else {
            command::read(job.nsid.get(), lba, nlb_z)
        };
        let block = u64::from(job.block_size_bytes);
        self.data.attach(sqe, self.offset(index) as u64 + sent * block, (blocks * block) as u32)
    }

    #[inline]
    fn lba(&self, unit: u64) -> u64 {
        self.job.lba(unit)
    }

    #[inline]
    fn offset(&self, index: u32) -> usize {
        index as usize * self.job.bs_bytes as usize
    }

    /// Takes completions, at most one ring of them.
    #[inline]
    fn collect(&mut self) -> Result<u32, RunError> {
        let mut count = 0;
        while count <= self.job.iodepth
            && let Some(completion) = self.queue.pop()
        {
            count += 1;
            self.complete(completion)?;
        }
        Ok(count)
    }

    #[inline]
    fn complete(&mut self, completion: Completion) -> Result<(), RunError> {
        let index = self.owner[usize::from(completion.token.slot)];
        if !completion.is_ok() {
            self.failed(index, &completion);
        }
        let flight = &mut self.flights[index as usize];
        flight.open -= 1;
        if flight.open > 0 {
            return Ok(());
        }
        let flight = *flight;
        self.in_flight -= 1;
        if !flight.lost {
            self.free.push(index);
        }
        if flight.failed { Ok(()) } else { self.succeeded(index, &flight) }
    }

    #[inline]
    fn succeeded(&mut self, index: u32, flight: &Flight) -> Result<(), RunError> {
        if flight.write {
            self.outcome.writes += 1;
        } else {
            self.outcome.reads += 1;
        }
        match self.ended.last_mut() {
            Some((start, write, count)) if (*start, *write) == (flight.start, flight.write) => *count += 1,
            _ => self.ended.push((flight.start, flight.write, 1)),
        }
        if self.job.verify.is_some() && !flight.write { self.compare(index, flight.unit) } else { Ok(()) }
    }

    #[cold]
    fn failed(&mut self, index: u32, completion: &Completion) {
        let flight = &mut self.flights[index as usize];
        flight.lost |= completion.outcome == Ended::TimedOut;
        self.outcome.trouble.aborted += u64::from(is_aborted(completion));
        if !flight.failed {
            self.fail(index, || ended(completion));
        }
    }

    fn fail(&mut self, index: u32, status: impl FnOnce() -> String) {
        let lba = self.lba(self.flights[index as usize].unit);
        let flight = &mut self.flights[index as usize];
        flight.failed = true;
        let (op, nsid) = (if flight.write { "write" } else { "read" }, self.job.nsid);
        self.outcome.fail(|| Failure {
            op: op.to_owned(),
            nsid: nsid.get(),
            lba: Some(lba),
            status: status(),
        });
    }

    /// Compares what a read brought with what belongs there.
    fn compare(&mut self, index: u32, unit: u64) -> Result<(), RunError> {
        self.queue.buffer().read(self.offset(index), &mut self.scratch)?;
        self.outcome.verify.blocks += self.job.io_blocks();
        let block = self.job.block_size_bytes as usize;
        for wrong in unit::check(&self.scratch, Lba(self.lba(unit)), self.job.seed, block) {
            self.outcome.verify.wrong(self.job.nsid, wrong);
        }
        Ok(())
    }

    #[inline]
    fn record(&mut self) {
        for (start, write, count) in self.ended.drain(..) {
            self.outcome.latency_of(write).record(self.now - start, count);
        }
    }
}

fn is_aborted(completion: &Completion) -> bool {
    let aborted = [Status::ABORT_REQUESTED, Status::ABORTED_SQ_DELETION];
    matches!(completion.outcome, Ended::Completed(status) if aborted.contains(&status.with_dnr(false)))
}

fn ended(completion: &Completion) -> String {
    match completion.outcome {
        Ended::Completed(status) => describe_status(u32::from(status.into_bits())),
        // Nobody aborts it and nothing replaces its queue: its buffer is out of use until the end.
        Ended::TimedOut => {
            let text = describe_status(abi::STATUS_LIBRARY | abi::STATUS_TIMED_OUT);
            format!("{text}; --api host does not recover from this, --api io does (docs/recovery.md)")
        }
    }
}

#[cfg(test)]
mod tests {
    use warpbell_driver::Token;
    use warpbell_hw::Cid;

    use super::*;

    #[test]
    fn a_command_that_timed_out_says_which_api_recovers() {
        let token = Token { slot: 0, cid: Cid(0) };
        let of = |outcome| ended(&Completion { token, outcome, result: 0 });
        let text = of(Ended::TimedOut);
        assert!(text.starts_with("timed_out: deadline passed") && text.contains("--api io does"), "{text}");
        assert!(!of(Ended::Completed(Status::INTERNAL_ERROR)).contains("--api"));
    }
}
