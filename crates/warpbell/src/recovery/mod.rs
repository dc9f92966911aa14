//! Recovery of queues and controllers while kernels run (docs/recovery.md).
//!
//! [`Recovery`] watches one SSD: the alarms of all queues that are attached, the controller's status, its events. What
//! it finds it answers step by step, each with its own limit ([`RecoveryPolicy`]): it has commands aborted that kernels
//! gave up; it replaces a queue whose commands do not end; it resets the controller; it gives the SSD up, and tells
//! kernels so. A thread of its own polls, except where time is virtual: there the simulation calls
//! [`Recovery::poll`].
//!
//! `ladder` says what to do next about one queue, and touches nothing. `table` knows which slot holds which queue, and
//! when a slot or an identifier may be used again. `round` and `reset` do what is to be done.

mod channel;
mod counters;
mod events;
mod given_up;
mod ladder;
#[cfg(feature = "mutations")]
pub mod mutation;
#[cfg(not(feature = "mutations"))]
pub(crate) mod mutation;
mod policy;
mod release;
mod reset;
mod round;
mod table;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crossbeam::channel::Receiver;
use parking_lot::{Mutex, MutexGuard};
use warpbell_driver::Controller;
use warpbell_vfio::PciDevice;

use self::channel::Events;
pub use self::counters::RecoveryCounters;
pub use self::events::{AbortAnswer, QueueName, RecoveryEvent, SsdEvent, SsdEventKind, warning_words};
pub use self::policy::{OnRelease, RecoveryPolicy};
use self::round::Looking;
pub(crate) use self::table::{QueueTable, TableParts};
pub(crate) use self::watch::Watch;

/// Watches one SSD, and recovers it.
pub struct Recovery {
    controller: Arc<Controller>,
    policy: RecoveryPolicy,
    events: Events,
    counters: Mutex<RecoveryCounters>,
    /// Of each attachment.
    tables: Mutex<Vec<Arc<QueueTable>>>,
    /// Attachments so far.
    attachments: AtomicU32,
    /// One pass at a time.
    looking: Mutex<Looking>,
    /// Whether a kernel that was to prove doorbells was left to itself: it may ring at any time.
    left_proof: Arc<AtomicBool>,
}

impl Recovery {
    pub(crate) fn new(
        controller: Arc<Controller>,
        pci: Option<Arc<PciDevice>>,
        policy: RecoveryPolicy,
    ) -> Recovery {
        Recovery {
            controller,
            policy,
            events: Events::new(),
            counters: Mutex::default(),
            tables: Mutex::default(),
            attachments: AtomicU32::new(0),
            looking: Mutex::new(Looking::new(pci)),
            left_proof: Arc::default(),
        }
    }

    /// What it may do.
    pub fn policy(&self) -> &RecoveryPolicy {
        &self.policy
    }

    pub(crate) fn controller(&self) -> &Arc<Controller> {
        &self.controller
    }

    /// What it did so far.
    pub fn counters(&self) -> RecoveryCounters {
        let mut counters = *self.counters.lock();
        counters.events_lost = self.events.lost();
        counters.late_completions += self.tables().iter().map(|table| late(table)).sum::<u64>();
        counters
    }

    pub(crate) fn receiver(&self) -> Receiver<SsdEvent> {
        self.events.receiver()
    }

    pub(crate) fn call(&self, callback: impl Fn(&SsdEvent) + Send + Sync + 'static) {
        self.events.call(Arc::new(callback));
    }

    /// Nobody looks while this lives. Waits for the end of a pass that goes on.
    pub(crate) fn alone(&self) -> MutexGuard<'_, Looking> {
        self.looking.lock()
    }

    pub(crate) fn left_proof(&self) -> &Arc<AtomicBool> {
        &self.left_proof
    }

    /// The number of the next attachment.
    pub(crate) fn next_number(&self) -> u32 {
        self.attachments.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Looks at these queues, too.
    pub(crate) fn register(&self, table: &Arc<QueueTable>) {
        self.tables.lock().push(table.clone());
    }

    /// Does not poll these queues any more.
    pub(crate) fn forget(&self, table: &Arc<QueueTable>) {
        self.tables.lock().retain(|known| !Arc::ptr_eq(known, table));
        self.counters.lock().late_completions += late(table);
    }

    fn tables(&self) -> Vec<Arc<QueueTable>> {
        self.tables.lock().clone()
    }

    fn count(&self, change: impl FnOnce(&mut RecoveryCounters)) {
        change(&mut self.counters.lock());
    }

    fn tell(&self, kind: SsdEventKind) {
        tracing::info!(device = %self.controller.name(), "{kind}");
        self.events.send(SsdEvent { at: self.now(), kind });
    }

    fn tell_step(&self, event: RecoveryEvent) {
        self.tell(SsdEventKind::Recovery(event));
    }

    fn now(&self) -> std::time::Duration {
        self.controller.device().clock().now()
    }
}

/// Commands that completed after their deadline.
fn late(table: &QueueTable) -> u64 {
    (0..table.len()).filter_map(|index| table.counters(index).ok()).map(|counters| counters.late).sum()
}

impl std::fmt::Debug for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Recovery");
        debug.field("device", &self.controller.name()).finish_non_exhaustive()
    }
}
