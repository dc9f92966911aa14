//! The thread that drives an SSD's queue: it splits requests, keeps commands in flight, and ends futures.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::Receiver;
use warpbell::{HostQueue, Ssd, describe_status};
use warpbell_driver::{Completion, IoQueueOptions, Outcome};
use warpbell_nvme::command;

use super::progress::Promise;
use super::{Direction, Drive, Message, Transfer};
use crate::buffer::Use;
use crate::error::{Answer, Failure};

/// Polls without an event before the thread sleeps between polls: an SSD answers within them.
const EAGER_POLLS: u32 = 20_000;
/// Between polls then.
const NAP: Duration = Duration::from_micros(50);
/// Bytes of the queue's own buffer, which no command uses.
const OWN_BYTES: usize = 4096;

/// A request of which commands are in flight, or to come.
struct Request {
    /// `None`: a flush.
    transfer: RefCell<Option<Box<Transfer>>>,
    flush: bool,
    /// Blocks of which commands were pushed.
    pushed: Cell<u64>,
    in_flight: Cell<u32>,
    failed: RefCell<Option<Failure>>,
    promise: Promise,
}

impl Request {
    fn new(transfer: Option<Box<Transfer>>, promise: Promise) -> Request {
        let flush = transfer.is_none();
        let (transfer, failed) = (RefCell::new(transfer), RefCell::default());
        Request { transfer, flush, pushed: Cell::new(0), in_flight: Cell::new(0), failed, promise }
    }

    /// Whether no more commands of it are to come: all are pushed, or one has failed.
    fn is_pushed(&self) -> bool {
        let blocks = self.transfer.borrow().as_ref().map_or(1, |transfer| transfer.blocks);
        self.pushed.get() >= blocks || self.failed.borrow().is_some()
    }

    fn fail(&self, failure: Failure) {
        self.failed.borrow_mut().get_or_insert(failure);
    }

    /// Lets go of the buffer, then ends the future: whoever has waited may close the buffer.
    fn end(&self) {
        drop(self.transfer.borrow_mut().take());
        self.promise.0.end(self.failed.borrow_mut().take().map_or(Ok(()), Err));
    }
}

pub(super) struct Worker {
    ssd: Arc<Ssd>,
    drive: Drive,
    receiver: Receiver<Message>,
    /// Requests of which commands are still to be pushed.
    waiting: VecDeque<Rc<Request>>,
    /// Of the command in each slot.
    slots: Vec<Option<Rc<Request>>>,
    in_flight: u32,
    queue: Option<HostQueue>,
    stopping: bool,
}

impl Worker {
    pub(super) fn new(ssd: Arc<Ssd>, drive: Drive, receiver: Receiver<Message>) -> Worker {
        let (waiting, slots) = (VecDeque::new(), Vec::new());
        Worker { ssd, drive, receiver, waiting, slots, in_flight: 0, queue: None, stopping: false }
    }

    pub(super) fn run(mut self) {
        let mut idle = 0;
        while !(self.stopping && self.waiting.is_empty() && self.in_flight == 0) {
            let taken = self.take_messages(idle);
            let moved = self.ready(idle).is_ok() && self.push() | self.reap();
            idle = if taken || moved { 0 } else { idle.saturating_add(1) };
        }
        if let Some(queue) = self.queue.take() {
            self.delete(queue, Vec::new());
        }
    }

    /// Takes what was sent; sleeps where there is nothing to do. Whether there was something.
    fn take_messages(&mut self, idle: u32) -> bool {
        let mut taken = false;
        while let Ok(message) = self.receiver.try_recv() {
            self.take(message);
            taken = true;
        }
        if taken {
            return true;
        }
        let busy = self.in_flight > 0 || !self.waiting.is_empty();
        let message = match (busy, idle >= EAGER_POLLS) {
            (true, false) => {
                std::thread::yield_now();
                return false;
            }
            (true, true) => self.receiver.recv_timeout(NAP).ok(),
            // Nobody can send any more when all senders are gone: that is an end.
            (false, _) => Some(self.receiver.recv().unwrap_or(Message::Stop)),
        };
        message.map(|message| self.take(message)).is_some()
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Transfer(transfer, promise) => {
                self.waiting.push_back(Rc::new(Request::new(Some(transfer), promise)));
            }
            Message::Flush(promise) => self.waiting.push_back(Rc::new(Request::new(None, promise))),
            Message::Stop => self.stopping = true,
        }
    }

    /// A queue, where there is something to do. All requests fail where there is none.
    fn ready(&mut self, idle: u32) -> Result<(), ()> {
        let unsure = self.in_flight == 0 || idle >= EAGER_POLLS;
        if unsure && self.queue.as_ref().is_some_and(|queue| queue.is_retired()) {
            self.give_up(None);
        }
        if self.queue.is_some() || self.waiting.is_empty() {
            return Ok(());
        }
        match self.make_queue() {
            Ok(queue) => {
                self.slots = (0..queue.depth()).map(|_| None).collect();
                self.queue = Some(queue);
                Ok(())
            }
            Err(failure) => {
                for request in self.waiting.drain(..) {
                    request.fail(failure.clone());
                    request.end();
                }
                Err(())
            }
        }
    }

    fn make_queue(&self) -> Answer<HostQueue> {
        let options = IoQueueOptions::new().deadline(self.drive.limit);
        let buffer = self.ssd.buffer(OWN_BYTES)?;
        Ok(self.ssd.host_queue(self.drive.entries, options, buffer)?)
    }

    /// Pushes commands as long as there is room. Whether there were some.
    fn push(&mut self) -> bool {
        let Some(queue) = &mut self.queue else { return false };
        let before = self.in_flight;
        while let Some(request) = self.waiting.front() {
            if request.is_pushed() {
                let done = self.waiting.pop_front();
                // Failed before its last command was pushed, and none is in flight.
                done.filter(|done| done.in_flight.get() == 0).inspect(|done| done.end());
                continue;
            }
            // A flush comes after all that was sent before it.
            let room = if request.flush { self.in_flight == 0 } else { self.in_flight < self.drive.depth };
            let Some(token) = room.then(|| push_one(queue, request, &self.drive)).flatten() else { break };
            self.slots[usize::from(token)] = Some(request.clone());
            self.in_flight += 1;
        }
        queue.ring();
        self.in_flight != before
    }

    /// Takes completions. Whether there were some.
    fn reap(&mut self) -> bool {
        let mut any = false;
        while let Some(completion) = self.queue.as_mut().and_then(|queue| queue.pop()) {
            any = true;
            let request = self.slots[usize::from(completion.token.slot)].take();
            self.in_flight -= 1;
            if let Some(request) = request {
                let timed_out = completion.outcome == Outcome::TimedOut;
                if let Some(failure) = self.failure(&request, &completion) {
                    request.fail(failure);
                }
                request.in_flight.set(request.in_flight.get() - 1);
                if timed_out {
                    self.give_up(Some(request));
                } else if request.in_flight.get() == 0 && request.is_pushed() {
                    self.waiting.retain(|waiting| !Rc::ptr_eq(waiting, &request));
                    request.end();
                }
            }
        }
        any
    }

    fn failure(&self, request: &Request, completion: &Completion) -> Option<Failure> {
        let op = match &*request.transfer.borrow() {
            None => "flush".to_owned(),
            Some(transfer) => {
                let block = self.drive.block;
                let (verb, at) = match transfer.direction {
                    Direction::Read => ("read", transfer.lba * block),
                    Direction::Write => ("write", transfer.lba * block),
                };
                format!("{verb} of {} bytes at {at}", transfer.blocks * block)
            }
        };
        let (nsid, name) = (self.drive.nsid, self.ssd.name());
        match completion.outcome {
            Outcome::Completed(status) if status.is_ok() => None,
            Outcome::Completed(status) => {
                let (bits, words) =
                    (u32::from(status.into_bits()), describe_status(status.into_bits().into()));
                Some(Failure::command(format!("{op}, {nsid} of {name}: {words}"), Some(bits)))
            }
            Outcome::TimedOut => {
                let limit = self.drive.limit;
                Some(Failure::command(
                    format!("{op}, {nsid} of {name}: no completion within {limit:?}"),
                    None,
                ))
            }
        }
    }

    /// After a command without an answer, which may still use its buffer, and after a reset: the queue goes, and all that
    /// is on it.
    fn give_up(&mut self, first: Option<Rc<Request>>) {
        let others = self.slots.iter_mut().filter_map(Option::take);
        let mut requests: Vec<Rc<Request>> = first.into_iter().chain(others).collect();
        requests.sort_by_key(|request| Rc::as_ptr(request) as usize);
        requests.dedup_by(|one, other| Rc::ptr_eq(one, other));
        self.in_flight = 0;
        for request in &requests {
            let text = format!(
                "{}: its queue was given up, after a reset or a command without an answer",
                self.ssd.name()
            );
            request.fail(Failure::command(text, None));
        }
        self.waiting.retain(|waiting| !requests.iter().any(|request| Rc::ptr_eq(waiting, request)));
        if let Some(queue) = self.queue.take() {
            let taken = requests.iter().filter_map(|request| request.transfer.borrow_mut().take());
            self.delete(queue, taken.map(|transfer| transfer.used).collect());
        }
        requests.iter().for_each(|request| request.end());
    }

    /// Deletes a queue. If the controller does not, it keeps the memory that it may still write to.
    fn delete(&self, queue: HostQueue, used: Vec<Use>) {
        if queue.delete().is_err() {
            self.ssd.controller().keep_until_disabled(used);
        }
    }
}

/// Pushes the next command of a request: its slot.
fn push_one(queue: &mut HostQueue, request: &Request, drive: &Drive) -> Option<u16> {
    let nsid = drive.nsid.get();
    let (sqe, blocks) = match &*request.transfer.borrow() {
        None => (command::flush(nsid), 1),
        Some(transfer) => {
            let done = request.pushed.get();
            let blocks = drive.piece_blocks.min(transfer.blocks - done);
            let make = match transfer.direction {
                Direction::Read => command::read,
                Direction::Write => command::write,
            };
            let sqe = make(nsid, transfer.lba + done, (blocks - 1) as u16);
            let (at, bytes) = (transfer.at + done * drive.block, blocks * drive.block);
            (transfer.data.attach(sqe, at, bytes as u32), blocks)
        }
    };
    let token = queue.push(&sqe)?;
    request.pushed.set(request.pushed.get() + blocks);
    request.in_flight.set(request.in_flight.get() + 1);
    Some(token.slot)
}
