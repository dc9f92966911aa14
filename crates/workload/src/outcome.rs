//! What a runner measured, before it becomes part of a report.

use std::sync::Arc;

use crate::job::Job;
use crate::kernel::{AgentReport, ArrayReport};
use crate::latency::LatencyHistogram;
use crate::queues::QueueReport;
use crate::recovery::{RecoveryReport, Trouble};
use crate::result::{Costs, CostsPerIo, Failure, Mismatch, NOT_COUNTED, Run, Traffic, VerifyReport};
use crate::stopwatch::ClockKind;
use crate::trace::{Event, TraceSummary};
use crate::unit::WrongBlock;
use warpbell_hw::Nsid;

/// Failures and wrong blocks that a report shows; all are counted.
pub const EXAMPLES: usize = 10;

/// Sums over all workers of one run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Time measured.
    pub runtime_ns: u64,
    /// Successful reads.
    pub reads: u64,
    /// Successful writes.
    pub writes: u64,
    /// Successful flushes, of a replay.
    pub flushes: u64,
    /// Successful trims, of a replay, and their blocks.
    pub trims: (u64, u64),
    /// I/Os that did not succeed.
    pub errors: u64,
    /// The first of them.
    pub failures: Vec<Failure>,
    /// Latency of each read.
    pub read_latency: LatencyHistogram,
    /// Latency of each write.
    pub write_latency: LatencyHistogram,
    /// Commands that did not simply complete.
    pub trouble: Trouble,
    /// Events counted; none where nobody counts, as on a GPU.
    pub costs: Option<Costs>,
    /// CPU time of the workers, where they run on CPUs.
    pub cpu_time_ns: Option<u64>,
    /// Units compared, and what was wrong.
    pub verify: VerifyReport,
    /// Bytes read and written, where I/Os are not all of one size.
    pub moved: Option<(u64, u64)>,
    /// What agents did, where there were some.
    pub agents: Option<AgentReport>,
    /// What a page cache did, where there was one.
    pub array: Option<ArrayReport>,
    /// Each queue.
    pub queues: Vec<QueueReport>,
    /// What kernels wrote down.
    pub trace: Option<(TraceSummary, Arc<Vec<Event>>)>,
}

impl Outcome {
    /// Adds what another worker, or another launch of the same run, did.
    pub fn merge(&mut self, other: Outcome) {
        self.runtime_ns = self.runtime_ns.max(other.runtime_ns);
        self.reads += other.reads;
        self.writes += other.writes;
        self.errors += other.errors;
        self.trouble.add(&other.trouble);
        self.read_latency.merge(&other.read_latency);
        self.write_latency.merge(&other.write_latency);
        if let Some(costs) = other.costs {
            self.costs.get_or_insert_default().add(&costs);
        }
        if let Some(time) = other.cpu_time_ns {
            *self.cpu_time_ns.get_or_insert_default() += time;
        }
        let room = EXAMPLES.saturating_sub(self.failures.len());
        self.failures.extend(other.failures.into_iter().take(room));
        self.queues.extend(other.queues);
        self.merge_verify(other.verify);
    }

    /// Adds what another pass compared.
    pub fn merge_verify(&mut self, other: VerifyReport) {
        self.verify.blocks += other.blocks;
        self.verify.mismatches += other.mismatches;
        let room = EXAMPLES.saturating_sub(self.verify.examples.len());
        self.verify.examples.extend(other.examples.into_iter().take(room));
    }

    /// Counts an I/O that failed.
    pub fn fail(&mut self, failure: impl FnOnce() -> Failure) {
        self.errors += 1;
        if self.failures.len() < EXAMPLES {
            self.failures.push(failure());
        }
    }

    /// The latencies of writes, or of reads.
    #[inline]
    pub fn latency_of(&mut self, write: bool) -> &mut LatencyHistogram {
        if write { &mut self.write_latency } else { &mut self.read_latency }
    }

    /// The report, without what only the device knows.
    pub fn report(self, job: &Job) -> Run {
        let moved = (self.reads * job.moved_bytes(), self.writes * job.moved_bytes());
        let (read, written) = self.moved.unwrap_or(moved);
        let traffic = |ios: u64, bytes: u64| Traffic::new(ios, bytes, self.runtime_ns);
        let (trace, traced) = self.trace.unzip();
        let ios = self.reads + self.writes;
        let mut latency = self.read_latency.clone();
        latency.merge(&self.write_latency);
        Run {
            data_path: None,
            clock: ClockKind::Monotonic,
            point: String::new(),
            repeat: None,
            order: None,
            job: job.clone(),
            partial: false,
            runtime_ns: self.runtime_ns,
            errors: self.errors,
            recovery: RecoveryReport { clients: self.trouble, ..RecoveryReport::default() },
            total: traffic(ios, read + written),
            read: traffic(self.reads, read),
            write: traffic(self.writes, written),
            lat_ns: latency.summary(),
            read_lat_ns: self.read_latency.summary(),
            write_lat_ns: self.write_latency.summary(),
            read_histogram: self.read_latency.encoded(),
            write_histogram: self.write_latency.encoded(),
            series: None,
            series_missing: None,
            per_io: CostsPerIo::of(self.costs.as_ref(), ios + self.errors),
            counters: self.costs,
            counters_missing: self.costs.is_none().then_some(NOT_COUNTED.to_owned()),
            client_cpu_time_ns: self.cpu_time_ns,
            controller_cpu_time_ns: None,
            cpu_time_ns: 0,
            violations: 0,
            violation_examples: Vec::new(),
            failures: self.failures,
            events: Vec::new(),
            verify: job.verify.map(|_| self.verify),
            resident: None,
            flushes: job.replay.as_ref().map(|_| self.flushes),
            trims: job.replay.as_ref().map(|_| self.trims.0),
            blocks_trimmed: job.replay.as_ref().map(|_| self.trims.1),
            agents: self.agents,
            array: self.array,
            queues: self.queues,
            ssds: Vec::new(),
            trace,
            traced,
        }
    }
}

impl VerifyReport {
    /// Counts a wrong block.
    pub fn wrong(&mut self, nsid: Nsid, block: WrongBlock) {
        self.mismatches += 1;
        if self.examples.len() < EXAMPLES {
            let digits = |crc| format!("{crc:08x}");
            let (expected, actual) = (digits(block.expected), digits(block.actual));
            self.examples.push(Mismatch { nsid: nsid.get(), lba: block.lba.get(), expected, actual });
        }
    }
}

#[cfg(test)]
mod tests {
    use warpbell_hw::Lba;

    use super::*;

    #[test]
    fn examples_are_few_and_counts_are_all() {
        let mut total = Outcome::default();
        for _ in 0..3 {
            let mut worker = Outcome { runtime_ns: 5, reads: 2, ..Default::default() };
            for lba in 0..7 {
                worker.verify.wrong(Nsid(1), WrongBlock { lba: Lba(lba), expected: 0xab, actual: 1 });
                worker.fail(|| Failure { op: "read".into(), nsid: 1, lba: None, status: "x".into() });
            }
            total.merge(worker);
        }
        assert_eq!((total.runtime_ns, total.reads, total.errors, total.verify.mismatches), (5, 6, 21, 21));
        assert_eq!((total.failures.len(), total.verify.examples.len()), (EXAMPLES, EXAMPLES));
        assert_eq!(total.verify.examples[0].expected, "000000ab");
    }
}
