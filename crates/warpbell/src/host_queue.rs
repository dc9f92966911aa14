//! A queue pair that the host drives by itself, and the memory that its commands use.

use std::fmt;
use std::ops::{Deref, DerefMut};

use warpbell_driver::{IoQueue, IoQueueOptions, Notification};
use warpbell_hw::Nsid;
use warpbell_nvme::command::QueuePriority;

use crate::queues::memory::Memory;
use crate::queues::pairs::{QueueRequest, create_pair};
use crate::{Buffer, Domains, Error};

warpbell_base::options! {
    /// What a host queue is to be like.
    #[derive(Clone, Debug)]
    pub struct HostQueueSpec {
        /// Ring entries.
        pub entries: u32,
        /// How completions are noticed: with an interrupt, [`IoQueue::wait`] sleeps.
        pub notification: Notification,
        /// How it is driven.
        pub options: IoQueueOptions,
        /// Its priority, where the SSD was opened with weighted round robin.
        pub priority: QueuePriority,
    } no new
}

impl HostQueueSpec {
    /// A polled queue.
    pub fn new(entries: u32, options: IoQueueOptions) -> HostQueueSpec {
        HostQueueSpec {
            entries,
            notification: Notification::Polled,
            options,
            priority: QueuePriority::URGENT,
        }
    }
}

/// An I/O queue with the buffer of its commands.
///
/// However it ends, its queue pair is deleted before the buffer is unmapped: until then the controller may move
/// data of a command whose answer nobody waited for. If the pair cannot be deleted, the buffer stays mapped until
/// the controller is disabled: by the next reset, or when the SSD is dropped.
pub struct HostQueue {
    /// There until it is deleted.
    queue: Option<IoQueue>,
    buffer: Option<Buffer>,
    memory: Memory,
}

impl HostQueue {
    pub(crate) fn new(
        memory: &Memory,
        nsid: Nsid,
        spec: HostQueueSpec,
        buffer: Buffer,
    ) -> Result<HostQueue, Error> {
        let HostQueueSpec { entries, notification, mut options, priority } = spec;
        options.flush |= memory.host_domains() == Domains::Two;
        let request = QueueRequest { entries, start: 0, nsid, priority, notification };
        let pair = create_pair(memory, request, memory.host_rings(entries)?)?;
        let flushes = options.flush;
        let mut queue = IoQueue::new(pair, options)?;
        if let Some(word) = memory.flush_word().filter(|_| flushes) {
            queue.read_back(word);
        }
        Ok(HostQueue { queue: Some(queue), buffer: Some(buffer), memory: memory.clone() })
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
        let deleted = self.memory.controller().delete_queue_pair(queue.into_pair());
        if deleted.is_err() && !self.memory.is_let_go() {
            // The controller may still write to it.
            self.memory.controller().keep_until_disabled(self.buffer.take());
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

impl fmt::Debug for HostQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostQueue").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Drop for HostQueue {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "a host queue was not deleted");
        }
    }
}
