//! An I/O queue pair: two rings, two doorbells, and the memory behind them.

use std::sync::Arc;

use warpbell_hw::{CqRing, Device, DmaBuffer, Doorbell, Iova, Qid, SqRing, Window};
use warpbell_nvme::command::QueuePriority;

use crate::controller_memory::ControllerRing;
use crate::interrupts::Vector;
use crate::queue_ids::QueueBook;
use crate::reserve::RingReservation;

/// Where a ring lies.
#[derive(Debug, Default)]
pub enum RingMemory {
    /// Fresh host memory.
    #[default]
    Host,
    /// Memory that is mapped for DMA already, such as GPU memory; the ring begins at its first byte.
    Buffer(DmaBuffer),
    /// The controller memory buffer (CMB); submission rings only.
    Controller,
    /// Memory that the controller knows under an address of its own.
    Fixed {
        /// The memory as this process sees it.
        window: Window,
        /// Where the controller sees its first byte.
        iova: Iova,
    },
    /// Memory that was set aside for rings, and that no other pair uses.
    Reserved(RingReservation),
}

/// How completions of a queue are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notification {
    /// By polling: the controller does not interrupt.
    #[default]
    Polled,
    /// By interrupts of a vector that the driver chooses: one of its own while there are enough, else a shared one.
    Interrupt,
    /// By interrupts of this vector.
    Vector(u16),
}

/// What an I/O queue pair is to be like.
#[derive(Debug)]
pub struct QueueSpec {
    /// Entries of each ring: a power of two from 2 to the controller's limit. One fewer can be outstanding.
    pub entries: u32,
    /// Where the submission ring lies.
    pub sq_memory: RingMemory,
    /// Where the completion ring lies.
    pub cq_memory: RingMemory,
    /// How its completions are noticed. Kernels poll.
    pub notification: Notification,
    /// The priority, where the controller arbitrates by weighted round robin.
    pub priority: QueuePriority,
}

impl QueueSpec {
    /// A polled queue pair in host memory.
    pub fn new(entries: u32) -> QueueSpec {
        QueueSpec {
            entries,
            sq_memory: RingMemory::Host,
            cq_memory: RingMemory::Host,
            notification: Notification::Polled,
            priority: QueuePriority::URGENT,
        }
    }
}

/// The memory of one ring. Mappings are undone when it is dropped.
#[derive(Debug)]
pub(crate) enum RingBacking {
    Buffer(DmaBuffer),
    Controller(ControllerRing),
    Fixed { window: Window, iova: Iova },
    Reserved(RingReservation),
}

impl RingBacking {
    pub(crate) fn window(&self) -> &Window {
        match self {
            RingBacking::Buffer(buffer) => buffer.window(),
            RingBacking::Controller(ring) => ring.window(),
            RingBacking::Fixed { window, .. } => window,
            RingBacking::Reserved(memory) => memory.window(),
        }
    }

    pub(crate) fn iova(&self) -> Iova {
        match self {
            RingBacking::Buffer(buffer) => buffer.iova(),
            RingBacking::Controller(ring) => ring.iova(),
            RingBacking::Fixed { iova, .. } => *iova,
            RingBacking::Reserved(memory) => memory.iova(),
        }
    }
}

/// The memory of both rings.
#[derive(Debug)]
pub(crate) struct Rings {
    pub(crate) sq: RingBacking,
    pub(crate) cq: RingBacking,
}

/// An I/O queue pair that exists in the controller.
///
/// It may be driven by one party at a time: an [`IoQueue`](crate::IoQueue), or kernels. Give it back with
/// [`Controller::delete_queue_pair`](crate::Controller::delete_queue_pair). If it is dropped instead, its
/// memory stays mapped until the controller has deleted the queues or is disabled.
pub struct QueuePair {
    pub(crate) qid: Qid,
    pub(crate) sq: SqRing,
    pub(crate) cq: CqRing,
    pub(crate) sq_doorbell: Doorbell,
    pub(crate) cq_doorbell: Doorbell,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) name: Arc<str>,
    /// Where both rings stand; none if they are not idle or do not agree.
    pub(crate) index_base: Option<u64>,
    /// Whose interrupts tell of completions.
    pub(crate) vector: Option<Arc<Vector>>,
    /// Present until dropped.
    rings: Option<Rings>,
    book: Arc<QueueBook>,
}

impl QueuePair {
    pub(crate) fn new(
        qid: Qid,
        entries: u32,
        rings: Rings,
        doorbells: (Doorbell, Doorbell),
        device: (Arc<dyn Device>, Arc<str>),
        book: Arc<QueueBook>,
    ) -> QueuePair {
        QueuePair {
            qid,
            sq: SqRing::new(rings.sq.window().clone(), entries),
            cq: CqRing::new(rings.cq.window().clone(), entries),
            sq_doorbell: doorbells.0,
            cq_doorbell: doorbells.1,
            device: device.0,
            name: device.1,
            index_base: Some(0),
            vector: None,
            rings: Some(rings),
            book,
        }
    }

    /// The identifier of both queues.
    pub fn qid(&self) -> Qid {
        self.qid
    }

    /// Entries of each ring; one fewer can be outstanding.
    pub fn entries(&self) -> u32 {
        self.sq.entries()
    }

    /// The submission ring.
    pub fn sq(&self) -> &SqRing {
        &self.sq
    }

    /// Where the controller sees the submission ring.
    pub fn sq_iova(&self) -> Iova {
        self.rings.as_ref().map_or(Iova(0), |rings| rings.sq.iova())
    }

    /// The completion ring.
    pub fn cq(&self) -> &CqRing {
        &self.cq
    }

    /// The submission queue tail doorbell.
    pub fn sq_doorbell(&self) -> &Doorbell {
        &self.sq_doorbell
    }

    /// The completion queue head doorbell.
    pub fn cq_doorbell(&self) -> &Doorbell {
        &self.cq_doorbell
    }

    /// The vector whose interrupts tell of completions; `None`: they are polled.
    pub fn vector(&self) -> Option<u16> {
        self.vector.as_ref().map(|vector| vector.number)
    }

    /// The device that the queues belong to.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// The running count of commands at which both rings stand: where the next party must start its 64-bit
    /// counters. Slot and phase follow from it. `None` if the queue is not idle, or if it saw completions
    /// of no command; then it can only be deleted.
    pub fn index_base(&self) -> Option<u64> {
        self.index_base
    }

    /// Says where a party that drove the queue (a kernel) left both counters, all its commands completed and
    /// reported to the controller. `None` if it did not end like that.
    pub fn set_index_base(&mut self, index: Option<u64>) {
        self.index_base = index;
    }

    pub(crate) fn belongs_to(&self, book: &Arc<QueueBook>) -> bool {
        Arc::ptr_eq(&self.book, book)
    }

    /// Whether the controller has deleted the queues, or forgot them in a reset. Commands that were
    /// outstanding then never complete, and nothing is written to their buffers any more.
    pub fn is_retired(&self) -> bool {
        self.book.is_retired(self.qid)
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        if let Some(rings) = self.rings.take() {
            self.book.drop_pair(self.qid, rings);
        }
    }
}

impl std::fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("QueuePair");
        debug.field("device", &self.name).field("qid", &self.qid).field("entries", &self.entries());
        debug.field("index_base", &self.index_base).finish_non_exhaustive()
    }
}
