//! Queue pairs, created as many as asked for or not at all.

use std::borrow::Borrow;

use warpbell_driver::{
    Controller, DriverError, IoQueue, IoQueueOptions, Notification, QueuePair, QueueSpec, RingMemory,
};
use warpbell_hw::Nsid;
use warpbell_nvme::command::QueuePriority;

use crate::queues::mapping::RingMapping;
use crate::queues::memory::Memory;
use crate::{AttachOptions, Error};

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
    /// How its completions are noticed.
    pub notification: Notification,
}

/// Creates the queue pairs of an attachment in these rings; on failure those already created are deleted.
pub(crate) fn create_pairs(
    memory: &Memory,
    nsid: Nsid,
    options: &AttachOptions,
    rings: &[RingMapping],
) -> Result<Vec<QueuePair>, Error> {
    let request = QueueRequest {
        entries: options.entries(),
        start: options.start,
        nsid,
        priority: options.priority,
        notification: Notification::Polled,
    };
    let mut pairs = Vec::with_capacity(options.queues as usize);
    for rings in &rings[..options.queues as usize] {
        let rings = (RingMemory::Reserved(rings.sq.clone()), RingMemory::Reserved(rings.cq.clone()));
        match create_pair(memory, request, rings) {
            Ok(pair) => pairs.push(pair),
            Err(error) => {
                // Logged; that there are no queues is the error to tell.
                _ = delete_pairs(memory, &pairs);
                return Err(error);
            }
        }
    }
    Ok(pairs)
}

/// Refuses more queues than the controller granted.
pub(crate) fn check_queues(controller: &Controller, queues: u32) -> Result<(), Error> {
    let granted = u32::from(controller.granted_queues());
    if queues <= granted {
        return Ok(());
    }
    Err(Error::Argument {
        object: "queues",
        value: queues.to_string(),
        limit: format!("the controller granted {granted}"),
    })
}

/// More than there can be warps on a queue: with so many, replacements come whatever kernels do.
const MOST_REPLACEMENTS: u32 = 4096;

/// Whether memory can be set aside for so many replacements.
pub(crate) fn check_replacement_queues(replacement_queues: u32) -> Result<(), Error> {
    if replacement_queues <= MOST_REPLACEMENTS {
        return Ok(());
    }
    let limit = format!("must be at most {MOST_REPLACEMENTS}; each takes as much memory as a queue");
    Err(Error::Argument { object: "replacement_queues", value: replacement_queues.to_string(), limit })
}

/// One queue pair, its rings brought to the wanted position by Flush commands.
pub(crate) fn create_pair(
    memory: &Memory,
    request: QueueRequest,
    (sq_memory, cq_memory): (RingMemory, RingMemory),
) -> Result<QueuePair, Error> {
    let QueueRequest { entries, priority, notification, .. } = request;
    let spec = QueueSpec::new(entries)
        .sq_memory(sq_memory)
        .cq_memory(cq_memory)
        .notification(notification)
        .priority(priority);
    let pair = memory.controller().create_queue_pair(spec)?;
    if request.start == 0 {
        return Ok(pair);
    }
    let mut queue = IoQueue::new(pair, IoQueueOptions::default())?;
    queue.advance_to(request.start, request.nsid)?;
    Ok(queue.into_pair())
}

/// Deletes queue pairs; a failure is logged, and the pair's memory then stays mapped. `Err` if the controller may still
/// execute commands of one of them: why the first was not deleted.
pub(crate) fn delete_pairs<P: Borrow<QueuePair>>(memory: &Memory, pairs: &[P]) -> Result<(), DriverError> {
    let mut kept = Ok(());
    for pair in pairs {
        if let Err(error) = memory.controller().retire_queue_pair(pair.borrow()) {
            tracing::warn!(%error, "queue pair was not deleted");
            if !memory.is_let_go() {
                kept = kept.and(Err(error));
            }
        }
    }
    kept
}
