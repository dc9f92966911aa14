//! Proof that stores of kernels reach doorbells: a Flush that a kernel rings is answered, or is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use warpbell_base::Time;
use warpbell_driver::{IoQueue, IoQueueOptions, QueueSpec};
use warpbell_gpu::routes::DoorbellAccess;
use warpbell_hw::Nsid;
use warpbell_nvme::command;

use crate::launch::ring;
use crate::queues::memory::Memory;
use crate::queues::pairs::delete_pairs;
use crate::running::Running;
use crate::{Error, OpenTarget};

/// Two Flush commands fit.
const ENTRIES: u32 = 4;
/// For the driver, which sets time aside for each command.
const NEVER: Duration = Duration::from_secs(3600);
/// Between two polls of the completion ring, or of a kernel: others may need the processor.
const PAUSE: Duration = Duration::from_micros(20);
/// For the kernel that rings to end. It stores one word; a kernel that fills the GPU may keep it from beginning.
pub(crate) const KERNEL_LIMIT: Duration = Duration::from_secs(2);

/// A queue pair of its own, so that no trace of a command that was never rung is left once it is deleted.
pub(crate) struct Proof {
    target: OpenTarget,
    source: Memory,
    nsid: Nsid,
    /// There until this is dropped.
    queue: Option<IoQueue>,
    /// Whether the Flush for kernels is in the ring.
    written: bool,
    /// Set while a kernel of a proof is left to itself.
    left: Arc<AtomicBool>,
}

/// A kernel that was left to itself, until this is dropped.
struct Left(Arc<AtomicBool>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// What came of a kernel that rings.
pub(crate) enum Rung {
    Answered,
    /// The Flush is still to be rung.
    Unanswered(Box<Proof>),
    /// The kernel did not end within [`KERNEL_LIMIT`]. It may ring at any time: its pair is deleted when it has ended.
    NotRun,
}

impl Proof {
    /// Creates the pair. The first Flush is the host's: the SSD answers, and has nothing to write back at the second.
    pub(crate) fn begin(
        target: &OpenTarget,
        source: &Memory,
        nsid: Nsid,
        (limit, left): (Duration, &Arc<AtomicBool>),
    ) -> Result<Box<Proof>, Error> {
        let pair = source.controller().create_queue_pair(QueueSpec::new(ENTRIES))?;
        // What is written is rung by hand, and deadlines are counted here.
        let options = IoQueueOptions::new().sq_batch(ENTRIES).timeout(NEVER);
        let queue = Some(IoQueue::new(pair, options)?);
        let mut proof = Proof {
            target: target.clone(),
            source: source.clone(),
            nsid,
            queue,
            written: false,
            left: left.clone(),
        };
        proof.write();
        proof.queue().ring();
        if proof.is_answered(limit) {
            return Ok(Box::new(proof));
        }
        let reason = format!("a Flush that the host rang was not answered within {}", Time(limit));
        Err(Error::doorbells(source.controller().device().as_ref(), reason))
    }

    fn queue(&mut self) -> &mut IoQueue {
        self.queue.as_mut().expect("there until the proof ends")
    }

    fn write(&mut self) {
        let flush = command::flush(self.nsid.get());
        self.queue().push(&flush).expect("a ring with room for it");
    }

    /// Whether the Flush is answered within `limit` of the end of a kernel that rings it by this way. It is one and the
    /// same in each call, until it is answered. An error: no kernel rang.
    pub(crate) fn ring(mut self: Box<Self>, access: &DoorbellAccess, limit: Duration) -> Result<Rung, Error> {
        if !self.written {
            self.write();
            self.written = true;
        } else if self.is_answered(Duration::ZERO) {
            // The way before was slow. Rung again, it would be a doorbell that says nothing new, which is an error.
            return Ok(Rung::Answered);
        }
        let running = self.start(access)?;
        let begun = Instant::now();
        while !running.is_finished()? {
            if begun.elapsed() >= KERNEL_LIMIT {
                return Ok(self.leave(running));
            }
            std::thread::sleep(PAUSE);
        }
        running.join()?;
        Ok(if self.is_answered(limit) { Rung::Answered } else { Rung::Unanswered(self) })
    }

    /// Starts the kernel.
    fn start(&mut self, access: &DoorbellAccess) -> Result<Running, Error> {
        let (target, device) = (self.target.clone(), self.source.controller().device().clone());
        let queue = self.queue();
        let qid = queue.qid();
        let mut running = None;
        queue.ring_by(|tail| {
            let launch = ring::ring(&target, access, (device.doorbells(), qid), tail)?;
            running = Some(launch.start()?);
            Ok::<(), Error>(())
        })?;
        Ok(running.expect("started"))
    }

    /// Leaves pair and kernel to a thread that waits for the kernel. After an error there is no kernel any more: its
    /// context has ended.
    fn leave(self: Box<Self>, running: Running) -> Rung {
        self.left.store(true, Ordering::Release);
        let left = Left(self.left.clone());
        let wait = move || {
            if let Err(error) = running.join() {
                tracing::warn!(%error, "a kernel that was to ring a doorbell");
            }
            drop((self, left));
        };
        if let Err(error) = std::thread::Builder::new().name("proof".to_owned()).spawn(wait) {
            tracing::warn!(%error, "no thread waits for a kernel that was to ring a doorbell");
        }
        Rung::NotRun
    }

    /// Waits for an answer, whatever it says.
    fn is_answered(&mut self, limit: Duration) -> bool {
        let begun = Instant::now();
        loop {
            // After the look at the clock: this thread may have slept for longer than the controller took.
            let late = begun.elapsed() >= limit;
            if self.queue().pop().is_some() {
                return true;
            }
            if late {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Proof {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            // Logged: what the proof showed is what is told.
            _ = delete_pairs(&self.source, &[queue.into_pair()]);
        }
    }
}
