//! What it takes to execute a command: a view of client memory, the namespaces, and where to report.
//! Each thread has its own.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use warpbell_nvme::command::{Fuse, Psdt};
use warpbell_nvme::{Sqe, Status};

use crate::admin::ErrorLog;
use crate::checker::{Checker, Rule};
use crate::copying::{Copier, Job};
use crate::fault::{Chosen, Injector};
use crate::memory::View;
use crate::nvm::Deferred;
use crate::optional::OptionalCommands;
use crate::power::Power;
use crate::profile::Media;
use crate::queue::Sq;
use crate::sim::TimeSource;
use crate::statistics::Statistics;
use crate::store::{Namespace, Namespaces};
use crate::test_hooks::Defect;
use crate::transfer::Segment;

/// Limits that commands are checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// CC.MPS in bytes.
    pub(crate) page: u64,
    /// Most bytes of one command's data (MDTS).
    pub(crate) bytes: u64,
    /// Whether I/O commands may use SGLs.
    pub(crate) sgl: bool,
    /// Of optional commands.
    pub(crate) optional: OptionalCommands,
}

/// A command, for messages.
#[derive(Clone, Copy)]
pub(crate) struct Command<'a> {
    pub(crate) sqid: u16,
    pub(crate) sqe: &'a Sqe,
}

impl fmt::Display for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sqe, sqid) = (self.sqe, self.sqid);
        write!(f, "queue {sqid} command {:#06x} opcode {:02X}h", sqe.cid(), sqe.opcode())
    }
}

/// The error of a command: its status.
pub(crate) type Refused = Status;

/// The status of a command that would fail again in the same way.
pub(crate) const fn never(status: Status) -> Refused {
    status.with_dnr(true)
}

/// Where in a command a parameter is, as the error log says it: the byte, and the bit times 256.
pub(crate) mod field {
    pub(crate) const OPCODE: u16 = 0;
    pub(crate) const FUSE: u16 = 1;
    pub(crate) const PSDT: u16 = 1 | 6 << 8;
    pub(crate) const NSID: u16 = 4;
    pub(crate) const CDW10: u16 = 40;
    pub(crate) const CDW11: u16 = 44;
    pub(crate) const CDW12: u16 = 48;
    pub(crate) const CDW14: u16 = 56;
    /// Nowhere in particular.
    pub(crate) const NONE: u16 = u16::MAX;
}

/// One thread's means to execute commands.
pub(crate) struct Engine {
    pub(crate) view: View,
    pub(crate) namespaces: Namespaces,
    pub(crate) checker: Arc<Checker>,
    pub(crate) errors: Arc<ErrorLog>,
    /// Shared by all threads; `None` if the plan is empty.
    pub(crate) injector: Option<Arc<Mutex<Injector>>>,
    /// The fault that was chosen for the command at hand.
    pub(crate) fault: Option<Chosen>,
    /// The data of the command at hand, if a fault moves it after the completion.
    pub(crate) deferred: Option<Deferred>,
    pub(crate) time: TimeSource,
    /// The volatile write cache is switched off.
    pub(crate) write_through: Arc<AtomicBool>,
    /// The host heeds retry delays (Host Behavior Support, ACRE).
    pub(crate) retry_delays: Arc<AtomicBool>,
    /// Shared by all threads; `None` where there is one power state.
    pub(crate) power: Option<Arc<Power>>,
    /// Shared by all threads; `None` where commands take as long as they take.
    pub(crate) media: Option<Arc<Mutex<Media>>>,
    pub(crate) limits: Limits,
    /// A mistake to make.
    pub(crate) defect: Option<Defect>,
    /// The command at hand, if engines copy its data.
    pub(crate) job: Option<Box<Job>>,
    pub(crate) copier: Copier,
    /// The data of the command at hand; kept for its allocation.
    pub(crate) segments: Vec<Segment>,
    /// Bytes on their way between a store and the client; kept for its allocation.
    pub(crate) scratch: Vec<u8>,
    pub(crate) statistics: Statistics,
    /// Which parameter of the command at hand is wrong, for the error log.
    pub(crate) location: Cell<u16>,
    /// Command Specific Information for the error log.
    pub(crate) specific: Cell<u64>,
}

impl Engine {
    /// A command begins: nothing is wrong with it yet.
    pub(crate) fn begin(&self) {
        self.location.set(field::NONE);
        self.specific.set(0);
    }

    /// The error `status`, for good, because of the parameter at `location`.
    pub(crate) fn blame(&self, location: u16, status: Status) -> Refused {
        self.location.set(location);
        never(status)
    }

    /// Does `check`; its error is because of the parameter at `location`.
    pub(crate) fn about<T>(
        &self,
        location: u16,
        check: impl FnOnce() -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        check().inspect_err(|_| self.location.set(location))
    }

    /// Logs a violation by a command.
    #[cold]
    pub(crate) fn violation(&self, rule: Rule, command: Command<'_>, what: impl fmt::Display) {
        self.checker.report(rule, format!("{command}: {what}"));
    }

    /// The identifier of a fetched command is in flight, or FFFFh for the first time. Returns whether it is a conflict.
    #[cold]
    pub(crate) fn conflict(&self, sq: &mut Sq, command: Command<'_>) -> bool {
        let conflict = sq.is_conflict(command.sqe.cid());
        // An entry of nothing but ones is no command with this identifier, but none at all.
        let written = command.sqe.cdw0.into_bits() != u32::MAX;
        if conflict {
            self.violation(Rule::CidInFlight, command, "its identifier is in flight");
        } else if written {
            self.violation(
                Rule::CidReserved,
                command,
                "its identifier means no command; the highest is 0xfffe",
            );
        }
        conflict
    }

    /// Checks what all commands have in common.
    pub(crate) fn check_common(&self, command: Command<'_>) -> Result<(), Refused> {
        let sqe = command.sqe;
        if sqe.cdw0.into_bits() == u32::MAX {
            // What overwrites fetched entries, and what a read of memory that is gone gives.
            self.violation(Rule::StaleEntry, command, "fetch of an entry that was not written");
            return Err(self.blame(field::OPCODE, Status::INVALID_OPCODE));
        }
        let reserved = sqe.cdw0.into_bits() >> 10 & 0xf;
        if reserved != 0 {
            self.violation(
                Rule::ReservedField,
                command,
                format_args!("dword 0 bits 13:10 are {reserved:#x}"),
            );
        }
        if sqe.cdw0.fuse() != Fuse::NORMAL {
            let fuse = sqe.cdw0.fuse();
            self.violation(Rule::FusedOperation, command, format_args!("FUSE {fuse}, and none is supported"));
            return Err(self.blame(field::FUSE, Status::INVALID_FIELD));
        }
        let sgl = sqe.cdw0.psdt() != Psdt::PRP;
        if sgl && (command.sqid == 0 || !self.limits.sgl || sqe.cdw0.psdt() != Psdt::SGL_CONTIGUOUS_METADATA)
        {
            let psdt = sqe.cdw0.psdt().into_bits();
            self.violation(Rule::DataPointer, command, format_args!("PSDT {psdt} is not supported here"));
            return Err(self.blame(field::PSDT, Status::INVALID_FIELD));
        }
        Ok(())
    }

    /// A status as this host may see it: one that does not heed retry delays gets none.
    pub(crate) fn with_delay(&self, status: Status) -> Status {
        if self.retry_delays.load(Ordering::Acquire) { status } else { status.with_crd(0) }
    }

    /// Reports dwords that are reserved in this command and not zero.
    pub(crate) fn check_reserved(&self, command: Command<'_>, dwords: &[(&str, u32)]) {
        for (name, value) in dwords.iter().filter(|(_, value)| *value != 0) {
            self.violation(Rule::ReservedField, command, format_args!("{name} is {value:#x}"));
        }
    }

    /// Whether what a command wrote must be durable before it completes.
    pub(crate) fn is_durable_at_once(&self, sqe: &Sqe, has_fua: bool) -> bool {
        has_fua && sqe.fua() || self.write_through.load(Ordering::Acquire)
    }

    /// Reports dwords that a command has no use for and that are not zero; bit n of `unused` is for dword n.
    pub(crate) fn check_unused(&self, command: Command<'_>, unused: u16) {
        let dwords: [u32; 16] = zerocopy::transmute!(*command.sqe);
        let bad = (1..16).filter(|index| unused & 1 << index != 0 && dwords[*index] != 0);
        for index in bad {
            let what = format_args!("dword {index} is {:#x}, and has no use", dwords[index]);
            self.violation(Rule::ReservedField, command, what);
        }
    }

    /// The namespace that a command is about.
    pub(crate) fn namespace(&self, nsid: u32) -> Result<&Namespace, Refused> {
        self.about(field::NSID, || self.namespaces.active(nsid))
    }

    /// Sees what changed in client memory and among the namespaces since the last call. Returns whether the client's
    /// memory changed.
    #[inline]
    pub(crate) fn refresh(&mut self) -> bool {
        self.namespaces.refresh();
        self.view.refresh()
    }
}
