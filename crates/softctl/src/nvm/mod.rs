//! The NVM command set (1.0, section 3).

mod compare;
mod dsm;
mod flush;
mod read_write;
mod zeroes;

pub(crate) use read_write::Flip;

use warpbell_nvme::status::StatusCodeType;
use warpbell_nvme::{NvmOpcode, Sqe, Status};

use crate::checker::Rule;
use crate::copying::{Job, Kind, keep_off};
use crate::engine::{Command, Engine, Refused, field, never};
use crate::fault::{Corruption, FaultAction};
use crate::store::{Namespace, StoreError, Taken};
use crate::transfer::{Direction, Segment};
use warpbell_hw::Lba;

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
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Extent {
    /// Data that says what blocks it is about.
    fn of_ranges(nsid: u32, bytes: u64) -> Extent {
        Extent { index: nsid as usize - 1, lba: 0, count: 0, offset: 0, bytes }
    }
}

/// What became of a command.
pub(crate) enum Outcome {
    /// It is to complete with this status.
    Done(Status),
    /// Its data is not where it should be before engines have copied.
    Copying(Box<Job>),
}

/// Data that a fault moves after the completion of its command.
pub(crate) struct Deferred {
    /// As it was when the command was executed.
    namespace: Namespace,
    extent: Extent,
    segments: Vec<Segment>,
    write: bool,
}

impl Deferred {
    /// Whether it is a read's.
    pub(crate) fn is_for_client(&self) -> bool {
        !self.write
    }
}

impl Engine {
    /// Executes one I/O command and counts it, unless its data takes its time: then [`Engine::carry_on`] goes on.
    pub(crate) fn execute(&mut self, sqid: u16, sqe: &Sqe) -> Outcome {
        let command = Command { sqid, sqe };
        self.begin();
        let result = self.run(command);
        match self.job.take() {
            Some(job) if result.is_ok() => Outcome::Copying(job),
            _ => Outcome::Done(self.conclude(command, result)),
        }
    }

    /// Counts a command, and notes why it failed. Returns the status to complete it with.
    pub(crate) fn conclude(&mut self, command: Command<'_>, result: Result<(), Refused>) -> Status {
        let sqe = command.sqe;
        let status = match result {
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
            opcode if self.limits.optional.lacks(opcode) => self.unsupported(command),
            NvmOpcode::READ => self.read(command),
            NvmOpcode::WRITE => self.write(command),
            NvmOpcode::FLUSH => self.flush(command),
            NvmOpcode::COMPARE => self.compare(command),
            NvmOpcode::WRITE_ZEROES => self.write_zeroes(command),
            NvmOpcode::DATASET_MANAGEMENT => self.dataset_management(command),
            NvmOpcode::VERIFY => self.verify(command),
            _ => self.unsupported(command),
        }
    }

    fn unsupported(&self, command: Command<'_>) -> Result<(), Refused> {
        let opcode = NvmOpcode(command.sqe.opcode());
        self.violation(Rule::UnsupportedOpcode, command, format_args!("{opcode} is not supported"));
        Err(self.blame(field::OPCODE, Status::INVALID_OPCODE))
    }

    /// Checks the fields that all commands with an LBA range share. `optional` are the bits of CDW12 above NLB that
    /// this command defines.
    fn extent(&self, command: Command<'_>, optional: u32) -> Result<Extent, Refused> {
        let sqe = command.sqe;
        self.check_reserved(command, &[("dword 2", sqe.cdw2), ("dword 3", sqe.cdw3)]);
        let fields = sqe.read_write();
        if sqe.mptr != 0 {
            // It is valid where there is metadata, and of no use elsewhere (Base 2.0, 3.3.3.1).
            self.violation(Rule::Metadata, command, format_args!("MPTR {:#x}, and no metadata", sqe.mptr));
        }
        if fields.prinfo() != 0 || fields.stc() {
            let what = format_args!("PRINFO {:#x}, STC {}", fields.prinfo(), fields.stc());
            self.violation(Rule::Metadata, command, what);
            return Err(never(Status::INVALID_FIELD));
        }
        let unknown = sqe.cdw12 & 0xffff_0000 & !optional;
        if unknown != 0 {
            self.violation(Rule::ReservedField, command, format_args!("dword 12 bits {unknown:#x}"));
        }
        let (lba, count) = (sqe.slba(), u64::from(sqe.blocks()));
        let namespace = self.namespace(sqe.nsid)?;
        if !namespace.contains(Lba(lba), count) {
            return Err(self.blame(field::CDW10, Status::LBA_OUT_OF_RANGE));
        }
        let (offset, bytes) = (namespace.offset(Lba(lba)), count << namespace.shift);
        Ok(Extent { index: sqe.nsid as usize - 1, lba, count, offset, bytes })
    }

    /// What the fault that was chosen for this command does to it: fails it, or corrupts its data.
    fn judge(&self) -> Result<Option<Corruption>, Refused> {
        let Some(fault) = &self.fault else { return Ok(None) };
        if let FaultAction::Fail { status } = fault.action {
            if let Some(injector) = &self.injector {
                injector.lock().note(fault.injected());
            }
            return Err(self.with_delay(status));
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
    /// A job is returned where engines move it.
    pub(crate) fn move_deferred(&mut self, deferred: Deferred) -> Option<Box<Job>> {
        let now = self.namespaces.get(deferred.extent.index);
        if !now.is_some_and(|now| now.is_still(&deferred.namespace)) {
            tracing::debug!("late data was not moved: its namespace is gone");
            return None;
        }
        self.segments = deferred.segments;
        let direction = if deferred.write { Direction::FromClient } else { Direction::ToClient };
        let Some(_off) = self.kept_off(&deferred.extent, direction) else {
            let kind = if deferred.write { Kind::Write } else { Kind::Read(Vec::new()) };
            let mut job = Job::new(kind, deferred.namespace, deferred.extent, self.segments.clone());
            job.late = true;
            return Some(Box::new(job));
        };
        let moved = if deferred.write { self.take(&deferred.extent) } else { self.deliver(&deferred.extent) };
        if let Err(status) = moved {
            tracing::debug!(%status, "late data was not moved");
        }
        None
    }

    /// Whether some of the data of the command at hand lies in remote memory.
    fn has_remote_data(&self, direction: Direction) -> bool {
        let remote =
            |one: &Segment| !one.bucket && self.view.remote(one.iova, one.len, direction.access()).is_some();
        self.view.has_remote() && self.segments.iter().any(remote)
    }

    /// What keeps copy engines off blocks of a namespace, if the controller has any; `None` while one uses them.
    fn keep_engines_off(
        &self,
        namespace: &Namespace,
        offset: u64,
        len: u64,
        write: bool,
    ) -> Option<Option<Taken>> {
        if !self.view.has_remote() {
            return Some(None);
        }
        keep_off(namespace, offset, len, write)
    }

    /// Whether the CPU can move the data of the command at hand now: all of it has a pointer, and no engine uses the
    /// blocks, or will while the value lives.
    fn kept_off(&self, extent: &Extent, direction: Direction) -> Option<Option<Taken>> {
        if self.has_remote_data(direction) {
            return None;
        }
        let write = direction == Direction::FromClient;
        self.keep_engines_off(&self.namespaces[extent.index], extent.offset, extent.bytes, write)
    }

    /// The command at hand goes on as a job.
    fn begin_job(&mut self, kind: Kind, extent: Extent) -> Result<(), Refused> {
        let namespace = self.namespaces[extent.index].clone();
        self.job = Some(Box::new(Job::new(kind, namespace, extent, self.segments.clone())));
        Ok(())
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
        if self.namespaces[extent.index].protected(Lba(extent.lba), extent.count) {
            return Err(never(Status::NAMESPACE_WRITE_PROTECTED));
        }
        Ok(())
    }
}

/// The status of a read that the store did not deliver. It may do so later: a truncated file can grow again.
pub(crate) fn read_failed(error: StoreError) -> Refused {
    tracing::warn!(%error, "a read failed");
    Status::UNRECOVERED_READ
}

pub(crate) fn write_failed(error: StoreError) -> Refused {
    tracing::warn!(%error, "a write failed");
    Status::WRITE_FAULT
}
