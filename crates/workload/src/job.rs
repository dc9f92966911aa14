//! One run, checked against the device it will run on.

mod agents;
mod arrays;
mod blocks;
mod check;
mod files;
mod form;
mod laboratory;

pub use arrays::{CacheShape, DEFAULT_CACHE};
pub use blocks::DEFAULT_BLOCK;
pub use files::{FileJob, NamedFile};

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use warpbell::TraceSpec;
use warpbell_driver::Coalescing;
use warpbell_kernels::abi::HISTOGRAM_BUCKETS;

use crate::distribution::Distribution;
use crate::opening::{Opening, word};
use crate::options::{Access, Api, BenchOptions, Completion, Protocol, Sharing, Verify};
use crate::size::ByteSize;
use crate::trace::{self, SsdReplay};
use warpbell_hw::Nsid;

/// The most that `--iodepth` can be: a ring has at most 65,536 entries and one stays empty.
pub const MAX_DEPTH: u32 = 65_535;
/// Lanes of a warp.
pub const LANES: u32 = 32;
/// The most memory that the buffers of a run may take.
pub const BUFFER_LIMIT: u64 = 8 << 30;
/// Most bytes of the histograms that kernels count latencies in.
pub const HISTOGRAM_LIMIT: u64 = 4 << 30;
/// Histograms of one lane: reads and writes.
pub(crate) const HISTOGRAM_DIRECTIONS: usize = 2;
/// The shortest time between two counts of what is done: looks cost time, too.
pub(crate) const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);
/// The longest, unless it is asked for.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);
/// How long a run lasts that was given neither a runtime nor an amount.
pub const DEFAULT_RUNTIME: Duration = Duration::from_secs(3);

/// What a run needs to know of its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The namespace.
    pub nsid: Nsid,
    /// Its blocks.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_size: u32,
    /// The length in bytes of the file behind it, where that ends inside the last block.
    pub exact_bytes: Option<u64>,
    /// The most bytes of one command (MDTS).
    pub max_transfer_bytes: Option<u64>,
    /// Entries of the largest ring (MQES + 1).
    pub max_entries: u32,
    /// I/O queue pairs that the controller granted.
    pub queues: u16,
    /// Command identifiers have 32 bits instead of 16 (experimental).
    pub wide_cids: bool,
    /// The most blocks of one command that deallocates, which no limit of the controller's (DMRSL) makes smaller yet;
    /// `None`: the controller has no such command.
    pub trim_blocks: Option<u32>,
}

#[cfg(test)]
impl Limits {
    /// Of an SSD with so many blocks of 512 bytes, which bounds little else.
    pub(crate) fn of_blocks(blocks: u64) -> Limits {
        Limits {
            nsid: Nsid(1),
            blocks,
            block_size: 512,
            exact_bytes: None,
            max_transfer_bytes: None,
            max_entries: 1024,
            queues: 8,
            wide_cids: false,
            trim_blocks: None,
        }
    }
}

/// Why a run was refused: the flag, its value, and the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// A value below its limit.
    #[error("--{flag} {value}: must be at least {limit}")]
    TooSmall {
        /// The flag.
        flag: &'static str,
        /// What was given.
        value: String,
        /// The limit.
        limit: String,
    },
    /// A value above its limit.
    #[error("--{flag} {value}: must be at most {limit}")]
    TooLarge {
        /// The flag.
        flag: &'static str,
        /// What was given.
        value: String,
        /// The limit, and where it comes from.
        limit: String,
    },
    /// Not whole blocks.
    #[error("--{flag} {value}: must be a multiple of the block size, {block_size} bytes")]
    Alignment {
        /// The flag.
        flag: &'static str,
        /// What was given.
        value: u64,
        /// The namespace's block size.
        block_size: u32,
    },
    /// Writes to a block that the file fills only in part.
    #[error(
        "--{flag} {value}: writes reach into the last block, of which the file has only {tail} of {block_size} bytes; \
         at most {limit} bytes from the start can be written"
    )]
    Tail {
        /// The flag.
        flag: &'static str,
        /// What was given.
        value: u64,
        /// Bytes of the file in its last block.
        tail: u64,
        /// The namespace's block size.
        block_size: u32,
        /// Bytes that can be written.
        limit: u64,
    },
    /// A flag that needs another one.
    #[error("--{flag} {value}: {reason}")]
    Conflict {
        /// The flag.
        flag: &'static str,
        /// What was given.
        value: String,
        /// Why it cannot be.
        reason: String,
    },
    /// A file that kernels cannot read.
    #[error("{name}: {reason}")]
    File {
        /// Its path, or the name of its partition.
        name: String,
        /// Why they cannot.
        reason: String,
    },
}

/// One run, ready to start: every range and count lies inside its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Access pattern.
    pub rw: Access,
    /// Reads in percent.
    pub rwmixread: u8,
    /// How random addresses are drawn.
    #[serde(default)]
    pub random_distribution: Distribution,
    /// Bytes of an I/O.
    pub bs_bytes: u64,
    /// Outstanding commands per queue.
    pub iodepth: u32,
    /// Queue pairs.
    pub queues: u16,
    /// Warps over all queues, agents and warps without a queue left out; 0 with the host API.
    pub warps: u32,
    /// Warps that do the I/O of these, where some do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<u32>,
    /// Threads of a block, where blocks send I/Os together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
    /// The page cache, where there is one: each I/O is a word of an array then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<CacheShape>,
    /// Commands that a lane has in flight; 0 with the host API.
    pub tokens_per_lane: u32,
    /// How warps share queues.
    pub sharing: Sharing,
    /// Who submits.
    pub api: Api,
    /// The protocol of the laboratory, if it is one of its runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// How many lanes of a warp must be able to begin an I/O before any does, where they are to wait for each other; of the
    /// host: how many I/Os of a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gather: Option<u32>,
    /// How the host learns of completions; kernels poll.
    pub completion: Completion,
    /// How the controller gathers interrupts meanwhile, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "word::optional")]
    pub coalescing: Option<Coalescing>,
    /// First byte used.
    pub offset_bytes: u64,
    /// Bytes used.
    pub size_bytes: u64,
    /// Bytes to transfer, if there is a limit.
    pub io_limit_bytes: Option<u64>,
    /// Commands that one I/O takes: more than 1 where it is above MDTS.
    pub commands_per_io: u32,
    /// Whether data is checked.
    pub verify: Option<Verify>,
    /// Seed of addresses, directions and contents.
    pub seed: u64,
    /// The namespace.
    #[serde(serialize_with = "form::number", deserialize_with = "form::namespace")]
    pub nsid: Nsid,
    /// Bytes of a block.
    pub block_size_bytes: u32,
    /// How long to measure.
    #[serde(
        rename = "runtime_limit_ns",
        serialize_with = "form::nanoseconds",
        deserialize_with = "form::time"
    )]
    pub runtime: Option<Duration>,
    /// Time before measuring starts.
    #[serde(
        rename = "ramp_ns",
        default,
        serialize_with = "form::whole_ns",
        deserialize_with = "form::of_ns"
    )]
    pub ramp: Duration,
    /// Time between two counts of what is done.
    #[serde(skip)]
    pub interval: Duration,
    /// The longest that one command may take; 0 in results of older versions, which do not say.
    #[serde(
        rename = "timeout_ns",
        default,
        serialize_with = "form::whole_ns",
        deserialize_with = "form::of_ns"
    )]
    pub timeout: Duration,
    /// How often a command that failed may be submitted once more.
    pub retries: u32,
    /// Whether queues and a controller that do not answer are recovered while the run goes on.
    pub recover: bool,
    /// Threads that drive host queues, or run kernels on the CPU target; 0 in results of older versions.
    #[serde(default)]
    pub threads: usize,
    /// Processors for these threads, used in turn; none: the system places them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
    /// Blocks of the largest command.
    #[serde(skip)]
    pub max_command_blocks: u32,
    /// Events of each warp that a trace keeps, if one is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_events: Option<u32>,
    /// What is submitted again, instead of commands of `rw`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "form::shared",
        deserialize_with = "form::own",
        default
    )]
    pub replay: Option<Arc<SsdReplay>>,
    /// The file that is read, if one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileJob>,
    /// How the SSD was asked to be opened, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<Opening>,
}

/// One processor is left to the controller's polling thread.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |all| (all.get() - 1).max(1))
}

/// Which warps a run has.
struct Shape {
    agents: Option<u32>,
    block: Option<u32>,
    warps: u32,
    tokens_per_lane: u32,
}

impl Shape {
    fn of(options: &BenchOptions, limits: &Limits) -> Result<Shape, JobError> {
        let agents = agents::count(options)?;
        let block = blocks::threads(options)?;
        let (warps, tokens_per_lane) = match agents {
            Some(agents) => agents::warps(options, limits, agents)?,
            None => check::warps(options, limits)?,
        };
        blocks::depth(options, warps)?;
        Ok(Shape { agents, block, warps, tokens_per_lane })
    }
}

impl Job {
    /// Checks `options` against `limits` and fills in what was left open.
    pub fn resolve(options: &BenchOptions, limits: &Limits) -> Result<Job, JobError> {
        files::refuse(options)?;
        let max_command_blocks = check::max_command_blocks(limits);
        let replay = options.replay.as_deref();
        let adapted = replay.map(|replay| trace::adapted(options, replay, limits, max_command_blocks));
        let adapted = adapted.transpose()?;
        let options = adapted.as_ref().unwrap_or(options);
        let (offset_bytes, size_bytes) = check::range(options, limits)?;
        if options.threads == Some(0) {
            return Err(JobError::TooSmall { flag: "threads", value: "0".into(), limit: "1".into() });
        }
        check::cpus(&options.cpus)?;
        check::distribution(options)?;
        check::depth(options, limits)?;
        check::at_least("runtime", options.runtime, Duration::from_nanos(1))?;
        check::at_least("interval", options.interval, SHORTEST_INTERVAL)?;
        check::at_least("timeout", Some(options.timeout), Duration::from_nanos(1))?;
        let shape = Shape::of(options, limits)?;
        let job = Job::filled_in(options, limits, (offset_bytes, size_bytes), shape)?;
        laboratory::check(options, limits, &job)?;
        job.check_buffers()?;
        check::trace_memory(&job)?;
        Ok(job)
    }

    /// With what `options` left open, after they were found to fit.
    fn filled_in(
        options: &BenchOptions,
        limits: &Limits,
        (offset_bytes, size_bytes): (u64, u64),
        Shape { agents, block, warps, tokens_per_lane }: Shape,
    ) -> Result<Job, JobError> {
        let max_command_blocks = check::max_command_blocks(limits);
        let blocks = options.bs.0 / u64::from(limits.block_size);
        Ok(Job {
            rw: options.rw,
            rwmixread: options.rw.read_percent(check::mix(options)?),
            random_distribution: options.random_distribution,
            bs_bytes: options.bs.0,
            iodepth: options.iodepth,
            queues: options.queues,
            warps,
            agents,
            block,
            array: arrays::cache(options, size_bytes / options.bs.0)?,
            tokens_per_lane,
            sharing: options.sharing,
            api: options.api,
            protocol: options.protocol,
            gather: check::gather(options)?,
            completion: options.completion,
            coalescing: check::coalescing(options)?,
            offset_bytes,
            size_bytes,
            io_limit_bytes: check::amount(options)?,
            commands_per_io: u32::try_from(blocks.div_ceil(u64::from(max_command_blocks)))
                .unwrap_or(u32::MAX),
            verify: options.verify,
            seed: options.seed,
            nsid: options.nsid,
            block_size_bytes: limits.block_size,
            runtime: check::runtime(options),
            ramp: options.ramp,
            interval: check::interval(options),
            timeout: options.timeout,
            retries: options.retries,
            recover: options.recover && options.protocol.is_none(),
            threads: check::threads(options)?.unwrap_or_else(default_threads),
            cpus: options.cpus.clone(),
            max_command_blocks,
            trace_events: check::trace_events(options)?,
            replay: options.replay.clone(),
            file: files::of(options, limits, (offset_bytes, size_bytes))?,
            opening: None,
        })
    }

    /// First block used.
    pub fn first_block(&self) -> u64 {
        self.offset_bytes / u64::from(self.block_size_bytes)
    }

    /// Blocks of one I/O.
    pub fn io_blocks(&self) -> u64 {
        self.bs_bytes / u64::from(self.block_size_bytes)
    }

    /// Where the blocks of an I/O begin.
    #[inline]
    pub(crate) fn lba(&self, unit: u64) -> u64 {
        match &self.file {
            Some(file) => file.lbas[unit as usize],
            None => self.first_block() + unit * self.io_blocks(),
        }
    }

    /// I/Os that fit side by side into the range; addresses are multiples of the I/O size.
    pub fn io_slots(&self) -> u64 {
        self.file.as_ref().map_or(self.size_bytes / self.bs_bytes, |file| file.ios)
    }

    /// I/Os after which the run ends, if there is a limit.
    pub fn io_limit(&self) -> Option<u64> {
        self.io_limit_bytes.map(|bytes| bytes.div_ceil(self.moved_bytes()))
    }

    /// Bytes that an I/O of the run moves to or from a kernel.
    pub fn moved_bytes(&self) -> u64 {
        if self.array.is_some() { arrays::WORD } else { self.bs_bytes }
    }

    /// I/Os that are in flight at a time, over all queues.
    pub fn ios_in_flight(&self) -> u64 {
        let per_queue = if self.api == Api::Host { self.flights_per_queue() } else { self.iodepth };
        u64::from(per_queue) * u64::from(self.queues)
    }

    /// I/Os of one queue that the host has in flight at a time. A split I/O takes several commands.
    pub fn flights_per_queue(&self) -> u32 {
        self.iodepth.div_ceil(self.commands_per_io)
    }

    /// Ring entries of each queue: one stays empty.
    pub fn ring_entries(&self) -> u32 {
        (self.iodepth + 1).next_power_of_two()
    }

    /// Commands that the busiest warp has in flight: warps of a queue share its depth.
    pub fn largest_share(&self) -> u32 {
        self.iodepth.div_ceil((self.warps / u32::from(self.queues)).max(1))
    }

    /// Warps that have queues.
    pub fn queue_warps(&self) -> u32 {
        self.agents.unwrap_or(self.warps)
    }

    /// Of a block of `block` threads, the warps with queues: as many in each block, and as many as there can be.
    pub fn submitters(&self, block: u32) -> u32 {
        (1..=block / LANES).rev().find(|share| self.warps.is_multiple_of(*share)).unwrap_or(1)
    }

    /// Warps of a launch.
    pub fn all_warps(&self) -> u32 {
        match self.block {
            Some(block) => self.warps / self.submitters(block) * (block / LANES),
            None => self.warps + self.agents.unwrap_or(0),
        }
    }

    /// How much of a trace is kept, where one is wanted.
    pub(crate) fn trace(&self) -> Option<TraceSpec> {
        let lanes = self.largest_share().min(LANES);
        self.trace_events.map(|events_per_warp| TraceSpec::new(events_per_warp).lanes(lanes))
    }

    fn check_buffers(&self) -> Result<(), JobError> {
        let ios = match self.api {
            Api::Host => self.ios_in_flight(),
            _ => u64::from(self.warps) * u64::from(self.largest_share()),
        };
        let bytes = ios.saturating_mul(self.bs_bytes);
        if bytes > BUFFER_LIMIT {
            let (bytes, limit) = (ByteSize(bytes), ByteSize(BUFFER_LIMIT));
            let reason = format!("{ios} I/Os in flight need {bytes} of buffers, the limit is {limit}");
            return Err(JobError::Conflict { flag: "bs", value: self.bs_bytes.to_string(), reason });
        }
        let histograms = self.histogram_bytes();
        if histograms > HISTOGRAM_LIMIT {
            let (bytes, limit) = (ByteSize(histograms), ByteSize(HISTOGRAM_LIMIT));
            let reason = format!("their latency histograms need {bytes} of memory, the limit is {limit}");
            return Err(JobError::Conflict { flag: "warps", value: self.warps.to_string(), reason });
        }
        Ok(())
    }

    fn histogram_bytes(&self) -> u64 {
        let lanes = u64::from(self.all_warps()) * u64::from(LANES);
        lanes * HISTOGRAM_DIRECTIONS as u64 * size_of::<[u32; HISTOGRAM_BUCKETS as usize]>() as u64
    }
}

/// What commands of which so many of a hundred are reads do.
pub(crate) fn operation(read_percent: u8) -> &'static str {
    match read_percent {
        100 => "read",
        0 => "write",
        _ => "read or write",
    }
}

#[cfg(test)]
mod tests;
