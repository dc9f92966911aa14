//! Asynchronous events: requests that stay outstanding, and what they report.

use std::time::Duration;

use warpbell_hw::Nsid;
use warpbell_nvme::command;
use warpbell_nvme::feature::{AsyncEventConfig, FeatureId};
use warpbell_nvme::identify::IdentifyController;
use warpbell_nvme::log::{ChangedNamespaceList, ErrorLogEntry, FirmwareSlotLog, LogPageId, SmartLog};

use crate::DriverError;
use crate::controller::Controller;
use crate::core::Core;
use crate::data::Data;
use crate::registers::Deadline;

/// Entries of the error log that are read with an error event.
const ERROR_ENTRIES: u32 = 16;

/// The most events that one poll takes: a controller that answers each request at once must not keep it going.
const MOST_EVENTS: u32 = 64;

/// Something that the controller reported by itself.
#[derive(Clone, Debug)]
pub struct AsyncEvent {
    /// What the controller said.
    pub event: command::AsyncEvent,
    /// The log page that belongs to it.
    pub detail: EventDetail,
}

/// The log page that belongs to an event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventDetail {
    /// The newest errors.
    Errors(Vec<ErrorLogEntry>),
    /// The controller's health.
    Health(Box<SmartLog>),
    /// Namespaces that came, went or changed. Empty if there are too many to name.
    Namespaces(Vec<Nsid>),
    /// The firmware slots.
    Firmware(Box<FirmwareSlotLog>),
    /// The first bytes of a page that the driver does not interpret.
    Page(LogPageId, Vec<u8>),
    /// The page could not be read; the event stays unarmed until it is.
    Unread(String),
}

impl Core {
    /// Requests to keep armed. One slot at least must stay free for commands.
    fn event_requests(&self, identify: &IdentifyController) -> u32 {
        let requests = identify.async_event_limit().min(self.options.async_events);
        requests.min(self.options.admin_entries - 2)
    }

    /// Chooses the events that the controller offers. A controller that does not take them is used without.
    pub(crate) fn configure_events(&self, identify: &IdentifyController) {
        if self.event_requests(identify) == 0 {
            return;
        }
        let config = AsyncEventConfig::new()
            .with_smart(0x1f)
            .with_namespace_attribute(identify.oaes.namespace_attribute())
            .with_firmware_activation(identify.oaes.firmware_activation())
            .with_subsystem_shutdown(identify.oaes.subsystem_shutdown());
        let set = command::set_features(FeatureId::ASYNC_EVENT_CONFIG, config.into_bits(), 0);
        if let Err(error) = self.execute(set, Data::None) {
            tracing::warn!(%error, "asynchronous events not configured");
        }
    }

    /// Arms requests for events.
    pub(crate) fn arm_events(&self, identify: &IdentifyController) {
        (0..self.event_requests(identify)).for_each(|_| self.arm_event());
    }

    fn arm_event(&self) {
        if !self.admin.lock().submit_event_request(command::async_event_request()) {
            tracing::warn!(device = %self.name(), "no room for an asynchronous event request");
        }
    }
}

impl Controller {
    /// Events that arrived since the last call, up to 64; the rest is for the next call. Each one's log page is read and
    /// its request armed again, so that it can come anew. Also notices a controller that is gone or in fatal error.
    pub fn poll_events(&self) -> Result<Vec<AsyncEvent>, DriverError> {
        self.poll_events_within(Duration::MAX)
    }

    /// The same within `limit`, besides the admin queue's own limit for each command. What there is no time for is for
    /// the next call; an event whose page could not be read in time is reported without it.
    pub fn poll_events_within(&self, limit: Duration) -> Result<Vec<AsyncEvent>, DriverError> {
        let clock = self.core.regs.clock();
        let until = Deadline::after(clock, limit);
        let left = || until.left(clock).min(self.core.options.admin_timeout);
        self.core.check_health("polling for events")?;
        self.keep_alive_if_due(left())?;
        let mut events = Vec::new();
        for _ in 0..MOST_EVENTS {
            if until.passed(clock) {
                break;
            }
            let mut admin = self.core.admin.lock();
            admin.reap();
            let next = admin.next_event();
            drop(admin);
            let Some(cqe) = next else { break };
            if !cqe.status().is_ok() {
                tracing::warn!(device = %self.name(), status = %cqe.status(), "asynchronous event request failed");
                continue;
            }
            let event = command::AsyncEvent::from_bits(cqe.dw0);
            tracing::debug!(device = %self.name(), %event, "asynchronous event");
            let detail = self
                .event_detail(event, left())
                .unwrap_or_else(|error| EventDetail::Unread(error.to_string()));
            self.core.arm_event();
            events.push(AsyncEvent { event, detail });
        }
        Ok(events)
    }

    fn event_detail(&self, event: command::AsyncEvent, limit: Duration) -> Result<EventDetail, DriverError> {
        let page = LogPageId(event.log_page());
        Ok(match page {
            LogPageId::ERROR_INFORMATION => EventDetail::Errors(self.error_log_within(ERROR_ENTRIES, limit)?),
            LogPageId::SMART => EventDetail::Health(self.fixed_log(page, Nsid::ALL, limit)?),
            LogPageId::FIRMWARE_SLOT => EventDetail::Firmware(self.fixed_log(page, Nsid::ALL, limit)?),
            LogPageId::CHANGED_NAMESPACE_LIST => {
                let list: Box<ChangedNamespaceList> = self.fixed_log(page, Nsid::ALL, limit)?;
                EventDetail::Namespaces(list.iter().map(Nsid).collect())
            }
            _ => {
                let mut data = vec![0; 512];
                self.read_log(page, Nsid::ALL, &mut data, limit)?;
                EventDetail::Page(page, data)
            }
        })
    }
}
