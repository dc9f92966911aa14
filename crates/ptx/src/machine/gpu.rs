//! What grids that run at the same time have in common.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::races::Races;
use super::weak;

/// A GPU. Grids that run on one at the same time share one order of what is seen in the scope `.gpu`: two kernels pass
/// messages as two blocks of one do. A launch that names none has one of its own.
#[derive(Debug)]
pub struct Gpu {
    pub(super) weak: weak::Gpu,
    pub(super) races: Mutex<Races>,
    grids: AtomicU64,
}

impl Default for Gpu {
    fn default() -> Gpu {
        Gpu::new()
    }
}

impl Gpu {
    /// One that nothing runs on.
    pub fn new() -> Gpu {
        Gpu { weak: weak::Gpu::new(), races: Mutex::default(), grids: AtomicU64::new(0) }
    }

    /// The number of the next grid.
    pub(super) fn grid(&self) -> u64 {
        self.grids.fetch_add(1, Ordering::Relaxed)
    }
}
