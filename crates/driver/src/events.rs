//! Asynchronous events: requests that stay outstanding, and what they report.

use warpbell_hw::Nsid;
use warpbell_nvme::command;
use warpbell_nvme::feature::{AsyncEventConfig, FeatureId};
use warpbell_nvme::identify::IdentifyController;
use warpbell_nvme::log::{ErrorLogEntry, FirmwareSlotLog, LogPageId, SmartLog};

use crate::DriverError;
use crate::controller::Controller;
use crate::core::Core;
use crate::data::Data;

/// Entries of the error log that are read with an error event.
const ERROR_ENTRIES: u32 = 16;

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
    /// Chooses the events that the controller offers, and arms requests for them. A controller that takes
    /// neither is used without.
    pub(crate) fn start_events(&self, identify: &IdentifyController) {
        let requests = identify.async_event_limit().min(self.options.async_events);
        // One slot at least must stay free for commands.
        let requests = requests.min(self.options.admin_entries - 2);
        if requests == 0 {
            return;
        }
        let config = AsyncEventConfig::new()
            .with_smart(0x1f)
            .with_namespace_attribute(identify.oaes.namespace_attribute())
            .with_firmware_activation(identify.oaes.firmware_activation());
        let set = command::set_features(FeatureId::ASYNC_EVENT_CONFIG, config.into_bits(), 0);
        if let Err(error) = self.execute(set, Data::None) {
            tracing::warn!(%error, "asynchronous events not configured");
        }
        (0..requests).for_each(|_| self.arm_event());
    }

    fn arm_event(&self) {
        if !self.admin.lock().submit_event_request(command::async_event_request()) {
            tracing::warn!(device = %self.name(), "no room for an asynchronous event request");
        }
    }
}

impl Controller {
    /// Events that arrived since the last call. Each one's log page is read and its request armed again, so
    /// that it can come anew. Also notices a controller that is gone or in fatal error.
    pub fn poll_events(&self) -> Result<Vec<AsyncEvent>, DriverError> {
        self.core.check_health("polling for events")?;
        self.keep_alive_if_due()?;
        let mut events = Vec::new();
        loop {
            let mut admin = self.core.admin.lock();
            admin.reap();
            let next = admin.next_event();
            drop(admin);
            let Some(cqe) = next else { return Ok(events) };
            if !cqe.status().is_ok() {
                tracing::warn!(device = %self.name(), status = %cqe.status(), "asynchronous event request failed");
                continue;
            }
            let event = command::AsyncEvent::from_bits(cqe.dw0);
            tracing::debug!(device = %self.name(), %event, "asynchronous event");
            let detail =
                self.event_detail(event).unwrap_or_else(|error| EventDetail::Unread(error.to_string()));
            self.core.arm_event();
            events.push(AsyncEvent { event, detail });
        }
    }

    fn event_detail(&self, event: command::AsyncEvent) -> Result<EventDetail, DriverError> {
        let page = LogPageId(event.log_page());
        Ok(match page {
            LogPageId::ERROR_INFORMATION => EventDetail::Errors(self.error_log(ERROR_ENTRIES)?),
            LogPageId::SMART => EventDetail::Health(self.smart_log()?),
            LogPageId::FIRMWARE_SLOT => EventDetail::Firmware(self.firmware_log()?),
            LogPageId::CHANGED_NAMESPACE_LIST => {
                let list = self.changed_namespaces()?;
                EventDetail::Namespaces(list.iter().map(Nsid).collect())
            }
            _ => EventDetail::Page(page, self.log_page(page, Nsid::ALL, 512)?),
        })
    }
}
