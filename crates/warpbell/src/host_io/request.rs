//! Requests of the host: what is asked for, their commands, and how they end.

use std::any::Any;
use std::time::Duration;

use warpbell_base::Time;
use warpbell_hw::{Lba, Nsid};
use warpbell_kernels::abi;
use warpbell_nvme::command::{self, DsmCdw11, DsmRange};
use warpbell_nvme::{Sqe, Status};
use zerocopy::IntoBytes as _;

use super::DataPointers;
use crate::{Buffer, describe_status};

/// Bytes of the range of a command that deallocates.
pub(super) const RANGE_BYTES: usize = size_of::<DsmRange>();

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoOp {
    /// Moves blocks to memory.
    Read,
    /// Moves memory to blocks.
    Write,
    /// Makes durable what was written before: it begins when all that was added before it has ended.
    Flush,
    /// Says that blocks are not needed any more (Dataset Management).
    Deallocate,
    /// Makes blocks zero, without data.
    WriteZeroes,
}

impl IoOp {
    /// The word for messages.
    pub fn name(self) -> &'static str {
        match self {
            IoOp::Read => "read",
            IoOp::Write => "write",
            IoOp::Flush => "flush",
            IoOp::Deallocate => "trim",
            IoOp::WriteZeroes => "write of zeroes",
        }
    }

    /// Whether it changes blocks.
    pub fn changes(self) -> bool {
        matches!(self, IoOp::Write | IoOp::Deallocate | IoOp::WriteZeroes)
    }
}

/// What keeps the memory of a request until its last command has ended.
pub trait IoMemory: Send {
    /// What is kept of it until the controller is disabled, where a queue was not deleted and the controller may still use
    /// the memory. The request itself is over: whatever counts those that are not lets go of it.
    fn keep(self) -> Box<dyn Any + Send>;
}

impl IoMemory for Buffer {
    fn keep(self) -> Box<dyn Any + Send> {
        Box::new(self)
    }
}

impl<M: IoMemory> IoMemory for Option<M> {
    fn keep(self) -> Box<dyn Any + Send> {
        match self {
            Some(memory) => memory.keep(),
            None => Box::new(()),
        }
    }
}

/// One request. In range, allowed, and what the SSD offers: whoever adds it has checked that, as
/// [`RequestCheck`](super::RequestCheck) does.
#[derive(Debug)]
pub struct IoRequest<M, T> {
    /// What it does.
    pub op: IoOp,
    /// First block.
    pub lba: Lba,
    /// How many; of a flush none.
    pub blocks: u64,
    /// Where its data lies, and the offset of the first byte there: of a read or a write.
    pub data: Option<(DataPointers, u64)>,
    /// What keeps that memory until the last command over it has ended.
    pub memory: M,
    /// Whatever its owner knows it by.
    pub tag: T,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoOutcome {
    /// All of it is done.
    Done,
    /// The SSD completed one of its commands with this status. Others may have done their part.
    Status(Status),
    /// A command had no completion in time. Its queue is gone.
    TimedOut,
    /// The queue went away under it: by a reset, or by a command of another request that timed out.
    QueueGone,
}

impl IoOutcome {
    /// As kernels see a status: 0 is success, and [`describe_status`](crate::describe_status) has words for all.
    pub fn status_bits(self) -> u32 {
        match self {
            IoOutcome::Done => 0,
            IoOutcome::Status(status) => u32::from(status.into_bits()),
            IoOutcome::TimedOut => abi::STATUS_LIBRARY | abi::STATUS_TIMED_OUT,
            IoOutcome::QueueGone => abi::STATUS_LIBRARY | abi::STATUS_QUEUE_GONE,
        }
    }

    /// The same in words; `limit` is the time that a command had.
    pub fn describe(self, limit: Duration) -> String {
        match self {
            IoOutcome::Done | IoOutcome::Status(_) => describe_status(self.status_bits()),
            IoOutcome::TimedOut => format!("no completion within {}", Time(limit)),
            IoOutcome::QueueGone => {
                "its queue was given up, after a reset or a command without an answer".to_owned()
            }
        }
    }
}

/// A request that has ended.
#[derive(Debug)]
pub struct IoEnd<M, T> {
    /// What it did.
    pub op: IoOp,
    /// Its first block.
    pub lba: Lba,
    /// Its blocks.
    pub blocks: u64,
    /// How it ended.
    pub outcome: IoOutcome,
    /// Its memory; `None`: the SSD may still use it, so that it is kept until the controller is disabled.
    pub memory: Option<M>,
    /// What its owner knows it by.
    pub tag: T,
}

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
