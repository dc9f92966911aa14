//! `digest`: a kernel reads every block, and the CRC-32C of the contents is put together.

use std::time::Duration;

use serde::Serialize;
use warpbell::{
    AttachOptions, Attachment, OpenTarget, Regions, SharedMemory, Sharing, Ssd, Target, describe_status,
};
use warpbell_hw::{Lba, Nsid};
use warpbell_kernels::abi::{ChunkResult, DigestArgs, WarpResult};

use crate::array::{Array, crc_tables, mailbox};
use crate::control::Control;
use crate::error::RunError;
use crate::job::{JobError, LANES, Limits};
use crate::launch::{Kernel, Launcher};
use crate::result::{DeviceReport, PathReport};
use crate::size::ByteSize;
use crate::size::checked_len;

/// Name and version of the document's form.
pub const DIGEST_SCHEMA: &str = "warpbell.digest/1";
/// The largest chunk: 32 of them are in flight for each warp.
const MAX_CHUNK: u64 = 16 << 20;

/// What to digest, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestOptions {
    /// The namespace.
    pub nsid: Nsid,
    /// Bytes of one read.
    pub bs: ByteSize,
    /// Warps, each with a queue of its own.
    pub warps: u16,
    /// The longest that one read may take.
    pub deadline: Duration,
}

/// The CRC-32C of a namespace's contents.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Digest {
    /// [`DIGEST_SCHEMA`].
    pub schema: &'static str,
    /// Version of Warpbell.
    pub warpbell: &'static str,
    /// The device's name.
    pub device: String,
    /// `software` where the controller is ours.
    pub device_kind: String,
    /// Where the kernel ran: `cpu`, or `cuda:N` or `ptx` and the device's name.
    pub target: String,
    /// The way that commands and data took.
    pub data_path: PathReport,
    /// The namespace.
    pub nsid: u32,
    /// CRC-32C of the contents, 8 hex digits.
    pub crc32c: String,
    /// Length of the contents: of the file, where there is one behind the namespace.
    pub bytes: u64,
    /// Blocks read.
    pub blocks: u64,
    /// Time that the kernel took.
    pub runtime_ns: u64,
    /// Bytes per second.
    pub bytes_per_s: f64,
}

/// Lets a kernel read all of namespace `options.nsid`.
pub fn digest(
    ssd: &Ssd,
    target: Target,
    options: &DigestOptions,
    control: &Control,
) -> Result<Digest, RunError> {
    let limits = Limits::of(ssd, options.nsid)?;
    check(options, &limits)?;
    let block = u64::from(limits.block_size);
    let bytes = limits.exact_bytes.unwrap_or(limits.blocks * block);
    let read =
        if bytes == 0 { Read::default() } else { launch(ssd, target, options, (bytes, block), control)? };
    let device = DeviceReport::of(ssd, options.nsid)?;
    Ok(Digest {
        schema: DIGEST_SCHEMA,
        warpbell: env!("CARGO_PKG_VERSION"),
        device: device.name,
        device_kind: device.kind,
        target: target.open()?.to_string(),
        data_path: PathReport::of(ssd),
        nsid: options.nsid.get(),
        crc32c: format!("{:08x}", read.crc32c),
        bytes,
        blocks: bytes.div_ceil(block),
        runtime_ns: read.runtime_ns,
        bytes_per_s: if read.runtime_ns == 0 { 0.0 } else { bytes as f64 * 1e9 / read.runtime_ns as f64 },
    })
}

fn check(options: &DigestOptions, limits: &Limits) -> Result<(), JobError> {
    let (value, block) = (options.bs.0, u64::from(limits.block_size));
    let limit = |bytes: u64| format!("{bytes} bytes");
    if value % block != 0 {
        return Err(JobError::Alignment { flag: "bs", value, block_size: limits.block_size });
    }
    if value == 0 {
        return Err(JobError::TooSmall { flag: "bs", value: "0".into(), limit: limit(block) });
    }
    if value > MAX_CHUNK {
        return Err(JobError::TooLarge { flag: "bs", value: value.to_string(), limit: limit(MAX_CHUNK) });
    }
    Ok(())
}

/// What the kernel found.
#[derive(Default)]
struct Read {
    crc32c: u32,
    runtime_ns: u64,
}

/// What the kernel reports into.
#[derive(Clone)]
struct Reports {
    mailbox: SharedMemory,
    warps: Array<WarpResult>,
    chunks: Array<ChunkResult>,
}

impl Reports {
    fn new(target: &OpenTarget, warps: u32, chunks: u64) -> Result<Reports, RunError> {
        Ok(Reports {
            mailbox: mailbox(target)?,
            warps: Array::new(target, warps as usize)?,
            chunks: Array::new(target, checked_len(chunks)?)?,
        })
    }
}

fn launch(
    ssd: &Ssd,
    target: Target,
    options: &DigestOptions,
    (bytes, block): (u64, u64),
    control: &Control,
) -> Result<Read, RunError> {
    let chunk = options.bs.0;
    let chunks = bytes.div_ceil(chunk);
    let warps =
        u64::from(options.warps.min(ssd.granted_queues())).clamp(1, chunks.div_ceil(LANES.into())) as u32;
    let attachment = attach(ssd, target, options, warps)?;
    let buffer = attachment.buffer(checked_len(u64::from(warps * LANES) * chunk)?)?;
    let reports = Reports::new(attachment.target(), warps, chunks)?;
    let tables = crc_tables(attachment.target())?;
    let args = DigestArgs {
        ns: attachment.namespace(),
        buffer: buffer.as_ref(),
        mailbox: reports.mailbox.address(),
        results: reports.warps.address(),
        chunks: reports.chunks.address(),
        crc_tables: tables.address(),
        bytes,
        timeout_ns: crate::cpu::nanoseconds(options.deadline),
        chunk_blocks: (chunk / block) as u32,
        ..DigestArgs::new()
    };
    let launcher = Launcher::new(ssd, warps as usize, &[]);
    let uses = reports.chunks.lend(reports.warps.lend(tables.lend(Regions::new())));
    let mailbox = &reports.mailbox;
    let kernel = Kernel { name: "digest", args, warps, together: false, mailbox, limit: None, uses };
    launcher.run(&attachment, &kernel, control)?;
    if control.stopped() {
        return Err(RunError::Interrupted);
    }
    combine(&reports, options, (bytes, chunk))
}

fn attach(ssd: &Ssd, target: Target, options: &DigestOptions, warps: u32) -> Result<Attachment, RunError> {
    Ok(ssd.attach(
        &AttachOptions::new()
            .target(target)
            .nsid(Some(options.nsid))
            .queues(warps)
            .warps(warps)
            .iodepth(LANES)
            .sharing(Sharing::Exclusive)
            .deadline(options.deadline),
    )?)
}

/// Puts the chunks' checksums together, if all of them were read.
fn combine(reports: &Reports, options: &DigestOptions, (bytes, chunk): (u64, u64)) -> Result<Read, RunError> {
    let (mut start, mut end) = (u64::MAX, 0);
    let mut failure = None;
    reports.warps.for_each(|_, warp| {
        if warp.errors > 0 {
            failure.get_or_insert((Some(Lba(warp.error_lba)), warp.error_status));
        }
        (start, end) = (start.min(warp.start_ns), end.max(warp.end_ns));
    })?;
    let mut crc32c = 0;
    reports.chunks.for_each(|index, answer| {
        if answer.status != 0 {
            failure.get_or_insert((None, answer.status));
        }
        // Combining takes longer than reading does: of what failed it would be for nothing.
        if failure.is_none() {
            let len = (bytes - index as u64 * chunk).min(chunk);
            crc32c = crc32c::crc32c_combine(crc32c, answer.crc32c, len as usize);
        }
    })?;
    if let Some((lba, status)) = failure {
        return Err(failed(options.nsid, lba, status));
    }
    Ok(Read { crc32c, runtime_ns: end.saturating_sub(start) })
}

fn failed(nsid: Nsid, lba: Option<Lba>, status: u32) -> RunError {
    warpbell::Error::Command { op: "read".into(), nsid, lba, status: describe_status(status) }.into()
}
