//! `read` and `write`: blocks between a device and a stream, by the driver's own queue.

use std::io::{Read, Write};
use std::time::Duration;

use warpbell::driver::{Completion, IoQueueOptions, Outcome as Ended};
use warpbell::nvme::{Sqe, command};
use warpbell::{HostQueue, Ssd};

use crate::control::Control;
use crate::data::DataMap;
use crate::error::RunError;
use crate::job::{JobError, Limits};
use crate::status::describe;

/// Bytes that are in flight at a time.
const CHUNK: u64 = 1 << 20;
/// Ring entries of the queue.
const ENTRIES: u32 = 64;
/// The longest that one command may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Which blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The namespace.
    pub nsid: u32,
    /// First block.
    pub lba: u64,
    /// Blocks.
    pub count: u64,
}

impl Extent {
    /// Checks the extent against the namespace.
    pub fn check(&self, limits: &Limits) -> Result<(), JobError> {
        let (blocks, nsid) = (limits.blocks, limits.nsid);
        let above =
            |flag, value: u64, limit: String| JobError::TooLarge { flag, value: value.to_string(), limit };
        if self.lba >= blocks {
            return Err(above(
                "lba",
                self.lba,
                format!("{}, the last block of namespace {nsid}", blocks - 1),
            ));
        }
        if self.count == 0 {
            return Err(JobError::TooSmall { flag: "count", value: "0".into(), limit: "1".into() });
        }
        if self.count > blocks - self.lba {
            let limit = format!("{}, the blocks from LBA {} to the end", blocks - self.lba, self.lba);
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
    let mut copier = Copier::new(ssd, extent.nsid)?;
    let mut bytes = vec![0; CHUNK as usize];
    for (lba, blocks) in copier.pieces(extent) {
        if control.stopped() {
            return Err(RunError::Interrupted);
        }
        let len = (blocks * copier.block) as usize;
        copier.transfer(command::read, lba, blocks)?;
        copier.queue.buffer().window().read(0, &mut bytes[..len])?;
        out.write_all(&bytes[..len])
            .map_err(|source| RunError::Stream { side: "standard output", source })?;
        control.add(1, len as u64);
    }
    copier.finish()?;
    Ok(extent.count * u64::from(Limits::of(ssd, extent.nsid)?.block_size))
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
    let mut copier = Copier::new(ssd, extent.nsid)?;
    let mut bytes = vec![0; CHUNK as usize];
    for (lba, blocks) in copier.pieces(extent) {
        if control.stopped() {
            return Err(RunError::Interrupted);
        }
        let len = (blocks * copier.block) as usize;
        data.read_exact(&mut bytes[..len])
            .map_err(|source| RunError::Stream { side: "standard input", source })?;
        copier.queue.buffer().window().write(0, &bytes[..len])?;
        copier.transfer(command::write, lba, blocks)?;
        control.add(1, len as u64);
    }
    copier.flush(extent.nsid)?;
    copier.finish()?;
    Ok(extent.count * u64::from(limits.block_size))
}

/// Refuses writes to a block that a file fills only in part.
fn check_tail(extent: &Extent, limits: &Limits) -> Result<(), JobError> {
    let block = u64::from(limits.block_size);
    let Some(exact) = limits.exact_bytes else { return Ok(()) };
    if (extent.lba + extent.count) * block <= exact {
        return Ok(());
    }
    Err(JobError::Tail {
        flag: "lba",
        value: extent.lba + extent.count - 1,
        tail: exact % block,
        block_size: limits.block_size,
        limit: exact / block * block,
    })
}

/// A queue and a buffer for one stream.
struct Copier {
    queue: HostQueue,
    data: DataMap,
    nsid: u32,
    block: u64,
    max_blocks: u64,
}

impl Copier {
    fn new(ssd: &Ssd, nsid: u32) -> Result<Copier, RunError> {
        let limits = Limits::of(ssd, nsid)?;
        let block = u64::from(limits.block_size);
        let max = limits.max_transfer_bytes.unwrap_or(CHUNK).min(CHUNK);
        let entries = ENTRIES.min(limits.max_entries);
        let options = IoQueueOptions { deadline: DEADLINE, ..IoQueueOptions::default() };
        let buffer = ssd.buffer(CHUNK as usize)?;
        let data = DataMap::new(buffer.as_ref(), ssd.data_path().descriptor);
        let queue = ssd.host_queue(entries, options, buffer)?;
        Ok(Copier { queue, data, nsid, block, max_blocks: (max / block).clamp(1, 1 << 16) })
    }

    /// The extent in pieces that fit the buffer.
    fn pieces(&self, extent: Extent) -> impl Iterator<Item = (u64, u64)> + use<> {
        let step = CHUNK / self.block;
        let end = extent.lba + extent.count;
        (extent.lba..end).step_by(step as usize).map(move |lba| (lba, step.min(end - lba)))
    }

    /// Moves `blocks` blocks between `lba` and the buffer's beginning, in as many commands as it takes.
    fn transfer(&mut self, make: fn(u32, u64, u16) -> Sqe, lba: u64, blocks: u64) -> Result<(), RunError> {
        let mut next = 0;
        while next < blocks || self.queue.outstanding() > 0 {
            while next < blocks && self.queue.room() > 0 {
                let count = self.max_blocks.min(blocks - next);
                let sqe = make(self.nsid, lba + next, (count - 1) as u16);
                let bytes = (count * self.block) as u32;
                if self.queue.push(&self.data.attach(sqe, next * self.block, bytes)).is_none() {
                    break;
                }
                next += count;
            }
            self.queue.ring();
            match self.queue.pop() {
                Some(completion) => self.ended(&completion, lba)?,
                None => self.queue.pause(Duration::ZERO),
            }
        }
        Ok(())
    }

    fn flush(&mut self, nsid: u32) -> Result<(), RunError> {
        let completion = self.queue.execute(&command::flush(nsid))?;
        self.ended(&completion, 0)
    }

    fn ended(&self, completion: &Completion, lba: u64) -> Result<(), RunError> {
        let status = match completion.outcome {
            Ended::Completed(status) if status.is_ok() => return Ok(()),
            Ended::Completed(status) => describe(status.into_bits().into()),
            Ended::TimedOut => format!("no completion within {DEADLINE:?}"),
        };
        let op = "transfer".to_owned();
        Err(RunError::Command { op, nsid: self.nsid, lba: Some(lba), status })
    }

    fn finish(self) -> Result<(), RunError> {
        Ok(self.queue.delete()?)
    }
}
