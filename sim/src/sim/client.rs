//! A host thread with a queue of its own, as an actor: it never waits, and is given turns.

use std::time::Duration;

use warpbell::{Buffer, HostQueue};
use warpbell_driver::{Completion, Outcome, Token};
use warpbell_hw::Iova;
use warpbell_nvme::command::{self, Sqe};

use super::kernel::{self, Op, Record};
use crate::case::Draw;

/// A page for each command.
const PAGE: usize = 4096;
/// `Record::status` of a command that was given up, as kernels report it.
const TIMED_OUT: u32 = warpbell_kernels::abi::STATUS_LIBRARY | warpbell_kernels::abi::STATUS_TIMED_OUT;

/// One host thread.
pub(super) struct Client {
    queue: HostQueue,
    nsid: u32,
    block_bytes: usize,
    ops: Vec<Op>,
    records: Vec<Record>,
    next: usize,
    /// By slot: the command in it.
    in_flight: Vec<Option<usize>>,
}

/// What a client leaves behind.
pub(super) struct Done {
    pub(super) queue: HostQueue,
    pub(super) ops: Vec<Op>,
    pub(super) records: Vec<Record>,
}

impl Client {
    /// The bytes of buffer that a queue of `entries` entries wants.
    pub(super) fn buffer_bytes(entries: u32) -> usize {
        entries as usize * PAGE
    }

    pub(super) fn new(queue: HostQueue, nsid: u32, block_bytes: usize, ops: Vec<Op>) -> Client {
        let slots = queue.depth() as usize + 1;
        let records = vec![Record::default(); ops.len()];
        Client { queue, nsid, block_bytes, ops, records, next: 0, in_flight: vec![None; slots] }
    }

    /// Does one thing, or looks in vain. True if it did something.
    pub(super) fn act(&mut self, draw: &mut Draw, now: Duration) -> bool {
        let now = now.as_nanos() as u64;
        if draw.below(2) == 0 && self.submit(now) {
            return true;
        }
        self.queue.check_deadlines();
        let Some(completion) = self.queue.pop() else { return false };
        self.finish(completion, now);
        true
    }

    fn submit(&mut self, now: u64) -> bool {
        let Some(op) = self.ops.get(self.next).copied() else { return false };
        let (buffer, nsid, bytes) = (self.queue.buffer().clone(), self.nsid, self.block_bytes);
        let token = self.queue.push_with(|token| {
            let at = usize::from(token.slot) * PAGE;
            fill(&buffer, at, bytes, if op.opcode == kernel::WRITE { op.value } else { !op.value });
            entry(&op, nsid, buffer.iova().get() + at as u64)
        });
        let Some(Token { slot, cid }) = token else { return false };
        self.queue.ring();
        self.records[self.next] =
            Record { asked: now, submitted: now, waited: now, cid: cid.0.into(), ..Record::default() };
        self.in_flight[usize::from(slot)] = Some(self.next);
        self.next += 1;
        true
    }

    fn finish(&mut self, completion: Completion, now: u64) {
        let slot = usize::from(completion.token.slot);
        let Some(index) = self.in_flight[slot].take() else { return };
        let record = &mut self.records[index];
        record.answers += 1;
        record.answered = now;
        record.status = match completion.outcome {
            Outcome::Completed(status) => u32::from(status.into_bits()),
            Outcome::TimedOut => TIMED_OUT,
        };
        if completion.is_ok() && self.ops[index].opcode == kernel::READ {
            let buffer = self.queue.buffer();
            record.first[0] = word(buffer, slot * PAGE);
            record.last[0] = word(buffer, slot * PAGE + self.block_bytes - 8);
        }
    }

    /// Whether every command was asked for and answered.
    pub(super) fn is_done(&self) -> bool {
        self.next == self.ops.len() && self.in_flight.iter().all(Option::is_none)
    }

    /// Whether every identifier belongs to a command that was given up: then nothing more can be asked for.
    pub(super) fn is_wedged(&self) -> bool {
        self.queue.outstanding() == self.queue.depth() && self.in_flight.iter().all(Option::is_none)
    }

    /// Asks for nothing more. Returns what it had not asked for.
    pub(super) fn stop(&mut self) -> Vec<Op> {
        self.records.truncate(self.next);
        self.ops.split_off(self.next)
    }

    /// Its queue.
    pub(super) fn qid(&self) -> u16 {
        self.queue.qid().0
    }

    pub(super) fn spurious(&self) -> u64 {
        self.queue.counters().spurious
    }

    pub(super) fn into_done(self) -> Done {
        Done { queue: self.queue, ops: self.ops, records: self.records }
    }
}

fn entry(op: &Op, nsid: u32, iova: u64) -> Sqe {
    let sqe = match op.opcode {
        kernel::FLUSH => return command::flush(nsid),
        kernel::WRITE => command::write(nsid, op.lba, 0),
        _ => command::read(nsid, op.lba, 0),
    };
    let fua = if op.flags & kernel::FUA != 0 { 1 << 30 } else { 0 };
    Sqe { dptr: [Iova(iova).get(), 0], cdw12: sqe.cdw12 | fua, ..sqe }
}

fn fill(buffer: &Buffer, at: usize, bytes: usize, value: u64) {
    for offset in [at, at + bytes - 8] {
        buffer.write(offset, &value.to_le_bytes()).expect("a page for each slot");
    }
}

fn word(buffer: &Buffer, at: usize) -> u64 {
    let mut bytes = [0; 8];
    buffer.read(at, &mut bytes).expect("a page for each slot");
    u64::from_le_bytes(bytes)
}
