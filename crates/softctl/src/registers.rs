//! Controller registers, and the states that CC and CSTS go through (Base 2.0, 3.1.3, 3.5 and 3.6).

use std::time::Duration;

use parking_lot::MutexGuard;
use rand::RngExt;
use warpbell_hw::{DmaAccess, Registers};
use warpbell_nvme::Status;
use warpbell_nvme::register::{
    Aqa, ArbitrationMechanism, Cap, Cc, CommandSet, Crto, Csts, NSSD_ABRUPT, NSSD_NORMAL, NSSR_MAGIC, Shn,
    Shst, offset,
};

use crate::admin::{ADMIN_CQ, ADMIN_SQ};
use crate::checker::Rule;
use crate::control::{AdminQueue, Control, Transition};
use crate::core::Core;
use crate::poll_group::Arbiter;
use crate::queue::{Cq, Sq};
use crate::subsystem::{Download, PendingReset};

/// Largest memory page: `4096 << 4` bytes.
const MPSMAX: u8 = 4;
/// CAP.TO, in 500 ms.
const TIMEOUT: u8 = 4;

impl Core {
    pub(crate) fn capabilities(&self) -> Cap {
        Cap::new()
            .with_mqes_z((self.config.max_entries - 1) as u16)
            .with_cqr(true)
            .with_ams(u8::from(self.config.weighted_round_robin))
            .with_to(TIMEOUT)
            .with_dstrd(self.config.stride)
            .with_nssrs(true)
            .with_nsss(true)
            .with_css(1 | 1 << 6)
            .with_mpsmax(MPSMAX)
            .with_cmbs(self.config.controller_memory != 0)
            .with_crwms(true)
    }

    fn arbitrates_by(&self, mechanism: ArbitrationMechanism) -> bool {
        mechanism == ArbitrationMechanism::ROUND_ROBIN
            || mechanism == ArbitrationMechanism::WEIGHTED_ROUND_ROBIN && self.config.weighted_round_robin
    }

    /// Applies CC.AMS and the Arbitration feature, which may have been saved, to all poll groups.
    fn start_arbitration(&self, control: &Control) {
        let feature = control.features.arbitration();
        let weighted = control.cc.ams() == ArbitrationMechanism::WEIGHTED_ROUND_ROBIN;
        for cell in &self.poll_groups {
            let mut poll_group = cell.lock();
            poll_group.arbitrate(weighted.then(|| Arbiter::new(feature)));
            poll_group.set_arbitration(feature);
        }
    }

    fn misuse(&self, what: String) {
        self.checker.report(Rule::RegisterAccess, what);
    }

    fn read_register(&self, control: &Control, at: u32) -> u32 {
        let cap = self.capabilities().into_bits();
        match at {
            offset::CAP => cap as u32,
            0x04 => (cap >> 32) as u32,
            offset::VS => self.config.version.into_bits(),
            offset::CC => control.cc.into_bits(),
            offset::CSTS => control.csts.into_bits(),
            offset::AQA => control.aqa.into_bits(),
            offset::ASQ => control.asq as u32,
            0x2c => (control.asq >> 32) as u32,
            offset::ACQ => control.acq as u32,
            0x34 => (control.acq >> 32) as u32,
            offset::CRTO => Crto::new().with_crwmt(TIMEOUT.into()).into_bits(),
            // Reserved registers, and those of features that are not there, read as zero.
            _ => control.cmb.read(at).unwrap_or(0),
        }
    }

    fn write_register(&self, control: &mut Control, at: u32, value: u32) {
        match at {
            offset::CC => self.write_cc(control, Cc::from_bits(value)),
            offset::CSTS => {
                if Csts::from_bits(value).nssro() {
                    control.csts.set_nssro(false);
                }
            }
            offset::NSSR if value == NSSR_MAGIC => {
                self.subsystem.ask_others(PendingReset::Reset, self.cntlid);
                self.obey(control, PendingReset::Reset);
                // Whoever wrote it knows; other threads of the client may go on ringing until they look at CSTS.
                control.surprised = true;
            }
            offset::NSSD if matches!(value, NSSD_NORMAL | NSSD_ABRUPT) => {
                let normal = value == NSSD_NORMAL;
                let pending_reset =
                    if normal { PendingReset::NormalShutdown } else { PendingReset::AbruptShutdown };
                self.subsystem.ask_others(pending_reset, self.cntlid);
                self.obey(control, pending_reset);
            }
            offset::NSSD => {
                let detail = format!(
                    "NSSD written with {value:#x}; {NSSD_NORMAL:#x} and {NSSD_ABRUPT:#x} mean a shutdown"
                );
                self.checker.report(Rule::SubsystemReset, detail);
            }
            offset::AQA | offset::ASQ..0x38 => self.write_admin_queue(control, at, value),
            offset::NSSR => {
                let detail = format!("NSSR written with {value:#x}; only {NSSR_MAGIC:#x} means a reset");
                self.checker.report(Rule::SubsystemReset, detail);
            }
            offset::INTMS | offset::INTMC => {
                let detail = format!(
                    "write of {value:#x} to register {at:#x}; with MSI-X, vectors have their own masks"
                );
                self.checker.report(Rule::InterruptMask, detail);
            }
            _ if control.cmb.write(at, value) => {}
            _ => self
                .misuse(format!("write of {value:#x} to register {at:#x}, which is read only or reserved")),
        }
    }

    fn write_admin_queue(&self, control: &mut Control, at: u32, value: u32) {
        if control.cc.en() {
            let detail = format!("write of {value:#x} to register {at:#x} while CC.EN is set");
            self.checker.report(Rule::AdminQueueChanged, detail);
            return;
        }
        let low = |old: u64| old & !0xffff_ffff | u64::from(value);
        let high = |old: u64| old & 0xffff_ffff | u64::from(value) << 32;
        if at == offset::AQA {
            self.check_register("AQA", value & 0xf000_f000);
        }
        match at {
            offset::AQA => control.aqa = Aqa::from_bits(value),
            offset::ASQ => control.asq = low(control.asq),
            0x2c => control.asq = high(control.asq),
            offset::ACQ => control.acq = low(control.acq),
            _ => control.acq = high(control.acq),
        }
    }

    fn check_register(&self, name: &str, reserved: u32) {
        if reserved != 0 {
            self.checker
                .report(Rule::ReservedField, format!("{name} bits {reserved:#x} are set, and reserved"));
        }
    }

    fn write_cc(&self, control: &mut Control, new: Cc) {
        let old = std::mem::replace(&mut control.cc, new);
        self.check_register("CC", new.into_bits() & 0xfe00_000e);
        if old.en() != new.en() && old.en() != control.csts.rdy() && !control.csts.cfs() {
            let (old, new) = (u8::from(old.en()), u8::from(new.en()));
            let detail = format!("CC.EN from {old} to {new} before CSTS.RDY became {old}");
            self.checker.report(Rule::EnableTransition, detail);
        }
        match (old.en(), new.en()) {
            (false, true) => self.enable(control),
            (true, false) => self.disable(control),
            (true, true) => {
                let mut allowed = old.with_shn(new.shn());
                if control.sqs.is_empty() && control.cqs.is_empty() {
                    // The entry sizes need not be set before the first I/O queue is created.
                    allowed = allowed.with_iosqes(new.iosqes()).with_iocqes(new.iocqes());
                }
                if new != allowed {
                    let (old, new) = (old.into_bits(), new.into_bits());
                    let detail = format!("CC from {old:#x} to {new:#x} while EN is set");
                    self.checker.report(Rule::CcChangedWhileEnabled, detail);
                    control.cc = old_configuration(old, new);
                }
            }
            (false, false) => {}
        }
        if new.shn() != old.shn() {
            self.notify_shutdown(control, old, new);
        }
    }

    /// CC.SHN changed. It means something only while the controller is enabled: a reset that comes with it is a
    /// reset, and nothing else.
    fn notify_shutdown(&self, control: &mut Control, old: Cc, new: Cc) {
        let known = matches!(new.shn(), Shn::NONE | Shn::NORMAL | Shn::ABRUPT);
        if new.shn() != Shn::NONE && (!known || !new.en() || !old.en()) {
            let (old, new) = (old.into_bits(), new.into_bits());
            let detail =
                format!("CC from {old:#x} to {new:#x}: SHN is 01b or 10b, and changes while EN is set");
            return self.checker.report(Rule::ShutdownNotification, detail);
        }
        if new.en() && new.shn() != Shn::NONE && control.csts.shst() == Shst::NORMAL_OPERATION {
            self.shut_down(control);
        }
    }

    /// Lets a change of CSTS happen: at once, or after a while of virtual time.
    fn schedule(&self, control: &mut Control, transition: Transition) {
        control.transition = None;
        match &self.time {
            None if transition != Transition::Shutdown || self.config.shutdown_time.is_zero() => {
                self.arrive(control, transition);
            }
            None => {
                let due = control.engine.time.now() + self.config.shutdown_time;
                control.transition = Some((due, transition));
            }
            Some(time) => {
                let delay = match transition {
                    Transition::Shutdown if !self.config.shutdown_time.is_zero() => self.config.shutdown_time,
                    _ => Duration::from_micros(control.random.random_range(1..50)),
                };
                control.transition = Some((time.now() + delay, transition));
            }
        }
    }

    /// Without steps, a change of CSTS that takes time happens when somebody looks.
    fn catch_up(&self, control: &mut Control) {
        if self.time.is_some() {
            return;
        }
        if let Some((due, transition)) = control.transition
            && due <= control.engine.time.now()
        {
            control.transition = None;
            self.arrive(control, transition);
        }
    }

    /// A change of CSTS happens.
    pub(crate) fn arrive(&self, control: &mut Control, transition: Transition) {
        match transition {
            Transition::Enable => match self.build_admin_queue(control) {
                Some(admin) => {
                    self.start_arbitration(control);
                    control.admin = Some(admin);
                    control.csts.set_rdy(true);
                }
                None => control.csts.set_cfs(true),
            },
            Transition::Disable => control.csts.set_rdy(false),
            Transition::Shutdown => {
                control.engine.refresh();
                match self.subsystem.flush_all() {
                    Ok(()) => control.csts.set_shst(Shst::COMPLETE),
                    Err(error) => {
                        // A shutdown that says it is complete promises that every write is durable.
                        tracing::error!(%error, "a flush at shutdown failed");
                        self.errors.note_internal(Status::WRITE_FAULT);
                        control.csts.set_cfs(true);
                    }
                }
            }
        }
    }

    fn enable(&self, control: &mut Control) {
        if std::mem::take(&mut control.surprised) {
            self.clear_stray_doorbells();
        }
        let (cc, aqa) = (control.cc, control.aqa);
        let page = cc.page_size();
        let checks = [
            (control.csts.rdy(), "RDY is still set".to_owned()),
            (cc.mps() > MPSMAX, format!("CC.MPS is {}, the largest is {MPSMAX}", cc.mps())),
            (!self.arbitrates_by(cc.ams()), format!("CC.AMS {} is not supported", cc.ams())),
            (
                !matches!(cc.css(), CommandSet::NVM | CommandSet::CSI),
                format!("CC.CSS {} is not supported", cc.css()),
            ),
            (cc.crime(), "CC.CRIME is not supported".to_owned()),
            (aqa.asqs_z() == 0, "AQA.ASQS is 0: the admin queue needs 2 entries".to_owned()),
            (aqa.acqs_z() == 0, "AQA.ACQS is 0: the admin queue needs 2 entries".to_owned()),
            (
                !control.asq.is_multiple_of(page),
                format!("ASQ {:#x} is not aligned to {page} bytes", control.asq),
            ),
            (
                !control.acq.is_multiple_of(page),
                format!("ACQ {:#x} is not aligned to {page} bytes", control.acq),
            ),
        ];
        let mut good = true;
        for (_, detail) in checks.into_iter().filter(|(bad, _)| *bad) {
            self.checker.report(Rule::EnableConfiguration, detail);
            good = false;
        }
        if good { self.schedule(control, Transition::Enable) } else { control.csts.set_cfs(true) }
    }

    fn build_admin_queue(&self, control: &mut Control) -> Option<AdminQueue> {
        let (sq_entries, cq_entries) = (control.aqa.sq_entries(), control.aqa.cq_entries());
        let window = |base, len: u32, access| {
            let window = self.space.window(base, len.into(), access);
            if let Err(error) = &window {
                self.checker.report(Rule::of_access(error), format!("admin queue: {error}"));
            }
            window.ok()
        };
        let sq_ring = window(control.asq, sq_entries * 64, DmaAccess::READ)?;
        let cq_ring = window(control.acq, cq_entries * 16, DmaAccess::WRITE)?;
        for (name, base, len) in
            [(ADMIN_SQ, control.asq, sq_entries * 64), (ADMIN_CQ, control.acq, cq_entries * 16)]
        {
            if let Err(other) = self.space.claim(name.to_owned(), base, len.into()) {
                let detail = format!("the {name} at {base:#x}, {len} bytes, where the {other}");
                self.checker.report(Rule::QueueOverlap, detail);
                self.space.release(ADMIN_SQ);
                return None;
            }
        }
        let page = control.cc.page_size();
        control.engine.limits.page = page;
        control.engine.refresh();
        self.poll_groups.iter().for_each(|cell| cell.lock().engine.limits.page = page);
        Some(AdminQueue {
            sq: Sq::new(0, sq_entries, sq_ring, self.doorbells.word(0)?),
            cq: Cq::new(0, cq_entries, cq_ring, self.doorbells.word(1)?, Some(0)),
        })
    }

    /// A controller reset: queues, events and features that were not saved are gone; AQA, ASQ and ACQ stay.
    fn disable(&self, control: &mut Control) {
        self.forget_everything(control);
        let ready = control.csts.rdy();
        control.csts = Csts::new().with_nssro(control.csts.nssro()).with_rdy(ready);
        self.schedule(control, Transition::Disable);
    }

    pub(crate) fn forget_everything(&self, control: &mut Control) {
        for qid in control.sqs.keys() {
            self.space.release(&crate::admin::sq_name(*qid));
        }
        for qid in control.cqs.keys() {
            self.space.release(&crate::admin::cq_name(*qid));
        }
        self.poll_groups.iter().for_each(|cell| cell.lock().clear());
        control.sqs.clear();
        control.cqs.clear();
        if let Some(admin) = control.admin.take() {
            self.space.release(ADMIN_SQ);
            self.space.release(ADMIN_CQ);
            admin.sq.retire();
            admin.cq.retire();
        }
        control.transition = None;
        self.forget_doorbell_pages(control);
        control.wide_cids = false;
        control.granted = self.config.queue_pairs;
        control.features.reset();
        self.restore_write_cache(control);
        self.vectors.reset();
        self.gather_interrupts(control);
        self.keep_alive.stop();
        control.late.clear();
        control.hung.clear();
        control.settled = None;
        control.engine.retry_delays.store(false, std::sync::atomic::Ordering::Release);
        self.reset_power(control);
        self.admin_late.set(None);
        control.incident = None;
        control.events.reset();
        control.warned = 0;
        control.download = Download::default();
        drop(self.checker.take_events());
        let mut state = self.subsystem.state();
        state.forget_changed(self.cntlid);
        state.firmware.reset();
        drop(state);
        self.clear_stray_doorbells();
    }

    fn shut_down(&self, control: &mut Control) {
        self.take_admin_doorbells(control);
        control.csts.set_shst(Shst::OCCURRING);
        // From now on the client need not say that it is alive.
        self.keep_alive.stop();
        self.poll_groups.iter().for_each(|cell| cell.lock().shut_down());
        self.schedule(control, Transition::Shutdown);
    }

    /// A reset of the whole function: all registers too.
    pub(crate) fn reset_function(&self, control: &mut Control) {
        self.forget_everything(control);
        control.cc = Cc::new();
        control.csts = Csts::new();
        control.aqa = Aqa::new();
        control.asq = 0;
        control.acq = 0;
        control.cmb.reset();
    }

    fn access(&self, at: u32, size: u32) -> Option<MutexGuard<'_, Control>> {
        if !at.is_multiple_of(size) || at >= offset::DOORBELLS {
            self.misuse(format!("access of {size} bytes to register {at:#x}"));
            return None;
        }
        let mut control = self.control.lock();
        self.answer_pending_reset(&mut control);
        self.catch_up(&mut control);
        Some(control)
    }

    /// The answer to a read comes after all that was sent before it: data of commands that have completed, which a fault
    /// has on its way still. Called under the control lock.
    fn land_payloads(&self) {
        if self.injector.is_some() {
            self.poll_groups.iter().for_each(|cell| cell.lock().land_payloads());
        }
    }

    /// Follows what another controller brought upon this one.
    pub(crate) fn answer_pending_reset(&self, control: &mut Control) {
        if let Some(pending_reset) = self.mailbox.take() {
            self.obey(control, pending_reset);
            // Its client learns it from CSTS, and may go on ringing until it looks.
            control.surprised = pending_reset == PendingReset::Reset;
        }
    }

    /// An NVM subsystem reset or shutdown, as far as this controller goes.
    fn obey(&self, control: &mut Control, pending_reset: PendingReset) {
        if pending_reset == PendingReset::Reset {
            self.reset_function(control);
            control.csts.set_nssro(true);
            return;
        }
        if !control.running() || control.csts.shst() != Shst::NORMAL_OPERATION {
            return;
        }
        if pending_reset == PendingReset::NormalShutdown {
            self.tell_shutdown(control);
        }
        control.csts.set_st(true);
        self.shut_down(control);
    }
}

/// What CC keeps when more than EN and SHN change: the configuration it was enabled with.
fn old_configuration(old: u32, new: u32) -> Cc {
    Cc::from_bits(old).with_shn(Cc::from_bits(new).shn())
}

impl Registers for Core {
    fn read32(&self, at: u32) -> u32 {
        if self.removed() {
            return u32::MAX;
        }
        let Some(control) = self.access(at, 4) else { return 0 };
        self.land_payloads();
        self.read_register(&control, at)
    }

    fn read64(&self, at: u32) -> u64 {
        if self.removed() {
            return u64::MAX;
        }
        let Some(control) = self.access(at, 8) else { return 0 };
        self.land_payloads();
        let low = self.read_register(&control, at);
        u64::from(low) | u64::from(self.read_register(&control, at + 4)) << 32
    }

    fn write32(&self, at: u32, value: u32) {
        if self.removed() {
            return;
        }
        if let Some(mut control) = self.access(at, 4) {
            self.write_register(&mut control, at, value);
        }
    }

    fn write64(&self, at: u32, value: u64) {
        if self.removed() {
            return;
        }
        if !matches!(at, offset::ASQ | offset::ACQ | offset::CMBMSC) {
            return self.misuse(format!("write of 64 bits to register {at:#x}"));
        }
        if let Some(mut control) = self.access(at, 8) {
            self.write_register(&mut control, at, value as u32);
            self.write_register(&mut control, at + 4, (value >> 32) as u32);
        }
    }
}
