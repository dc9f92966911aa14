//! The I/O of one SSD over one queue of the host's, and requests over several ([`spread`]). Whoever waits for a future
//! drives the queue meanwhile; a thread of the engine's own does so where nobody waits.
//!
//! Nobody holds the queue's lock while a future ends, or while memory is let go of: either may run what takes it again.

mod progress;
mod spread;
mod worker;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam::queue::SegQueue;
use parking_lot::Mutex;
use warpbell::{DataPointers, Gpu, IoMemory, IoOp, IoRequest, Lba, RequestQueueSpec, Ssd};

use crate::buffer::Use;
use crate::error::{Answer, Failure, Kind};
use crate::home::Own;

pub(crate) use progress::Progress;
use progress::Promise;
pub(crate) use spread::{Part, Way, spread};
use worker::{Ended, Request, Worker};

/// Polls without an event before whoever waits sleeps between polls: an SSD answers within them.
const EAGER_POLLS: u32 = 20_000;
/// Between polls then, and between those of the engine's own thread.
const NAP: Duration = Duration::from_micros(100);
/// A nap of the own thread while others drive the queue: each shorter one would take a processor from them.
const LONG_NAP: Duration = Duration::from_micros(500);
/// Naps of the own thread without anything to do before it sleeps until it is woken.
const IDLE_NAPS: u32 = 100;

/// What keeps the memory of a transfer.
pub(crate) enum Used {
    Buffer {
        used: Use,
    },
    /// Of several commands of one request, which counts once.
    Volume {
        used: Arc<Use>,
        buffer: Arc<warpbell::VolumeBuffer>,
    },
}

impl IoMemory for Used {
    fn keep(self) -> Box<dyn Any + Send> {
        match self {
            Used::Buffer { used } => used.keep(),
            Used::Volume { used, buffer } => Box::new((used.keep(), buffer.keep())),
        }
    }
}

impl Used {
    /// The GPU whose memory it is, if it is one's.
    fn gpu(&self) -> Option<&Arc<Gpu>> {
        match self {
            Used::Buffer { used } => used.gpu(),
            // Volumes have their memory on the host.
            Used::Volume { .. } => None,
        }
    }
}

/// Blocks to move. In range, and allowed: the caller has checked that.
pub(crate) struct Transfer {
    /// Reads or writes.
    pub(crate) op: IoOp,
    pub(crate) lba: u64,
    pub(crate) blocks: u64,
    pub(crate) data: DataPointers,
    /// Of the first byte, in the buffer.
    pub(crate) at: u64,
    /// Keeps the buffer's memory until the last command over it has ended.
    pub(crate) used: Used,
}

/// The queue, for all who drive it.
pub(crate) struct Shared {
    /// None once it was stopped.
    worker: Mutex<Option<Worker>>,
    /// Requests that the worker has not taken yet.
    sent: SegQueue<Request>,
    stopping: AtomicBool,
    /// Whether the engine's own thread sleeps until it is woken.
    asleep: AtomicBool,
    /// Whether somebody has driven the queue since the own thread looked last.
    driven: AtomicBool,
}

/// What a look at the queue gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pass {
    Idle,
    /// Commands are in flight, or to come.
    Waiting,
    /// Somebody else drives it.
    Taken,
    /// Commands were pushed or answered.
    Moved,
}

impl Shared {
    /// Takes what was sent, pushes and reaps, once.
    fn pass(&self, look_at_clock: bool) -> Pass {
        let Some(mut guard) = self.worker.try_lock() else { return Pass::Taken };
        let mut ended = Vec::new();
        let Some(worker) = guard.as_mut() else {
            drop(guard);
            self.refuse_sent();
            return Pass::Idle;
        };
        worker.take(&self.sent);
        let pass = match (worker.pass(look_at_clock, &mut ended), worker.is_idle()) {
            (true, _) => Pass::Moved,
            (false, false) => Pass::Waiting,
            (false, true) => Pass::Idle,
        };
        drop(guard);
        ended.into_iter().for_each(Ended::tell);
        pass
    }

    /// Nobody takes these any more. Dropped, they end.
    fn refuse_sent(&self) {
        while self.sent.pop().is_some() {}
    }

    fn send(&self, thread: &Mutex<Option<JoinHandle<()>>>, request: Request) {
        self.sent.push(request);
        if let Some(mut guard) = self.worker.try_lock() {
            if let Some(worker) = guard.as_mut() {
                worker.take(&self.sent);
                worker.push();
            } else {
                drop(guard);
                self.refuse_sent();
            }
        }
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            wake(thread);
        }
    }

    /// Drives the queues for up to `limit`, until this has ended: whether it has.
    pub(crate) fn wait(queues: &[Own<Shared>], progress: &Progress, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let (mut idle, mut passes) = (0u32, 0u32);
        while !progress.is_done() {
            queues.iter().for_each(|queue| queue.driven.store(true, Ordering::Relaxed));
            match Shared::pass_all(queues) {
                Pass::Moved => idle = 0,
                Pass::Taken => _ = progress.wait(NAP),
                Pass::Waiting | Pass::Idle if idle < EAGER_POLLS => std::thread::yield_now(),
                Pass::Waiting | Pass::Idle => _ = progress.wait(NAP),
            }
            (idle, passes) = (idle.saturating_add(1), passes.wrapping_add(1));
            // Others' commands may keep it busy: the time goes on all the same.
            if (passes.is_multiple_of(64) || idle >= EAGER_POLLS) && Instant::now() >= end {
                break;
            }
        }
        progress.is_done()
    }

    /// Looks once: whether this has ended.
    pub(crate) fn poll(queues: &[Own<Shared>], progress: &Progress) -> bool {
        progress.is_done() || (Shared::pass_all(queues) == Pass::Moved && progress.is_done())
    }

    /// A look at each queue: the most that one gave.
    fn pass_all(queues: &[Own<Shared>]) -> Pass {
        queues.iter().map(|queue| queue.pass(false)).max().unwrap_or(Pass::Idle)
    }

    /// The engine's own thread.
    fn run(&self) {
        let (mut idle, mut naps) = (0, 0u32);
        while !self.stopping.load(Ordering::Acquire) {
            naps = naps.wrapping_add(1);
            if self.driven.swap(false, Ordering::Relaxed) && !naps.is_multiple_of(64) {
                std::thread::sleep(LONG_NAP);
                continue;
            }
            idle = if self.pass(naps.is_multiple_of(64)) == Pass::Idle { idle + 1 } else { 0 };
            if idle < IDLE_NAPS {
                std::thread::sleep(NAP);
                continue;
            }
            self.asleep.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            // Whoever sends after this look sees that it sleeps.
            if self.pass(false) == Pass::Idle && !self.stopping.load(Ordering::SeqCst) {
                std::thread::park();
            }
            self.asleep.store(false, Ordering::SeqCst);
            idle = 0;
        }
    }

    /// Waits for all that was sent, and deletes the queue.
    fn drain(&self) -> Answer<()> {
        loop {
            if let Some(mut guard) = self.worker.try_lock()
                && guard.as_ref().is_none_or(|worker| worker.is_idle() && self.sent.is_empty())
            {
                let worker = guard.take();
                drop(guard);
                self.refuse_sent();
                return worker.map_or(Ok(()), Worker::close);
            }
            if self.pass(true) != Pass::Moved {
                std::thread::yield_now();
            }
        }
    }
}

/// What the queue is asked for; `None`: a flush.
fn request(transfer: Option<Transfer>, tag: Promise) -> Request {
    let Some(Transfer { op, lba, blocks, data, at, used }) = transfer else {
        return IoRequest { op: IoOp::Flush, lba: Lba(0), blocks: 0, data: None, memory: None, tag };
    };
    IoRequest { op, lba: Lba(lba), blocks, data: Some((data, at)), memory: Some(used), tag }
}

fn wake(thread: &Mutex<Option<JoinHandle<()>>>) {
    if let Some(thread) = &*thread.lock() {
        thread.thread().unpark();
    }
}

/// The queue and its own thread.
pub(crate) struct Engine {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Engine {
    /// Starts the thread. The queue is made with the first request.
    pub(crate) fn start(ssd: Arc<Ssd>, spec: RequestQueueSpec) -> Answer<Engine> {
        let name = format!("warpbell {}", ssd.name()).chars().take(15).collect();
        let (worker, sent) = (Mutex::new(Some(Worker::new(ssd, spec)?)), SegQueue::new());
        let (stopping, asleep, driven) = Default::default();
        let shared = Arc::new(Shared { worker, sent, stopping, asleep, driven });
        let own = shared.clone();
        let thread = std::thread::Builder::new().name(name).spawn(move || own.run());
        let thread = thread
            .map_err(|error| Failure::new(Kind::Device, format!("thread of the SSD's queue: {error}")))?;
        Ok(Engine { shared, thread: Mutex::new(Some(thread)) })
    }

    /// What drives the queue.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn transfer(&self, transfer: Transfer) -> Arc<Progress> {
        self.send(Some(transfer))
    }

    /// A flush, after all that was sent before it.
    pub(crate) fn flush(&self) -> Arc<Progress> {
        self.send(None)
    }

    /// A transfer, or, without one, a flush, and what is done at its end.
    fn send_then(&self, transfer: Option<Transfer>, then: impl FnOnce(Answer<()>) + Send + 'static) {
        let promise = Promise(Arc::new(Progress::with_then(then)));
        self.shared.send(&self.thread, request(transfer, promise));
    }

    fn send(&self, transfer: Option<Transfer>) -> Arc<Progress> {
        let progress = Arc::<Progress>::default();
        self.shared.send(&self.thread, request(transfer, Promise(progress.clone())));
        progress
    }

    /// Ends the thread, after all that was sent before. Waits for that.
    pub(crate) fn stop(&self) -> Answer<()> {
        let deleted = self.shared.drain();
        self.shared.stopping.store(true, Ordering::SeqCst);
        wake(&self.thread);
        let thread = self.thread.lock().take();
        // The thread itself may let go of the last buffer, and with it of the SSD.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // It runs nothing that panics; if it did, whoever waits drives the queue.
            let _ = thread.join();
        }
        deleted
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Nobody is there to hear of it; the library's log has it.
        let _ = self.stop();
    }
}
