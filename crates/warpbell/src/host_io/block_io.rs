//! Blocks between a device and the host's memory, by the driver's own queue.

use std::time::Duration;

use warpbell_driver::{Completion, IoQueueOptions, Outcome as Ended};
use warpbell_hw::{Lba, Nsid};
use warpbell_nvme::{Sqe, command};

use super::DataPointers;
use crate::{Error, HostQueue, Ssd, describe_status};

/// Bytes that are in flight at a time.
const CHUNK: usize = 1 << 20;
/// Ring entries of the queue.
const ENTRIES: u32 = 64;
/// The longest that one command may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads and writes whole blocks of one namespace, and waits for them.
///
/// After an error it is to be dropped: a command that timed out keeps its part of the buffer.
#[derive(Debug)]
pub struct BlockIo {
    queue: HostQueue,
    data: DataPointers,
    nsid: Nsid,
    block: u64,
    max_blocks: u64,
}

impl BlockIo {
    /// A queue and a buffer of its own, for one namespace.
    pub fn new(ssd: &Ssd, nsid: Nsid) -> Result<BlockIo, Error> {
        let block = u64::from(ssd.namespace(Some(nsid))?.block_size);
        let by = ssd.data_path().data_pointer;
        let most = ssd.max_command_bytes().min(CHUNK as u64);
        let entries = ENTRIES.min(ssd.controller().max_entries());
        let options = IoQueueOptions::new().timeout(TIMEOUT);
        let buffer = ssd.buffer(CHUNK)?;
        let data = DataPointers::new(buffer.as_ref(), by);
        let queue = ssd.host_queue(entries, options, buffer)?;
        Ok(BlockIo { queue, data, nsid, block, max_blocks: (most / block).clamp(1, 1 << 16) })
    }

    /// Bytes of a block.
    pub fn block_size(&self) -> u64 {
        self.block
    }

    /// Fills `into`, whole blocks, from `lba` on.
    pub fn read(&mut self, lba: Lba, into: &mut [u8]) -> Result<(), Error> {
        let mut next = lba.get();
        for piece in into.chunks_mut(CHUNK) {
            let blocks = piece.len() as u64 / self.block;
            self.transfer(command::read, Lba(next), blocks)?;
            self.queue.buffer().read(0, piece)?;
            next += blocks;
        }
        Ok(())
    }

    /// Writes `from`, whole blocks, from `lba` on.
    pub fn write(&mut self, lba: Lba, from: &[u8]) -> Result<(), Error> {
        let mut next = lba.get();
        for piece in from.chunks(CHUNK) {
            let blocks = piece.len() as u64 / self.block;
            self.queue.buffer().write(0, piece)?;
            self.transfer(command::write, Lba(next), blocks)?;
            next += blocks;
        }
        Ok(())
    }

    /// Makes what was written before durable.
    pub fn flush(&mut self) -> Result<(), Error> {
        let completion = self.queue.execute(&command::flush(self.nsid.get()))?;
        self.ended("flush", &completion, None)
    }

    /// Deletes the queue in good order.
    pub fn finish(self) -> Result<(), Error> {
        self.queue.delete()
    }

    /// Moves `blocks` blocks between `lba` and the buffer's beginning, in as many commands as it takes.
    fn transfer(&mut self, make: fn(u32, u64, u16) -> Sqe, lba: Lba, blocks: u64) -> Result<(), Error> {
        let mut next = 0;
        while next < blocks || self.queue.outstanding() > 0 {
            while next < blocks && self.queue.room() > 0 {
                let count = self.max_blocks.min(blocks - next);
                let sqe = make(self.nsid.get(), lba.get() + next, (count - 1) as u16);
                let bytes = (count * self.block) as u32;
                if self.queue.push(&self.data.attach(sqe, next * self.block, bytes)).is_none() {
                    break;
                }
                next += count;
            }
            self.queue.ring();
            match self.queue.pop() {
                Some(completion) => self.ended("transfer", &completion, Some(lba))?,
                None => self.queue.pause(Duration::ZERO),
            }
        }
        Ok(())
    }

    fn ended(&self, op: &'static str, completion: &Completion, lba: Option<Lba>) -> Result<(), Error> {
        let status = match completion.outcome {
            Ended::Completed(status) if status.is_ok() => return Ok(()),
            Ended::Completed(status) => describe_status(status.into_bits().into()),
            Ended::TimedOut => format!("no completion within {TIMEOUT:?}"),
        };
        Err(Error::Command { op: op.into(), nsid: self.nsid, lba, status })
    }
}
