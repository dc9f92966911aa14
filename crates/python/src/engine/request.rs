//! One request: the commands that it is split into, and what became of them.

use warpbell::HostQueue;
use warpbell_nvme::command;

use super::progress::Promise;
use super::{Direction, Drive, Transfer};
use crate::error::{Answer, Failure};

/// A request of which commands are in flight, or to come.
pub(super) struct Request {
    /// `None`: a flush.
    transfer: Option<Box<Transfer>>,
    /// Blocks of which commands were pushed.
    pushed: u64,
    pub(super) in_flight: u32,
    failed: Option<Failure>,
    promise: Promise,
}

/// A request that has ended, to be told without the queue's lock.
pub(super) struct Ended {
    transfer: Option<Box<Transfer>>,
    failed: Option<Failure>,
    promise: Promise,
}

impl Ended {
    /// Lets go of the buffer, then ends the future: whoever has waited may close the buffer.
    pub(super) fn tell(self) {
        let answer = self.failed.map_or_else(|| self.transfer.as_ref().map_or(Ok(()), settle), Err);
        drop(self.transfer);
        self.promise.0.end(answer);
    }

    /// What it keeps.
    pub(super) fn take_transfer(&mut self) -> Option<Box<Transfer>> {
        self.transfer.take()
    }
}

/// Makes what an SSD wrote to a GPU's memory visible to the kernels that are launched from now on.
fn settle(transfer: &Box<Transfer>) -> Answer<()> {
    match (transfer.direction, transfer.used.gpu()) {
        (Direction::Read, Some(gpu)) => Ok(gpu.flush_remote_writes().map_err(warpbell::Error::from)?),
        _ => Ok(()),
    }
}

impl Request {
    pub(super) fn new(transfer: Option<Transfer>, promise: Promise) -> Request {
        Request { transfer: transfer.map(Box::new), pushed: 0, in_flight: 0, failed: None, promise }
    }

    pub(super) fn is_flush(&self) -> bool {
        self.transfer.is_none()
    }

    /// Whether no more commands of it are to come: all are pushed, or one has failed.
    pub(super) fn is_pushed(&self) -> bool {
        self.failed.is_some() || self.pushed >= self.transfer.as_ref().map_or(1, |transfer| transfer.blocks)
    }

    /// The first failure counts.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.failed.get_or_insert(failure);
    }

    pub(super) fn ended(self) -> Ended {
        Ended { transfer: self.transfer, failed: self.failed, promise: self.promise }
    }

    /// Pushes the next command: its slot.
    pub(super) fn push(&mut self, queue: &mut HostQueue, drive: &Drive) -> Option<u16> {
        let nsid = drive.nsid.get();
        let (sqe, blocks) = match &self.transfer {
            None => (command::flush(nsid), 1),
            Some(transfer) => {
                let blocks = drive.piece_blocks.min(transfer.blocks - self.pushed);
                let make = match transfer.direction {
                    Direction::Read => command::read,
                    Direction::Write => command::write,
                };
                let sqe = make(nsid, transfer.lba + self.pushed, (blocks - 1) as u16);
                let (at, bytes) = (transfer.at + self.pushed * drive.block, blocks * drive.block);
                (transfer.data.attach(sqe, at, bytes as u32), blocks)
            }
        };
        let token = queue.push(&sqe)?;
        self.pushed += blocks;
        self.in_flight += 1;
        Some(token.slot)
    }

    /// What it asks for, in words.
    pub(super) fn words(&self, block: u64) -> String {
        let Some(transfer) = &self.transfer else { return "flush".to_owned() };
        let verb = match transfer.direction {
            Direction::Read => "read",
            Direction::Write => "write",
        };
        format!("{verb} of {} bytes at {}", transfer.blocks * block, transfer.lba * block)
    }
}
