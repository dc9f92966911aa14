//! A log of XFS in memory.

use super::log::{Log, LogPosition};
use crate::{Error, Source};

const BLOCK: usize = 512;
const BLOCKS: usize = 1000;

/// The operations of a record: their number, and the begin of their bytes.
pub type Operations = (u32, [u8; 80]);

/// An unmount.
pub const UNMOUNT: Operations = (1, operations(8, 0x20, [0; 2]));
/// A transaction on the superblock alone.
pub const SUPERBLOCK: Operations = (5, operations(0, 1, [16, 24]));
/// Any other.
pub const TRANSACTION: Operations = (12, operations(0, 1, [16, 56]));

/// The length and flags of the first operation, and the lengths of two more.
const fn operations(length: u8, flags: u8, more: [u8; 2]) -> [u8; 80] {
    let mut bytes = [0; 80];
    bytes[7] = length;
    bytes[9] = flags;
    bytes[19] = more[0];
    bytes[47] = more[1];
    if more[1] == 24 {
        bytes[52] = 0x3C;
        bytes[53] = 0x12;
    }
    bytes
}

/// A log of 1000 blocks, and where it goes on.
pub struct Ring {
    bytes: Vec<u8>,
    cycle: u32,
    block: usize,
}

impl Ring {
    pub fn new() -> Ring {
        Ring { bytes: vec![0; BLOCK * BLOCKS], cycle: 1, block: 0 }
    }

    pub fn log(&self) -> Log {
        Log::new(0, self.bytes.len() as u64).unwrap()
    }

    /// Writes a record with so many bytes behind its header, and says where.
    pub fn append(&mut self, operations: &Operations, bytes: usize) -> LogPosition {
        let position = LogPosition { cycle: self.cycle, block: self.block as u32 };
        let mut header = [0; BLOCK];
        header[..4].copy_from_slice(&0xFEED_BABE_u32.to_be_bytes());
        header[4..8].copy_from_slice(&self.cycle.to_be_bytes());
        header[8..12].copy_from_slice(&2_u32.to_be_bytes());
        header[12..16].copy_from_slice(&(bytes as u32).to_be_bytes());
        let here = u64::from(self.cycle) << 32 | self.block as u64;
        header[16..24].copy_from_slice(&here.to_be_bytes());
        header[40..44].copy_from_slice(&operations.0.to_be_bytes());
        header[320..324].copy_from_slice(&32768_u32.to_be_bytes());
        self.write(&header);
        for block in 0..bytes / BLOCK {
            let mut data = [0xA5; BLOCK];
            if block == 0 {
                data[..80].copy_from_slice(&operations.1);
            }
            data[..4].copy_from_slice(&self.cycle.to_be_bytes());
            self.write(&data);
        }
        position
    }

    fn write(&mut self, block: &[u8; BLOCK]) {
        self.bytes[self.block * BLOCK..][..BLOCK].copy_from_slice(block);
        self.block += 1;
        if self.block == BLOCKS {
            (self.cycle, self.block) = (self.cycle + 1, 0);
        }
    }

    /// Only the first blocks of the last record were written.
    pub fn tear(&mut self, last: LogPosition, written: usize) {
        for block in last.block as usize + written..self.block {
            self.bytes[block * BLOCK..][..4].copy_from_slice(&(last.cycle - 1).to_be_bytes());
        }
    }
}

impl Source for Ring {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn block_size(&self) -> u32 {
        512
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        into.copy_from_slice(&self.bytes[offset as usize..][..into.len()]);
        Ok(())
    }
}
