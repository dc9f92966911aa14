//! The client checker: names what a client did against the specification.
//!
//! A violation is never only a status: it also lands in a log that tests assert is empty. What a client may do to
//! find out what there is, and is answered by a status, lands in a log of refusals. Reserved fields that
//! are not zero are logged and otherwise ignored, as the specification asks of a controller; everything else
//! also fails the command, raises an asynchronous event, or stops the controller.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use warpbell_hw::AccessError;
use warpbell_nvme::command::{AsyncErrorInfo, AsyncEvent, AsyncEventType};
use warpbell_nvme::log::LogPageId;

/// Violations kept in the log; further ones are only counted.
pub const LOG_LIMIT: usize = 1024;

/// What becomes of a broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The specification says that a host shall not, or leaves undefined what happens: it lands in the log of
    /// violations, which tests assert is empty.
    Violation,
    /// The specification has a status for it, and a host may ask on purpose, to find out what there is: it lands in
    /// the log of refusals.
    Refusal,
}

macro_rules! rules {
    ($($(#[$doc:meta])* $Name:ident: $severity:ident = $section:literal;)*) => {
        /// A rule that a client broke.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rule { $($(#[$doc])* $Name,)* }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Rule] = &[$(Rule::$Name),*];

            /// Which log it lands in.
            pub const fn severity(self) -> Severity {
                match self { $(Rule::$Name => Severity::$severity,)* }
            }

            /// Where the specification states it.
            pub const fn section(self) -> &'static str {
                match self { $(Rule::$Name => $section,)* }
            }

            /// The rule's name.
            pub const fn name(self) -> &'static str {
                match self { $(Rule::$Name => stringify!($Name),)* }
            }
        }
    };
}

rules! {
    /// A write to a doorbell of a queue that does not exist, or between two doorbells.
    DoorbellRegister: Violation = "Base 2.0, 5.2, figure 146 (write to invalid doorbell register)";
    /// A doorbell value that is not an entry of the queue.
    DoorbellRange: Violation = "Base 2.0, 5.2, figure 146 (invalid doorbell write value)";
    /// A doorbell written with the value that it has.
    DoorbellRepeated: Violation = "Base 2.0, 5.2, figure 146 (invalid doorbell write value)";
    /// A submission tail that adds more entries than are free.
    DoorbellOverrun: Violation = "Base 2.0, 3.3.1.5 (full queue)";
    /// A completion head that frees entries that were not posted.
    CqHeadBeyondTail: Violation = "Base 2.0, 3.3.1.2 (queue usage)";
    /// A command identifier that another outstanding command of the queue has.
    CidInFlight: Violation = "Base 2.0, 3.3.3.1, figure 86 (command identifier)";
    /// A PRP entry with an offset where none is allowed.
    PrpOffset: Violation = "Base 2.0, 4.1.1 (PRP entry and list)";
    /// A PRP entry that is not dword aligned, or a list pointer that is not qword aligned.
    PrpMisaligned: Violation = "Base 2.0, 4.1.1 (PRP entry and list)";
    /// PRP2 is not zero although PRP1 describes all data.
    PrpUnneeded: Violation = "Base 2.0, 4.1.1 (PRP entry and list)";
    /// The last slot of a PRP list page seems to point at another list although it holds the last entry.
    PrpChainUnneeded: Violation = "Base 2.0, 4.1.1 (PRP entry and list)";
    /// An SGL descriptor or segment that is malformed, of an unsupported type, or in the wrong place.
    SglDescriptor: Violation = "Base 2.0, 4.1.2 (scatter gather list)";
    /// An SGL that describes less or more than the command transfers.
    SglLength: Violation = "Base 2.0, 4.1.2 (scatter gather list)";
    /// A data pointer of a kind that this queue or controller does not take.
    DataPointer: Violation = "Base 2.0, 3.3.3.1, figure 86 (PRP or SGL for data transfer)";
    /// An address that is not mapped for the controller, or not for this direction.
    ForeignAddress: Violation = "Base 2.0, 4.1 (data layout)";
    /// A queue, a list or segment that describes data, or data of an admin command in memory without a CPU pointer.
    NoPointer: Violation = "Base 2.0, 4.1 (data layout)";
    /// A reserved field that is not zero.
    ReservedField: Violation = "Base 2.0, 1.4.2 (reserved)";
    /// Metadata or protection information on a namespace that has none.
    Metadata: Violation = "NVM command set 1.0, 5.2 (end-to-end data protection)";
    /// An opcode that the controller does not report.
    UnsupportedOpcode: Violation = "Base 2.0, 3.1.2 (command support)";
    /// A transfer longer than MDTS.
    TransferSize: Violation = "Base 2.0, 5.17.2.1, figure 275 (MDTS)";
    /// A command beyond the limits of Write Zeroes or Dataset Management.
    CommandSize: Violation = "NVM command set 1.0, 4.1.5, figure 118 (WZSL, DMRL, DMRSL, DMSL)";
    /// A field of CC other than EN and SHN changed while EN is set.
    CcChangedWhileEnabled: Violation = "Base 2.0, 3.1.3.5 (controller configuration)";
    /// A reserved shutdown notification, or one that comes while EN is clear or changes.
    ShutdownNotification: Violation = "Base 2.0, 3.1.3.5 (controller configuration), 3.6.1 (controller shutdown)";
    /// EN set with queue attributes, bases or a configuration that the controller does not take.
    EnableConfiguration: Violation = "Base 2.0, 3.5.1 (controller initialization)";
    /// A register access of the wrong size or alignment, or a write to a register that is read only.
    RegisterAccess: Violation = "Base 2.0, 3.1.3 (controller properties)";
    /// An admin queue register changed while EN is set.
    AdminQueueChanged: Violation = "Base 2.0, 3.1.3.8 (admin queue attributes)";
    /// A doorbell written while the controller is not ready.
    NotReady: Violation = "Base 2.0, 3.5.1 (controller initialization)";
    /// A command submitted after a shutdown was asked for.
    CommandAfterShutdown: Violation = "Base 2.0, 3.6.1 (controller shutdown)";
    /// Memory of a queue unmapped while the queue exists.
    QueueMemoryUnmapped: Violation = "Base 2.0, 5.7 (delete I/O submission queue)";
    /// A queue created in memory that another queue uses.
    QueueOverlap: Violation = "Base 2.0, 3.3.1 (memory-based queues)";
    /// Data, or a list or segment that describes it, in the memory of a queue that exists.
    DataInQueue: Violation = "Base 2.0, 3.3.1 (memory-based queues)";
    /// A fetched entry was never written, or was fetched before and not written since.
    StaleEntry: Violation = "Base 2.0, 3.3.1.2 (queue usage)";
    /// More Asynchronous Event Requests or Aborts than the controller reports.
    CommandLimit: Violation = "Base 2.0, 5.17.2.1, figure 275 (AERL, ACL)";
    /// EN set before RDY was clear, or cleared before RDY was set: both have undefined results.
    EnableTransition: Violation = "Base 2.0, 3.1.3.5 (controller configuration, EN)";
    /// A write of anything but 4E564D65h to NSSR.
    SubsystemReset: Violation = "Base 2.0, 3.1.3.7 (NVM subsystem reset)";
    /// INTMS or INTMC accessed although the function uses MSI-X.
    InterruptMask: Violation = "Base 2.0, 3.1.3.3, 3.1.3.4 (interrupt mask set and clear)";
    /// FFFFh as a command identifier: error log entries mean by it that they are about no command. Told once a queue.
    CidReserved: Violation = "Base 2.0, 3.3.3.1, figure 86 (command identifier), 5.16.1.2";
    /// A command that is half of a fused operation: none is supported.
    FusedOperation: Violation = "Base 2.0, 3.4.2 (fused operations)";
    /// A PRP list that leads back to a page of itself.
    PrpLoop: Violation = "Base 2.0, 4.1.1 (PRP entry and list)";
    /// The keep alive timer ran out: the client sent no Keep Alive command for too long.
    KeepAliveExpired: Violation = "Base 2.0, 3.9 (keep alive)";
    /// A namespace that does not exist or is not attached, or a command that does not take all of them.
    NamespaceIdentifier: Refusal = "Base 2.0, 3.2.1 (namespace identifiers)";
    /// Blocks past the end of a namespace, or around the end of the address space.
    LbaRange: Refusal = "NVM command set 1.0, 2.1.1 (namespace size)";
    /// A write to a namespace, or to blocks of it, that may not be written.
    WriteProtected: Refusal = "Base 2.0, 8.12 (namespace write protection)";
    /// A queue identifier that is zero, beyond the granted number, in use (create) or not in use (delete).
    QueueIdentifier: Refusal = "Base 2.0, 5.4 to 5.7 (invalid queue identifier)";
    /// A queue of fewer than two entries or more than CAP.MQES allows, or with entry sizes in CC that do not suit.
    QueueSize: Refusal = "Base 2.0, 5.4, 5.5 (invalid queue size)";
    /// An interrupt vector that the function does not have.
    InterruptVector: Refusal = "Base 2.0, 5.4 (invalid interrupt vector)";
    /// A submission queue for a completion queue that does not exist.
    CompletionQueue: Refusal = "Base 2.0, 5.5 (completion queue invalid)";
    /// A completion queue deleted before the submission queues that complete into it.
    QueueDeletion: Refusal = "Base 2.0, 5.6 (invalid queue deletion)";
    /// A command that comes too late: Number of Queues after the first queue.
    CommandSequence: Refusal = "Base 2.0, 5.27.1.5 (number of queues)";
    /// A feature that cannot be changed, saved, or set for one namespace.
    FeatureAttribute: Refusal = "Base 2.0, 5.27 (set features), figure 317";
    /// A log page that there is not.
    LogPage: Refusal = "Base 2.0, 5.16 (get log page)";
    /// Any other field with a value that the command does not take.
    FieldValue: Refusal = "Base 2.0, 3.3.3.2.1, figure 93 (invalid field in command)";
}

impl Rule {
    /// The rule that a client broke who gave the controller memory that it cannot use.
    pub(crate) fn of_access(error: &AccessError) -> Rule {
        match error {
            AccessError::NoPointer { .. } => Rule::NoPointer,
            _ => Rule::ForeignAddress,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// Where the specification states it.
    pub section: &'static str,
    /// What happened, with the queue, command, address or value.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.rule, self.detail, self.section)
    }
}

/// The log, and the asynchronous events that violations raise. Shared by all threads of a controller.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    log: Mutex<Vec<Violation>>,
    refusals: Mutex<Vec<Violation>>,
    seen: AtomicU64,
    events: Mutex<Vec<AsyncEvent>>,
    raised: AtomicBool,
}

impl Checker {
    /// Logs a violation or refusal.
    #[cold]
    pub(crate) fn report(&self, rule: Rule, detail: String) {
        if rule.severity() == Severity::Refusal {
            tracing::debug!(rule = rule.name(), %detail, "client command refused");
            return Self::keep(&self.refusals, rule, detail);
        }
        tracing::warn!(rule = rule.name(), %detail, "client violation");
        self.seen.fetch_add(1, Ordering::Relaxed);
        Self::keep(&self.log, rule, detail);
    }

    fn keep(log: &Mutex<Vec<Violation>>, rule: Rule, detail: String) {
        let mut log = log.lock();
        if log.len() < LOG_LIMIT {
            log.push(Violation { rule, section: rule.section(), detail });
        }
    }

    /// Logs a doorbell violation, and raises the error event that the specification has for it.
    #[cold]
    pub(crate) fn report_doorbell(&self, rule: Rule, detail: String) {
        self.report(rule, detail);
        let info = match rule {
            Rule::DoorbellRegister => AsyncErrorInfo::INVALID_DOORBELL_REGISTER,
            _ => AsyncErrorInfo::INVALID_DOORBELL_VALUE,
        };
        self.raise_error(info);
    }

    /// An error event.
    #[cold]
    pub(crate) fn raise_error(&self, info: AsyncErrorInfo) {
        let event = AsyncEvent::new()
            .with_event_type(AsyncEventType::ERROR)
            .with_info(info.0)
            .with_log_page(LogPageId::ERROR_INFORMATION.0);
        self.raise(event);
    }

    /// An asynchronous event for the admin queue.
    #[cold]
    pub(crate) fn raise(&self, event: AsyncEvent) {
        self.events.lock().push(event);
        // Release: whoever sees the flag takes the events pushed before it.
        self.raised.store(true, Ordering::Release);
    }

    /// Makes the admin queue's side look at what may raise events.
    pub(crate) fn wake(&self) {
        self.raised.store(true, Ordering::Release);
    }

    /// Whether events wait for the admin queue.
    #[inline]
    pub(crate) fn raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// The events raised since the last call.
    pub(crate) fn take_events(&self) -> Vec<AsyncEvent> {
        self.raised.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.events.lock())
    }

    /// The log so far, oldest first.
    pub(crate) fn violations(&self) -> Vec<Violation> {
        self.log.lock().clone()
    }

    /// The refusals so far, oldest first.
    pub(crate) fn refusals(&self) -> Vec<Violation> {
        self.refusals.lock().clone()
    }

    /// Violations in total, including those beyond the log's limit.
    pub(crate) fn count(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_capped_and_the_rest_counted() {
        let checker = Checker::default();
        for i in 0..LOG_LIMIT + 5 {
            checker.report(Rule::StaleEntry, format!("entry {i}"));
        }
        assert_eq!(checker.violations().len(), LOG_LIMIT);
        assert_eq!(checker.count(), LOG_LIMIT as u64 + 5);
        assert!(!checker.raised(), "only doorbell violations raise events");
    }

    #[test]
    fn doorbell_violations_raise_error_events() {
        let checker = Checker::default();
        checker.report_doorbell(Rule::DoorbellRepeated, "queue 1".into());
        assert!(checker.raised());
        let events = checker.take_events();
        assert_eq!(events[0].info(), AsyncErrorInfo::INVALID_DOORBELL_VALUE.0);
        assert_eq!(events[0].log_page(), LogPageId::ERROR_INFORMATION.0);
        assert!(!checker.raised());
    }

    #[test]
    fn every_rule_names_its_section() {
        for rule in Rule::ALL {
            assert!(rule.section().contains("2.0") || rule.section().contains("1.0"), "{rule}");
        }
    }
}
