//! Read, Write and Verify.

use warpbell_nvme::command::ReadWrite;
use warpbell_nvme::{NvmOpcode, Status};

use super::{Extent, read_failed, write_failed};
use crate::copying::Kind;
use crate::engine::{Command, Engine, Refused, never};
use crate::fault::{Corruption, InjectedFault};
use crate::store::Store;
use crate::test_hooks::Defect;
use crate::transfer::{Direction, each_piece};
use warpbell_hw::Lba;

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
        let flips = corruption.map_or_else(Vec::new, |corruption| self.flips(&extent, corruption));
        if self.is_late() {
            self.defer(extent, false);
        } else {
            match self.kept_off(&extent, Direction::ToClient) {
                Some(_off) => self.deliver(&extent)?,
                None => return self.begin_job(Kind::Read(flips), extent),
            }
        }
        self.statistics.bytes_read += extent.bytes;
        self.corrupt(&flips)
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
            match self.kept_off(&extent, Direction::FromClient) {
                Some(_off) => self.take(&extent)?,
                None => return self.begin_job(Kind::Write, extent),
            }
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

    /// Picks the bits of a read that are to be flipped.
    fn flips(&self, extent: &Extent, corruption: Corruption) -> Vec<Flip> {
        let Some((injector, fault)) = self.injector.as_ref().zip(self.fault) else { return Vec::new() };
        let mut injector = injector.lock();
        let namespace = &self.namespaces[extent.index];
        let mut bits = Vec::new();
        while bits.len() < corruption.bits as usize {
            let bit = injector.pick(corruption, namespace.block_size());
            if !bits.contains(&bit) {
                bits.push(bit);
            }
        }
        let flip = |(lba, offset, mask): (u64, u32, u8)| {
            let at = ((lba - extent.lba) << namespace.shift) + u64::from(offset);
            let record = InjectedFault { lba: Lba(lba), offset: Some(offset), ..fault.injected() };
            Flip { at, mask, record }
        };
        bits.into_iter().map(flip).collect()
    }

    /// Flips bits of what the client got, and records each. Bits in a bit bucket reach nobody and are not recorded.
    fn corrupt(&mut self, flips: &[Flip]) -> Result<(), Refused> {
        let Some(injector) = &self.injector else { return Ok(()) };
        for flip in flips {
            let mut byte = [0];
            let at = flip.at as usize;
            each_piece(&self.view, &self.segments, at, 1, Direction::ToClient, |_, span| {
                span.copy_to(&mut byte);
                span.copy_from(&[byte[0] ^ flip.mask]);
                injector.lock().note(flip.happened(byte[0]));
            })?;
        }
        Ok(())
    }
}

/// A bit of the data of a read that a fault flips.
pub(crate) struct Flip {
    /// The byte in the command's data.
    pub(crate) at: u64,
    pub(crate) mask: u8,
    /// What is known of it before.
    record: InjectedFault,
}

impl Flip {
    /// The record of it, where `byte` is stored.
    pub(crate) fn happened(&self, byte: u8) -> InjectedFault {
        InjectedFault { expected: Some(byte), actual: Some(byte ^ self.mask), ..self.record.clone() }
    }
}
