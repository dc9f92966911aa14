//! What a runner measured, before it becomes part of a report.

use crate::job::Job;
use crate::latency::LatencyHistogram;
use crate::result::{Costs, Failure, Mismatch, Run, Traffic, VerifyReport};
use crate::stopwatch::ClockKind;
use crate::unit::WrongBlock;

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
    /// I/Os that did not succeed.
    pub errors: u64,
    /// The first of them.
    pub failures: Vec<Failure>,
    /// Latency of each read.
    pub read_latency: LatencyHistogram,
    /// Latency of each write.
    pub write_latency: LatencyHistogram,
    /// Events counted.
    pub costs: Costs,
    /// CPU time of the workers.
    pub cpu_time_ns: u64,
    /// Units compared, and what was wrong.
    pub verify: VerifyReport,
}

impl Outcome {
    /// Adds what another worker, or another launch of the same run, did.
    pub fn merge(&mut self, other: Outcome) {
        self.runtime_ns = self.runtime_ns.max(other.runtime_ns);
        self.reads += other.reads;
        self.writes += other.writes;
        self.errors += other.errors;
        self.read_latency.merge(&other.read_latency);
        self.write_latency.merge(&other.write_latency);
        self.costs.add(&other.costs);
        self.cpu_time_ns += other.cpu_time_ns;
        let room = EXAMPLES.saturating_sub(self.failures.len());
        self.failures.extend(other.failures.into_iter().take(room));
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
        let traffic = |ios: u64| Traffic::new(ios, ios * job.bs_bytes, self.runtime_ns);
        let ios = self.reads + self.writes;
        let mut latency = self.read_latency.clone();
        latency.merge(&self.write_latency);
        Run {
            clock: ClockKind::Monotonic,
            job: job.clone(),
            partial: false,
            runtime_ns: self.runtime_ns,
            errors: self.errors,
            total: traffic(ios),
            read: traffic(self.reads),
            write: traffic(self.writes),
            lat_ns: latency.summary(),
            read_lat_ns: self.read_latency.summary(),
            write_lat_ns: self.write_latency.summary(),
            per_io: self.costs.per_io(ios + self.errors),
            counters: self.costs,
            client_cpu_time_ns: self.cpu_time_ns,
            controller_cpu_time_ns: None,
            cpu_time_ns: 0,
            violations: 0,
            violation_examples: Vec::new(),
            failures: self.failures,
            verify: job.verify.map(|_| self.verify),
        }
    }
}

impl VerifyReport {
    /// Counts a wrong block.
    pub fn wrong(&mut self, nsid: u32, block: WrongBlock) {
        self.mismatches += 1;
        if self.examples.len() < EXAMPLES {
            let digits = |crc| format!("{crc:08x}");
            let (expected, actual) = (digits(block.expected), digits(block.actual));
            self.examples.push(Mismatch { nsid, lba: block.lba, expected, actual });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_few_and_counts_are_all() {
        let mut total = Outcome::default();
        for _ in 0..3 {
            let mut worker = Outcome { runtime_ns: 5, reads: 2, ..Default::default() };
            for lba in 0..7 {
                worker.verify.wrong(1, WrongBlock { lba, expected: 0xab, actual: 1 });
                worker.fail(|| Failure { op: "read".into(), nsid: 1, lba: None, status: "x".into() });
            }
            total.merge(worker);
        }
        assert_eq!((total.runtime_ns, total.reads, total.errors, total.verify.mismatches), (5, 6, 21, 21));
        assert_eq!((total.failures.len(), total.verify.examples.len()), (EXAMPLES, EXAMPLES));
        assert_eq!(total.verify.examples[0].expected, "000000ab");
    }
}
