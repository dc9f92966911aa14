//! The admin command set (Base 2.0, section 5).

mod abort;
mod aer;
mod data_features;
mod doorbell_buffer;
mod fault;
mod features;
mod firmware;
mod format;
mod health;
mod identify;
mod keep_alive;
mod log;
mod namespaces;
mod power;
mod queues;
mod sanitize;
mod smart;

pub(crate) use aer::Events;
pub(crate) use doorbell_buffer::DoorbellPages;
pub(crate) use doorbell_buffer::{EVENT_PAGE, SHADOW_PAGE};
pub(crate) use fault::{AdminLate, LateAdmin};
pub(crate) use features::Features;
pub(crate) use keep_alive::KeepAlive;
pub(crate) use log::ErrorLog;
pub(crate) use queues::{ADMIN_CQ, ADMIN_SQ, cq_name, sq_name};

use std::sync::atomic::Ordering;

use warpbell_nvme::log::CommandEffects;
use warpbell_nvme::register::Shst;
use warpbell_nvme::{AdminOpcode, Cqe, Sqe, Status};

use crate::checker::Rule;
use crate::control::{AdminQueue, Control};
use crate::core::Core;
use crate::engine::{Command, Refused, field, never};
use crate::queue::DoorbellFault;

/// Nothing but the command's purpose.
const PLAIN: CommandEffects = CommandEffects::new();
/// Namespaces come and go. CSE: no other command may be outstanding at this controller.
const INVENTORY: CommandEffects = CommandEffects::new().with_ncc(true).with_nic(true).with_cse(2);

/// Opcodes that are executed, and their effects.
pub(crate) const SUPPORTED: &[(AdminOpcode, CommandEffects)] = &[
    (AdminOpcode::DELETE_IO_SQ, PLAIN),
    (AdminOpcode::CREATE_IO_SQ, PLAIN),
    (AdminOpcode::GET_LOG_PAGE, PLAIN),
    (AdminOpcode::DELETE_IO_CQ, PLAIN),
    (AdminOpcode::CREATE_IO_CQ, PLAIN),
    (AdminOpcode::IDENTIFY, PLAIN),
    (AdminOpcode::ABORT, PLAIN),
    (AdminOpcode::SET_FEATURES, PLAIN),
    (AdminOpcode::GET_FEATURES, PLAIN),
    (AdminOpcode::ASYNC_EVENT_REQUEST, PLAIN),
    (AdminOpcode::KEEP_ALIVE, PLAIN),
    (AdminOpcode::FIRMWARE_IMAGE_DOWNLOAD, PLAIN),
    (AdminOpcode::FIRMWARE_COMMIT, CommandEffects::new().with_ccc(true).with_cse(2)),
    (AdminOpcode::FORMAT_NVM, CommandEffects::new().with_lbcc(true).with_ncc(true).with_cse(1)),
    (AdminOpcode::SANITIZE, CommandEffects::new().with_lbcc(true).with_cse(2)),
    (AdminOpcode::NS_MANAGEMENT, INVENTORY),
    (AdminOpcode::NS_ATTACHMENT, INVENTORY),
];

/// What became of an admin command.
pub(crate) enum Answer {
    /// It completes with this in dword 0.
    Done(u32),
    /// It completes later: an Asynchronous Event Request.
    Parked,
}

impl Core {
    /// Whether the admin queue may have work, for the poller that serves it.
    #[inline]
    pub(crate) fn admin_wanted(&self) -> bool {
        self.doorbells.load(0) != self.admin_tail.load(Ordering::Relaxed)
            || self.checker.raised()
            || self.admin_backlog.load(Ordering::Relaxed)
            || self.subsystem.is_busy()
            || self.mailbox.is_full()
    }

    /// Whether the admin queue has work, in stepped mode.
    pub(crate) fn admin_ready(&self, control: &Control) -> bool {
        let Some(admin) = &control.admin else { return false };
        let serving = control.running() && control.csts.shst() == Shst::NORMAL_OPERATION;
        let room = admin.cq.room() > 0;
        serving
            && (self.checker.raised()
                || control.late_is_due()
                || room && (admin.sq.pending() > 0 || control.events.deliverable()))
    }

    /// Serves the admin queue: up to `most` commands, and the events that wait.
    pub(crate) fn run_admin(&self, control: &mut Control, most: u32) {
        self.subsystem.work();
        self.answer_pending_reset(control);
        let polled = self.time.is_none();
        self.admin_tail.store(self.doorbells.load(0), Ordering::Relaxed);
        if self.checker.raised() {
            self.checker.take_events().into_iter().for_each(|event| control.raise(event));
            self.watch_health(control);
        }
        if !control.running() {
            return;
        }
        let Some(mut admin) = control.admin.take() else { return };
        if polled {
            self.poll_admin(control, &mut admin);
        }
        control.admin = Some(admin);
        follow_memory(control);
        if control.engine.view.claims().suspended().is_some() {
            // Memory of a queue, this one or another, is gone for a moment. Its return brings us back here.
            self.admin_backlog.store(false, Ordering::Relaxed);
            return;
        }
        let Some(mut admin) = control.admin.take() else { return };
        self.serve_admin(control, &mut admin, most);
        control.admin = Some(admin);
        if let Some(incident) = control.incident.take() {
            self.suffer(control, incident);
        }
    }

    /// Serves commands and events, where the controller does, and says what is left.
    fn serve_admin(&self, control: &mut Control, admin: &mut AdminQueue, most: u32) {
        if control.csts.shst() == Shst::NORMAL_OPERATION {
            control.post_late(admin);
            for _ in 0..most.min(admin.sq.pending()) {
                if admin.cq.room() == 0 || control.incident.is_some() {
                    break;
                }
                self.serve(control, admin);
            }
            control.events.deliver(admin);
        }
        if let Some((vector, _)) = admin.cq.take_interrupt() {
            control.engine.statistics.interrupts += 1;
            self.vectors.signal(vector);
        }
        // A command may have begun a shutdown.
        let serving = control.csts.shst() == Shst::NORMAL_OPERATION;
        let backlog = admin.sq.pending() > 0 || control.events.deliverable();
        self.admin_late.set(control.next_late().filter(|_| serving));
        self.admin_backlog.store(backlog && serving, Ordering::Relaxed);
    }

    /// Takes what the admin queue's doorbells have now, where writes are not seen one by one.
    pub(crate) fn take_admin_doorbells(&self, control: &mut Control) {
        let polled = self.time.is_none();
        let Some(mut admin) = control.admin.take_if(|_| polled) else { return };
        self.poll_admin(control, &mut admin);
        control.admin = Some(admin);
    }

    fn poll_admin(&self, control: &mut Control, admin: &mut AdminQueue) {
        let report = |result: Result<(), DoorbellFault>| {
            if let Err((rule, detail)) = result {
                self.checker.report_doorbell(rule, detail);
            }
        };
        if let Some(result) = admin.sq.poll_doorbell() {
            control.engine.statistics.sq_doorbells += 1;
            if control.csts.shst() != Shst::NORMAL_OPERATION {
                let detail = "the admin queue's tail moved after a shutdown was asked for".to_owned();
                self.checker.report(Rule::CommandAfterShutdown, detail);
            }
            report(result);
        }
        if let Some(result) = admin.cq.poll_doorbell() {
            control.engine.statistics.cq_doorbells += 1;
            report(result);
        }
    }

    /// Fetches and answers one admin command.
    fn serve(&self, control: &mut Control, admin: &mut AdminQueue) {
        let sqe = admin.sq.fetch();
        let command = Command { sqid: 0, sqe: &sqe };
        if self.config.poison_fetched && self.time.is_some() {
            admin.sq.poison_fetched();
        }
        control.engine.begin();
        let conflict = admin.sq.begin(sqe.cid()) && control.engine.conflict(&mut admin.sq, command);
        let fault = if conflict { None } else { self.admin_fault(command, control.engine.time.now()) };
        let result = if conflict {
            Err(never(Status::CID_CONFLICT))
        } else {
            match Self::instead(control, sqe.cid(), fault) {
                Some(Ok(())) => return,
                Some(Err(status)) => Err(status),
                None => self.administer(control, admin, command),
            }
        };
        let (status, dw0) = match result {
            Ok(Answer::Parked) => return,
            Ok(Answer::Done(dw0)) => (Status::SUCCESS, dw0),
            Err(status) => (status, 0),
        };
        control.engine.statistics.admin_commands[usize::from(sqe.opcode())] += 1;
        if !status.is_ok() {
            self.errors.note(command, status, &control.engine);
            self.note_refusal(control, command, status);
        }
        if !conflict {
            admin.sq.end(sqe.cid());
        }
        let head = admin.sq.head as u16;
        let entry = Cqe::new(0, head, sqe.cid(), status, false).with_dw0(dw0);
        let settled = control.settled.take();
        Self::post_admin(control, admin, &entry, fault, settled);
    }

    fn administer(
        &self,
        control: &mut Control,
        admin: &mut AdminQueue,
        command: Command<'_>,
    ) -> Result<Answer, Refused> {
        control.engine.check_common(command)?;
        let sqe = command.sqe;
        control.engine.check_unused(command, unused(AdminOpcode(sqe.opcode())));
        let done = |()| Answer::Done(0);
        self.check_sanitize(AdminOpcode(sqe.opcode()))?;
        match AdminOpcode(sqe.opcode()) {
            AdminOpcode::DELETE_IO_SQ => self.delete_sq(control, command).map(done),
            AdminOpcode::CREATE_IO_SQ => self.create_sq(control, command).map(done),
            AdminOpcode::DELETE_IO_CQ => self.delete_cq(control, command).map(done),
            AdminOpcode::CREATE_IO_CQ => self.create_cq(control, command).map(done),
            AdminOpcode::GET_LOG_PAGE => self.get_log_page(control, command).map(done),
            AdminOpcode::IDENTIFY => self.identify(control, command).map(done),
            AdminOpcode::ABORT => self.abort(control, admin, command).map(Answer::Done),
            AdminOpcode::SET_FEATURES => self.set_features(control, command).map(Answer::Done),
            AdminOpcode::GET_FEATURES => self.get_features(control, command).map(Answer::Done),
            AdminOpcode::ASYNC_EVENT_REQUEST => control.request_event(command),
            AdminOpcode::KEEP_ALIVE => {
                self.keep_alive(control);
                Ok(Answer::Done(0))
            }
            AdminOpcode::FIRMWARE_IMAGE_DOWNLOAD => self.download_firmware(control, command).map(done),
            AdminOpcode::FIRMWARE_COMMIT => self.commit_firmware(control, command).map(done),
            AdminOpcode::FORMAT_NVM => self.format_nvm(control, command).map(done),
            AdminOpcode::SANITIZE => self.sanitize(control, command).map(done),
            AdminOpcode::NS_MANAGEMENT => self.ns_management(control, command).map(Answer::Done),
            AdminOpcode::NS_ATTACHMENT => self.ns_attachment(control, command).map(done),
            AdminOpcode::DBBUF_CONFIG if self.offers_doorbell_buffer() => {
                self.doorbell_buffer_config(control, command).map(done)
            }
            opcode => {
                let what = format_args!("{opcode} is not supported");
                control.engine.violation(Rule::UnsupportedOpcode, command, what);
                Err(control.engine.blame(field::OPCODE, Status::INVALID_OPCODE))
            }
        }
    }
}

/// Dwords that a command has no use for, as bits: NSID is dword 1, the metadata pointer 4 and 5, the data pointer 6
/// to 9. Fields inside other dwords are checked where they are read.
const fn unused(opcode: AdminOpcode) -> u16 {
    const METADATA: u16 = 0b11_1100;
    const DATA: u16 = 0b11_1100_0000;
    match opcode {
        AdminOpcode::DELETE_IO_SQ | AdminOpcode::DELETE_IO_CQ => 0xf000 | DATA | METADATA | 1 << 1,
        AdminOpcode::CREATE_IO_SQ | AdminOpcode::CREATE_IO_CQ => 1 << 8 | 1 << 9 | METADATA | 1 << 1,
        AdminOpcode::ABORT => 0xf800 | DATA | METADATA | 1 << 1,
        AdminOpcode::GET_FEATURES => 1 << 12 | 1 << 13 | 1 << 15 | METADATA,
        AdminOpcode::IDENTIFY | AdminOpcode::GET_LOG_PAGE | AdminOpcode::SET_FEATURES => METADATA,
        AdminOpcode::ASYNC_EVENT_REQUEST | AdminOpcode::KEEP_ALIVE => 0xfffe,
        _ => 0,
    }
}

/// Follows what the client mapped and unmapped: queues whose memory is gone no longer reach it.
pub(crate) fn follow_memory(control: &mut Control) {
    control.engine.refresh();
    let Some(admin) = &mut control.admin else { return };
    let claims = control.engine.view.claims();
    if claims.is_lost(ADMIN_SQ) {
        admin.sq.disconnect();
    }
    if claims.is_lost(ADMIN_CQ) {
        admin.cq.disconnect();
    }
}

/// Command dwords 12 to 15, which many admin commands reserve.
fn dwords_12_to_15(sqe: &Sqe) -> [(&'static str, u32); 4] {
    [("dword 12", sqe.cdw12), ("dword 13", sqe.cdw13), ("dword 14", sqe.cdw14), ("dword 15", sqe.cdw15)]
}
