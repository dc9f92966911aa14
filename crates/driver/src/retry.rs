//! Trying again what failed for the moment.

use std::time::Duration;

use warpbell_nvme::command;
use warpbell_nvme::feature::{FeatureId, HostBehavior};
use warpbell_nvme::identify::IdentifyController;
use warpbell_nvme::status::{Retry, Status};
use zerocopy::IntoBytes;

use crate::controller::Controller;
use crate::core::Core;
use crate::data::Data;

warpbell_base::options! {
    /// Whether failed commands are submitted again, and how often.
    ///
    /// Which failures are worth it is up to their status ([`Status::retry`]): never one with Do Not Retry set, and after
    /// the delay that its Command Retry Delay stands for.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RetryPolicy {
        /// How often one command is submitted again, at most; 0: never.
        pub attempts: u32,
        /// What Command Retry Delays 1 to 3 stand for (CRDT1 to CRDT3).
        pub delays: [Duration; 3],
    }
}

impl RetryPolicy {
    /// With the delays of a controller.
    pub fn of(identify: &IdentifyController, attempts: u32) -> RetryPolicy {
        RetryPolicy {
            attempts,
            delays: [1, 2, 3].map(|crd| Duration::from_millis(identify.retry_delay_ms(crd).into())),
        }
    }

    /// How long to wait before a command that failed like this is submitted again, having been so `tries` times;
    /// `None`: it is not.
    #[must_use]
    pub fn delay(&self, status: Status, tries: u32) -> Option<Duration> {
        match status.retry() {
            // What somebody on this host had ended stays so.
            _ if tries >= self.attempts || status.is_aborted() => None,
            Retry::Never => None,
            Retry::AtOnce => Some(Duration::ZERO),
            Retry::After(crd) => self.delays.get(usize::from(crd) - 1).copied(),
        }
    }
}

impl Controller {
    /// A policy for I/O commands with this controller's delays.
    pub fn retry_policy(&self, attempts: u32) -> RetryPolicy {
        RetryPolicy::of(&self.identify, attempts)
    }
}

impl Core {
    /// Tells a controller that has retry delays (CRDT) that this host heeds them (Host Behavior Support, ACRE). Without
    /// that, its statuses say nothing about delays.
    pub(crate) fn enable_retry_delays(&self, identify: &IdentifyController) {
        if identify.retry_delays() == [0; 3] {
            return;
        }
        let behavior = HostBehavior::new(1, 0, 0);
        let set = command::set_features(FeatureId::HOST_BEHAVIOR_SUPPORT, 0, 0);
        if let Err(error) = self.execute(set, Data::Out(behavior.as_bytes())) {
            tracing::warn!(%error, "no command retry delays");
        }
    }
}
