//! A queue pair that the host drives by itself, and the memory that its commands use.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use warpbell_driver::{Controller, IoQueue, IoQueueOptions};
use warpbell_hw::Nsid;
use warpbell_nvme::command::QueuePriority;

use crate::pairs::{QueueRequest, create_pair};
use crate::{Buffer, Error, RingPlacement};

/// An I/O queue with the buffer of its commands.
///
/// However it ends, its queue pair is deleted before the buffer is unmapped: until then the controller may move
/// data of a command whose answer nobody waited for. If the pair cannot be deleted, the buffer stays mapped for
/// the life of the process.
#[derive(Debug)]
pub struct HostQueue {
    /// There until it is deleted.
    queue: Option<IoQueue>,
    buffer: Option<Buffer>,
    controller: Arc<Controller>,
}

impl HostQueue {
    pub(crate) fn new(
        controller: Arc<Controller>,
        nsid: Nsid,
        rings: RingPlacement,
        entries: u32,
        options: IoQueueOptions,
        buffer: Buffer,
    ) -> Result<HostQueue, Error> {
        let pair = create_pair(
            &controller,
            QueueRequest { entries, start: 0, nsid, priority: QueuePriority::URGENT, rings },
        )?;
        let queue = IoQueue::new(pair, options)?;
        Ok(HostQueue { queue: Some(queue), buffer: Some(buffer), controller })
    }

    /// The memory of its commands.
    pub fn buffer(&self) -> &Buffer {
        self.buffer.as_ref().expect("kept until the queue is deleted")
    }

    /// Deletes the queue pair in good order, then lets go of the buffer.
    pub fn delete(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(queue) = self.queue.take() else { return Ok(()) };
        let deleted = self.controller.delete_queue_pair(queue.into_pair());
        if deleted.is_err() {
            // The controller may still write to it.
            std::mem::forget(self.buffer.take());
        }
        Ok(deleted?)
    }
}

impl Deref for HostQueue {
    type Target = IoQueue;

    #[inline]
    fn deref(&self) -> &IoQueue {
        self.queue.as_ref().expect("there until it is deleted")
    }
}

impl DerefMut for HostQueue {
    #[inline]
    fn deref_mut(&mut self) -> &mut IoQueue {
        self.queue.as_mut().expect("there until it is deleted")
    }
}

impl Drop for HostQueue {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "a host queue was not deleted; its buffer stays mapped");
        }
    }
}
