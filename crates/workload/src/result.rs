//! What a benchmark reports: one document for a command, one [`Run`] for each point of a sweep.
//! Units stand in the suffix of each key.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::kernel::{AgentReport, ArrayReport};
use crate::latency::{Latency, LatencyHistogram};
use crate::origin::Origin;
use crate::points::{PointSummary, summaries};
use crate::queues::{QueueReport, SsdReport};
use crate::recovery::{EventReport, RecoveryReport};
use crate::resident::ResidentFigures;
use crate::stopwatch::ClockKind;
use crate::timeline::Series;
use crate::trace::{Event, TraceSummary};

/// Name and version of the document's form.
pub const BENCH_SCHEMA: &str = "warpbell.bench/1";

/// Which device was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// `software`, `vfio-user` or `pcie`.
    pub kind: String,
    /// The name that it was opened by.
    pub name: String,
    /// Model number.
    pub model: String,
    /// Serial number.
    pub serial: String,
    /// Namespace.
    pub nsid: u32,
    /// Bytes of a block.
    pub block_size_bytes: u32,
    /// Blocks of the namespace.
    pub blocks: u64,
}

/// The way that commands and data took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathReport {
    /// Where rings lie.
    pub rings: String,
    /// Where data lies.
    pub data: String,
    /// Whether data and completions lie in one memory; if not, who flushes.
    pub ordering: String,
    /// How a PCI function was reached, and why not otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// How doorbells reach the controller.
    pub doorbells: String,
    /// Why kernels do not store to the registers themselves, where they might have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doorbells_refused: Option<String>,
    /// How commands describe memory: `sgl` or `prp`.
    #[serde(alias = "descriptors")] // its name in results of before 2026-12
    pub data_pointer: String,
    /// `software` where the controller is ours.
    pub controller: String,
    /// In virtual time: whose accesses take time, and where it takes rings to lie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

/// Events counted while a run was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Costs {
    /// Submission queue doorbells rung.
    pub sq_doorbells: u64,
    /// Completion queue doorbells rung.
    pub cq_doorbells: u64,
    /// Shadow doorbells written, of both kinds.
    pub shadow_stores: u64,
    /// Atomic read-modify-writes.
    pub rmw: u64,
    /// Fences.
    pub fences: u64,
    /// Polls for completions; of host queues those that found none.
    pub polls: u64,
    /// Reads of registers, and of the memory that data lies in, before completions were delivered.
    pub register_reads: u64,
    /// Commands written.
    pub sqes: u64,
    /// Completions taken.
    pub cqes: u64,
}

impl Costs {
    /// Adds the events of another worker or run.
    pub fn add(&mut self, other: &Costs) {
        let Costs {
            sq_doorbells,
            cq_doorbells,
            shadow_stores,
            rmw,
            fences,
            polls,
            register_reads,
            sqes,
            cqes,
        } = other;
        self.sq_doorbells += sq_doorbells;
        self.cq_doorbells += cq_doorbells;
        self.shadow_stores += shadow_stores;
        self.rmw += rmw;
        self.fences += fences;
        self.polls += polls;
        self.register_reads += register_reads;
        self.sqes += sqes;
        self.cqes += cqes;
    }
}

/// Why there are no costs of a run on a GPU.
pub const NOT_COUNTED: &str =
    "only --target cpu counts them; `warpbell report costs` shows what each device function was compiled to";

/// What one I/O cost on average; nothing where nobody counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostsPerIo {
    /// Submission queue doorbells rung.
    pub sq_doorbells_per_io: Option<f64>,
    /// Completion queue doorbells rung.
    pub cq_doorbells_per_io: Option<f64>,
    /// Shadow doorbells written, of both kinds.
    pub shadow_stores_per_io: Option<f64>,
    /// Atomic read-modify-writes.
    pub rmw_per_io: Option<f64>,
    /// Fences.
    pub fences_per_io: Option<f64>,
    /// Polls for completions; of host queues those that found none.
    pub polls_per_io: Option<f64>,
    /// Reads of registers, and of the memory that data lies in, before completions were delivered.
    pub register_reads_per_io: Option<f64>,
}

impl CostsPerIo {
    /// The events of `costs`, for each of `ios`.
    pub fn of(costs: Option<&Costs>, ios: u64) -> CostsPerIo {
        let each = |pick: fn(&Costs) -> u64| {
            costs.map(|costs| if ios == 0 { 0.0 } else { pick(costs) as f64 / ios as f64 })
        };
        CostsPerIo {
            sq_doorbells_per_io: each(|costs| costs.sq_doorbells),
            cq_doorbells_per_io: each(|costs| costs.cq_doorbells),
            shadow_stores_per_io: each(|costs| costs.shadow_stores),
            rmw_per_io: each(|costs| costs.rmw),
            fences_per_io: each(|costs| costs.fences),
            polls_per_io: each(|costs| costs.polls),
            register_reads_per_io: each(|costs| costs.register_reads),
        }
    }
}

/// Successful I/Os, and how fast they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// I/Os that succeeded.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
}

impl Traffic {
    /// Counts over a time.
    pub fn new(ios: u64, bytes: u64, runtime_ns: u64) -> Traffic {
        let rate = |count: u64| if runtime_ns == 0 { 0.0 } else { count as f64 * 1e9 / runtime_ns as f64 };
        Traffic { ios, bytes, iops: rate(ios), bytes_per_s: rate(bytes) }
    }
}

/// A block whose data is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Namespace.
    pub nsid: u32,
    /// Block.
    pub lba: u64,
    /// CRC-32C of what was written, 8 hex digits.
    pub expected: String,
    /// CRC-32C of what was read, 8 hex digits.
    pub actual: String,
}

/// A command that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// `read` or `write`.
    pub op: String,
    /// Namespace.
    pub nsid: u32,
    /// First block, where known.
    pub lba: Option<u64>,
    /// The status in words.
    pub status: String,
}

/// What was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Blocks read and compared.
    pub blocks: u64,
    /// Blocks that differed.
    pub mismatches: u64,
    /// The first of them.
    pub examples: Vec<Mismatch>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which point of a sweep it is, by what the axes vary: `bs=512 iodepth=1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub point: String,
    /// Which of several runs of this point, from 0 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// When it ran among all runs of the command, from 0 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u32>,
    /// What was asked for.
    pub job: Job,
    /// The way that commands and data took: of a sweep, it may not be that of other points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_path: Option<PathReport>,
    /// Which clock the times are of.
    pub clock: ClockKind,
    /// Whether the run was interrupted.
    pub partial: bool,
    /// Time measured.
    pub runtime_ns: u64,
    /// I/Os that did not succeed.
    pub errors: u64,
    /// What went wrong on the way, and what recovery did.
    pub recovery: RecoveryReport,
    /// Both directions together.
    #[serde(flatten)]
    pub total: Traffic,
    /// Reads.
    pub read: Traffic,
    /// Writes.
    pub write: Traffic,
    /// Latency of single I/Os.
    pub lat_ns: Option<Latency>,
    /// Of reads alone.
    pub read_lat_ns: Option<Latency>,
    /// Of writes alone.
    pub write_lat_ns: Option<Latency>,
    /// Latency of each read: HdrHistogram, version 2, compressed, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_histogram: Option<String>,
    /// Of each write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_histogram: Option<String>,
    /// What was done by when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// Why nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series_missing: Option<String>,
    /// Costs of an average I/O.
    #[serde(flatten)]
    pub per_io: CostsPerIo,
    /// Events counted; none where nobody counts.
    pub counters: Option<Costs>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters_missing: Option<String>,
    /// CPU time of the clients: kernels on the CPU target, or threads of the host API. Kernels on a GPU take none.
    pub client_cpu_time_ns: Option<u64>,
    /// CPU time of the software controller's polling threads.
    pub controller_cpu_time_ns: Option<u64>,
    /// CPU time of this process over the run.
    pub cpu_time_ns: u64,
    /// Violations of the protocol that the software controller saw.
    pub violations: u64,
    /// The first of them.
    pub violation_examples: Vec<String>,
    /// The first failed commands.
    pub failures: Vec<Failure>,
    /// What the SSD reported, and each step of recovery: the last 1024.
    pub events: Vec<EventReport>,
    /// What was checked, with `--verify`.
    pub verify: Option<VerifyReport>,
    /// Of a GPU-resident controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident: Option<ResidentFigures>,
    /// Successful flushes, of a replay; they are no I/Os.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flushes: Option<u64>,
    /// Successful trims, of a replay; they are no I/Os either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trims: Option<u64>,
    /// Blocks that they have deallocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_trimmed: Option<u64>,
    /// With `--api agent`: what agents did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<AgentReport>,
    /// With `--api array`: what the page cache did, and what an access cost beside a plain one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayReport>,
    /// Each queue.
    pub queues: Vec<QueueReport>,
    /// The SSD: what was counted on it.
    pub ssds: Vec<SsdReport>,
    /// With `--trace`: the trace in few numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSummary>,
    /// And its events, for a file of their own.
    #[serde(skip)]
    pub traced: Option<Arc<Vec<Event>>>,
}

impl Run {
    /// Latencies of all its I/Os; empty where they were not recorded.
    pub fn latencies(&self) -> LatencyHistogram {
        let both = [&self.read_histogram, &self.write_histogram];
        LatencyHistogram::together(both.into_iter().flatten()).ok().flatten().unwrap_or_default()
    }

    /// Whether every command succeeded, all data was right and the protocol was kept.
    pub fn clean(&self) -> bool {
        self.errors == 0
            && self.violations == 0
            && self.verify.as_ref().is_none_or(|verify| verify.mismatches == 0)
    }
}

/// A point of a sweep that did not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// What it has of its own: `bs=2m iodepth=64`.
    pub point: String,
    /// Why it cannot be.
    pub reason: String,
}

/// All runs of a command. The keys beside `runs` are sums and averages over them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// [`BENCH_SCHEMA`].
    pub schema: String,
    /// Version of Warpbell.
    pub warpbell: String,
    /// How and where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Of the commands whose whole runs it keeps, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed_from: Vec<Origin>,
    /// Where kernels ran: `cpu`, or `cuda:N` or `ptx` and the device's name.
    pub target: String,
    /// What was measured.
    pub device: DeviceReport,
    /// The way commands and data took; where it differs from point to point, each of its values.
    pub data_path: PathReport,
    /// Whether the command was interrupted.
    pub partial: bool,
    /// Time measured.
    pub runtime_ns: u64,
    /// I/Os that did not succeed.
    pub errors: u64,
    /// What went wrong on the way, and what recovery did.
    pub recovery: RecoveryReport,
    /// All I/Os.
    #[serde(flatten)]
    pub total: Traffic,
    /// Costs of an average I/O.
    #[serde(flatten)]
    pub per_io: CostsPerIo,
    /// CPU time of this process.
    pub cpu_time_ns: u64,
    /// Violations of the protocol.
    pub violations: u64,
    /// Blocks with wrong data.
    pub mismatches: u64,
    /// Each run.
    pub runs: Vec<Run>,
    /// Of points that ran several times: medians, and how sure they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<PointSummary>,
    /// Points of the sweep that cannot be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
}

impl BenchReport {
    /// Sums up `runs`.
    pub fn new(target: String, device: DeviceReport, data_path: PathReport, runs: Vec<Run>) -> BenchReport {
        let sum = |each: fn(&Run) -> u64| runs.iter().map(each).sum::<u64>();
        // An average over all of them, or none.
        let counters = runs.iter().map(|run| run.counters).try_fold(Costs::default(), |mut sum, each| {
            sum.add(&each?);
            Some(sum)
        });
        let runtime_ns = sum(|run| run.runtime_ns);
        let (ios, bytes) = (sum(|run| run.total.ios), sum(|run| run.total.bytes));
        let errors = sum(|run| run.errors);
        let mut recovery = RecoveryReport::default();
        runs.iter().for_each(|run| recovery.add(&run.recovery));
        BenchReport {
            schema: BENCH_SCHEMA.to_owned(),
            warpbell: env!("CARGO_PKG_VERSION").to_owned(),
            origin: None,
            resumed_from: Vec::new(),
            target,
            device,
            data_path,
            partial: runs.iter().any(|run| run.partial),
            runtime_ns,
            errors,
            recovery,
            total: Traffic::new(ios, bytes, runtime_ns),
            per_io: CostsPerIo::of(counters.as_ref(), ios + errors),
            cpu_time_ns: sum(|run| run.cpu_time_ns),
            violations: sum(|run| run.violations),
            mismatches: sum(|run| run.verify.as_ref().map_or(0, |verify| verify.mismatches)),
            points: summaries(&runs),
            runs,
            skipped: Vec::new(),
        }
    }

    /// Whether every run was clean.
    pub fn clean(&self) -> bool {
        self.runs.iter().all(Run::clean)
    }
}

#[cfg(test)]
pub(crate) mod tests;
