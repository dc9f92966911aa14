//! What instructions of a lane do where memory is weak.

use super::block::Common;
use super::lane::Lane;
use super::late::{Buffer, Late};
use super::real::Real;
use super::weak::Path;
use crate::error::{Check, Finding};
use crate::program::{Access, Order, Scope};

impl Common<'_> {
    fn path<T>(&mut self, lane: &mut Lane, act: impl FnOnce(&mut Path<'_>) -> T) -> Option<T> {
        let mut gpu = self.run.weak?.0.lock();
        let owner = self.run.grid_number << 42 | u64::from(self.block) << 10 | u64::from(lane.number);
        let mut path = Path {
            lane: &mut lane.late,
            polls: &mut lane.polls,
            block: &mut self.weak,
            gpu: &mut gpu,
            released: &mut lane.released,
            owner,
        };
        path.drain();
        Some(act(&mut path))
    }

    /// What a weak GPU loads; nothing where memory is strong.
    pub(super) fn weak_load(&mut self, lane: &mut Lane, access: &Access, at: Real) -> Option<u64> {
        // The place of this access was found there last.
        let region = self.regions[0];
        self.path(lane, |path| path.load(access, at, &region))
    }

    /// Refuses a poll by loads that need not ever see what was stored.
    pub(super) fn polls(&self, lane: &Lane) -> Result<(), Box<Finding>> {
        let Some((word, count)) = lane.polls.is_poll() else { return Ok(()) };
        let what = format!(
            "{word:#x} was read {count} times by loads that are weak, or whose scope leaves out who writes it, and gave an \
             old value each time: a poll needs ld.relaxed or ld.acquire of a scope with the writer"
        );
        Err(self.found(lane, Check::Stale, what))
    }

    pub(super) fn weak_store(
        &mut self,
        lane: &mut Lane,
        access: &Access,
        to: Real,
        value: u64,
    ) -> Option<()> {
        self.path(lane, |path| path.store(access, to, value))
    }

    pub(super) fn weak_update(
        &mut self,
        lane: &mut Lane,
        access: &Access,
        at: Real,
        change: impl Fn(u64) -> u64,
    ) -> Option<u64> {
        self.path(lane, |path| path.update(access, at, change))
    }

    pub(super) fn weak_fence(&mut self, lane: &mut Lane, scope: Scope, consistent: bool) {
        self.path(lane, |path| {
            if consistent {
                *path.released = true;
                path.flush(scope)
            } else {
                path.release(scope)
            }
            path.acquire(scope);
        });
    }

    /// Shared memory is in order, and what a lane released before it wrote there is seen by who acquires it there.
    pub(super) fn weak_shared(&mut self, lane: &mut Lane, access: &Access, writes: bool) {
        let (releases, acquires) = match access.order {
            Order::Release => (true, false),
            Order::Acquire => (false, true),
            Order::AcquireRelease => (true, true),
            _ => (false, false),
        };
        self.path(lane, |path| {
            let marked = path.lane.0.iter().any(|late| matches!(late, Late::Marker { .. }));
            if writes && (releases || marked) {
                path.flush(Scope::Cta);
            }
            if acquires {
                path.acquire(access.scope);
            }
        });
    }

    /// Lanes that met at a barrier see what the others stored before it.
    pub(super) fn meets(&mut self, late: &mut Buffer) {
        self.weak.take_first(late, late.0.len());
    }

    /// While nobody stores, what is late goes on, too.
    pub(super) fn weak_time(&mut self, lane: &mut Lane) {
        if lane.number == 0 || !lane.late.0.is_empty() || !self.weak.late.0.is_empty() {
            self.path(lane, |_| ());
        }
    }

    /// The end of the block: what is late in it is late on the GPU.
    pub(super) fn weak_end(&mut self, lanes: &mut [Lane]) {
        for lane in lanes {
            self.path(lane, |path| path.flush(Scope::Gpu));
        }
    }
}
