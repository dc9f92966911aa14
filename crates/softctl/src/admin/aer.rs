//! Asynchronous Event Request (Base 2.0, 5.2).

use std::collections::VecDeque;

use warpbell_nvme::command::{AsyncEvent, AsyncEventType, AsyncImmediateInfo, AsyncNoticeInfo};
use warpbell_nvme::feature::{AsyncEventConfig, FeatureId};
use warpbell_nvme::log::LogPageId;
use warpbell_nvme::{AdminOpcode, Cqe, Status};

use super::Answer;
use crate::checker::Rule;
use crate::control::{AdminQueue, Control};
use crate::core::Core;
use crate::engine::{Command, Refused, never};

/// AERL: outstanding requests, zero-based.
pub(crate) const LIMIT_Z: u8 = 7;
/// Events kept for requests to come.
const MOST_EVENTS: usize = 16;

/// Requests that wait for events, and events that wait for requests.
#[derive(Debug, Default)]
pub(crate) struct Events {
    requests: VecDeque<u16>,
    events: VecDeque<AsyncEvent>,
    /// Reported, and silent until their log page is read.
    masked: Vec<AsyncEvent>,
}

impl Events {
    pub(crate) fn reset(&mut self) {
        *self = Events::default();
    }

    /// An event happened. One like it that is already waiting makes it redundant.
    pub(crate) fn raise(&mut self, event: AsyncEvent) {
        if self.events.len() < MOST_EVENTS && !self.events.contains(&event) {
            self.events.push_back(event);
        }
    }

    fn is_masked(&self, event: &AsyncEvent) -> bool {
        self.masked.iter().any(|masked| masked.event_type() == event.event_type())
    }

    fn next(&self) -> Option<usize> {
        self.events.iter().position(|event| !self.is_masked(event))
    }

    /// Whether an event and a request wait for each other.
    pub(crate) fn deliverable(&self) -> bool {
        !self.requests.is_empty() && self.next().is_some()
    }

    /// Completes requests with events, as far as there are both and the completion queue has room.
    pub(crate) fn deliver(&mut self, admin: &mut AdminQueue) {
        while admin.cq.room() > 0
            && let Some(index) = self.next()
            && let Some(cid) = self.requests.pop_front()
        {
            let Some(event) = self.events.remove(index) else { return };
            if event.event_type() != AsyncEventType::IMMEDIATE {
                self.masked.push(event);
            }
            admin.sq.end(cid);
            let head = admin.sq.head as u16;
            admin.cq.post(&Cqe::new(0, head, cid, Status::SUCCESS, false).with_dw0(event.into_bits()));
        }
    }

    /// Reading a log page re-arms the events that it tells about.
    pub(crate) fn rearm(&mut self, page: LogPageId) {
        self.masked.retain(|event| event.log_page() != page.0);
    }

    /// Takes a request back; false if there is none with this identifier.
    pub(crate) fn withdraw(&mut self, cid: u16) -> bool {
        let found = self.requests.iter().position(|request| *request == cid);
        found.is_some_and(|index| self.requests.remove(index).is_some())
    }
}

/// The bit of Critical Warning, and so of Asynchronous Event Configuration, that an event is about; `None` for events
/// that are always enabled.
fn enabling_bit(event: AsyncEvent) -> Option<AsyncEventConfig> {
    let config = AsyncEventConfig::new();
    match (event.event_type(), event.info()) {
        (AsyncEventType::NOTICE, info) => match AsyncNoticeInfo(info) {
            AsyncNoticeInfo::FIRMWARE_ACTIVATION_STARTING => Some(config.with_firmware_activation(true)),
            _ => Some(config.with_namespace_attribute(true)),
        },
        (AsyncEventType::IMMEDIATE, _) => Some(config.with_subsystem_shutdown(true)),
        _ => None,
    }
}

impl Core {
    /// A normal shutdown of the subsystem is announced, to a request that waits, before it begins.
    pub(crate) fn tell_shutdown(&self, control: &mut Control) {
        let event = AsyncEvent::new()
            .with_event_type(AsyncEventType::IMMEDIATE)
            .with_info(AsyncImmediateInfo::NORMAL_SUBSYSTEM_SHUTDOWN.0);
        control.raise(event);
        self.run_admin(control, 0);
    }
}

impl Control {
    /// An event happened: it is reported if the host enabled its kind.
    pub(super) fn raise(&mut self, event: AsyncEvent) {
        let enabled = self.features.value(FeatureId::ASYNC_EVENT_CONFIG, 0);
        if enabling_bit(event).is_none_or(|bit| enabled & bit.into_bits() != 0) {
            self.events.raise(event);
        }
    }

    pub(super) fn request_event(&mut self, command: Command<'_>) -> Result<Answer, Refused> {
        if self.events.requests.len() > usize::from(LIMIT_Z) {
            let what = format_args!("{} event requests are outstanding", self.events.requests.len());
            self.engine.violation(Rule::CommandLimit, command, what);
            return Err(never(Status::AER_LIMIT_EXCEEDED));
        }
        self.engine.statistics.admin_commands[usize::from(AdminOpcode::ASYNC_EVENT_REQUEST.0)] += 1;
        self.events.requests.push_back(command.sqe.cid());
        Ok(Answer::Parked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(info: u8) -> AsyncEvent {
        AsyncEvent::new().with_info(info).with_log_page(LogPageId::ERROR_INFORMATION.0)
    }

    #[test]
    fn an_event_masks_its_type_until_the_log_is_read() {
        let mut events = Events::default();
        events.raise(event(1));
        events.raise(event(1));
        assert_eq!(events.events.len(), 1);
        events.requests.push_back(7);
        assert!(events.deliverable());
        events.masked.push(event(0));
        assert!(!events.deliverable());
        events.rearm(LogPageId::SMART);
        assert!(!events.deliverable());
        events.rearm(LogPageId::ERROR_INFORMATION);
        assert!(events.deliverable());
        assert!(events.withdraw(7) && !events.withdraw(7));
    }
}
