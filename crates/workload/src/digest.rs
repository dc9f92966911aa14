//! `digest`: a kernel reads every block, of a namespace or of a file there, and the CRC-32C of the contents is put together.

use std::time::Duration;

use serde::Serialize;
use warpbell::{
    AttachOptions, Attachment, Buffer, OpenTarget, Regions, SharedMemory, Sharing, Ssd, Target,
    describe_status,
};
use warpbell_files::{FileMap, Piece, append_zeroes};
use warpbell_hw::{Lba, Nsid};
use warpbell_kernels::abi::{ChunkResult, DigestArgs, WarpResult};

use crate::array::{Array, crc_tables, mailbox};
use crate::control::Control;
use crate::error::RunError;
use crate::job::{JobError, LANES, Limits, NamedFile};
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
    /// The file to read, in the place of all of the namespace.
    pub file: Option<NamedFile>,
}

/// The file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DigestedFile {
    /// Its path, or the name of its partition.
    pub name: String,
    /// Its extents.
    pub extents: usize,
    /// Bytes of it that lie nowhere, and are zeroes.
    pub hole_bytes: u64,
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
    /// The file, where one was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<DigestedFile>,
    /// CRC-32C of the contents, 8 hex digits.
    pub crc32c: String,
    /// Length of the contents: of the file that was read, or of the one behind the namespace.
    pub bytes: u64,
    /// Blocks read.
    pub blocks: u64,
    /// Time that the kernel took.
    pub runtime_ns: u64,
    /// Bytes per second that were read: holes are not.
    pub bytes_per_s: f64,
}

/// Lets a kernel read all of namespace `options.nsid`, or all of a file there.
pub fn digest(
    ssd: &Ssd,
    target: Target,
    options: &DigestOptions,
    control: &Control,
) -> Result<Digest, RunError> {
    let limits = Limits::of(ssd, options.nsid)?;
    check(options, &limits)?;
    let block = u64::from(limits.block_size);
    let whole = || FileMap::whole(limits.exact_bytes.unwrap_or(limits.blocks * block));
    let map = options.file.as_ref().map_or_else(whole, |file| file.map.clone());
    map.check(&ssd.namespace_id(options.nsid))?;
    let bytes = map.size();
    let read = digest_pieces(ssd, target, options, (&map, block), control)?;
    let seconds = read.runtime_ns as f64 / 1e9;
    let device = DeviceReport::of(ssd, options.nsid)?;
    Ok(Digest {
        schema: DIGEST_SCHEMA,
        warpbell: env!("CARGO_PKG_VERSION"),
        device: device.name,
        device_kind: device.kind,
        target: target.open()?.to_string(),
        data_path: PathReport::of(ssd),
        nsid: options.nsid.get(),
        file: options.file.as_ref().map(|file| DigestedFile {
            name: file.name.clone(),
            extents: map.extents().len(),
            hole_bytes: read.hole_bytes,
        }),
        crc32c: format!("{:08x}", read.crc32c),
        bytes,
        blocks: read.blocks,
        runtime_ns: read.runtime_ns,
        bytes_per_s: if seconds == 0.0 { 0.0 } else { (bytes - read.hole_bytes) as f64 / seconds },
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
    if let Some(file) = &options.file {
        file.check(limits)?;
    }
    if value > MAX_CHUNK {
        return Err(JobError::TooLarge { flag: "bs", value: value.to_string(), limit: limit(MAX_CHUNK) });
    }
    Ok(())
}

/// What kernels found.
#[derive(Default)]
struct Read {
    crc32c: u32,
    runtime_ns: u64,
    blocks: u64,
    hole_bytes: u64,
}

/// What kernels read by, from launch to launch.
struct Reader<'a> {
    launcher: Launcher<'a>,
    attachment: Attachment,
    buffer: Buffer,
    tables: Array<[u32; 256]>,
    warps: u32,
}

/// Reads all pieces of a file, each by a launch of its own; holes are read by nobody.
fn digest_pieces(
    ssd: &Ssd,
    target: Target,
    options: &DigestOptions,
    (map, block): (&FileMap, u64),
    control: &Control,
) -> Result<Read, RunError> {
    let mut read = Read::default();
    let longest = map.extents().iter().map(|extent| extent.bytes).max();
    let reader = longest.map(|bytes| Reader::new(ssd, target, options, bytes)).transpose()?;
    for piece in map.pieces(0, map.size())? {
        match (piece, &reader) {
            (Piece::Data { at, bytes }, Some(reader)) => {
                let (crc32c, runtime_ns) = reader.piece(options, (at / block, bytes, block), control)?;
                read.crc32c = crc32c::crc32c_combine(read.crc32c, crc32c, checked_len(bytes)?);
                read.runtime_ns += runtime_ns;
                read.blocks += bytes.div_ceil(block);
            }
            _ => {
                read.crc32c = append_zeroes(read.crc32c, piece.bytes());
                read.hole_bytes += piece.bytes();
            }
        }
        if control.stopped() {
            return Err(RunError::Interrupted);
        }
    }
    Ok(read)
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

impl<'a> Reader<'a> {
    /// For pieces of at most `longest` bytes.
    fn new(
        ssd: &'a Ssd,
        target: Target,
        options: &DigestOptions,
        longest: u64,
    ) -> Result<Reader<'a>, RunError> {
        let chunk = options.bs.0;
        let useful = longest.div_ceil(chunk).div_ceil(LANES.into());
        let warps = u64::from(options.warps.min(ssd.granted_queues())).clamp(1, useful) as u32;
        let attachment = attach(ssd, target, options, warps)?;
        let buffer = attachment.buffer(checked_len(u64::from(warps * LANES) * chunk)?)?;
        let tables = crc_tables(attachment.target())?;
        Ok(Reader { launcher: Launcher::new(ssd, warps as usize, &[]), attachment, buffer, tables, warps })
    }

    /// The CRC-32C of so many bytes from a block on, and the time that it took.
    fn piece(
        &self,
        options: &DigestOptions,
        (first_lba, bytes, block): (u64, u64, u64),
        control: &Control,
    ) -> Result<(u32, u64), RunError> {
        let chunk = options.bs.0;
        let chunks = bytes.div_ceil(chunk);
        let reports = Reports::new(self.attachment.target(), self.warps, chunks)?;
        let args = DigestArgs {
            ns: self.attachment.namespace(),
            buffer: self.buffer.as_ref(),
            mailbox: reports.mailbox.address(),
            results: reports.warps.address(),
            chunks: reports.chunks.address(),
            crc_tables: self.tables.address(),
            first_lba,
            bytes,
            timeout_ns: crate::cpu::nanoseconds(options.deadline),
            chunk_blocks: (chunk / block) as u32,
            ..DigestArgs::new()
        };
        let uses = reports.chunks.lend(reports.warps.lend(self.tables.lend(Regions::new())));
        let (mailbox, warps) = (&reports.mailbox, self.warps);
        let kernel = Kernel { name: "digest", args, warps, together: false, mailbox, limit: None, uses };
        self.launcher.run(&self.attachment, &kernel, control)?;
        if control.stopped() {
            return Err(RunError::Interrupted);
        }
        combine(&reports, options, (bytes, chunk))
    }
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
fn combine(
    reports: &Reports,
    options: &DigestOptions,
    (bytes, chunk): (u64, u64),
) -> Result<(u32, u64), RunError> {
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
    Ok((crc32c, end.saturating_sub(start)))
}

fn failed(nsid: Nsid, lba: Option<Lba>, status: u32) -> RunError {
    warpbell::Error::Command { op: "read".into(), nsid, lba, status: describe_status(status) }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroes_have_their_checksum() {
        for bytes in [0, 1, 2, 3, 511, 4096, 100_001] {
            let expected = crc32c::crc32c(&vec![0; bytes as usize]);
            assert_eq!(append_zeroes(0, bytes), expected, "{bytes}");
        }
    }
}
