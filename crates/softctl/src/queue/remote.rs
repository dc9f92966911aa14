//! A ring in memory without a pointer: the controller works on a mirror of it, and an engine copies between the two.

use std::sync::Arc;

use warpbell_hw::{AccessError, CopyDirection, PoolPart, RemoteCopy, Window};

use crate::copying::Copier;
use crate::memory::Remote;

/// Where a ring lies, and how far its copies are. One copy of a ring is in flight at a time: what comes meanwhile goes
/// together.
pub(crate) struct CopiedRing {
    remote: Arc<Remote>,
    /// The ring's first byte there.
    at: u64,
    mirror: PoolPart,
    /// The entry that follows those that are being copied.
    in_flight: Option<u32>,
    /// Its memory is gone, or a copy failed: the ring is not reached any more, and its queue does nothing until it is
    /// deleted. The mirror stays as long: copies may be in flight.
    failed: bool,
}

/// A copy that is to be begun.
pub(crate) struct RingCopy {
    pub(crate) remote: Arc<Remote>,
    pub(crate) copy: RemoteCopy,
}

impl CopiedRing {
    /// The ring of `len` bytes at byte `at` of `remote`.
    pub(crate) fn new(
        copier: &mut Copier,
        (remote, at): (Arc<Remote>, u64),
        len: usize,
    ) -> Result<CopiedRing, AccessError> {
        let mirror = copier.mirror(len)?;
        mirror.window().fill(0, mirror.window().len(), 0)?;
        Ok(CopiedRing { remote, at, mirror, in_flight: None, failed: false })
    }

    /// What the controller works on.
    pub(super) fn mirror(&self) -> &Window {
        self.mirror.window()
    }

    /// Whether a copy may begin.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_none() && !self.failed
    }

    /// The memory is gone.
    pub(super) fn lose(&mut self) {
        self.failed = true;
    }

    /// Nothing will be copied any more.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Begins a copy between `host` and the ring from byte `offset` on; the entries before `end` are copied then.
    pub(super) fn begin(
        &mut self,
        direction: CopyDirection,
        offset: usize,
        host: Window,
        end: u32,
    ) -> RingCopy {
        self.in_flight = Some(end);
        let copy = RemoteCopy { direction, at: self.at + offset as u64, host };
        RingCopy { remote: self.remote.clone(), copy }
    }

    /// The copy has ended. Returns the entry that follows what was copied, unless it failed.
    pub(super) fn end(&mut self, queue: &str, id: u16, result: Result<(), AccessError>) -> Option<u32> {
        let end = self.in_flight.take();
        match result {
            Ok(()) => end.filter(|_| !self.failed),
            Err(error) => {
                tracing::error!(%error, "{queue} queue {id} does nothing any more: its ring cannot be copied");
                self.failed = true;
                None
            }
        }
    }
}

/// The entries from `from` on that lie side by side: up to `to`, or to the end of a ring of `entries`. Returns their
/// number.
pub(super) fn run(from: u32, to: u32, entries: u32) -> u32 {
    if to >= from { to - from } else { entries - from }
}
