//! The checks behind [`Job::resolve`]: each names the flag, its value and the limit.

use std::time::Duration;

use warpbell::{CidLayout, LayoutError};
use warpbell_base::Time;
use warpbell_driver::Coalescing;

use super::{DEFAULT_RUNTIME, Job, JobError, LANES, LONGEST_INTERVAL, Limits, MAX_DEPTH, SHORTEST_INTERVAL};
use crate::distribution::Distribution;
use crate::options::{Access, Api, BenchOptions, Completion, Protocol, Sharing};
use crate::size::ByteSize;
use crate::trace::TRACE_LIMIT;

/// Commands that one warp can have in flight: 10 CID bits.
const MAX_IN_FLIGHT: u32 = 1024;
/// Bytes of the largest I/O: kernels count them in 32 bits.
const MAX_IO: u64 = 1 << 30;

/// Blocks of the largest command: MDTS, and the 16-bit count of a command.
pub(super) fn max_command_blocks(limits: &Limits) -> u32 {
    let mdts = limits.max_transfer_bytes.unwrap_or(u64::MAX) / u64::from(limits.block_size);
    mdts.clamp(1, 1 << 16) as u32
}

/// Threads, where that is not left to the machine. A thread that sleeps for one queue cannot serve another.
pub(super) fn threads(options: &BenchOptions) -> Result<Option<usize>, JobError> {
    if options.completion == Completion::Poll {
        return Ok(options.threads);
    }
    let conflict = |flag, value: String, reason: &str| {
        Err(JobError::Conflict { flag, value, reason: reason.to_owned() })
    };
    let queues = usize::from(options.queues);
    match options.threads {
        _ if options.api != Api::Host => {
            conflict("completion", options.completion.to_string(), "kernels poll; it goes with --api host")
        }
        Some(threads) if threads < queues => {
            let reason = "with --completion interrupt each queue needs a thread, which sleeps for it";
            conflict("threads", threads.to_string(), reason)
        }
        _ => Ok(Some(queues)),
    }
}

/// How interrupts are gathered: of queues that wait for some.
pub(super) fn coalescing(options: &BenchOptions) -> Result<Option<Coalescing>, JobError> {
    match options.coalescing {
        Some(wanted) if options.completion != Completion::Interrupt => {
            let reason =
                "it gathers interrupts, and nobody waits for any; it goes with --completion interrupt";
            Err(conflict("coalescing", wanted, reason.to_owned()))
        }
        wanted => Ok(wanted),
    }
}

/// Processors that this process may run on.
pub(super) fn cpus(named: &[usize]) -> Result<(), JobError> {
    // Where the system does not tell, it is asked for each when its thread starts.
    let Ok(usable) = warpbell_hw::usable_processors() else { return Ok(()) };
    let Some(wrong) = named.iter().find(|cpu| !usable.contains(cpu)) else { return Ok(()) };
    let list = usable.iter().map(usize::to_string).collect::<Vec<_>>();
    let all = match (usable.first(), usable.last()) {
        (Some(first), Some(last)) if last - first + 1 == usable.len() => format!("{first} to {last}"),
        _ => list.join(", "),
    };
    Err(conflict("cpus", wrong, format!("this process may run on processors {all}")))
}

/// How many I/Os wait for each other: of lanes, where the loop of `bench` or the library's protocol has them, or of a thread
/// of the host.
pub(super) fn gather(options: &BenchOptions) -> Result<Option<u32>, JobError> {
    let Some(lanes) = options.gather else { return Ok(None) };
    let conflict =
        |reason: String| Err(JobError::Conflict { flag: "gather", value: lanes.to_string(), reason });
    let (most, has) = match options.api {
        Api::Host => (options.iodepth, format!("must be 1 to {}, the --iodepth", options.iodepth)),
        _ => (LANES, format!("must be 1 to {LANES}, the lanes of a warp")),
    };
    if !(1..=most).contains(&lanes) {
        return conflict(has);
    }
    if !matches!(options.api, Api::Raw | Api::Io | Api::Host) || options.replay.is_some() {
        return conflict("it goes with --api io, raw and host, and without --replay".to_owned());
    }
    match options.protocol {
        Some(protocol) if protocol != Protocol::Turns => {
            conflict(format!("each thread of --protocol {protocol} begins its own"))
        }
        _ => Ok(Some(lanes)),
    }
}

/// Zipf's law is of addresses that are drawn, which no sequence, array over a cache or loop of the laboratory asks for.
pub(super) fn distribution(options: &BenchOptions) -> Result<(), JobError> {
    let distribution = options.random_distribution;
    if distribution == Distribution::Random {
        return Ok(());
    }
    let refused = |reason: String| Err(conflict("random-distribution", distribution, reason));
    if !options.rw.random() {
        return refused(format!("only random addresses are drawn, this is --rw {}", options.rw));
    }
    if let Some(protocol) = options.protocol {
        return refused(format!(
            "the loop of --protocol {protocol} draws its addresses by itself, each as often as any other"
        ));
    }
    if options.api == Api::Array {
        let reason = "an array draws pages by --hit-rate; it goes with --api io, raw, batch, agent and host";
        return refused(reason.to_owned());
    }
    Ok(())
}

/// The range of bytes that the run uses.
pub(super) fn range(options: &BenchOptions, limits: &Limits) -> Result<(u64, u64), JobError> {
    let block = u64::from(limits.block_size);
    let file = options.file.as_deref();
    let (end, usable) = ends(options, limits);
    aligned("bs", Some(options.bs), limits)?;
    aligned("offset", Some(options.offset), limits)?;
    aligned("size", options.size, limits)?;
    let whole = file.map_or_else(|| limits.nsid.to_string(), |file| file.name.clone());
    let named = |value: u64| format!("{value} bytes, the last block of {whole}");
    if end == 0 {
        return Err(conflict("device", whole, "it is empty".to_owned()));
    }
    let offset = options.offset.0;
    if offset >= end {
        return Err(too_large("offset", options.offset, named(end - block)));
    }
    let size = options.size.map_or(usable.saturating_sub(offset), |size| size.0);
    if size > end - offset {
        let limit = format!("{} bytes from --offset {} to the end of {whole}", end - offset, options.offset);
        return Err(too_large("size", ByteSize(size), limit));
    }
    let tail = |flag, value| match file {
        Some(file) => tail(flag, value, (block, file.map.size())),
        None => tail(flag, value, (block, limits.exact_bytes.unwrap_or(0))),
    };
    if options.size.is_some() && offset + size > usable {
        return Err(tail("size", size));
    }
    if size == 0 {
        return Err(tail("offset", offset));
    }
    if options.bs.0 > MAX_IO {
        return Err(too_large("bs", options.bs, format!("{MAX_IO} bytes")));
    }
    if options.bs.0 > size {
        return Err(too_large("bs", options.bs, format!("{size} bytes, the range in use")));
    }
    Ok((offset, size))
}

/// Bytes of the namespace or of the file, and how many of them this run may use.
fn ends(options: &BenchOptions, limits: &Limits) -> (u64, u64) {
    let block = u64::from(limits.block_size);
    let file = options.file.as_deref();
    let end = match file {
        // Its last block belongs to it alone.
        Some(file) => file.map.size().next_multiple_of(block),
        None => limits.blocks.saturating_mul(block),
    };
    let usable = match file {
        _ if !(options.rw.writes() || options.verify.is_some()) => end,
        // Behind its last whole block there is nothing that may be written.
        Some(file) => file.map.size() / block * block,
        None => writable(limits),
    };
    (end, usable)
}

/// Bytes from the start that may be written: a block that a file fills only in part may not.
fn writable(limits: &Limits) -> u64 {
    let block = u64::from(limits.block_size);
    limits.exact_bytes.map_or(limits.blocks.saturating_mul(block), |bytes| bytes / block * block)
}

fn tail(flag: &'static str, value: u64, (block, bytes): (u64, u64)) -> JobError {
    let (tail, limit) = (bytes % block, bytes / block * block);
    JobError::Tail { flag, value, tail, block_size: block as u32, limit }
}

pub(super) fn too_large(flag: &'static str, value: impl ToString, limit: impl ToString) -> JobError {
    JobError::TooLarge { flag, value: value.to_string(), limit: limit.to_string() }
}

pub(super) fn too_small(flag: &'static str, value: impl ToString, limit: impl ToString) -> JobError {
    JobError::TooSmall { flag, value: value.to_string(), limit: limit.to_string() }
}

pub(super) fn at_least(flag: &'static str, value: Option<Duration>, limit: Duration) -> Result<(), JobError> {
    match value {
        Some(value) if value < limit => {
            Err(too_small(flag, Time(value).to_string(), Time(limit).to_string()))
        }
        _ => Ok(()),
    }
}

/// Whole blocks, and not none of them (an offset may be 0).
fn aligned(flag: &'static str, value: Option<ByteSize>, limits: &Limits) -> Result<(), JobError> {
    let Some(ByteSize(value)) = value else { return Ok(()) };
    if value % u64::from(limits.block_size) != 0 {
        return Err(JobError::Alignment { flag, value, block_size: limits.block_size });
    }
    if value == 0 && flag != "offset" {
        return Err(too_small(flag, 0, format!("{} bytes, one block", limits.block_size)));
    }
    Ok(())
}

pub(super) fn depth(options: &BenchOptions, limits: &Limits) -> Result<(), JobError> {
    let depth = options.iodepth;
    if depth == 0 {
        return Err(too_small("iodepth", depth, 1));
    }
    if depth > MAX_DEPTH {
        return Err(too_large("iodepth", depth, MAX_DEPTH));
    }
    if depth >= limits.max_entries {
        let entries = limits.max_entries;
        let limit = format!("{}, the controller's rings have {entries} entries", entries - 1);
        return Err(too_large("iodepth", depth, limit));
    }
    if options.queues == 0 {
        return Err(too_small("queues", 0, 1));
    }
    if options.queues > limits.queues {
        let limit = format!("{}, what the controller granted", limits.queues);
        return Err(too_large("queues", options.queues, limit));
    }
    Ok(())
}

pub(super) fn mix(options: &BenchOptions) -> Result<u8, JobError> {
    match options.rwmixread {
        None => Ok(50),
        Some(percent) if options.rw != Access::RandRw => {
            let reason = format!("only --rw randrw mixes, this is --rw {}", options.rw);
            Err(JobError::Conflict { flag: "rwmixread", value: percent.to_string(), reason })
        }
        Some(percent) if percent > 100 => Err(too_large("rwmixread", percent, 100)),
        Some(percent) => Ok(percent),
    }
}

/// Bytes after which the run ends: the limit, or one pass where only a size was given.
pub(super) fn amount(options: &BenchOptions) -> Result<Option<u64>, JobError> {
    match (options.io_limit, options.size) {
        (Some(ByteSize(0)), _) => Err(too_small("io-limit", 0, "1 byte")),
        (Some(limit), _) => Ok(Some(limit.0)),
        (None, Some(size)) if options.runtime.is_none() => Ok(Some(size.0)),
        _ => Ok(None),
    }
}

pub(super) fn runtime(options: &BenchOptions) -> Option<Duration> {
    let bounded = options.io_limit.is_some() || options.size.is_some();
    options.runtime.or((!bounded).then_some(DEFAULT_RUNTIME))
}

/// Time between two counts: a second, or a tenth of a shorter run.
pub(super) fn interval(options: &BenchOptions) -> Duration {
    let tenth = runtime(options).map_or(LONGEST_INTERVAL, |runtime| (runtime / 10).min(LONGEST_INTERVAL));
    options.interval.unwrap_or_else(|| tenth.max(SHORTEST_INTERVAL))
}

/// Warps over all queues, and commands in flight per lane.
pub(super) fn warps(options: &BenchOptions, limits: &Limits) -> Result<(u32, u32), JobError> {
    let queues = u32::from(options.queues);
    if options.api == Api::Host {
        if options.sharing != Sharing::Exclusive {
            let reason = "--api host has no warps: each of its queues belongs to one thread".to_owned();
            return Err(conflict("sharing", options.sharing, reason));
        }
        return match options.warps {
            None => Ok((0, 0)),
            Some(warps) => Err(conflict("warps", warps, "--api host runs no kernels".to_owned())),
        };
    }
    let warps = options.warps.unwrap_or_else(|| suggested_warps(options));
    if warps < queues {
        return Err(too_small("warps", warps, format!("{queues}, one for each of --queues {queues}")));
    }
    if options.sharing == Sharing::Exclusive && warps != queues {
        let limit = format!("{queues}: with --sharing exclusive each warp has one of --queues {queues}");
        return Err(too_large("warps", warps, limit));
    }
    let tokens = match options.api {
        Api::Batch => super::blocks::IDS,
        _ => options.iodepth.div_ceil((warps / queues).saturating_mul(LANES)).next_power_of_two(),
    };
    let layout = if limits.wide_cids { CidLayout::wide } else { CidLayout::new };
    match layout(queues, warps, tokens) {
        Ok(_) => Ok((warps, tokens)),
        Err(error) => Err(too_few_cids(&error, options, warps, tokens)),
    }
}

/// Warps over all queues, where nobody says how many.
fn suggested_warps(options: &BenchOptions) -> u32 {
    let queues = u32::from(options.queues);
    match options.sharing {
        Sharing::Exclusive => queues,
        // One command of each lane.
        Sharing::Shared if options.protocol.is_some() || options.api == Api::Batch => {
            queues * options.iodepth.div_ceil(LANES)
        }
        Sharing::Shared => {
            queues * (options.iodepth / LANES).clamp(1, 4).max(options.iodepth.div_ceil(MAX_IN_FLIGHT))
        }
    }
}

/// Why queues have no identifiers for so many warps and commands, by the flag that asks for too many.
fn too_few_cids(error: &LayoutError, options: &BenchOptions, warps: u32, tokens: u32) -> JobError {
    let queues = u32::from(options.queues);
    match *error {
        LayoutError::TooManyTokens { limit, .. } if options.api == Api::Batch => {
            let reason =
                format!("a lane of a batch takes {tokens} CIDs, but has {limit} with --queues {queues}");
            conflict("warps", warps, reason)
        }
        LayoutError::TooManyTokens { limit, .. } => {
            let room = warps / queues * LANES * limit;
            let more = if options.sharing == Sharing::Shared { "more --warps" } else { "--sharing shared" };
            let limit = format!(
                "{room}, the command identifiers of --warps {warps} on --queues {queues}; {more} has more"
            );
            too_large("iodepth", options.iodepth, limit)
        }
        LayoutError::TooManyWarps { limit, .. } => {
            let most = u64::from(limit) * u64::from(queues);
            too_large("warps", warps, lack_of_cids(most, queues))
        }
        _ => conflict("warps", warps, error.to_string()),
    }
}

/// The limit of warps that command identifiers set.
pub(super) fn lack_of_cids(most: u64, queues: u32) -> String {
    format!("{most} on --queues {queues}: each takes {LANES} of a queue's command identifiers")
}

/// Events of each warp to keep, where a trace is wanted.
pub(super) fn trace_events(options: &BenchOptions) -> Result<Option<u32>, JobError> {
    match options.trace_events {
        Some(0) => Err(too_small("trace-events", 0, 1)),
        Some(_) if options.api == Api::Host => {
            let reason = "kernels write traces; use --api io or raw".to_owned();
            Err(conflict("api", options.api, reason))
        }
        events => Ok(events),
    }
}

/// Whether there may be memory for the trace.
pub(super) fn trace_memory(job: &Job) -> Result<(), JobError> {
    let Some(spec) = job.trace() else { return Ok(()) };
    let bytes = spec.bytes(job.warps);
    if bytes > TRACE_LIMIT {
        let (bytes, limit) = (ByteSize(bytes), ByteSize(TRACE_LIMIT));
        let reason =
            format!("the traces of {} warps need {bytes} of memory, the limit is {limit}", job.warps);
        return Err(conflict("trace-events", spec.events_per_warp, reason));
    }
    Ok(())
}

pub(super) fn conflict(flag: &'static str, value: impl ToString, reason: String) -> JobError {
    JobError::Conflict { flag, value: value.to_string(), reason }
}
