//! Memory of the client without a pointer: an engine copies from and to it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use warpbell_hw::{DmaError, RemoteMemory, Window};

/// What lies behind a mapping.
#[derive(Clone, Debug)]
pub(super) enum Backing {
    /// Memory that CPUs reach.
    Memory(Window),
    /// Memory that they do not.
    Remote(Arc<Remote>),
}

impl Backing {
    pub(super) fn len(&self) -> u64 {
        match self {
            Backing::Memory(window) => window.len() as u64,
            Backing::Remote(remote) => remote.memory.len(),
        }
    }
}

/// Where a queue's ring lies.
pub(crate) enum RingMemory {
    /// In memory with a pointer.
    Window(Window),
    /// In remote memory, from this byte on.
    Remote(Arc<Remote>, u64),
}

/// A store that is pinned for an engine: which, and what keeps it so.
pub(crate) struct Pin {
    /// Address of the store's first byte.
    pub(crate) store: usize,
    pub(crate) _held: Box<dyn Any + Send + Sync>,
}

/// Remote memory that is mapped, and what is pinned for copies from and to it.
pub(crate) struct Remote {
    pub(crate) memory: Arc<dyn RemoteMemory>,
    pins: Vec<Pin>,
}

impl Remote {
    pub(crate) fn new(memory: Arc<dyn RemoteMemory>) -> Arc<Remote> {
        Remote::with_pins(memory, Vec::new())
    }

    pub(crate) fn with_pins(memory: Arc<dyn RemoteMemory>, pins: Vec<Pin>) -> Arc<Remote> {
        Arc::new(Remote { memory, pins })
    }

    /// Whether the engine copies straight from and to a store.
    pub(crate) fn has_pinned(&self, store: usize) -> bool {
        self.pins.iter().any(|pin| pin.store == store)
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pinned = self.pins.len();
        f.debug_struct("Remote").field("memory", &self.memory).field("pinned", &pinned).finish()
    }
}

/// Who copies from and to remote memory: the controller.
pub(crate) trait RemoteHost: Send + Sync {
    /// Remote memory is about to be mapped: pins what is worth it, and opens queues.
    fn prepare(&self, memory: Arc<dyn RemoteMemory>) -> Result<Arc<Remote>, DmaError>;
    /// Remote memory is mapped no longer. When this returns, no copy from or to it is in flight.
    fn let_go(&self, remote: &Arc<Remote>) -> Result<(), DmaError>;
}
