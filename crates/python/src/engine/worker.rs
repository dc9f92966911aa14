//! Drives an SSD's queue: splits requests, keeps commands in flight, and collects what has ended.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crossbeam::queue::SegQueue;
use warpbell::{HostQueue, Ssd, describe_status};
use warpbell_driver::{Completion, IoQueueOptions, Outcome};

use super::request::{Ended, Request};
use super::{Drive, Used};
use crate::error::{Answer, Failure};

/// Bytes of the queue's own buffer, which no command uses.
const OWN_BYTES: usize = 4096;

pub(super) struct Worker {
    /// Goes before the SSD.
    queue: Option<HostQueue>,
    ssd: Arc<Ssd>,
    drive: Drive,
    /// Requests by their number.
    requests: HashMap<u64, Request>,
    /// Numbers given so far.
    made: u64,
    /// Requests of which commands are still to be pushed.
    waiting: VecDeque<u64>,
    /// The request of the command in each slot.
    slots: Vec<Option<u64>>,
    in_flight: u32,
}

impl Worker {
    pub(super) fn new(ssd: Arc<Ssd>, drive: Drive) -> Worker {
        let (requests, waiting, slots) = (HashMap::new(), VecDeque::new(), Vec::new());
        Worker { ssd, drive, requests, made: 0, waiting, slots, in_flight: 0, queue: None }
    }

    /// Takes what was sent.
    pub(super) fn take(&mut self, sent: &SegQueue<Request>) {
        while let Some(request) = sent.pop() {
            self.made += 1;
            self.requests.insert(self.made, request);
            self.waiting.push_back(self.made);
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Pushes and reaps, once. Whether something moved; what ended is added to `ended`.
    pub(super) fn pass(&mut self, look_at_clock: bool, ended: &mut Vec<Ended>) -> bool {
        if self.is_idle() {
            return false;
        }
        let queue = self.queue.as_mut().filter(|_| look_at_clock);
        let retired = queue.is_some_and(|queue| {
            queue.check_deadlines();
            queue.is_retired()
        });
        // Between requests, and now and then: a reset takes the queue away.
        if retired || (self.in_flight == 0 && self.queue.as_ref().is_some_and(|queue| queue.is_retired())) {
            self.give_up(None, ended);
        }
        self.make_ready(ended);
        self.push() | self.reap(ended)
    }

    /// A queue, where there is something to do. All requests fail where there is none.
    fn make_ready(&mut self, ended: &mut Vec<Ended>) {
        if self.queue.is_some() || self.waiting.is_empty() {
            return;
        }
        match self.make_queue() {
            Ok(queue) => {
                self.slots = vec![None; queue.depth() as usize];
                self.queue = Some(queue);
            }
            Err(failure) => {
                for number in std::mem::take(&mut self.waiting) {
                    self.fail(number, failure.clone());
                    self.end(number, ended);
                }
            }
        }
    }

    fn make_queue(&self) -> Answer<HostQueue> {
        let options = IoQueueOptions::new().deadline(self.drive.limit);
        let buffer = self.ssd.buffer(OWN_BYTES)?;
        Ok(self.ssd.host_queue(self.drive.entries, options, buffer)?)
    }

    fn fail(&mut self, number: u64, failure: Failure) {
        if let Some(request) = self.requests.get_mut(&number) {
            request.fail(failure);
        }
    }

    fn end(&mut self, number: u64, ended: &mut Vec<Ended>) {
        ended.extend(self.requests.remove(&number).map(Request::ended));
    }

    /// Pushes commands as long as there is room, if there is a queue. Whether there were some.
    pub(super) fn push(&mut self) -> bool {
        let Some(queue) = &mut self.queue else { return false };
        let before = self.in_flight;
        while let Some(number) = self.waiting.front() {
            let Some(request) = self.requests.get_mut(number).filter(|request| !request.is_pushed()) else {
                self.waiting.pop_front();
                continue;
            };
            // A flush comes after all that was sent before it.
            let room =
                if request.is_flush() { self.in_flight == 0 } else { self.in_flight < self.drive.depth };
            let Some(slot) = room.then(|| request.push(queue, &self.drive)).flatten() else { break };
            self.slots[usize::from(slot)] = Some(*number);
            self.in_flight += 1;
        }
        queue.ring();
        self.in_flight != before
    }

    /// Takes completions. Whether there were some.
    fn reap(&mut self, ended: &mut Vec<Ended>) -> bool {
        let mut any = false;
        while let Some(completion) = self.queue.as_mut().and_then(|queue| queue.pop()) {
            any = true;
            let Some(number) = self.slots[usize::from(completion.token.slot)].take() else { continue };
            self.in_flight -= 1;
            let Some(request) = self.requests.get_mut(&number) else { continue };
            request.in_flight -= 1;
            if !completion.is_ok() {
                let failure = failure_of(&self.ssd, &self.drive, request, &completion);
                request.fail(failure);
            }
            if completion.outcome == Outcome::TimedOut {
                self.give_up(Some(number), ended);
            } else if request.in_flight == 0 && request.is_pushed() {
                self.end(number, ended);
            }
        }
        any
    }

    /// After a command without an answer, which may still use its buffer, and after a reset: the queue goes, and all that
    /// is on it.
    fn give_up(&mut self, first: Option<u64>, ended: &mut Vec<Ended>) {
        let on_it: Vec<u64> =
            first.into_iter().chain(self.slots.iter_mut().filter_map(Option::take)).collect();
        let mut gone = Vec::new();
        for number in on_it {
            let name = self.ssd.name();
            let text =
                format!("{name}: its queue was given up, after a reset or a command without an answer");
            self.fail(number, Failure::command(text, None));
            self.end(number, &mut gone);
        }
        self.in_flight = 0;
        if self.queue.take().is_some_and(|queue| queue.delete().is_err()) {
            // The controller may still write to their memory.
            let taken = gone.iter_mut().filter_map(Ended::take_transfer);
            let used: Vec<Used> = taken.map(|transfer| transfer.used).collect();
            self.ssd.controller().keep_until_disabled(used);
        }
        ended.append(&mut gone);
    }
}

fn failure_of(ssd: &Ssd, drive: &Drive, request: &Request, completion: &Completion) -> Failure {
    let what = format!("{}, {} of {}", request.words(drive.block), drive.nsid, ssd.name());
    match completion.outcome {
        Outcome::Completed(status) => {
            let bits = u32::from(status.into_bits());
            Failure::command(format!("{what}: {}", describe_status(bits)), Some(bits))
        }
        Outcome::TimedOut => {
            Failure::command(format!("{what}: no completion within {:?}", drive.limit), None)
        }
    }
}
