//! Creation and deletion of I/O queues (Base 2.0, 5.4 to 5.7).

use warpbell_hw::{AccessError, DmaAccess, Interrupts, Window};
use warpbell_nvme::Status;
use warpbell_nvme::command::{
    CreateIoCqCdw11, CreateIoSqCdw11, DeleteQueueCdw10, QueueIdSize, QueuePriority,
};
use warpbell_nvme::data::page_offset;
use warpbell_nvme::register::ArbitrationMechanism;

use crate::checker::Rule;
use crate::control::{Control, CqEntry, SqEntry};
use crate::core::Core;
use crate::engine::{Command, Refused, never};
use crate::memory::RingMemory;
use crate::queue::{CopiedRing, Cq, Sq};

/// CC.IOSQES and CC.IOCQES: `2^n` bytes.
const SQ_ENTRY_SHIFT: u8 = 6;
const CQ_ENTRY_SHIFT: u8 = 4;

/// How messages name the admin queues.
pub(crate) const ADMIN_SQ: &str = "admin submission queue";
pub(crate) const ADMIN_CQ: &str = "admin completion queue";

/// How messages name a submission queue.
pub(crate) fn sq_name(qid: u16) -> String {
    format!("submission queue {qid}")
}

/// How messages name a completion queue.
pub(crate) fn cq_name(qid: u16) -> String {
    format!("completion queue {qid}")
}

/// No room for what a ring in remote memory needs here.
fn no_mirror(error: AccessError) -> Refused {
    tracing::error!(%error, "no queue is created");
    Status::INTERNAL_ERROR
}

impl Core {
    /// Checks what both creations have in common; returns identifier and entries.
    fn check_new(&self, control: &Control, command: Command<'_>, taken: bool) -> Result<(u16, u32), Refused> {
        let fields = QueueIdSize::from_bits(command.sqe.cdw10);
        let qid = fields.qid();
        if qid == 0 || qid > control.granted || taken {
            return Err(never(Status::INVALID_QUEUE_IDENTIFIER));
        }
        if fields.qsize_z() == 0 || fields.entries() > self.config.max_entries {
            return Err(never(Status::INVALID_QUEUE_SIZE));
        }
        let reserved = [
            ("dword 13", command.sqe.cdw13),
            ("dword 14", command.sqe.cdw14),
            ("dword 15", command.sqe.cdw15),
        ];
        control.engine.check_reserved(command, &reserved);
        Ok((qid, fields.entries()))
    }

    /// The memory of a new queue.
    fn queue_memory(
        &self,
        control: &Control,
        command: Command<'_>,
        contiguous: bool,
        len: u64,
        access: DmaAccess,
    ) -> Result<RingMemory, Refused> {
        let base = command.sqe.prp1();
        if !contiguous {
            // CAP.CQR: no queues through PRP lists.
            return Err(never(Status::INVALID_FIELD));
        }
        if page_offset(base, control.cc.page_size()) != 0 {
            let what = format_args!("queue base {base:#x} has a page offset");
            control.engine.violation(Rule::PrpOffset, command, what);
            return Err(never(Status::INVALID_PRP_OFFSET));
        }
        if control.cmb.holds(base) {
            // Submission queues alone (CMBSZ.SQS): what the controller writes goes to the client's own memory.
            return if access.write {
                Err(never(Status::INVALID_CMB_USE))
            } else {
                control.cmb.queue(base, len).map(RingMemory::Window)
            };
        }
        self.space.ring(base, len, access).map_err(|error| {
            let rule = Rule::of_access(&error);
            control.engine.violation(rule, command, format_args!("queue memory: {error}"));
            never(Status::DATA_TRANSFER_ERROR)
        })
    }

    /// Memory becomes a queue's own.
    pub(super) fn claim(
        &self,
        control: &Control,
        command: Command<'_>,
        owner: String,
        (base, len): (u64, u64),
    ) -> Result<(), Refused> {
        self.space.claim(owner, base, len).map_err(|other| {
            let what = format_args!("{len} bytes at {base:#x}, where {other}");
            control.engine.violation(Rule::QueueOverlap, command, what);
            never(Status::INVALID_FIELD)
        })
    }

    /// The doorbell of a new queue, which nobody may have written yet.
    fn new_doorbell(&self, name: &str, index: usize) -> Result<Window, Refused> {
        let word = self.doorbells.word(index).ok_or(never(Status::INVALID_QUEUE_IDENTIFIER))?;
        let value = self.doorbells.load(index);
        if value != 0 {
            let detail = format!("{name} did not exist; its doorbell was set to {value}");
            self.checker.report_doorbell(Rule::DoorbellRegister, detail);
        }
        Ok(word)
    }

    pub(super) fn create_cq(&self, control: &mut Control, command: Command<'_>) -> Result<(), Refused> {
        let sqe = command.sqe;
        let fields = CreateIoCqCdw11::from_bits(sqe.cdw11);
        let taken = control.cqs.contains_key(&QueueIdSize::from_bits(sqe.cdw10).qid());
        let (qid, entries) = self.check_new(control, command, taken)?;
        if control.cc.iocqes() != CQ_ENTRY_SHIFT {
            return Err(never(Status::INVALID_QUEUE_SIZE));
        }
        if fields.ien() && fields.iv() >= self.vectors.count() {
            return Err(never(Status::INVALID_INTERRUPT_VECTOR));
        }
        let reserved = [("dword 11 bits 15:2", sqe.cdw11 >> 2 & 0x3fff), ("dword 12", sqe.cdw12)];
        control.engine.check_reserved(command, &reserved);
        let len = u64::from(entries) << CQ_ENTRY_SHIFT;
        let ring = self.queue_memory(control, command, fields.pc(), len, DmaAccess::WRITE)?;
        let doorbell = self.new_doorbell(&cq_name(qid), 2 * usize::from(qid) + 1)?;
        let vector = fields.ien().then(|| fields.iv());
        let poll_group = self.least_loaded_poll_group();
        let mut cq = match ring {
            RingMemory::Window(ring) => Cq::new(qid, entries, ring, doorbell, vector),
            RingMemory::Remote(remote, at) => {
                let mut group = self.poll_groups[poll_group].lock();
                let copier = &mut group.engine.copier;
                let ring = CopiedRing::new(copier, (remote, at), len as usize).map_err(no_mirror)?;
                let draft = copier.mirror(len as usize).map_err(no_mirror)?;
                Cq::remote(qid, entries, (ring, draft), doorbell, vector)
            }
        };
        self.claim(control, command, cq_name(qid), (sqe.prp1(), len))?;
        self.shadow_new_cq(control, &mut cq);
        self.poll_groups[poll_group].lock().add_cq(cq);
        control.cqs.insert(qid, CqEntry { poll_group, users: 0 });
        Ok(())
    }

    /// Where a new completion queue, and with it all submission queues that feed it, is served.
    fn least_loaded_poll_group(&self) -> usize {
        let loads = self.poll_groups.iter().map(|cell| cell.lock().load());
        loads.enumerate().min_by_key(|(_, load)| *load).map_or(0, |(index, _)| index)
    }

    pub(super) fn create_sq(&self, control: &mut Control, command: Command<'_>) -> Result<(), Refused> {
        let sqe = command.sqe;
        let fields = CreateIoSqCdw11::from_bits(sqe.cdw11);
        let taken = control.sqs.contains_key(&QueueIdSize::from_bits(sqe.cdw10).qid());
        let cqid = fields.cqid();
        // 0 is the admin completion queue: it has an identifier that no I/O queue can have (Base 2.0, 5.5).
        if cqid == 0 || cqid > control.granted {
            return Err(never(Status::INVALID_QUEUE_IDENTIFIER));
        }
        let Some(cq) = control.cqs.get(&cqid).copied() else { return Err(never(Status::INVALID_CQ)) };
        let (qid, entries) = self.check_new(control, command, taken)?;
        let sq = self.new_sq(control, command, (qid, entries), cq.poll_group)?;
        if !self.poll_groups[cq.poll_group].lock().add_sq(sq, cqid) {
            self.space.release(&sq_name(qid));
            tracing::error!(
                qid,
                cqid,
                poll_group = cq.poll_group,
                "a completion queue is not in its poll group"
            );
            return Err(Status::INTERNAL_ERROR);
        }
        control.sqs.insert(qid, SqEntry { poll_group: cq.poll_group, cqid });
        control.cqs.entry(cqid).and_modify(|cq| cq.users += 1);
        Ok(())
    }

    /// The submission queue that a command asks for, with its ring and its doorbell.
    fn new_sq(
        &self,
        control: &mut Control,
        command: Command<'_>,
        (qid, entries): (u16, u32),
        poll_group: usize,
    ) -> Result<Sq, Refused> {
        let sqe = command.sqe;
        let fields = CreateIoSqCdw11::from_bits(sqe.cdw11);
        if control.cc.iosqes() != SQ_ENTRY_SHIFT {
            return Err(never(Status::INVALID_QUEUE_SIZE));
        }
        if control.cc.ams() == ArbitrationMechanism::ROUND_ROBIN && fields.qprio() != QueuePriority::URGENT {
            // Round robin has no priorities.
            control.engine.check_reserved(command, &[("QPRIO", fields.qprio().into_bits().into())]);
        }
        let reserved = [("dword 11 bits 15:3", sqe.cdw11 >> 3 & 0x1fff), ("dword 12", sqe.cdw12)];
        control.engine.check_reserved(command, &reserved);
        let len = u64::from(entries) << SQ_ENTRY_SHIFT;
        let ring = self.queue_memory(control, command, fields.pc(), len, DmaAccess::READ)?;
        let doorbell = self.new_doorbell(&sq_name(qid), 2 * usize::from(qid))?;
        let mut sq = match ring {
            RingMemory::Window(ring) => Sq::new(qid, entries, ring, doorbell),
            RingMemory::Remote(remote, at) => {
                let mut group = self.poll_groups[poll_group].lock();
                let copier = &mut group.engine.copier;
                let ring = CopiedRing::new(copier, (remote, at), len as usize).map_err(no_mirror)?;
                Sq::remote(qid, entries, ring, doorbell)
            }
        };
        self.claim(control, command, sq_name(qid), (sqe.prp1(), len))?;
        sq.priority = fields.qprio();
        if control.wide_cids {
            sq.widen();
        }
        self.shadow_new_sq(control, &mut sq);
        Ok(sq)
    }

    fn deleted(&self, control: &Control, command: Command<'_>) -> u16 {
        let sqe = command.sqe;
        let reserved = [("dword 10 bits 31:16", sqe.cdw10 >> 16), ("dword 11", sqe.cdw11)];
        control.engine.check_reserved(command, &reserved);
        DeleteQueueCdw10::from_bits(sqe.cdw10).qid()
    }

    /// Its held commands complete as aborted before this command does; what was not fetched is forgotten.
    pub(super) fn delete_sq(&self, control: &mut Control, command: Command<'_>) -> Result<(), Refused> {
        let qid = self.deleted(control, command);
        let entry = control.sqs.remove(&qid).ok_or(never(Status::INVALID_QUEUE_IDENTIFIER))?;
        self.poll_groups[entry.poll_group].lock().remove_sq(qid);
        control.cqs.entry(entry.cqid).and_modify(|cq| cq.users -= 1);
        self.space.release(&sq_name(qid));
        Ok(())
    }

    pub(super) fn delete_cq(&self, control: &mut Control, command: Command<'_>) -> Result<(), Refused> {
        let qid = self.deleted(control, command);
        let entry = *control.cqs.get(&qid).ok_or(never(Status::INVALID_QUEUE_IDENTIFIER))?;
        if entry.users > 0 {
            return Err(never(Status::INVALID_QUEUE_DELETION));
        }
        control.cqs.remove(&qid);
        self.poll_groups[entry.poll_group].lock().remove_cq(qid);
        self.space.release(&cq_name(qid));
        Ok(())
    }
}
