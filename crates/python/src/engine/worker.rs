//! Drives an SSD's queue of requests, and tells what became of them in words.

use std::sync::Arc;

use crossbeam::queue::SegQueue;
use warpbell::{IoEnd, IoOp, IoOutcome, IoRequest, RequestQueue, RequestQueueSpec, Ssd};

use super::Used;
use super::progress::Promise;
use crate::error::{Answer, Failure};

/// A request: what keeps its buffer, and whose future it ends.
pub(super) type Request = IoRequest<Option<Used>, Promise>;

/// A request that has ended, to be told without the queue's lock.
pub(super) struct Ended {
    memory: Option<Used>,
    answer: Answer<()>,
    promise: Promise,
}

impl Ended {
    /// Lets go of the buffer, then ends the future: whoever has waited may close the buffer.
    pub(super) fn tell(self) {
        drop(self.memory);
        self.promise.0.end(self.answer);
    }
}

pub(super) struct Worker {
    /// Goes before the SSD.
    requests: RequestQueue<Option<Used>, Promise>,
    ended: Vec<IoEnd<Option<Used>, Promise>>,
    _ssd: Arc<Ssd>,
}

impl Worker {
    pub(super) fn new(ssd: Arc<Ssd>, spec: RequestQueueSpec) -> Answer<Worker> {
        Ok(Worker { requests: RequestQueue::new(&ssd, spec)?, ended: Vec::new(), _ssd: ssd })
    }

    /// Deletes the queue.
    pub(super) fn close(self) -> Answer<()> {
        Ok(self.requests.close()?)
    }

    /// Takes what was sent.
    pub(super) fn take(&mut self, sent: &SegQueue<Request>) {
        while let Some(request) = sent.pop() {
            self.requests.add(request);
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Pushes commands as long as there is room, if there is a queue.
    pub(super) fn push(&mut self) {
        self.requests.push();
    }

    /// Pushes and reaps, once. Whether something moved; what ended is added to `ended`.
    pub(super) fn pass(&mut self, look_at_clock: bool, ended: &mut Vec<Ended>) -> bool {
        if self.is_idle() {
            return false;
        }
        if look_at_clock {
            self.requests.check(&mut self.ended);
        }
        self.requests.check_idle(&mut self.ended);
        // All requests fail where there is no queue for them.
        if let Err(error) = self.requests.make_ready() {
            let failure = Failure::from(error);
            ended.extend(self.requests.take_waiting().into_iter().map(|request| Ended {
                memory: request.memory,
                answer: Err(failure.clone()),
                promise: request.tag,
            }));
        }
        let moved = self.requests.push() | self.requests.reap(usize::MAX, &mut self.ended);
        let requests = &self.requests;
        ended.extend(self.ended.drain(..).map(|end| told(requests, end)));
        moved
    }
}

/// What becomes of the future of a request that has ended.
fn told(requests: &RequestQueue<Option<Used>, Promise>, end: IoEnd<Option<Used>, Promise>) -> Ended {
    let (spec, block, name) = (requests.spec(), requests.block(), requests.name());
    let what = || {
        let words = match end.blocks {
            0 => end.op.name().to_owned(),
            blocks => {
                format!("{} of {} bytes at {}", end.op.name(), blocks * block, end.lba.get() * block)
            }
        };
        format!("{words}, {} of {name}", spec.nsid)
    };
    let answer = match end.outcome {
        IoOutcome::Done => settle(end.op, end.memory.as_ref()),
        failed => {
            let status = matches!(failed, IoOutcome::Status(_)).then(|| failed.status_bits());
            Err(Failure::command(format!("{}: {}", what(), failed.describe(spec.timeout)), status))
        }
    };
    Ended { memory: end.memory.flatten(), answer, promise: end.tag }
}

/// Makes what an SSD wrote to a GPU's memory visible to the kernels that are launched from now on.
fn settle(op: IoOp, memory: Option<&Option<Used>>) -> Answer<()> {
    match memory.and_then(|memory| memory.as_ref()?.gpu()) {
        Some(gpu) if op == IoOp::Read => Ok(gpu.flush_remote_writes().map_err(warpbell::Error::from)?),
        _ => Ok(()),
    }
}
