//! `digest`: a kernel reads every block, of a namespace or of a file there, and the CRC-32C of the contents is put together.

use std::time::Duration;

use serde::Serialize;
use warpbell::{
    AttachOptions, Attachment, FileTable, OpenTarget, Regions, SharedMemory, Sharing, Ssd, Target,
    describe_status,
};
use warpbell_files::{Extent, FileMap, Piece, append_zeroes};
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
    pub timeout: Duration,
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
    let read = read_file(ssd, target, options, (&map, block), control)?;
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

/// What the kernel found.
#[derive(Default)]
struct Read {
    crc32c: u32,
    runtime_ns: u64,
    blocks: u64,
    hole_bytes: u64,
}

/// Reads all extents of a file by one launch; holes are read by nobody.
fn read_file(
    ssd: &Ssd,
    target: Target,
    options: &DigestOptions,
    (map, block): (&FileMap, u64),
    control: &Control,
) -> Result<Read, RunError> {
    if map.extents().is_empty() {
        let crc32c = append_zeroes(0, map.size());
        return Ok(Read { crc32c, hole_bytes: map.size(), ..Read::default() });
    }
    let chunk = options.bs.0;
    let chunked = chunked(options, (map, block))?;
    let chunks = chunked.size().div_ceil(chunk);
    let useful = chunks.div_ceil(LANES.into());
    let warps = u64::from(options.warps.min(ssd.granted_queues())).clamp(1, useful) as u32;
    let attachment = attach(ssd, target, options, warps)?;
    let table = FileTable::new(&attachment, &chunked)?;
    let buffer = attachment.buffer(checked_len(u64::from(warps * LANES) * chunk)?)?;
    let tables = crc_tables(attachment.target())?;
    let reports = Reports::new(attachment.target(), warps, chunks)?;
    let args = DigestArgs {
        ns: attachment.namespace(),
        buffer: buffer.as_ref(),
        mailbox: reports.mailbox.address(),
        results: reports.warps.address(),
        chunks: reports.chunks.address(),
        crc_tables: tables.address(),
        file: table.reference(&attachment)?,
        timeout_ns: crate::cpu::nanoseconds(options.timeout),
        chunk_blocks: (chunk / block) as u32,
        ..DigestArgs::new()
    };
    let uses = reports.chunks.lend(reports.warps.lend(tables.lend(Regions::new()))).with(&table.memory());
    let mailbox = &reports.mailbox;
    let kernel = Kernel { name: "digest", args, warps, together: false, mailbox, limit: None, uses };
    Launcher::new(ssd, warps as usize, &[]).run(&attachment, &kernel, control)?;
    if control.stopped() {
        return Err(RunError::Interrupted);
    }
    combine(&reports, options, (map, block))
}

/// The file as the kernel reads it: without its holes, and with room after each extent up to a whole chunk, so that no
/// chunk has parts of two. It ends where the last extent's bytes of the file do.
fn chunked(options: &DigestOptions, (map, block): (&FileMap, u64)) -> Result<FileMap, RunError> {
    let (chunk, count) = (options.bs.0, map.extents().len());
    let (mut extents, mut offset, mut size) = (Vec::with_capacity(count), 0, 0);
    for (index, extent) in map.extents().iter().enumerate() {
        let bytes = extent.bytes.min(map.size() - extent.offset);
        if index + 1 < count && !bytes.is_multiple_of(block) {
            let name = options.file.as_ref().map_or_else(String::new, |file| file.name.clone());
            let reason = format!(
                "{bytes} bytes at offset {} lie together: must be whole blocks of {block} bytes",
                extent.offset
            );
            return Err(JobError::File { name, reason }.into());
        }
        extents.push(Extent { offset, at: extent.at, bytes: bytes.next_multiple_of(block) });
        size = offset + bytes;
        offset += bytes.next_multiple_of(chunk);
    }
    Ok(FileMap::new(size, extents)?.within(map.namespace().cloned()))
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

fn attach(ssd: &Ssd, target: Target, options: &DigestOptions, warps: u32) -> Result<Attachment, RunError> {
    Ok(ssd.attach(
        &AttachOptions::new()
            .target(target)
            .nsid(Some(options.nsid))
            .queues(warps)
            .warps(warps)
            .iodepth(LANES)
            .sharing(Sharing::Exclusive)
            .timeout(options.timeout),
    )?)
}

/// Puts the checksums of chunks and holes together, if all chunks were read.
fn combine(
    reports: &Reports,
    options: &DigestOptions,
    (map, block): (&FileMap, u64),
) -> Result<Read, RunError> {
    let (mut start, mut end) = (u64::MAX, 0);
    let mut failure = None;
    reports.warps.for_each(|_, warp| {
        if warp.errors > 0 {
            failure.get_or_insert((Some(Lba(warp.error_lba)), warp.error_status));
        }
        (start, end) = (start.min(warp.start_ns), end.max(warp.end_ns));
    })?;
    let mut read = Read { runtime_ns: end.saturating_sub(start), ..Read::default() };
    let mut parts = Parts::of(map, options.bs.0)?;
    reports.chunks.for_each(|_, answer| {
        if answer.status != 0 {
            failure.get_or_insert((None, answer.status));
        }
        // Combining takes longer than reading does: of what failed it would be for nothing.
        if failure.is_none() {
            let bytes = parts.next_chunk(&mut read);
            read.crc32c = crc32c::crc32c_combine(read.crc32c, answer.crc32c, bytes as usize);
            read.blocks += bytes.div_ceil(block);
        }
    })?;
    if let Some((lba, status)) = failure {
        return Err(failed(options.nsid, lba, status));
    }
    parts.holes(&mut read);
    Ok(read)
}

/// Chunks and holes of a file, in its order.
struct Parts<I> {
    pieces: I,
    /// Bytes of the extent that is read, which no chunk has had yet.
    left: u64,
    chunk: u64,
}

impl<'a> Parts<Box<dyn Iterator<Item = Piece> + 'a>> {
    fn of(map: &'a FileMap, chunk: u64) -> Result<Self, RunError> {
        Ok(Parts { pieces: Box::new(map.pieces(0, map.size())?), left: 0, chunk })
    }
}

impl<I: Iterator<Item = Piece>> Parts<I> {
    /// Bytes of the next chunk. Holes before it are added to what was read.
    fn next_chunk(&mut self, read: &mut Read) -> u64 {
        if self.left == 0 {
            self.holes(read);
        }
        let bytes = self.left.min(self.chunk);
        self.left -= bytes;
        bytes
    }

    /// Adds holes up to the next extent, or to the end.
    fn holes(&mut self, read: &mut Read) {
        for piece in self.pieces.by_ref() {
            match piece {
                Piece::Data { bytes, .. } => {
                    self.left = bytes;
                    return;
                }
                Piece::Hole { bytes } => {
                    read.crc32c = append_zeroes(read.crc32c, bytes);
                    read.hole_bytes += bytes;
                }
            }
        }
    }
}

fn failed(nsid: Nsid, lba: Option<Lba>, status: u32) -> RunError {
    warpbell::Error::Command { op: "read".into(), nsid, lba, status: describe_status(status) }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(bs: u64) -> DigestOptions {
        let timeout = Duration::from_secs(1);
        DigestOptions { nsid: Nsid(1), bs: ByteSize(bs), warps: 1, timeout, file: None }
    }

    #[test]
    fn a_chunk_has_bytes_of_one_extent() {
        let extent = |offset, at, bytes| Extent { offset, at, bytes };
        // A hole before, one between, extents that touch in the file alone, and a tail.
        let extents = vec![
            extent(512, 10_240, 1536),
            extent(4096, 51_200, 1024),
            extent(5120, 1024, 1024),
            extent(8192, 4096, 512),
        ];
        let map = FileMap::new(8300, extents).unwrap();
        let chunked = chunked(&options(1024), (&map, 512)).unwrap();
        let expected = [
            extent(0, 10_240, 1536),
            extent(2048, 51_200, 1024),
            extent(3072, 1024, 1024),
            extent(4096, 4096, 512),
        ];
        assert_eq!((chunked.extents(), chunked.size()), (&expected[..], 4096 + 108));
        // The same chunks and holes, as the host puts them together.
        let (mut read, mut parts) = (Read::default(), Parts::of(&map, 1024).unwrap());
        let chunks: Vec<u64> = (0..5).map(|_| parts.next_chunk(&mut read)).collect();
        parts.holes(&mut read);
        assert_eq!((&chunks[..], read.hole_bytes), (&[1024, 512, 1024, 1024, 108][..], 512 + 2048 + 2048));
    }

    #[test]
    fn parts_of_blocks_are_read_at_the_end_alone() {
        let extents = [(0, 0, 1024), (8192, 8192, 1024)];
        let extents = extents.map(|(offset, at, bytes)| Extent { offset, at, bytes });
        let map = FileMap::new(9216, extents.to_vec()).unwrap();
        assert!(chunked(&options(4096), (&map, 512)).is_ok());
        let error = chunked(&options(4096), (&map, 4096)).unwrap_err().to_string();
        assert!(
            error.ends_with("1024 bytes at offset 0 lie together: must be whole blocks of 4096 bytes"),
            "{error}"
        );
    }

    #[test]
    fn zeroes_have_their_checksum() {
        for bytes in [0, 1, 2, 3, 511, 4096, 100_001] {
            let expected = crc32c::crc32c(&vec![0; bytes as usize]);
            assert_eq!(append_zeroes(0, bytes), expected, "{bytes}");
        }
    }
}
