//! An I/O queue pair: two rings, two doorbells, and the memory behind them.

use std::sync::Arc;

use warpbell_hw::{AccessError, CqRing, Device, DmaBuffer, Doorbell, Iova, Qid, RemoteRing, SqRing, Window};
use warpbell_nvme::command::QueuePriority;
use warpbell_nvme::completion::Cqe;

use crate::DriverError;
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
    /// Memory that is mapped for DMA already, such as a BAR of another function; the ring begins at its first byte.
    Buffer(DmaBuffer),
    /// Memory that the host reaches by copies, such as a GPU's. Only kernels can drive such a queue.
    Remote(Arc<dyn RemoteRing>),
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

warpbell_base::options! {
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
    } no new
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
    Remote(Arc<dyn RemoteRing>),
    Controller(ControllerRing),
    Fixed { window: Window, iova: Iova },
    Reserved(RingReservation),
}

impl RingBacking {
    /// The memory; `None` where the host reaches it by copies alone.
    pub(crate) fn window(&self) -> Option<&Window> {
        match self {
            RingBacking::Buffer(buffer) => Some(buffer.window()),
            RingBacking::Remote(_) => None,
            RingBacking::Controller(ring) => Some(ring.window()),
            RingBacking::Fixed { window, .. } => Some(window),
            RingBacking::Reserved(memory) => memory.window(),
        }
    }

    fn remote(&self) -> Option<&Arc<dyn RemoteRing>> {
        match self {
            RingBacking::Remote(ring) => Some(ring),
            RingBacking::Reserved(memory) => memory.backing().remote(),
            _ => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.window().map_or_else(|| self.remote().map_or(0, |ring| ring.len()), Window::len)
    }

    /// Zeroes the first `len` bytes.
    pub(crate) fn zero(&self, len: usize) -> Result<(), AccessError> {
        match (self.window(), self.remote()) {
            (Some(window), _) => Ok(window.fill(0, len, 0)?),
            (None, Some(ring)) => ring.write(0, &vec![0; len]),
            (None, None) => Ok(()),
        }
    }

    /// Completions from running index `head` on, as many as are there.
    fn posted(&self, head: u64, entries: u32) -> Result<Vec<Cqe>, AccessError> {
        let all = |ring: &CqRing| {
            let indices = head..head + u64::from(entries);
            indices.map_while(|index| ring.poll(index)).collect::<Vec<Cqe>>()
        };
        let Some(remote) = self.remote() else {
            let ring = self.window().map(|window| CqRing::new(window.clone(), entries));
            return Ok(ring.as_ref().map(all).unwrap_or_default());
        };
        let copy = || -> Result<Vec<Cqe>, AccessError> {
            let mut bytes = vec![0; entries as usize * CqRing::SLOT];
            remote.read(0, &mut bytes)?;
            let copied = Window::host(bytes.len())?;
            copied.write(0, &bytes)?;
            Ok(all(&CqRing::new(copied, entries)))
        };
        // A copy may have an entry's phase bit, and the rest as it was before. The next copy has the rest.
        let seen = copy()?.len();
        let mut posted = copy()?;
        posted.truncate(seen);
        Ok(posted)
    }

    pub(crate) fn iova(&self) -> Iova {
        match self {
            RingBacking::Buffer(buffer) => buffer.iova(),
            RingBacking::Remote(ring) => ring.iova(),
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
/// It may be driven by one party at a time: an [`IoQueue`](crate::IoQueue), or kernels. Return it with
/// [`Controller::delete_queue_pair`](crate::Controller::delete_queue_pair). If it is dropped instead, its
/// memory stays mapped until the controller has deleted the queues or is disabled.
pub struct QueuePair {
    pub(crate) qid: Qid,
    entries: u32,
    /// Both, where the host reaches them.
    pub(crate) sq: Option<SqRing>,
    pub(crate) cq: Option<CqRing>,
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
            entries,
            sq: rings.sq.window().map(|window| SqRing::new(window.clone(), entries)),
            cq: rings.cq.window().map(|window| CqRing::new(window.clone(), entries)),
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
        self.entries
    }

    /// The submission ring; `None` where the host reaches it by copies alone.
    pub fn sq(&self) -> Option<&SqRing> {
        self.sq.as_ref()
    }

    /// Where the controller sees the submission ring.
    pub fn sq_iova(&self) -> Iova {
        self.rings.as_ref().map_or(Iova(0), |rings| rings.sq.iova())
    }

    /// The completion ring; `None` where the host reaches it by copies alone.
    pub fn cq(&self) -> Option<&CqRing> {
        self.cq.as_ref()
    }

    /// Where the controller sees the completion ring.
    pub fn cq_iova(&self) -> Iova {
        self.rings.as_ref().map_or(Iova(0), |rings| rings.cq.iova())
    }

    /// The completions in the ring from running index `head` on, wherever it lies.
    pub fn posted(&self, head: u64) -> Result<Vec<Cqe>, DriverError> {
        let posted = self.rings.as_ref().map(|rings| rings.cq.posted(head, self.entries));
        posted.unwrap_or(Ok(Vec::new())).map_err(|cause| {
            let what = format!("the completion ring of {} is not copied", self.qid);
            DriverError::Ring { device: self.name.clone(), what, cause }
        })
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
