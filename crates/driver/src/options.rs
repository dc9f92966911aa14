//! What a user may choose when opening a controller.

use std::time::Duration;

use crate::DoorbellBuffer;

/// Whether waits for admin commands sleep until an interrupt comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// By interrupt where the controller has vectors and time passes while a thread sleeps; else by polling.
    #[default]
    Auto,
    /// By polling.
    Poll,
    /// By interrupt; opening fails where there is none to be had.
    Interrupt,
}

warpbell_base::options! {
    /// How to open a controller.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ControllerOptions {
        /// I/O queue pairs to ask for, 1 to 65534. The controller may grant fewer or more.
        pub queues: u16,
        /// I/O queue pairs without which opening fails.
        pub min_queues: u16,
        /// Entries of the admin queues, a power of two from 2 to 4096.
        pub admin_entries: u32,
        /// How long an admin command may take.
        pub admin_timeout: Duration,
        /// How often an admin command is submitted again where its status says that this may help, within its time. An
        /// Abort is sent once: by the second time its identifier may be another command's.
        pub admin_retries: u32,
        /// Whether waits for admin commands sleep until an interrupt comes.
        pub admin_waiting: Waiting,
        /// Asynchronous event requests to keep armed, at most; 0 for none.
        pub async_events: u32,
        /// Weighted round robin arbitration, so that queues may have priorities.
        pub weighted_round_robin: bool,
        /// Whether doorbells go through memory.
        pub doorbell_buffer: DoorbellBuffer,
        /// 32-bit command identifiers (experimental); opening fails where the controller does not offer them.
        pub wide_cids: bool,
        /// To wait after each change of CC.EN before CSTS is read, for devices that answer nonsense then.
        pub ready_poll_delay: Duration,
        /// How long an orderly shutdown may take, where the controller does not ask for more (RTD3E).
        pub shutdown_timeout: Duration,
    }
}

impl Default for ControllerOptions {
    fn default() -> Self {
        ControllerOptions {
            queues: 64,
            min_queues: 1,
            // 4096 bytes of submission queue: some controllers want a multiple of that.
            admin_entries: 64,
            admin_timeout: Duration::from_secs(10),
            admin_retries: 3,
            admin_waiting: Waiting::Auto,
            async_events: 4,
            weighted_round_robin: false,
            doorbell_buffer: DoorbellBuffer::Auto,
            wide_cids: false,
            ready_poll_delay: Duration::ZERO,
            shutdown_timeout: Duration::from_secs(5),
        }
    }
}
