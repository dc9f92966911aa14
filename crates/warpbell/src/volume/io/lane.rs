//! The host's queue of one SSD of a volume: parts of requests that wait, and those in flight.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use warpbell_driver::{Controller, IoQueueOptions, Namespace, Outcome};
use warpbell_hw::{Lba, Nsid};
use warpbell_nvme::{Sqe, command};

use super::VolumeIoSpec;
use crate::volume::{Member, VolumePlace};
use crate::{
    Attachment, DataPointers, Descriptor, Error, HostQueue, HostQueueSpec, Ssd, VolumeBuffer, describe_status,
};

/// Bytes of one command at most: several keep an SSD busier than one.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes of the queue's own buffer, which no command uses.
const OWN_BYTES: usize = 4096;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Read,
    Write,
    Flush,
}

impl Op {
    fn word(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
        }
    }
}

/// What is done, from which byte of the buffer on, and where: in the order in which places are tried, at least one.
pub(super) type Asked = (Op, u64, VecDeque<VolumePlace>, Option<Arc<VolumeBuffer>>);

/// One command of a request.
pub(super) struct Part {
    request: u64,
    op: Op,
    at: u64,
    places: VecDeque<VolumePlace>,
    buffer: Option<Arc<VolumeBuffer>>,
    /// What the first replica said.
    failed: Option<Error>,
}

impl Part {
    pub(super) fn new(request: u64, (op, at, places, buffer): Asked) -> Part {
        Part { request, op, at, places, buffer, failed: None }
    }

    /// The SSD whose turn it is.
    pub(super) fn member(&self) -> usize {
        self.places[0].member
    }

    fn ended(self, answer: Result<(), Error>) -> Ended {
        let answer = answer.map_err(|error| self.failed.unwrap_or(error));
        Ended::Part { request: self.request, answer }
    }

    /// Its end by an SSD that has answered, or the next replica's turn.
    fn refused(mut self, error: Error) -> Ended {
        if self.op != Op::Read || self.places.len() < 2 {
            return self.ended(Err(error));
        }
        self.places.pop_front();
        self.failed.get_or_insert(error);
        Ended::Again(self)
    }
}

/// What became of a part.
pub(super) enum Ended {
    Part { request: u64, answer: Result<(), Error> },
    Again(Part),
}

pub(super) struct Lane {
    /// Goes before the attachment. None until there is something to do, and after it was given up.
    queue: Option<HostQueue>,
    waiting: VecDeque<Part>,
    slots: Vec<Option<Part>>,
    in_flight: u32,
    queues: Attachment,
    controller: Arc<Controller>,
    name: String,
    nsid: Nsid,
    block: u64,
    by: Descriptor,
    spec: VolumeIoSpec,
    /// Blocks of the volume that one command moves.
    pub(super) piece_blocks: u64,
    /// Blocks of the SSD that may be written.
    writable: u64,
}

impl Lane {
    pub(super) fn new(member: &Member, spec: &VolumeIoSpec) -> Result<Lane, Error> {
        let (queues, shift) = (member.queues.share(), member.reference.unit_shift);
        let controller = queues.source().controller().clone();
        let most = controller.max_entries() - 1;
        if spec.depth > most {
            let limit = format!("SSD {}: must be at most {most}, its queues' entries less one", member.name);
            return Err(Error::Argument { object: "depth", value: spec.depth.to_string(), limit });
        }
        let (by, block) = (queues.source().descriptor(), 1 << member.reference.ns.block_shift);
        let bytes = controller.max_transfer_bytes().unwrap_or(u64::MAX);
        let bytes = bytes.min(DataPointers::max_bytes(by)).min(PIECE_BYTES);
        if bytes < block << shift {
            let limit = format!("SSD {}: one command moves at most {bytes} bytes", member.name);
            let value = format!("of {} bytes", block << shift);
            return Err(Error::Argument { object: "block of a volume", value, limit });
        }
        let piece_blocks = (bytes / block).clamp(1 << shift, 1 << 16) >> shift;
        Ok(Lane {
            queue: None,
            waiting: VecDeque::new(),
            slots: Vec::new(),
            in_flight: 0,
            queues,
            controller,
            name: member.name.clone(),
            nsid: Nsid(member.reference.ns.nsid),
            block,
            by,
            spec: spec.clone(),
            piece_blocks,
            writable: 0,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_of(&self, ssd: &Ssd) -> bool {
        Arc::ptr_eq(&self.controller, ssd.controller())
    }

    pub(super) fn allow_write(&mut self, ssd: &Ssd) -> Result<(), Error> {
        let namespace: &Namespace = ssd.namespace(Some(self.nsid))?;
        ssd.may_write(namespace)?;
        self.writable = namespace.exact_bytes.map_or(namespace.blocks, |bytes| bytes / self.block);
        Ok(())
    }

    /// Refuses writes to a block that a file fills only in part.
    pub(super) fn check_tail(&self, place: &VolumePlace) -> Result<(), Error> {
        if place.lba.get() + place.blocks <= self.writable {
            return Ok(());
        }
        let value = format!("{} and {} blocks", place.lba.get(), place.blocks);
        let limit =
            format!("the file of SSD {} has {} whole blocks, which can be written", self.name, self.writable);
        Err(Error::Argument { object: "lba", value, limit })
    }

    pub(super) fn take(&mut self, part: Part) {
        self.waiting.push_back(part);
    }

    pub(super) fn pause(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.pause(Duration::ZERO);
        }
    }

    /// Pushes and reaps, once.
    pub(super) fn pass(&mut self, told: &mut Vec<Ended>) {
        if self.queue.as_ref().is_some_and(|queue| queue.is_retired()) {
            self.give_up(None, told);
        }
        self.make_ready(told);
        self.push();
        while let Some(completion) = self.queue.as_mut().and_then(|queue| queue.pop()) {
            let Some(part) = self.slots[usize::from(completion.token.slot)].take() else { continue };
            self.in_flight -= 1;
            match completion.outcome {
                Outcome::Completed(status) if status.is_ok() => told.push(part.ended(Ok(()))),
                Outcome::Completed(status) => {
                    let error = self.error(&part, describe_status(status.into_bits().into()));
                    told.push(part.refused(error));
                }
                Outcome::TimedOut => self.give_up(Some(part), told),
            }
        }
        self.push();
    }

    /// A queue, where there is something to do.
    fn make_ready(&mut self, told: &mut Vec<Ended>) {
        if self.queue.is_some() || self.waiting.is_empty() {
            return;
        }
        let entries = (self.spec.depth + 1).next_power_of_two().min(self.controller.max_entries());
        match self.host_queue(entries) {
            Ok(queue) => {
                self.slots.clear();
                self.slots.resize_with(queue.depth() as usize, || None);
                self.queue = Some(queue);
            }
            Err(error) => {
                for part in std::mem::take(&mut self.waiting) {
                    let error = self.error(&part, format!("there is no queue: {error}"));
                    told.push(part.ended(Err(error)));
                }
            }
        }
    }

    fn host_queue(&self, entries: u32) -> Result<HostQueue, Error> {
        let source = self.queues.source();
        let spec = HostQueueSpec::new(entries, IoQueueOptions::new().deadline(self.spec.deadline));
        HostQueue::new(source, self.nsid, spec, source.buffer(OWN_BYTES)?)
    }

    /// Pushes commands as long as there is room, if there is a queue.
    pub(super) fn push(&mut self) {
        while let Some(part) = self.waiting.front() {
            // A flush comes after all that was sent before it.
            let room = if part.op == Op::Flush { 1 } else { self.spec.depth };
            let Some(queue) = self.queue.as_mut().filter(|_| self.in_flight < room) else { break };
            let sqe = sqe_of(part, self.nsid.get(), self.block, self.by);
            let Some(token) = queue.push(&sqe) else { break };
            self.in_flight += 1;
            self.slots[usize::from(token.slot)] = self.waiting.pop_front();
        }
        if let Some(queue) = &mut self.queue {
            queue.ring();
        }
    }

    /// The queue goes, and all that is on it, after a command without an answer or a reset. What waits gets another.
    fn give_up(&mut self, silent: Option<Part>, told: &mut Vec<Ended>) {
        if let Err(error) = self.end_queue(silent, told) {
            tracing::warn!(ssd = self.name, %error, "a host queue of a volume was not deleted");
        }
    }

    /// Deletes the queue.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        self.end_queue(None, &mut Vec::new())
    }

    fn end_queue(&mut self, silent: Option<Part>, told: &mut Vec<Ended>) -> Result<(), Error> {
        let why = "its queue was given up, after a reset or a command without an answer";
        let others = self.slots.iter_mut().filter_map(Option::take).map(|part| (part, why.to_owned()));
        let silence = format!("no completion within {:?}", self.spec.deadline);
        let parts: Vec<(Part, String)> =
            silent.map(|part| (part, silence)).into_iter().chain(others).collect();
        self.in_flight = 0;
        let deleted = self.queue.take().map_or(Ok(()), HostQueue::delete);
        let kept = deleted.is_err() && !self.queues.source().is_let_go();
        for (part, status) in parts {
            if kept {
                // The controller may still use the memory.
                self.controller.keep_until_disabled(part.buffer.clone());
            }
            let error = self.error(&part, status);
            told.push(part.ended(Err(error)));
        }
        deleted
    }

    fn error(&self, part: &Part, status: String) -> Error {
        let lba = (part.op != Op::Flush).then(|| part.places[0].lba);
        let op = format!("SSD {}: {}", self.name, part.op.word()).into();
        Error::Command { op, nsid: self.nsid, lba, status }
    }
}

impl Drop for Lane {
    /// What is in flight may move data until the queue is deleted.
    fn drop(&mut self) {
        self.give_up(None, &mut Vec::new());
    }
}

fn sqe_of(part: &Part, nsid: u32, block: u64, by: Descriptor) -> Sqe {
    let VolumePlace { member, lba: Lba(lba), blocks } = part.places[0];
    let make = match part.op {
        Op::Read => command::read,
        Op::Write => command::write,
        Op::Flush => return command::flush(nsid),
    };
    let sqe = make(nsid, lba, (blocks - 1) as u16);
    match part.buffer.as_ref().and_then(|buffer| buffer.on(member)) {
        Some(memory) => DataPointers::new(memory.as_ref(), by).attach(sqe, part.at, (blocks * block) as u32),
        None => unreachable!("a buffer of the volume has a part for each SSD"),
    }
}
