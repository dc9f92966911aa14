//! Ring memory that outlives queue pairs: mapped once, for one pair after another.

use std::sync::Arc;

use warpbell_hw::{Iova, Window};
use warpbell_nvme::command::Sqe;
use warpbell_nvme::completion::Cqe;

use crate::controller::Controller;
use crate::queue_pair::RingBacking;
use crate::{DriverError, RingMemory};

/// Memory for a ring, mapped for the controller as long as this value, a clone, or a queue pair that was made of it
/// lives. One pair at a time may use it.
#[derive(Clone, Debug)]
pub struct RingReservation(Arc<RingBacking>);

impl RingReservation {
    /// The memory; `None` where the host reaches it by copies alone.
    pub fn window(&self) -> Option<&Window> {
        self.0.window()
    }

    pub(crate) fn backing(&self) -> &RingBacking {
        &self.0
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no bytes; it always has some.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the controller sees its first byte.
    pub fn iova(&self) -> Iova {
        self.0.iova()
    }
}

impl Controller {
    /// Memory for submission rings of up to `entries` entries.
    pub fn reserve_sq(&self, memory: RingMemory, entries: u32) -> Result<RingReservation, DriverError> {
        let backing = self.ring_memory("submission", memory, entries as usize * size_of::<Sqe>())?;
        Ok(RingReservation(Arc::new(backing)))
    }

    /// Memory for completion rings of up to `entries` entries.
    pub fn reserve_cq(&self, memory: RingMemory, entries: u32) -> Result<RingReservation, DriverError> {
        let backing = self.ring_memory("completion", memory, entries as usize * size_of::<Cqe>())?;
        Ok(RingReservation(Arc::new(backing)))
    }
}
