//! What the protocols of the laboratory take: each refusal names the flag, its value and why.

use super::{Job, JobError, LANES, Limits};
use crate::kernel::protocol_words;
use crate::options::{Api, BenchOptions, Protocol, Sharing};
use crate::size::ByteSize;

/// Most bytes that a protocol's words may take.
const STATE_LIMIT: u64 = 4 << 30;

/// Checks a job whose options name a protocol.
pub(super) fn check(options: &BenchOptions, limits: &Limits, job: &Job) -> Result<(), JobError> {
    let Some(protocol) = options.protocol else { return Ok(()) };
    flags(options, protocol)?;
    let called = called(protocol);
    if limits.wide_cids {
        let reason =
            "completions are told apart by 16-bit command identifiers; open the device without --wide-cids";
        return Err(conflict("protocol", protocol, reason.to_owned()));
    }
    if job.commands_per_io > 1 {
        let limit = ByteSize(u64::from(job.max_command_blocks) * u64::from(job.block_size_bytes));
        let reason = format!("--protocol {called} has one command for each I/O, of at most {limit}");
        return Err(conflict("bs", options.bs.0, reason));
    }
    let queues = u32::from(job.queues);
    if !job.warps.is_multiple_of(queues) {
        let reason = format!("--protocol {called} takes as many warps for each of --queues {queues}");
        return Err(conflict("warps", job.warps, reason));
    }
    if job.tokens_per_lane > 1 {
        let (warps, limit) = (job.warps / queues, job.warps / queues * LANES);
        let limit = format!(
            "{limit}: --protocol {called} has one command of each lane in flight, and a queue has {warps} warps \
             (--warps)"
        );
        return Err(JobError::TooLarge { flag: "iodepth", value: options.iodepth.to_string(), limit });
    }
    let bytes = u64::from(queues) * u64::from(protocol_words(job.ring_entries())) * size_of::<u64>() as u64;
    if bytes > STATE_LIMIT {
        let (bytes, limit) = (ByteSize(bytes), ByteSize(STATE_LIMIT));
        let reason =
            format!("--protocol {called} needs {bytes} of memory on {queues} queues, the limit is {limit}");
        return Err(conflict("iodepth", options.iodepth, reason));
    }
    Ok(())
}

/// Its word, with the other one that it may have been named by: `marks (bam)`.
fn called(protocol: Protocol) -> String {
    match protocol.words() {
        [word, alias] => format!("{word} ({alias})"),
        _ => protocol.to_string(),
    }
}

/// What is the library's queue's alone.
fn flags(options: &BenchOptions, protocol: Protocol) -> Result<(), JobError> {
    let called = called(protocol);
    if options.replay.is_some() {
        let reason = "a replay goes through the library's queues; without --replay".to_owned();
        return Err(conflict("protocol", protocol, reason));
    }
    if options.trace_events.is_some() {
        let reason = "only kernels over the library's queues write traces; without --trace".to_owned();
        return Err(conflict("protocol", protocol, reason));
    }
    if options.api != Api::Raw {
        let reason = format!("--protocol {called} has a loop of its own that writes entries; use --api raw");
        return Err(conflict("api", options.api, reason));
    }
    if options.sharing != Sharing::Shared {
        let reason = format!(
            "--protocol {called} is for queues that warps share, and each of these has 1 warp; use --sharing shared"
        );
        return Err(conflict("sharing", options.sharing, reason));
    }
    if options.retries > 0 {
        let reason = format!("--protocol {called} submits no command again; use 0");
        return Err(conflict("retries", options.retries, reason));
    }
    Ok(())
}

fn conflict(flag: &'static str, value: impl ToString, reason: String) -> JobError {
    JobError::Conflict { flag, value: value.to_string(), reason }
}
