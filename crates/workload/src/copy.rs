//! `read` and `write`: blocks between a device and a stream, by the driver's own queue.

use std::io::{Read, Write};

use warpbell::{BlockIo, Ssd};
use warpbell_files::{FileMap, Piece, WritableFile};

use crate::control::Control;
use crate::error::RunError;
use crate::job::{JobError, Limits};
use warpbell_hw::{Lba, Nsid};

/// Bytes that are copied at a time.
const CHUNK: u64 = 1 << 20;

/// Which blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The namespace.
    pub nsid: Nsid,
    /// First block.
    pub lba: Lba,
    /// Blocks.
    pub count: u64,
}

impl Extent {
    /// Checks the extent against the namespace.
    pub fn check(&self, limits: &Limits) -> Result<(), JobError> {
        let (blocks, nsid) = (limits.blocks, limits.nsid);
        let above =
            |flag, value: u64, limit: String| JobError::TooLarge { flag, value: value.to_string(), limit };
        let lba = self.lba.get();
        if lba >= blocks {
            return Err(above("lba", lba, format!("{}, the last block of {nsid}", blocks - 1)));
        }
        if self.count == 0 {
            return Err(JobError::TooSmall { flag: "count", value: "0".into(), limit: "1".into() });
        }
        if self.count > blocks - lba {
            let limit = format!("{}, the blocks from {} to the end", blocks - lba, self.lba);
            return Err(above("count", self.count, limit));
        }
        Ok(())
    }
}

/// Copies blocks to `out`; says how many bytes.
pub fn read_blocks(
    ssd: &Ssd,
    extent: Extent,
    out: &mut impl Write,
    control: &Control,
) -> Result<u64, RunError> {
    extent.check(&Limits::of(ssd, extent.nsid)?)?;
    let mut io = BlockIo::new(ssd, extent.nsid)?;
    let mut bytes = vec![0; CHUNK as usize];
    for (lba, len) in pieces(extent, io.block_size()) {
        if control.stopped() {
            return Err(RunError::Interrupted);
        }
        io.read(lba, &mut bytes[..len])?;
        out.write_all(&bytes[..len])
            .map_err(|source| RunError::Stream { side: "standard output", source })?;
        control.add(1, len as u64);
    }
    let block = io.block_size();
    io.finish()?;
    Ok(extent.count * block)
}

/// Copies `bytes` bytes of a file of namespace `nsid` from `offset` on to `out`; says how many.
pub fn read_pieces(
    ssd: &Ssd,
    nsid: Nsid,
    (map, offset, bytes): (&FileMap, u64, u64),
    out: &mut impl Write,
    control: &Control,
) -> Result<u64, RunError> {
    map.check(&ssd.namespace_id(nsid))?;
    let mut io = BlockIo::new(ssd, nsid)?;
    let mut space = vec![0; CHUNK as usize];
    for piece in map.pieces(offset, bytes)? {
        let mut done = 0;
        while done < piece.bytes() {
            if control.stopped() {
                return Err(RunError::Interrupted);
            }
            let rest = (piece.bytes() - done).min(CHUNK);
            let now = match piece {
                Piece::Data { at, .. } => data(&mut io, at + done, rest, &mut space)?,
                Piece::Hole { .. } => {
                    space[..rest as usize].fill(0);
                    &space[..rest as usize]
                }
            };
            out.write_all(now).map_err(|source| RunError::Stream { side: "standard output", source })?;
            control.add(1, now.len() as u64);
            done += now.len() as u64;
        }
    }
    io.finish()?;
    Ok(bytes)
}

/// Up to `bytes` bytes from byte `at` of the namespace on, read in whole blocks.
fn data<'a>(io: &mut BlockIo, at: u64, bytes: u64, space: &'a mut [u8]) -> Result<&'a [u8], RunError> {
    let block = io.block_size();
    let skipped = at % block;
    let taken = bytes.min(CHUNK - skipped);
    let whole = (skipped + taken).next_multiple_of(block);
    io.read(Lba(at / block), &mut space[..whole as usize])?;
    Ok(&space[skipped as usize..(skipped + taken) as usize])
}

/// Copies `data`, whole blocks, to the device; says how many bytes.
pub fn write_blocks(
    ssd: &Ssd,
    extent: Extent,
    data: &mut impl Read,
    control: &Control,
) -> Result<u64, RunError> {
    let limits = Limits::of(ssd, extent.nsid)?;
    extent.check(&limits)?;
    check_tail(&extent, &limits)?;
    write_all(ssd, extent.nsid, &[extent], data, control)
}

/// Copies `data` to pieces of a file in namespace `nsid`, as [`WritableFile::pieces`] gives them for its blocks; says how many
/// bytes.
pub fn write_pieces(
    ssd: &Ssd,
    nsid: Nsid,
    (file, all): (&WritableFile, &[(u64, u64)]),
    data: &mut impl Read,
    control: &Control,
) -> Result<u64, RunError> {
    file.map().check(&ssd.namespace_id(nsid))?;
    let limits = Limits::of(ssd, nsid)?;
    let block = u64::from(limits.block_size);
    let extents = all.iter().map(|&(at, bytes)| Extent { nsid, lba: Lba(at / block), count: bytes / block });
    let extents: Vec<Extent> = extents.collect();
    for extent in &extents {
        extent.check(&limits)?;
        check_tail(extent, &limits)?;
    }
    write_all(ssd, nsid, &extents, data, control)
}

/// Copies `data` to extents that were checked, and flushes once.
fn write_all(
    ssd: &Ssd,
    nsid: Nsid,
    extents: &[Extent],
    data: &mut impl Read,
    control: &Control,
) -> Result<u64, RunError> {
    let mut io = BlockIo::new(ssd, nsid)?;
    let (mut bytes, mut written) = (vec![0; CHUNK as usize], 0);
    let block = io.block_size();
    for (lba, len) in extents.iter().flat_map(|extent| pieces(*extent, block)) {
        if control.stopped() {
            return Err(RunError::Interrupted);
        }
        data.read_exact(&mut bytes[..len])
            .map_err(|source| RunError::Stream { side: "standard input", source })?;
        io.write(lba, &bytes[..len])?;
        control.add(1, len as u64);
        written += len as u64;
    }
    io.flush()?;
    io.finish()?;
    Ok(written)
}

/// The extent in pieces that fit a chunk: where each begins, and its bytes.
fn pieces(extent: Extent, block: u64) -> impl Iterator<Item = (Lba, usize)> {
    let step = CHUNK / block;
    let len = move |done: u64| (step.min(extent.count - done) * block) as usize;
    (0..extent.count).step_by(step as usize).map(move |done| (extent.lba + done, len(done)))
}

/// Refuses writes to a block that a file fills only in part.
fn check_tail(extent: &Extent, limits: &Limits) -> Result<(), JobError> {
    let block = u64::from(limits.block_size);
    let Some(exact) = limits.exact_bytes else { return Ok(()) };
    let end = extent.lba.get() + extent.count;
    if end * block <= exact {
        return Ok(());
    }
    Err(JobError::Tail {
        flag: "lba",
        value: end - 1,
        tail: exact % block,
        block_size: limits.block_size,
        limit: exact / block * block,
    })
}
