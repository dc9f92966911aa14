//! The NVM command set (1.0, section 3).

mod compare;
mod dsm;
mod flush;
mod read_write;
mod zeroes;

use warpbell_nvme::status::StatusCodeType;
use warpbell_nvme::{NvmOpcode, Sqe, Status};

use crate::checker::Rule;
use crate::engine::{Command, Engine, Refused, field, never};
use crate::fault::{Corruption, FaultAction};
use crate::store::{Namespace, StoreError};
use crate::transfer::Segment;

/// Opcodes that are executed, with whether they change contents.
pub(crate) const SUPPORTED: &[(NvmOpcode, bool)] = &[
    (NvmOpcode::FLUSH, false),
    (NvmOpcode::WRITE, true),
    (NvmOpcode::READ, false),
    (NvmOpcode::COMPARE, false),
    (NvmOpcode::WRITE_ZEROES, true),
    (NvmOpcode::DATASET_MANAGEMENT, true),
    (NvmOpcode::VERIFY, false),
];

/// The blocks of a command, checked to exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Index of the namespace.
    index: usize,
    lba: u64,
    count: u64,
    /// Byte offset in the store.
    offset: u64,
    bytes: u64,
}

/// Data that a fault moves after the completion of its command.
pub(crate) struct Deferred {
    /// As it was when the command was executed.
    namespace: Namespace,
    extent: Extent,
    segments: Vec<Segment>,
    write: bool,
}

impl Engine {
    /// Executes one I/O command and counts it. Returns the status to complete it with.
    pub(crate) fn execute(&mut self, sqid: u16, sqe: &Sqe) -> Status {
        let command = Command { sqid, sqe };
        self.begin();
        let status = match self.run(command) {
            Ok(()) => Status::SUCCESS,
            Err(status) => status,
        };
        if !status.is_ok() {
            self.errors.note(command, status, self);
            self.note_refusal(command, status);
        }
        self.count(sqe.opcode(), status);
        status
    }

    fn count(&mut self, opcode: u8, status: Status) {
        self.statistics.io_commands[usize::from(opcode)] += 1;
        self.statistics.errors += u64::from(!status.is_ok());
        self.statistics.media_errors += u64::from(status.sct() == StatusCodeType::MEDIA && !status.is_ok());
    }

    fn run(&mut self, command: Command<'_>) -> Result<(), Refused> {
        self.check_common(command)?;
        self.namespaces.open()?;
        let sqe = command.sqe;
        match NvmOpcode(sqe.opcode()) {
            NvmOpcode::READ => self.read(command),
            NvmOpcode::WRITE => self.write(command),
            NvmOpcode::FLUSH => self.flush(command),
            NvmOpcode::COMPARE => self.compare(command),
            NvmOpcode::WRITE_ZEROES => self.write_zeroes(command),
            NvmOpcode::DATASET_MANAGEMENT => self.dataset_management(command),
            NvmOpcode::VERIFY => self.verify(command),
            opcode => {
                self.violation(Rule::UnsupportedOpcode, command, format_args!("{opcode} is not supported"));
                Err(self.blame(field::OPCODE, Status::INVALID_OPCODE))
            }
        }
    }

    /// Checks the fields that all commands with an LBA range share. `optional` are the bits of CDW12 above NLB that
    /// this command defines.
    fn extent(&self, command: Command<'_>, optional: u32) -> Result<Extent, Refused> {
        let sqe = command.sqe;
        self.check_reserved(command, &[("dword 2", sqe.cdw2), ("dword 3", sqe.cdw3)]);
        let fields = sqe.read_write();
        if fields.prinfo() != 0 || sqe.mptr != 0 || fields.stc() {
            let what =
                format_args!("PRINFO {:#x}, MPTR {:#x}, STC {}", fields.prinfo(), sqe.mptr, fields.stc());
            self.violation(Rule::Metadata, command, what);
            return Err(never(Status::INVALID_FIELD));
        }
        let unknown = sqe.cdw12 & 0xffff_0000 & !optional;
        if unknown != 0 {
            self.violation(Rule::ReservedField, command, format_args!("dword 12 bits {unknown:#x}"));
        }
        let (lba, count) = (sqe.slba(), u64::from(sqe.blocks()));
        let namespace = self.namespace(sqe.nsid)?;
        if !namespace.contains(lba, count) {
            return Err(self.blame(field::CDW10, Status::LBA_OUT_OF_RANGE));
        }
        let (offset, bytes) = (namespace.offset(lba), count << namespace.shift);
        Ok(Extent { index: sqe.nsid as usize - 1, lba, count, offset, bytes })
    }

    /// What the fault that was chosen for this command does to it: fails it, or corrupts its data.
    fn judge(&self) -> Result<Option<Corruption>, Refused> {
        let Some(fault) = &self.fault else { return Ok(None) };
        if let FaultAction::Fail { status } = fault.action {
            if let Some(injector) = &self.injector {
                injector.lock().note(fault.injected());
            }
            return Err(status);
        }
        Ok(fault.corruption())
    }

    /// Whether the data of the command at hand is moved after its completion.
    fn is_late(&self) -> bool {
        matches!(self.fault, Some(fault) if matches!(fault.action, FaultAction::LatePayload { .. }))
    }

    /// Keeps the data of the command at hand for [`Engine::move_deferred`].
    fn defer(&mut self, extent: Extent, write: bool) {
        let namespace = self.namespaces[extent.index].clone();
        self.deferred = Some(Deferred { namespace, extent, segments: self.segments.clone(), write });
    }

    /// Moves data whose command has completed. What the client unmapped since is left alone, and so is a namespace that
    /// was deleted, formatted or closed since.
    pub(crate) fn move_deferred(&mut self, deferred: Deferred) {
        let now = self.namespaces.get(deferred.extent.index);
        if !now.is_some_and(|now| now.is_still(&deferred.namespace)) {
            return tracing::debug!("late data was not moved: its namespace is gone");
        }
        self.segments = deferred.segments;
        let moved = if deferred.write { self.take(&deferred.extent) } else { self.deliver(&deferred.extent) };
        if let Err(status) = moved {
            tracing::debug!(%status, "late data was not moved");
        }
    }

    /// Makes what a command wrote durable, if it must be so at once.
    fn settle(&self, command: Command<'_>, extent: &Extent) -> Result<(), Refused> {
        if !self.is_durable_at_once(command.sqe, true) {
            return Ok(());
        }
        self.namespaces[extent.index].make_durable(extent.offset, extent.bytes).map_err(write_failed)
    }

    /// Refuses to change blocks that are write protected.
    fn check_writable(&self, extent: &Extent) -> Result<(), Refused> {
        if self.namespaces[extent.index].protected(extent.lba, extent.count) {
            return Err(never(Status::NAMESPACE_WRITE_PROTECTED));
        }
        Ok(())
    }
}

/// The status of a read that the store did not deliver. It may do so later: a truncated file can grow again.
fn read_failed(error: StoreError) -> Refused {
    tracing::warn!(%error, "a read failed");
    Status::UNRECOVERED_READ
}

fn write_failed(error: StoreError) -> Refused {
    tracing::warn!(%error, "a write failed");
    Status::WRITE_FAULT
}
