//! A benchmark's options, as words `NAME=VALUE`, against a device that some of them describe.

use std::str::FromStr;
use std::time::Duration;

use warpbell_workload::{BenchOptions, ByteSize, Job, Limits, parse_duration};

use super::told;
use warpbell_hw::Nsid;

/// Resolves the job. What comes out of it keeps to what was asked and to the device.
pub(super) fn resolve(text: &str) {
    let mut options = BenchOptions::default();
    let mut limits = Limits {
        nsid: Nsid(1),
        blocks: 1 << 20,
        block_size: 512,
        exact_bytes: None,
        max_transfer_bytes: Some(128 << 10),
        max_entries: 65536,
        queues: 64,
        wide_cids: false,
        trim_blocks: Some(u32::MAX),
    };
    for word in text.split_ascii_whitespace() {
        let Some((name, value)) = word.split_once('=') else { return };
        if device(&mut limits, name, value).or_else(|| option(&mut options, name, value)).is_none() {
            return;
        }
    }
    let Some(job) = told(Job::resolve(&options, &limits)) else { return };
    let block = u64::from(limits.block_size);
    let end = job.offset_bytes.checked_add(job.size_bytes);
    assert!(end.is_some_and(|end| end.div_ceil(block) <= limits.blocks), "{job:?} goes past {limits:?}");
    assert!(job.bs_bytes > 0 && job.bs_bytes.is_multiple_of(block), "{job:?} on {limits:?}");
    assert!(job.queues > 0 && job.queues <= limits.queues && job.commands_per_io > 0, "{job:?}");
}

/// A word about the device.
fn device(limits: &mut Limits, name: &str, value: &str) -> Option<()> {
    match name {
        // A namespace does not reach further than bytes can be counted.
        "blocks" => limits.blocks = parse(value).filter(|blocks| (1..=1 << 52).contains(blocks))?,
        "block" => limits.block_size = parse(value).filter(|bytes| [512, 4096].contains(bytes))?,
        "exact" => {
            let size = limits.blocks * u64::from(limits.block_size);
            limits.exact_bytes = Some(parse(value).filter(|bytes| (1..=size).contains(bytes))?);
        }
        "mdts" => {
            let bytes = parse(value).filter(|mdts| *mdts <= 20).map(|mdts: u32| 4096 << mdts)?;
            limits.max_transfer_bytes = Some(bytes);
        }
        "entries" => limits.max_entries = parse(value).filter(|entries| (2..=65536).contains(entries))?,
        "granted" => limits.queues = parse(value).filter(|queues| *queues > 0)?,
        "wide" => limits.wide_cids = parse(value)?,
        _ => return None,
    }
    Some(())
}

fn option(options: &mut BenchOptions, name: &str, value: &str) -> Option<()> {
    match name {
        "bs" => options.bs = parse(value)?,
        "size" => options.size = Some(parse(value)?),
        "offset" => options.offset = parse::<ByteSize>(value)?,
        "io_limit" => options.io_limit = Some(parse(value)?),
        "iodepth" => options.iodepth = parse(value)?,
        "queues" => options.queues = parse(value)?,
        "warps" => options.warps = Some(parse(value)?),
        "rwmixread" => options.rwmixread = Some(parse(value)?),
        "rw" => options.rw = parse(value)?,
        "sharing" => options.sharing = parse(value)?,
        "api" => options.api = parse(value)?,
        "completion" => options.completion = parse(value)?,
        "verify" => options.verify = Some(parse(value)?),
        "runtime" => options.runtime = Some(time(value)?),
        "ramp" => options.ramp = time(value)?,
        "deadline" => options.timeout = time(value)?,
        "seed" => options.seed = parse(value)?,
        "nsid" => options.nsid = Nsid(parse(value)?),
        "threads" => options.threads = Some(parse(value)?),
        _ => return None,
    }
    Some(())
}

fn parse<T: FromStr<Err: std::fmt::Display>>(value: &str) -> Option<T> {
    told(value.parse())
}

fn time(value: &str) -> Option<Duration> {
    told(parse_duration(value))
}
