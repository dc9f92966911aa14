//! What a kernel runs over, and what caches and schedules are made for: queues, or a volume of several.

use std::sync::Arc;

use warpbell::{OpenTarget, Target};

use crate::error::Answer;
use crate::queues::{QUEUES, Queues};
use crate::scope::User;
use crate::volume::{VOLUMES, Volume};

/// Queues, or a volume.
pub(crate) enum Over {
    Queues(Arc<Queues>),
    Volume(Arc<Volume>),
}

impl Over {
    pub(crate) fn queues(handle: u64) -> Answer<Over> {
        QUEUES.get(handle).map(Over::Queues)
    }

    pub(crate) fn volume(handle: u64) -> Answer<Over> {
        VOLUMES.get(handle).map(Over::Volume)
    }

    /// The queues whose mailbox kernels have.
    pub(crate) fn first(&self) -> &Arc<Queues> {
        match self {
            Over::Queues(queues) => queues,
            Over::Volume(volume) => volume.first(),
        }
    }

    pub(crate) fn target(&self) -> Target {
        self.first().target()
    }

    pub(crate) fn open_target(&self) -> &OpenTarget {
        self.first().attachment.target()
    }

    /// Blocks, and bytes of each.
    pub(crate) fn blocks(&self) -> (u64, u32) {
        match self {
            Over::Queues(queues) => {
                let ns = queues.namespace_ref();
                (ns.blocks, 1 << ns.block_shift)
            }
            Over::Volume(volume) => (volume.volume.blocks(), volume.volume.block_bytes()),
        }
    }

    /// A cache or a schedule, which keeps it open.
    pub(crate) fn enter(&self) -> Answer<User> {
        match self {
            Over::Queues(queues) => queues.made.enter(|| ()),
            Over::Volume(volume) => volume.users.enter(|| ()),
        }
    }

    /// A run, which keeps it open, and all its queues.
    pub(crate) fn enter_run(&self) -> Answer<Vec<User>> {
        match self {
            Over::Queues(queues) => Ok(vec![queues.enter_run()?]),
            Over::Volume(volume) => volume.enter_run(),
        }
    }

    /// Refused while a run is open that may use what was made.
    pub(crate) fn no_runs(&self) -> Answer<()> {
        match self {
            Over::Queues(queues) => queues.runs.none(),
            Over::Volume(volume) => volume.no_runs(),
        }
    }
}
