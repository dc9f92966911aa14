//! What happens to an SSD, and what recovery did about it.

use std::time::Duration;

use warpbell::{OnRelease, QueueName, RecoveryEvent, SsdEvent, SsdEventKind};
use warpbell_base::Time;

use crate::error::{Answer, Code, Failure};
use crate::ssd::{SSDS, fixed};
use crate::types::{self, Event, Head, RecoveryCounters};

/// In place of a number of which 0 is the default: none at all.
const NONE: u32 = u32::MAX;

/// The policy that a C program asks for; zeros are defaults.
pub(crate) fn policy(asked: &types::RecoveryPolicy) -> warpbell::RecoveryPolicy {
    let default = warpbell::RecoveryPolicy::default();
    let time = |given: u64, default: Duration| if given == 0 { default } else { Duration::from_nanos(given) };
    warpbell::RecoveryPolicy::new()
        .enabled(asked.off == 0)
        .alarm_period(time(asked.alarm_period_ns, default.alarm_period))
        .health_period(time(asked.health_period_ns, default.health_period))
        .event_period(time(asked.event_period_ns, default.event_period))
        .event_limit(default.event_limit)
        .abort(time(asked.abort_ns, default.abort))
        .settle(time(asked.settle_ns, default.settle))
        .delete(time(asked.delete_ns, default.delete))
        .replace(time(asked.replace_ns, default.replace))
        .quiesce(time(asked.quiesce_ns, default.quiesce))
        .reset(time(asked.reset_ns, default.reset))
        .resets(count(asked.resets, default.resets))
        .reset_window(time(asked.reset_window_ns, default.reset_window))
        .function_reset(asked.no_function_reset == 0)
        .on_release(if asked.keep_on_release == 0 { OnRelease::Stop } else { OnRelease::Tell })
}

/// A count of which 0 is the default.
pub(crate) fn count(given: u32, default: u32) -> u32 {
    match given {
        0 => default,
        NONE => 0,
        given => given,
    }
}

/// The next event of an SSD, which may be waited for.
pub(crate) fn next(ssd: u64, timeout: Duration) -> Answer<Event> {
    let events = SSDS.get(ssd)?.ssd.events();
    // Not kept open meanwhile.
    events.recv_timeout(timeout).map(|event| told(&event)).map_err(|error| {
        if error.is_disconnected() {
            return Failure::new(Code::Handle, "ssd: the handle was closed meanwhile by another thread");
        }
        Failure::new(Code::Timeout, format!("no event within {}", Time(timeout)))
    })
}

/// What recovery did for an SSD.
pub(crate) fn counters(ssd: u64) -> Answer<RecoveryCounters> {
    let counted = SSDS.get(ssd)?.ssd.recovery_counters();
    Ok(RecoveryCounters {
        head: Head::of::<RecoveryCounters>(),
        alarms: counted.alarms,
        timed_out: counted.timed_out,
        aborts: counted.aborts,
        aborts_acknowledged: counted.aborts_acknowledged,
        aborts_not_found: counted.aborts_not_found,
        aborts_unanswered: counted.aborts_unanswered,
        late_completions: counted.late_completions,
        queues_lost: counted.queues_lost,
        queues_replaced: counted.queues_replaced,
        queues_dead: counted.queues_dead,
        ids_freed: counted.ids_freed,
        resets: counted.resets,
        resets_failed: counted.resets_failed,
        ssds_lost: counted.ssds_lost,
        events_lost: counted.events_lost,
    })
}

fn told(event: &SsdEvent) -> Event {
    let (kind, warning) = match &event.kind {
        SsdEventKind::Critical(warning) => (2, u32::from(warning.into_bits())),
        SsdEventKind::Recovery(_) => (3, 0),
        SsdEventKind::ReleaseRequested => (4, 0),
        SsdEventKind::Released => (5, 0),
        _ => (1, 0),
    };
    let (step, queue, tag) = match &event.kind {
        SsdEventKind::Recovery(step) => of_step(step),
        _ => (0, None, 0),
    };
    Event {
        head: Head::of::<Event>(),
        at_ns: u64::try_from(event.at.as_nanos()).unwrap_or(u64::MAX),
        kind,
        step,
        queue: queue.map_or(0, |queue| queue.index),
        qid: queue.map_or(0, |queue| queue.qid.get().into()),
        tag,
        warning,
        text: fixed(&event.to_string()),
    }
}

/// `WARPBELL_STEP_*`, the queue and the command.
fn of_step(step: &RecoveryEvent) -> (u32, Option<QueueName>, u32) {
    match step {
        RecoveryEvent::TimedOut { queue, tag } => (1, Some(*queue), *tag),
        RecoveryEvent::Aborted { queue, tag, .. } => (2, Some(*queue), *tag),
        RecoveryEvent::Resolved { queue, .. } => (3, Some(*queue), 0),
        RecoveryEvent::QueueLost { queue, .. } => (4, Some(*queue), 0),
        RecoveryEvent::QueueDeleted { queue, .. } => (5, Some(*queue), 0),
        RecoveryEvent::QueueReplaced { queue, .. } => (6, Some(*queue), 0),
        RecoveryEvent::QueueDead { queue, .. } => (7, Some(*queue), 0),
        RecoveryEvent::IdFree { queue } => (8, Some(*queue), 0),
        RecoveryEvent::ResetStarted { .. } => (9, None, 0),
        RecoveryEvent::ResetDone { .. } => (10, None, 0),
        RecoveryEvent::ResetFailed { .. } => (11, None, 0),
        RecoveryEvent::SsdLost { .. } => (12, None, 0),
        _ => (0, None, 0),
    }
}

#[cfg(test)]
mod tests {
    use warpbell_hw::Qid;

    use super::*;

    #[test]
    fn zeros_are_the_defaults_and_none_is_none() {
        let zeros = types::RecoveryPolicy {
            head: Head::of::<types::RecoveryPolicy>(),
            alarm_period_ns: 0,
            health_period_ns: 0,
            event_period_ns: 0,
            abort_ns: 0,
            settle_ns: 0,
            delete_ns: 0,
            replace_ns: 0,
            quiesce_ns: 0,
            reset_ns: 0,
            reset_window_ns: 0,
            resets: 0,
            no_function_reset: 0,
            off: 0,
            keep_on_release: 0,
        };
        assert_eq!(policy(&zeros), warpbell::RecoveryPolicy::default());
        let asked = types::RecoveryPolicy { settle_ns: 7, resets: NONE, off: 1, keep_on_release: 1, ..zeros };
        let policy = policy(&asked);
        assert_eq!((policy.settle, policy.resets, policy.enabled), (Duration::from_nanos(7), 0, false));
        assert_eq!(policy.on_release, OnRelease::Tell);
    }

    #[test]
    fn an_event_names_its_queue_and_its_command() {
        let queue = QueueName { attachment: 1, index: 2, qid: Qid(7) };
        let kind = SsdEventKind::Recovery(RecoveryEvent::TimedOut { queue, tag: 0x10003 });
        let event = told(&SsdEvent { at: Duration::from_micros(5), kind });
        assert_eq!((event.at_ns, event.kind, event.step), (5000, 3, 1));
        assert_eq!((event.queue, event.qid, event.tag), (2, 7, 0x10003));
        assert!(event.text.starts_with(b"queue 2 of attachment 1 (id 7): command 0x10003 timed out\0"));
    }

    /// The number behind `#define NAME` in the header.
    fn in_header(name: &str) -> u32 {
        let header = include_str!("../include/warpbell/warpbell.h");
        let line = header.lines().find(|line| line.split_whitespace().nth(1) == Some(name));
        let number =
            line.and_then(|line| line.split_whitespace().nth(2)).and_then(|text| text.strip_suffix('u'));
        number.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{name} is not in the header"))
    }

    #[test]
    fn steps_have_the_numbers_of_the_header() {
        let queue = QueueName { attachment: 1, index: 2, qid: Qid(7) };
        let (took, reason) = (Duration::ZERO, String::new());
        let answer = warpbell::AbortAnswer::Acknowledged;
        let steps = [
            ("TIMED_OUT", RecoveryEvent::TimedOut { queue, tag: 1 }),
            ("ABORTED", RecoveryEvent::Aborted { queue, tag: 1, answer, took }),
            ("RESOLVED", RecoveryEvent::Resolved { queue, took }),
            ("QUEUE_LOST", RecoveryEvent::QueueLost { queue, reason: reason.clone() }),
            ("QUEUE_DELETED", RecoveryEvent::QueueDeleted { queue, took }),
            ("QUEUE_REPLACED", RecoveryEvent::QueueReplaced { queue, by: Qid(8), epoch: 1, took }),
            ("QUEUE_DEAD", RecoveryEvent::QueueDead { queue, reason: reason.clone() }),
            ("ID_FREE", RecoveryEvent::IdFree { queue }),
            ("RESET_STARTED", RecoveryEvent::ResetStarted { reason: reason.clone(), function: false }),
            ("RESET_DONE", RecoveryEvent::ResetDone { took, changed_namespaces: vec![] }),
            ("RESET_FAILED", RecoveryEvent::ResetFailed { reason: reason.clone(), took }),
            ("SSD_LOST", RecoveryEvent::SsdLost { reason }),
        ];
        for (name, step) in steps {
            assert_eq!(of_step(&step).0, in_header(&format!("WARPBELL_STEP_{name}")), "{step:?}");
        }
        let warning = warpbell_nvme::log::CriticalWarning::from_bits(1);
        for (name, kind) in [
            ("CRITICAL", SsdEventKind::Critical(warning)),
            ("RECOVERY", SsdEventKind::Recovery(RecoveryEvent::IdFree { queue })),
            ("RELEASE_REQUESTED", SsdEventKind::ReleaseRequested),
            ("RELEASED", SsdEventKind::Released),
        ] {
            let event = told(&SsdEvent { at: Duration::ZERO, kind });
            assert_eq!(event.kind, in_header(&format!("WARPBELL_EVENT_{name}")), "{name}");
        }
    }
}
