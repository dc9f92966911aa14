//! The host's queue of one SSD of a volume.

use std::sync::Arc;

use warpbell_driver::{Controller, Namespace};
use warpbell_hw::Nsid;

use super::VolumeIoSpec;
use crate::host_io::check_tail;
use crate::volume::{Member, VolumePart, VolumePlace};
use crate::{
    Attachment, DataPointerKind, DataPointers, Error, IoEnd, IoOp, IoOutcome, IoRequest, RequestQueue,
    RequestQueueSpec, Ssd, VolumeBuffer,
};

/// What keeps the memory of a part. A flush has none.
pub(super) type Used = Option<Arc<VolumeBuffer>>;

/// A part, and the request that it is of.
type Tag = (u64, VolumePart<Error>);

/// What became of a part.
pub(super) enum Ended {
    Part { request: u64, answer: Result<(), Error> },
    Again { request: u64, part: VolumePart<Error>, buffer: Used },
}

pub(super) struct Lane {
    /// Goes before the attachment.
    requests: RequestQueue<Used, Tag>,
    ended: Vec<IoEnd<Used, Tag>>,
    _queues: Attachment,
    controller: Arc<Controller>,
    by: DataPointerKind,
    /// Once writes are allowed.
    written: Option<Namespace>,
}

impl Lane {
    pub(super) fn new(member: &Member, spec: &VolumeIoSpec) -> Result<Lane, Error> {
        let queues = member.queues.share();
        let memory = queues.source().clone();
        let (controller, by) = (memory.controller().clone(), memory.data_pointer());
        let (most, depth) = (controller.max_entries(), spec.depth);
        if depth >= most {
            let limit =
                format!("SSD {}: must be at most {}, its queues' entries less one", member.name, most - 1);
            return Err(Error::Argument { object: "depth", value: depth.to_string(), limit });
        }
        let (nsid, entries) = (Nsid(member.reference.ns.nsid), (depth + 1).next_power_of_two().min(most));
        let spec = RequestQueueSpec::new(nsid, depth).entries(entries).timeout(spec.timeout);
        let block = 1 << member.reference.ns.block_shift;
        let requests = RequestQueue::over(memory, member.name.clone(), spec, block);
        Ok(Lane { requests, ended: Vec::new(), _queues: queues, controller, by, written: None })
    }

    pub(super) fn name(&self) -> &str {
        self.requests.name()
    }

    pub(super) fn is_of(&self, ssd: &Ssd) -> bool {
        Arc::ptr_eq(&self.controller, ssd.controller())
    }

    pub(super) fn allow_write(&mut self, ssd: &Ssd) -> Result<(), Error> {
        let namespace = ssd.namespace(Some(self.requests.spec().nsid))?;
        ssd.may_write(namespace)?;
        self.written = Some(namespace.clone());
        Ok(())
    }

    /// Refuses writes to a block that a file fills only in part.
    pub(super) fn check_tail(&self, place: &VolumePlace) -> Result<(), Error> {
        let Some(namespace) = &self.written else { return Ok(()) };
        check_tail(namespace, self.name(), place.lba, place.blocks * self.requests.block())
    }

    /// One more part, behind the others.
    pub(super) fn take(&mut self, request: u64, part: VolumePart<Error>, buffer: Used) {
        let (op, at, VolumePlace { member, lba, blocks }) = (part.op(), part.at(), part.place());
        let memory = buffer.as_ref().and_then(|buffer| buffer.on(member));
        let data = memory.map(|memory| (DataPointers::new(memory, self.by), at));
        self.requests.add(IoRequest { op, lba, blocks, data, memory: buffer, tag: (request, part) });
    }

    pub(super) fn pause(&mut self) {
        self.requests.pause();
    }

    /// Pushes commands as long as there is room, if there is a queue.
    pub(super) fn push(&mut self) {
        self.requests.push();
    }

    /// Pushes and reaps, once.
    pub(super) fn pass(&mut self, told: &mut Vec<Ended>) {
        if self.requests.is_empty() {
            return;
        }
        self.requests.check_idle(&mut self.ended);
        if let Err(error) = self.requests.make_ready() {
            for IoRequest { op, lba, tag: (request, part), .. } in self.requests.take_waiting() {
                let error = self.error(op, lba, format!("there is no queue: {error}"));
                told.push(ended(request, part.end(Err((error, false))), None));
            }
        }
        if !self.requests.push() & !self.requests.reap(usize::MAX, &mut self.ended) {
            self.requests.check(&mut self.ended);
        }
        for end in std::mem::take(&mut self.ended) {
            let IoEnd { op, lba, outcome, memory, tag: (request, part), .. } = end;
            let answered = matches!(outcome, IoOutcome::Status(_));
            let answer = match outcome {
                IoOutcome::Done => Ok(()),
                failed => {
                    let error = self.error(op, lba, failed.describe(self.requests.spec().timeout));
                    Err((error, answered))
                }
            };
            told.push(ended(request, part.end(answer), memory.flatten()));
        }
        self.requests.push();
    }

    /// Deletes the queue.
    pub(super) fn close(self) -> Result<(), Error> {
        self.requests.close()
    }

    fn error(&self, op: IoOp, lba: warpbell_hw::Lba, status: String) -> Error {
        let lba = (op != IoOp::Flush).then_some(lba);
        let nsid = self.requests.spec().nsid;
        Error::Command { op: format!("SSD {}: {}", self.name(), op.name()).into(), nsid, lba, status }
    }
}

fn ended(request: u64, end: Result<Result<(), Error>, VolumePart<Error>>, buffer: Used) -> Ended {
    match end {
        Ok(answer) => Ended::Part { request, answer },
        Err(part) => Ended::Again { request, part, buffer },
    }
}
