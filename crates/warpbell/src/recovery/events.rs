//! What happens to an SSD, as its user is told.

use std::fmt;
use std::time::Duration;

use warpbell_base::Time;
use warpbell_driver::{AsyncEvent, EventDetail, Notice};
use warpbell_hw::Qid;
use warpbell_nvme::log::CriticalWarning;

/// Something that happened to an SSD.
#[derive(Clone, Debug)]
pub struct SsdEvent {
    /// When, on the device's clock.
    pub at: Duration,
    /// What.
    pub kind: SsdEventKind,
}

/// What happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SsdEventKind {
    /// The controller reported something by itself: an error, its health, namespaces, firmware.
    Reported(Box<AsyncEvent>),
    /// The controller's health is not what it should be.
    Critical(CriticalWarning),
    /// Somebody shut the controller down, or changed its power state, through this driver.
    Notice(Notice),
    /// A step of recovery.
    Recovery(RecoveryEvent),
    /// The system wants the function back.
    ReleaseRequested,
    /// All queues are deleted, and kernels know: whoever asked has the function when the SSD is dropped.
    Released,
}

/// Which queue: of which attachment, and where there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueName {
    /// The attachment's number, from 1 on for each SSD.
    pub attachment: u32,
    /// The queue's index in it.
    pub index: u32,
    /// The identifier that it had at the time.
    pub qid: Qid,
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue {} of attachment {} (id {})", self.index, self.attachment, self.qid.get())
    }
}

/// What became of an Abort command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortAnswer {
    /// The controller says that it aborted the command.
    Acknowledged,
    /// It says that it did not: the command has completed, or it does not know it.
    NotFound,
    /// It did not answer in time, or not at all.
    Unanswered,
}

impl fmt::Display for AbortAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AbortAnswer::Acknowledged => "acknowledged",
            AbortAnswer::NotFound => "not found",
            AbortAnswer::Unanswered => "not answered",
        })
    }
}

/// A step of recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecoveryEvent {
    /// A kernel gave a command up: its deadline has passed.
    TimedOut {
        /// Its queue.
        queue: QueueName,
        /// The command, as its kernel calls it: `warp_slot << 16 | local`.
        tag: u32,
    },
    /// The controller was asked to abort it.
    Aborted {
        /// Its queue.
        queue: QueueName,
        /// The command.
        tag: u32,
        /// What became of the Abort.
        answer: AbortAnswer,
        /// How long that took.
        took: Duration,
    },
    /// The completions of all commands that were given up have come.
    Resolved {
        /// Their queue.
        queue: QueueName,
        /// From the first of them to this.
        took: Duration,
    },
    /// A queue was given up.
    QueueLost {
        /// Which.
        queue: QueueName,
        /// Why.
        reason: String,
    },
    /// The controller deleted a queue pair that was given up: it touches nothing of it any more.
    QueueDeleted {
        /// Which.
        queue: QueueName,
        /// How long that took.
        took: Duration,
    },
    /// A new queue is there in place of one that was given up.
    QueueReplaced {
        /// The old one.
        queue: QueueName,
        /// The new one's identifier.
        by: Qid,
        /// How often this queue has been replaced.
        epoch: u32,
        /// From the loss to this.
        took: Duration,
    },
    /// No queue will come in place of one that was given up.
    QueueDead {
        /// Which.
        queue: QueueName,
        /// Why not.
        reason: String,
    },
    /// Kernels have left a queue that was given up: its identifier can be used again.
    IdFree {
        /// Which.
        queue: QueueName,
    },
    /// The controller is being reset. All its queues are lost.
    ResetStarted {
        /// Why.
        reason: String,
        /// Whether its function is reset.
        function: bool,
    },
    /// The controller was reset.
    ResetDone {
        /// How long that took.
        took: Duration,
        /// Namespaces that are not what they were.
        changed_namespaces: Vec<u32>,
    },
    /// The controller could not be reset.
    ResetFailed {
        /// Why not.
        reason: String,
        /// How long that took.
        took: Duration,
    },
    /// The SSD was given up: nothing on it works any more.
    SsdLost {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for RecoveryEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoveryEvent::TimedOut { queue, tag } => write!(f, "{queue}: command {tag:#x} timed out"),
            RecoveryEvent::Aborted { queue, tag, answer, took } => {
                write!(f, "{queue}: Abort of command {tag:#x}: {answer} after {}", Time(*took))
            }
            RecoveryEvent::Resolved { queue, took } => {
                write!(
                    f,
                    "{queue}: all commands that timed out have completed, {} after the first",
                    Time(*took)
                )
            }
            RecoveryEvent::QueueLost { queue, reason } => write!(f, "{queue} is given up: {reason}"),
            RecoveryEvent::QueueDeleted { queue, took } => write!(f, "{queue}: deleted in {}", Time(*took)),
            RecoveryEvent::QueueReplaced { queue, by, epoch, took } => {
                write!(f, "{queue}: replaced by id {} (epoch {epoch}) after {}", by.get(), Time(*took))
            }
            RecoveryEvent::QueueDead { queue, reason } => write!(f, "{queue} is not replaced: {reason}"),
            RecoveryEvent::IdFree { queue } => write!(f, "{queue}: kernels have left it; its id is free"),
            RecoveryEvent::ResetStarted { reason, function: false } => {
                write!(f, "controller reset, because {reason}")
            }
            RecoveryEvent::ResetStarted { reason, function: true } => {
                write!(f, "function level reset, because {reason}")
            }
            RecoveryEvent::ResetDone { took, changed_namespaces } if changed_namespaces.is_empty() => {
                write!(f, "reset done in {}", Time(*took))
            }
            RecoveryEvent::ResetDone { took, changed_namespaces } => {
                write!(f, "reset done in {}; changed namespaces: {changed_namespaces:?}", Time(*took))
            }
            RecoveryEvent::ResetFailed { reason, took } => {
                write!(f, "reset failed after {}: {reason}", Time(*took))
            }
            RecoveryEvent::SsdLost { reason } => write!(f, "the SSD is given up: {reason}"),
        }
    }
}

impl fmt::Display for SsdEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)
    }
}

impl fmt::Display for SsdEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SsdEventKind::Reported(event) => {
                write!(f, "{}", event.event)?;
                detail(&event.detail, f)
            }
            SsdEventKind::Critical(warning) => {
                write!(f, "SMART critical warning: {}", warning_words(*warning).join(", "))
            }
            SsdEventKind::Notice(notice) => notice.fmt(f),
            SsdEventKind::Recovery(event) => event.fmt(f),
            SsdEventKind::ReleaseRequested => f.write_str("the system asks for the function back"),
            SsdEventKind::Released => {
                f.write_str("stopped: the function is let go of when the SSD is dropped")
            }
        }
    }
}

fn detail(detail: &EventDetail, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match detail {
        EventDetail::Errors(errors) => write!(f, "; {} entries in the error log", errors.len()),
        EventDetail::Health(log) => {
            write!(f, "; critical warning: {}", warning_words(log.critical_warning).join(", "))
        }
        EventDetail::Namespaces(nsids) if nsids.is_empty() => f.write_str("; too many namespaces to name"),
        EventDetail::Namespaces(nsids) => {
            write!(f, "; namespaces {:?}", nsids.iter().map(|nsid| nsid.get()).collect::<Vec<_>>())
        }
        EventDetail::Firmware(log) => write!(f, "; firmware slots {:?}", log.afi),
        EventDetail::Unread(reason) => write!(f, "; its log page could not be read: {reason}"),
        _ => Ok(()),
    }
}

/// The bits of SMART's critical warning in words; `none` where there is none.
pub fn warning_words(warning: CriticalWarning) -> Vec<&'static str> {
    let words = [
        (warning.spare(), "available spare below its threshold"),
        (warning.temperature(), "temperature beyond a threshold"),
        (warning.reliability(), "reliability degraded by media or internal errors"),
        (warning.read_only(), "media read only"),
        (warning.backup_failed(), "volatile memory backup failed"),
        (warning.pmr(), "persistent memory region read only or unreliable"),
    ];
    let set: Vec<_> = words.into_iter().filter_map(|(set, words)| set.then_some(words)).collect();
    if set.is_empty() { vec!["none"] } else { set }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_name_their_object_and_the_time_it_took() {
        let queue = QueueName { attachment: 2, index: 1, qid: Qid(7) };
        let event = RecoveryEvent::Aborted {
            queue,
            tag: 0x10003,
            answer: AbortAnswer::NotFound,
            took: Duration::from_millis(3),
        };
        assert_eq!(
            event.to_string(),
            "queue 1 of attachment 2 (id 7): Abort of command 0x10003: not found after 3ms"
        );
        let lost = RecoveryEvent::SsdLost { reason: "it does not answer".to_owned() };
        let event = SsdEvent { at: Duration::ZERO, kind: SsdEventKind::Recovery(lost) };
        assert_eq!(event.to_string(), "the SSD is given up: it does not answer");
    }

    #[test]
    fn critical_warnings_are_words() {
        let warning = CriticalWarning::new().with_spare(true).with_read_only(true);
        assert_eq!(warning_words(warning), ["available spare below its threshold", "media read only"]);
        assert_eq!(warning_words(CriticalWarning::new()), ["none"]);
        let text = SsdEventKind::Critical(warning).to_string();
        assert!(text.starts_with("SMART critical warning: available spare"), "{text}");
    }
}
