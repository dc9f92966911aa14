//! What one controller brings upon the others: an NVM subsystem reset or shutdown (Base 2.0, 3.6.3 and 3.7.1).
//!
//! Nobody may hold two control locks. So each other controller is told by a word of its own, and follows as soon as
//! anything looks at it: its admin side, or an access to its registers.

use std::sync::atomic::{AtomicU8, Ordering};

use super::Subsystem;

/// What a controller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PendingReset {
    NormalShutdown = 1,
    AbruptShutdown,
    Reset,
}

/// Where a controller is told; a reset outdoes a shutdown.
#[derive(Debug, Default)]
pub(crate) struct Mailbox(AtomicU8);

impl Mailbox {
    fn put(&self, pending_reset: PendingReset) {
        self.0.fetch_max(pending_reset as u8, Ordering::AcqRel);
    }

    /// Whether something is there.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Takes what is there.
    #[inline]
    pub(crate) fn take(&self) -> Option<PendingReset> {
        if !self.is_full() {
            return None;
        }
        let all = [PendingReset::NormalShutdown, PendingReset::AbruptShutdown, PendingReset::Reset];
        let told = self.0.swap(0, Ordering::AcqRel);
        all.into_iter().find(|pending_reset| *pending_reset as u8 == told)
    }
}

impl Subsystem {
    /// Tells every controller but `by`.
    pub(crate) fn ask_others(&self, pending_reset: PendingReset, by: u16) {
        for core in self.controllers().iter().filter(|core| core.cntlid != by) {
            core.mailbox.put(pending_reset);
        }
    }

    /// Power failed, and came back. It was an unsafe shutdown if a controller was in use and not shut down: the one that
    /// tells so, or another.
    pub(crate) fn note_power_loss(&self, by: u16, in_use: bool) {
        let others = self.controllers();
        // A controller whose lock is taken is doing something.
        let busy = |core: &std::sync::Arc<crate::core::Core>| {
            core.cntlid != by && core.control.try_lock().is_none_or(|control| control.in_use())
        };
        let unsafely = in_use || others.iter().any(busy);
        let mut state = self.state();
        state.life.power_cycles += 1;
        state.life.unsafe_shutdowns += u64::from(unsafely);
    }
}
