//! The NVMe controller's life: enable, identify, queues, admin, errors, reset.
//!
//! [`Controller::open`] takes any [`Device`](warpbell_hw::Device) and brings it up: a state machine with a
//! deadline in each state (`enable`), Identify, the namespaces, the number of I/O queues, asynchronous events.
//! After that the controller makes [`QueuePair`]s: rings and doorbells that kernels, or an [`IoQueue`] on the
//! host, drive by themselves. Admin commands go through one shared admin queue (`admin`).
//!
//! Three rules hold everywhere:
//!
//! - Nothing waits without a deadline, and every wait notices a controller that is gone or in fatal error.
//!   Time is the device's own clock, so all of it runs in a simulation too.
//! - Memory that the controller may still access is never freed: a queue's rings outlive a failed deletion,
//!   a timed out command keeps its identifier and its buffer, and what cannot be disabled is leaked.
//! - What a controller says is checked: a completion of no outstanding command is counted, never trusted.
#![forbid(unsafe_code)]

mod abort;
mod admin;
mod cid_slots;
mod coalescing;
mod controller;
mod controller_memory;
mod core;
mod data;
mod deletion;
mod doorbell_buffer;
mod enable;
mod error;
mod events;
mod experimental;
mod features;
mod identify;
mod interrupts;
mod io_queue;
mod keep_alive;
mod limits;
mod log_pages;
mod management;
#[cfg(feature = "mutations")]
pub mod mutation;
#[cfg(not(feature = "mutations"))]
mod mutation;
mod namespace;
mod offer;
mod options;
mod power;
mod queue_ids;
mod queue_pair;
mod queues;
mod quirks;
mod registers;
mod reserve;
mod reset;
mod retry;
mod setup;
mod shutdown;
mod state;

pub use abort::AbortOutcome;
pub use coalescing::{Coalescing, CoalescingError};
pub use controller::{AdminCounters, Controller};
pub use data::Data;
pub use doorbell_buffer::DoorbellBuffer;
pub use error::DriverError;
pub use events::{AsyncEvent, EventDetail};
pub use io_queue::{Completion, IoCounters, IoQueue, IoQueueOptions, Outcome, Token};
pub use limits::CommandLimits;
pub use management::NamespaceSpec;
pub use namespace::{Namespace, NamespaceIds, Refusal, RefusedNamespace};
pub use offer::{NotOffered, Offer};
pub use options::{ControllerOptions, Waiting};
pub use queue_pair::{Notification, QueuePair, QueueSpec, RingMemory};
pub use queues::QueueGrant;
pub use reserve::RingReservation;
pub use reset::{ResetMethod, ResetReport};
pub use retry::RetryPolicy;
pub use shutdown::{Notice, Shutdown};
pub use state::ControllerState;

/// A completion that belongs to no outstanding command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpuriousCompletion {
    /// The command identifier that the controller reported.
    pub cid: u16,
    /// The identifier that the same slot holds, or would hold next; `None` where there is no such slot.
    pub expected: Option<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn shared<T: Send + Sync>() {}
    const fn sent<T: Send>() {}

    /// Controllers are shared between threads; a queue moves to the thread that drives it.
    const _: () = {
        shared::<Controller>();
        sent::<IoQueue>();
        sent::<QueuePair>();
        shared::<DriverError>();
    };
}
