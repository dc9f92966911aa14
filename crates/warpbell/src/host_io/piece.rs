//! One command of a request.

use warpbell_hw::Nsid;
use warpbell_nvme::Sqe;
use warpbell_nvme::command::{self, DsmCdw11, DsmRange};
use zerocopy::IntoBytes as _;

use super::DataPointers;
use super::requests::{IoOp, IoRequest};
use crate::Buffer;

/// Bytes of the range of a command that deallocates.
pub(super) const RANGE_BYTES: usize = size_of::<DsmRange>();

/// A part of a request that is one command.
pub(super) struct Piece {
    /// Blocks before it.
    pub(super) at: u64,
    pub(super) blocks: u64,
    pub(super) block: u64,
    pub(super) nsid: Nsid,
}

impl Piece {
    pub(super) fn command<M, T>(
        &self,
        request: &IoRequest<M, T>,
        (ranges, pointers): &(Buffer, DataPointers),
        slot: u16,
    ) -> Sqe {
        let (nsid, lba) = (self.nsid.get(), request.lba.get() + self.at);
        let last = self.blocks.saturating_sub(1) as u16;
        let with_data = |sqe: Sqe| match &request.data {
            Some((data, offset)) => {
                data.attach(sqe, offset + self.at * self.block, (self.blocks * self.block) as u32)
            }
            None => sqe,
        };
        match request.op {
            IoOp::Read => with_data(command::read(nsid, lba, last)),
            IoOp::Write => with_data(command::write(nsid, lba, last)),
            IoOp::Flush => command::flush(nsid),
            IoOp::WriteZeroes => command::write_zeroes(nsid, lba, last, false),
            IoOp::Deallocate => {
                let range = DsmRange { cattr: 0, nlb: self.blocks as u32, slba: lba };
                let at = usize::from(slot) * RANGE_BYTES;
                ranges.write(at, range.as_bytes()).expect("the buffer has a range for each slot");
                let sqe = command::dataset_management(nsid, 0, DsmCdw11::new().with_ad(true));
                pointers.attach(sqe, at as u64, RANGE_BYTES as u32)
            }
        }
    }
}
