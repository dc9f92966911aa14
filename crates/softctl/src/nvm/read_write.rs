//! Read, Write and Verify.

use warpbell_nvme::command::ReadWrite;
use warpbell_nvme::{NvmOpcode, Status};

use super::{Extent, read_failed, write_failed};
use crate::config::Defect;
use crate::engine::{Command, Engine, Refused, never};
use crate::fault::{Corruption, InjectedFault};
use crate::store::Store;
use crate::transfer::{Direction, each_piece};

/// Bytes on their way between a file and the client at a time.
pub(super) const CHUNK: usize = 256 << 10;

/// Bits of CDW12 that Read and Write define. LR changes nothing here.
const FUA_LR: u32 = ReadWrite::new().with_fua(true).with_lr(true).into_bits();
const DTYPE: u32 = 0xf << 20;

impl Engine {
    pub(super) fn read(&mut self, command: Command<'_>) -> Result<(), Refused> {
        let extent = self.extent(command, FUA_LR)?;
        self.map_limited(command, extent.bytes, Direction::ToClient)?;
        let corruption = self.judge()?;
        if self.is_late() {
            self.defer(extent, false);
        } else {
            self.deliver(&extent)?;
        }
        self.statistics.bytes_read += extent.bytes;
        match corruption {
            Some(corruption) => self.corrupt(&extent, corruption),
            None => Ok(()),
        }
    }

    pub(super) fn deliver(&mut self, extent: &Extent) -> Result<(), Refused> {
        let namespace = &self.namespaces[extent.index];
        if let Store::Memory(memory) = &namespace.store {
            let len = extent.bytes as usize;
            return each_piece(&self.view, &self.segments, 0, len, Direction::ToClient, |at, span| {
                memory.read(extent.offset + at as u64, span);
            });
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.deliver_through(extent, &mut scratch);
        self.scratch = scratch;
        result
    }

    fn deliver_through(&self, extent: &Extent, scratch: &mut Vec<u8>) -> Result<(), Refused> {
        let namespace = &self.namespaces[extent.index];
        scratch.resize(CHUNK, 0);
        let mut done = 0;
        while done < extent.bytes {
            let piece = (extent.bytes - done).min(CHUNK as u64) as usize;
            namespace.read(extent.offset + done, &mut scratch[..piece]).map_err(read_failed)?;
            self.send(done as usize, &scratch[..piece])?;
            done += piece as u64;
        }
        Ok(())
    }

    pub(super) fn write(&mut self, command: Command<'_>) -> Result<(), Refused> {
        let extent = self.extent(command, FUA_LR | DTYPE)?;
        if command.sqe.read_write().dtype() != 0 {
            // No directives are offered.
            return Err(never(Status::INVALID_FIELD));
        }
        self.check_writable(&extent)?;
        self.map_limited(command, extent.bytes, Direction::FromClient)?;
        self.judge()?;
        if self.loses_write() {
            return Ok(());
        }
        if self.is_late() {
            self.defer(extent, true);
        } else {
            self.take(&extent)?;
        }
        self.statistics.bytes_written += extent.bytes;
        self.settle(command, &extent)
    }

    fn loses_write(&self) -> bool {
        let writes = self.statistics.io_commands[usize::from(NvmOpcode::WRITE.0)];
        self.defect == Some(Defect::LostWrites) && writes % 8 == 7
    }

    pub(super) fn take(&mut self, extent: &Extent) -> Result<(), Refused> {
        let namespace = &self.namespaces[extent.index];
        if let Store::Memory(memory) = &namespace.store {
            namespace.before_write(extent.offset, extent.bytes).map_err(write_failed)?;
            let len = extent.bytes as usize;
            return each_piece(&self.view, &self.segments, 0, len, Direction::FromClient, |at, span| {
                memory.write(extent.offset + at as u64, span);
            });
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.take_through(extent, &mut scratch);
        self.scratch = scratch;
        result
    }

    fn take_through(&self, extent: &Extent, scratch: &mut Vec<u8>) -> Result<(), Refused> {
        let namespace = &self.namespaces[extent.index];
        scratch.resize(CHUNK, 0);
        let mut done = 0;
        while done < extent.bytes {
            let piece = (extent.bytes - done).min(CHUNK as u64) as usize;
            self.receive(done as usize, &mut scratch[..piece])?;
            namespace.write(extent.offset + done, &scratch[..piece]).map_err(write_failed)?;
            done += piece as u64;
        }
        Ok(())
    }

    /// Verify reads the blocks and moves no data.
    pub(super) fn verify(&mut self, command: Command<'_>) -> Result<(), Refused> {
        let extent = self.extent(command, FUA_LR)?;
        self.judge()?;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(CHUNK, 0);
        let mut result = Ok(());
        let mut done = 0;
        while done < extent.bytes && result.is_ok() {
            let piece = (extent.bytes - done).min(CHUNK as u64) as usize;
            let namespace = &self.namespaces[extent.index];
            result = namespace.read(extent.offset + done, &mut scratch[..piece]).map_err(read_failed);
            done += piece as u64;
        }
        self.scratch = scratch;
        self.statistics.bytes_checked += if result.is_ok() { extent.bytes } else { 0 };
        result
    }

    /// Flips bits of what the client got, and records each. Bits in a bit bucket reach nobody and are not recorded.
    fn corrupt(&mut self, extent: &Extent, corruption: Corruption) -> Result<(), Refused> {
        let Some((injector, fault)) = self.injector.as_ref().zip(self.fault) else { return Ok(()) };
        let record = fault.injected();
        let mut injector = injector.lock();
        let namespace = &self.namespaces[extent.index];
        let mut flipped = Vec::new();
        while flipped.len() < corruption.bits as usize {
            let bit = injector.pick(corruption, namespace.block_size());
            if flipped.contains(&bit) {
                continue;
            }
            flipped.push(bit);
            let (lba, offset, mask) = bit;
            let at = ((lba - extent.lba) << namespace.shift) as usize + offset as usize;
            let mut byte = [0];
            each_piece(&self.view, &self.segments, at, 1, Direction::ToClient, |_, span| {
                span.read(&mut byte);
                span.write(&[byte[0] ^ mask]);
                injector.note(InjectedFault {
                    lba,
                    offset: Some(offset),
                    expected: Some(byte[0]),
                    actual: Some(byte[0] ^ mask),
                    ..record.clone()
                });
            })?;
        }
        Ok(())
    }
}
