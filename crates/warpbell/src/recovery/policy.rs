//! What recovery may do, and how long each step may take.

use std::time::Duration;

warpbell_base::options! {
    /// What the host does about queues and controllers that do not answer. Every step has a limit of its own.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RecoveryPolicy {
        /// Whether the host does anything by itself: without, kernels see their deadlines pass, and nobody helps.
        pub enabled: bool,
        /// Between two polls of the alarms of queues.
        pub alarm_period: Duration,
        /// Between two polls of the controller's status register, while nothing is wrong.
        pub health_period: Duration,
        /// Between two polls for asynchronous events.
        pub event_period: Duration,
        /// For one such poll. What there is no time for is for the next one.
        pub event_limit: Duration,
        /// For all Abort commands of one pass.
        pub abort: Duration,
        /// From an Abort to the completion of its command. Then the queue is given up.
        pub settle: Duration,
        /// For the deletion of a queue pair. Then the controller is reset.
        pub delete: Duration,
        /// From the deletion of a queue pair to its successor, which may have to wait until kernels have left a queue
        /// that was given up before. Then kernels are told that no successor will come.
        pub replace: Duration,
        /// How long kernels may take to leave all queues before the function is reset. Then the SSD is given up.
        pub quiesce: Duration,
        /// For one reset.
        pub reset: Duration,
        /// Resets within [`reset_window`](Self::reset_window). With one more the SSD is given up.
        pub resets: u32,
        /// The time in which resets are counted.
        pub reset_window: Duration,
        /// Whether a controller that a controller reset does not bring back has its function reset.
        pub function_reset: bool,
        /// What to do when the system asks for the function back.
        pub on_release: OnRelease,
    }
}

/// What to do when the system asks for a PCI function back, as when it is unplugged or unbound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRelease {
    /// An orderly stop: kernels are told that the SSD is gone, and queues are deleted. Whoever asked has the function
    /// when the [`Ssd`](crate::Ssd) and what was made from it are dropped.
    #[default]
    Stop,
    /// Tell of it, and go on.
    Tell,
}

impl Default for RecoveryPolicy {
    fn default() -> RecoveryPolicy {
        RecoveryPolicy {
            enabled: true,
            alarm_period: Duration::from_millis(1),
            health_period: Duration::from_millis(100),
            event_period: Duration::from_secs(1),
            event_limit: Duration::from_secs(1),
            abort: Duration::from_secs(1),
            settle: Duration::from_millis(500),
            delete: Duration::from_secs(2),
            replace: Duration::from_secs(5),
            quiesce: Duration::from_secs(10),
            reset: Duration::from_secs(30),
            resets: 8,
            reset_window: Duration::from_secs(600),
            function_reset: true,
            on_release: OnRelease::Stop,
        }
    }
}

impl RecoveryPolicy {
    /// One that does nothing by itself.
    pub fn off() -> RecoveryPolicy {
        RecoveryPolicy { enabled: false, ..RecoveryPolicy::default() }
    }
}
