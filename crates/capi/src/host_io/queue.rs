//! A queue of requests that one thread at a time drives.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use warpbell::{IoEnd, IoOp, IoOutcome, IoRequest, RequestCheck, RequestQueue, RequestQueueSpec};
use warpbell_base::Time;
use warpbell_hw::{Lba, Nsid};

use super::buffer::{IoBuffer, Use};
use crate::error::{Answer, Code, Failure};
use crate::handle::{Kind, Table};
use crate::scope::User;
use crate::ssd::{OpenSsd, SSDS};
use crate::types::host_io as types;

static QUEUES: Table<IoQueue> = Table::new(Kind::IoQueue);

const DEPTH: u32 = 32;
const LIMIT: Duration = Duration::from_secs(30);
/// Rings have so many entries at least: in a ring of one command's depth each completion has to be reported to the
/// controller before the next command.
const LEAST_ENTRIES: u32 = 64;
/// Double words: what commands name addresses by.
const ALIGNMENT: usize = 4;
/// Fruitless polls before the thread lets others run, and between two times that it does.
const EAGER_POLLS: u32 = 1024;
const POLLS_PER_YIELD: u32 = 64;
/// Fruitless polls between two looks at whether the controller still knows the queue.
const POLLS_PER_CHECK: u32 = 4096;

/// A queue that a program has. What is in it goes when it is closed, though threads may remember the queue for longer.
pub(crate) struct IoQueue(Mutex<Option<Driven>>);

/// What the thread in a call has to itself.
pub(crate) struct Driven {
    requests: RequestQueue<Option<Use>, u64>,
    check: RequestCheck,
    /// Requests that have ended, and were not polled.
    ended: Vec<IoEnd<Option<Use>, u64>>,
    depth: usize,
    /// Where the data of the last request lay.
    last: Option<Arc<IoBuffer>>,
    /// Polls since the last completion.
    fruitless: u32,
    ssd: Arc<OpenSsd>,
    /// Keeps the SSD open.
    _user: User,
}

impl IoQueue {
    pub(crate) fn create(ssd: u64, asked: &types::IoQueueOptions) -> Answer<u64> {
        let ssd = SSDS.get(ssd)?;
        let user = ssd.users.enter(|| {})?;
        let nsid = ssd.ssd.namespace((asked.nsid != 0).then_some(Nsid(asked.nsid)))?.nsid;
        let most = ssd.ssd.controller().max_entries();
        let depth = if asked.depth == 0 { DEPTH.min(most - 1) } else { asked.depth };
        if depth >= most {
            let limit = format!("queues of {} take 1 to {}", ssd.ssd.name(), most - 1);
            return Err(Failure::invalid(format!("depth {depth}: {limit}")));
        }
        let entries = (depth + 1).next_power_of_two().max(LEAST_ENTRIES).min(most);
        let limit = if asked.timeout_ns == 0 { LIMIT } else { Duration::from_nanos(asked.timeout_ns) };
        let spec = RequestQueueSpec::new(nsid, depth).entries(entries).timeout(limit);
        let check = RequestCheck::new(ssd.ssd.clone(), nsid)?;
        let mut requests = RequestQueue::new(&ssd.ssd, spec)?;
        requests.make_ready()?;
        let (ended, last, fruitless, depth) = (Vec::with_capacity(depth as usize), None, 0, depth as usize);
        let driven = Driven { requests, check, ended, depth, last, fruitless, ssd, _user: user };
        Ok(QUEUES.add(IoQueue(Mutex::new(Some(driven)))))
    }

    pub(crate) fn close(handle: u64) -> Answer<()> {
        let mut taken = None;
        QUEUES.close(handle, |queue| {
            let mut driven = queue.0.try_lock().ok_or_else(in_a_call)?;
            let left = driven.as_ref().map_or(0, Driven::outstanding);
            if left != 0 {
                let remedy = "poll them first (warpbell_io_poll)";
                return Err(Failure::new(
                    Code::Busy,
                    format!("queue: {left} requests were not polled: {remedy}"),
                ));
            }
            taken = driven.take();
            Ok(())
        })?;
        match taken {
            Some(driven) => Ok(driven.requests.close()?),
            None => Ok(()),
        }
    }
}

fn in_a_call() -> Failure {
    let text = "queue: another thread is in a call with it; a queue is used by one thread at a time";
    Failure::new(Code::Busy, text)
}

thread_local! {
    /// The queue of this thread's last call, so that the table is not asked for each request.
    static LAST: RefCell<Option<(u64, Arc<IoQueue>)>> = const { RefCell::new(None) };
}

/// Runs a call on a queue, which is this thread's meanwhile.
pub(crate) fn with_queue(handle: u64, work: impl FnOnce(&mut Driven) -> Answer<()>) -> Answer<()> {
    // A thread that is ending has no memory of its own any more.
    let known = LAST.try_with(|last| match &*last.borrow() {
        Some((number, queue)) if *number == handle => Some(queue.clone()),
        _ => None,
    });
    let queue = match known {
        Ok(Some(queue)) => queue,
        _ => {
            let queue = QUEUES.get(handle)?;
            let _ = LAST.try_with(|last| last.replace(Some((handle, queue.clone()))));
            queue
        }
    };
    let mut driven = queue.0.try_lock().ok_or_else(in_a_call)?;
    match driven.as_mut() {
        Some(driven) => work(driven),
        // The table says that it was closed.
        None => QUEUES.get(handle).map(drop),
    }
}

impl Driven {
    fn outstanding(&self) -> usize {
        self.requests.len() + self.ended.len()
    }

    /// Takes requests in order, and counts them in `taken`.
    pub(crate) fn submit(&mut self, requests: &[types::IoRequest], taken: &mut u32) -> Answer<()> {
        self.requests.check_idle(&mut self.ended);
        self.requests.make_ready()?;
        let answer = requests.iter().try_for_each(|request| {
            self.add(request)?;
            *taken += 1;
            Ok(())
        });
        self.requests.push();
        answer
    }

    fn add(&mut self, asked: &types::IoRequest) -> Answer<()> {
        let op = operation(asked)?;
        if self.outstanding() >= self.depth {
            let text = format!("queue: its depth is {}, and as many requests were not polled", self.depth);
            return Err(Failure::new(Code::Busy, text));
        }
        let blocks = self.check.blocks(op, Lba(asked.lba), asked.bytes)?;
        let (data, memory) = match op {
            IoOp::Read | IoOp::Write => {
                let (data, memory) = self.place(asked)?;
                (Some(data), Some(memory))
            }
            IoOp::Flush | IoOp::Deallocate | IoOp::WriteZeroes => (None, None),
        };
        self.requests.add(IoRequest { op, lba: Lba(asked.lba), blocks, data, memory, tag: asked.tag });
        Ok(())
    }

    /// Where the data of a request lies.
    fn place(&mut self, asked: &types::IoRequest) -> Answer<((warpbell::DataPointers, u64), Use)> {
        let (address, bytes) = (asked.data as usize, asked.bytes as usize);
        if !address.is_multiple_of(ALIGNMENT) {
            return Err(Failure::invalid(format!("data {address:#x}: must be a multiple of {ALIGNMENT}")));
        }
        if let Some(buffer) = self.last.as_ref().filter(|buffer| buffer.has(address, bytes))
            && let Some(user) = buffer.enter()
        {
            return Ok((buffer.data(address), user));
        }
        let found = self.ssd.memory.find(address, bytes);
        let used = found.as_ref().and_then(|buffer| Some((buffer.data(address), buffer.enter()?)));
        self.last = found;
        used.ok_or_else(|| {
            let limit = "must lie in one open buffer of the SSD (warpbell_io_buffer_register)";
            Failure::invalid(format!("data {address:#x} of {bytes} bytes: {limit}"))
        })
    }

    /// Polls until `least` requests have ended, and hands up to `completions` of them over. How many.
    pub(crate) fn poll(
        &mut self,
        least: u32,
        completions: &mut [MaybeUninit<types::IoCompletion>],
        timeout: Duration,
        completed: &mut u32,
    ) -> Answer<()> {
        let most = completions.len();
        if least as usize > most {
            return Err(Failure::invalid(format!("min {least}: must be at most max, {most}")));
        }
        let least = (least as usize).min(self.outstanding());
        let in_time = self.wait(least, most, timeout);
        let count = self.ended.len().min(most);
        for (end, completion) in self.ended.drain(..count).zip(completions) {
            completion.write(completion_of(&end, self.requests.block()));
        }
        *completed = count as u32;
        if in_time {
            return Ok(());
        }
        Err(Failure::new(
            Code::Timeout,
            format!("{count} of {least} requests completed within {}", Time(timeout)),
        ))
    }

    /// Begins what can begin. Where the queue is gone and no other can be made, requests end with it.
    fn push(&mut self) {
        if !self.requests.is_waiting() {
            return;
        }
        if let Err(error) = self.requests.make_ready() {
            tracing::warn!(%error, "a host queue was not made anew");
            self.requests.fail_waiting(&mut self.ended);
        }
        self.requests.push();
    }

    /// Whether so many have ended in time.
    fn wait(&mut self, least: usize, most: usize, timeout: Duration) -> bool {
        let mut end = None;
        loop {
            if self.requests.reap(most, &mut self.ended) {
                self.fruitless = 0;
            }
            self.push();
            self.fruitless = self.fruitless.wrapping_add(1);
            if self.fruitless.is_multiple_of(POLLS_PER_CHECK) {
                self.requests.check(&mut self.ended);
            }
            if self.ended.len() >= least {
                return true;
            }
            if timeout.is_zero() {
                return false;
            }
            if self.fruitless.is_multiple_of(POLLS_PER_YIELD) {
                let now = Instant::now();
                let end = *end.get_or_insert_with(|| now.checked_add(timeout));
                if end.is_some_and(|end| now >= end) {
                    return false;
                }
                if self.fruitless >= EAGER_POLLS {
                    std::thread::yield_now();
                }
            }
        }
    }
}

/// The completion of a request that has ended.
fn completion_of(end: &IoEnd<Option<Use>, u64>, block: u64) -> types::IoCompletion {
    let bytes = if end.outcome == IoOutcome::Done { end.blocks * block } else { 0 };
    types::IoCompletion { tag: end.tag, bytes, status: end.outcome.status_bits(), pad0: 0 }
}

/// What a request asks for, if its fields go with that.
fn operation(asked: &types::IoRequest) -> Answer<IoOp> {
    let op = match asked.op {
        1 => IoOp::Read,
        2 => IoOp::Write,
        3 => IoOp::Flush,
        4 => IoOp::Deallocate,
        5 => IoOp::WriteZeroes,
        other => {
            let limit = "must be from WARPBELL_IO_READ, 1, to WARPBELL_IO_WRITE_ZEROES, 5";
            return Err(Failure::invalid(format!("op {other}: {limit}")));
        }
    };
    if asked.pad0 != 0 {
        return Err(Failure::invalid(format!("pad0 {}: must be 0", asked.pad0)));
    }
    if matches!(op, IoOp::Read | IoOp::Write) {
        if asked.data.is_null() {
            return Err(Failure::invalid("data: is NULL"));
        }
    } else if !asked.data.is_null() {
        return Err(Failure::invalid(format!("data {:p}: a {} has none: NULL", asked.data, op.name())));
    }
    if op == IoOp::Flush && (asked.lba != 0 || asked.bytes != 0) {
        let value = format!("lba {} and {} bytes", asked.lba, asked.bytes);
        return Err(Failure::invalid(format!("{value}: a flush is of the whole namespace: 0 and 0")));
    }
    Ok(op)
}
