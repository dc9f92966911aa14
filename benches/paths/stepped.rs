//! A host queue of a soft controller in virtual time. The controller works only when it is stepped, so what is timed
//! is one side alone.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use warpbell::{DataPointers, HostQueue, OpenOptions, Ssd};
use warpbell_driver::IoQueueOptions;
use warpbell_nvme::{Sqe, command};
use warpbell_softctl::SoftDevice;

/// Commands of one batch: what a warp submits under two doorbells.
pub const BATCH: u32 = 64;
const ENTRIES: u32 = 128;

/// The queue, and a command that reads one block.
pub struct Stepped {
    queue: HostQueue,
    device: Arc<SoftDevice>,
    sqe: Sqe,
    _ssd: Ssd,
}

impl Stepped {
    pub fn new() -> anyhow::Result<Stepped> {
        let ssd = Ssd::open(&"soft:size=16m,time=virtual".parse()?, &OpenOptions::default())?;
        let device = ssd.soft().context("a soft controller in virtual time")?.clone();
        let namespace = ssd.namespace(None)?;
        let (nsid, block) = (namespace.nsid.get(), namespace.block_size);
        let options = IoQueueOptions::new().sq_batch(BATCH);
        let queue = ssd.host_queue(ENTRIES, options, ssd.buffer(block as usize)?)?;
        let data = DataPointers::new(queue.buffer().as_ref(), ssd.data_path().data_pointer);
        let sqe = data.attach(command::read(nsid, 0, 0), 0, block);
        let mut stepped = Stepped { queue, device, sqe, _ssd: ssd };
        stepped.submit();
        stepped.answer();
        ensure!(stepped.reap() == BATCH, "the controller answers all commands before time passes");
        Ok(stepped)
    }

    /// Writes a batch and rings the doorbell once.
    pub fn submit(&mut self) {
        for _ in 0..BATCH {
            self.queue.push(&self.sqe);
        }
        self.queue.ring();
    }

    /// The controller's side: fetches, performs and posts until there is nothing left to do.
    pub fn answer(&self) {
        while self.device.step() {}
    }

    /// Takes what is posted, and says how many that were.
    pub fn reap(&mut self) -> u32 {
        let mut reaped = 0;
        while self.queue.pop().is_some() {
            reaped += 1;
        }
        reaped
    }
}
