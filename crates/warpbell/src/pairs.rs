//! Queue pairs, created as many as asked for or not at all.

use warpbell_driver::{Controller, IoQueue, IoQueueOptions, QueuePair, QueueSpec, RingMemory};
use warpbell_hw::Nsid;
use warpbell_nvme::command::QueuePriority;

use crate::{AttachOptions, Error, RingPlacement};

/// One queue pair to create.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueRequest {
    /// Ring entries.
    pub entries: u32,
    /// The running index at which both rings are to stand, modulo their laps.
    pub start: u64,
    /// The namespace that Flush commands go to, to get there.
    pub nsid: Nsid,
    /// The priority, with weighted round robin.
    pub priority: QueuePriority,
    /// Where its rings lie.
    pub rings: RingPlacement,
}

/// Creates the queue pairs of an attachment; on failure those already created are deleted.
pub(crate) fn create_pairs(
    controller: &Controller,
    nsid: Nsid,
    rings: RingPlacement,
    options: &AttachOptions,
) -> Result<Vec<QueuePair>, Error> {
    let granted = u32::from(controller.granted_queues());
    if options.queues > granted {
        return Err(Error::Argument {
            object: "queues",
            value: options.queues.to_string(),
            limit: format!("the controller granted {granted}"),
        });
    }
    let request = QueueRequest {
        entries: options.entries(),
        start: options.start,
        nsid,
        priority: options.priority,
        rings,
    };
    let mut pairs = Vec::with_capacity(options.queues as usize);
    for _ in 0..options.queues {
        match create_pair(controller, request) {
            Ok(pair) => pairs.push(pair),
            Err(error) => {
                delete_pairs(controller, pairs);
                return Err(error);
            }
        }
    }
    Ok(pairs)
}

/// One queue pair, its rings brought to the wanted position by Flush commands.
pub(crate) fn create_pair(controller: &Controller, request: QueueRequest) -> Result<QueuePair, Error> {
    let sq_memory = match request.rings {
        RingPlacement::Host => RingMemory::Host,
        RingPlacement::Cmb => RingMemory::Controller,
    };
    let spec = QueueSpec { sq_memory, priority: request.priority, ..QueueSpec::new(request.entries) };
    let pair = controller.create_queue_pair(spec)?;
    if request.start == 0 {
        return Ok(pair);
    }
    let mut queue = IoQueue::new(pair, IoQueueOptions::default())?;
    queue.advance_to(request.start, request.nsid)?;
    Ok(queue.into_pair())
}

/// Deletes queue pairs; a failure is logged, and the pair's memory then stays mapped.
pub(crate) fn delete_pairs(controller: &Controller, pairs: Vec<QueuePair>) {
    for pair in pairs {
        if let Err(error) = controller.delete_queue_pair(pair) {
            tracing::warn!(%error, "queue pair was not deleted");
        }
    }
}
