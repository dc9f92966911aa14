//! The I/O of one SSD: a thread of its own drives one queue of the host's. Calls from Python only send it requests.

mod progress;
mod worker;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam::channel::{Sender, unbounded};
use parking_lot::Mutex;
use warpbell::{DataPointers, Ssd};
use warpbell_hw::Nsid;

use crate::buffer::Use;
use crate::error::{Answer, Failure, Kind};

pub(crate) use progress::Progress;
use progress::Promise;
use worker::Worker;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Blocks to move. In range, and allowed: the caller has checked that.
pub(crate) struct Transfer {
    pub(crate) direction: Direction,
    pub(crate) lba: u64,
    pub(crate) blocks: u64,
    pub(crate) data: DataPointers,
    /// Of the first byte, in the buffer.
    pub(crate) at: u64,
    /// Keeps the buffer's memory until the last command over it has ended.
    pub(crate) used: Use,
}

enum Message {
    Transfer(Box<Transfer>, Promise),
    /// After all that was sent before it.
    Flush(Promise),
    Stop,
}

/// How the queue is driven.
#[derive(Clone, Debug)]
pub(crate) struct Drive {
    pub(crate) nsid: Nsid,
    pub(crate) block: u64,
    /// Commands in flight.
    pub(crate) depth: u32,
    pub(crate) entries: u32,
    /// The most blocks of one command.
    pub(crate) piece_blocks: u64,
    /// The longest that one command may take.
    pub(crate) limit: Duration,
}

/// The thread, and the way to it.
pub(crate) struct Engine {
    sender: Sender<Message>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Engine {
    /// Starts the thread. The queue is made with the first request.
    pub(crate) fn start(ssd: Arc<Ssd>, drive: Drive) -> Answer<Engine> {
        let (sender, receiver) = unbounded();
        let name = format!("warpbell {}", ssd.name()).chars().take(15).collect();
        let work = move || Worker::new(ssd, drive, receiver).run();
        let thread = std::thread::Builder::new().name(name).spawn(work);
        let thread = thread
            .map_err(|error| Failure::new(Kind::Device, format!("thread of the SSD's queue: {error}")))?;
        Ok(Engine { sender, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn transfer(&self, transfer: Transfer) -> Arc<Progress> {
        self.send(|promise| Message::Transfer(Box::new(transfer), promise))
    }

    pub(crate) fn flush(&self) -> Arc<Progress> {
        self.send(Message::Flush)
    }

    fn send(&self, message: impl FnOnce(Promise) -> Message) -> Arc<Progress> {
        let progress = Arc::<Progress>::default();
        // What nobody takes any more is dropped, and ended by that.
        let _ = self.sender.send(message(Promise(progress.clone())));
        progress
    }

    /// Ends the thread, after all that was sent before. Waits for that.
    pub(crate) fn stop(&self) {
        // A thread that has ended takes nothing any more.
        let _ = self.sender.send(Message::Stop);
        let thread = self.thread.lock().take();
        // The thread itself may let go of the last buffer, and with it of the SSD.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // A panic there has ended its futures already.
            let _ = thread.join();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}
