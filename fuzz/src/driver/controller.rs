//! What the synthetic controller does with registers, commands and time, as the input wants it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warpbell_hw::PciId;
use warpbell_nvme::command::Sqe;
use warpbell_nvme::completion::Cqe;
use warpbell_nvme::identify::{IdentifyController, IdentifyNamespace};
use warpbell_nvme::register::{Aqa, Cap, Cc, Csts, Vs, offset};
use warpbell_nvme::status::Status;

use crate::choices::Choices;

use super::device::{shutdown_status, status};
use super::space::{Space, User};

/// A queue pair: the halves are made and deleted one by one.
#[derive(Clone, Copy, Default)]
pub(super) struct Queue {
    pub(super) sq_base: u64,
    pub(super) sq_entries: u32,
    pub(super) cq_base: u64,
    pub(super) cq_entries: u32,
    sq_head: u32,
    /// Completions posted, and those that the driver freed.
    posted: u64,
    freed: u64,
}

/// A completion that comes later.
struct Late {
    due: Duration,
    qid: u16,
    cid: u16,
    answer: (Status, u32),
}

/// What the driver did, for how long it may take.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    /// Admin commands.
    commands: u32,
    /// Writes of CC.
    changes: u32,
}

impl Counts {
    /// Commands and changes since then.
    pub(super) fn since(self, before: Counts) -> (u32, u32) {
        (self.commands - before.commands, self.changes - before.changes)
    }
}

/// The controller.
pub(super) struct Controller {
    pub(super) choices: Choices,
    pub(super) space: Arc<Space>,
    pub(super) cap: Cap,
    pub(super) version: Vs,
    pub(super) pci_id: Option<PciId>,
    pub(super) vectors: u16,
    pub(super) has_memory: bool,
    pub(super) cmbmsc: [u32; 2],
    pub(super) identify: Box<IdentifyController>,
    pub(super) namespaces: BTreeMap<u32, Box<IdentifyNamespace>>,
    pub(super) grant: u16,
    pub(super) cc: Cc,
    pub(super) aqa: Aqa,
    pub(super) asq: u64,
    pub(super) acq: u64,
    pub(super) rdy: bool,
    /// Neither RDY nor SHST changes.
    pub(super) never: bool,
    pub(super) fatal: bool,
    pub(super) gone: bool,
    pub(super) event_requests: Vec<u16>,
    pub(super) queues: BTreeMap<u16, Queue>,
    pub(super) counts: Counts,
    /// When RDY follows EN.
    follows: Duration,
    /// Doorbells in memory, and the event indices.
    pub(super) shadows: Option<[u64; 2]>,
    /// CC.EN as the driver knows it.
    reported_enabled: bool,
    late: Vec<Late>,
    /// The driver may have taken an entry for the answer to an admin command that was not carried out.
    lied: bool,
    /// Register accesses until one is disturbed, and pauses until something happens by itself; 0: never.
    until: [u32; 2],
}

impl Controller {
    pub(super) fn new(choices: Choices, space: Arc<Space>) -> Controller {
        Controller {
            choices,
            space,
            cap: Cap::new().with_mqes_z(u16::MAX).with_cqr(true).with_to(2).with_css(1),
            version: Vs::from_parts(1, 4, 0),
            pci_id: None,
            vectors: 4,
            has_memory: false,
            cmbmsc: [0; 2],
            identify: Box::new(IdentifyController::zeroed()),
            namespaces: BTreeMap::new(),
            grant: 8,
            cc: Cc::new(),
            aqa: Aqa::new(),
            asq: 0,
            acq: 0,
            rdy: false,
            never: false,
            fatal: false,
            gone: false,
            event_requests: Vec::new(),
            queues: BTreeMap::new(),
            counts: Counts::default(),
            follows: Duration::ZERO,
            shadows: None,
            reported_enabled: false,
            late: Vec::new(),
            lied: false,
            until: [0; 2],
        }
    }

    /// When the next disturbances come.
    pub(super) fn disturb(&mut self) {
        self.until = [self.choices.below(64), self.choices.below(200)];
    }

    /// Good from here on, as after a reset by someone else.
    pub(super) fn heal(&mut self) {
        self.choices.finish();
        self.forget();
        self.space.reuse();
        (self.fatal, self.gone, self.never, self.rdy, self.until) = (false, false, false, false, [0; 2]);
        self.cc = Cc::new();
    }

    /// A reset from outside.
    pub(super) fn reset(&mut self) {
        self.forget();
        (self.cc, self.rdy, self.never) = (Cc::new(), false, false);
    }

    /// All queues and commands are gone, and no memory is accessed.
    pub(super) fn forget(&mut self) {
        self.queues.clear();
        self.late.clear();
        self.event_requests.clear();
        self.shadows = None;
        (self.fatal, self.lied) = (false, false);
        self.space.end(|_| true);
    }

    pub(super) fn csts(&mut self, now: Duration) -> u32 {
        if self.gone {
            return u32::MAX;
        }
        if self.rdy != self.cc.en() && !self.never && now >= self.follows {
            self.rdy = self.cc.en();
            if !self.rdy {
                self.forget();
            }
        }
        let late = self.never || now < self.follows;
        status(self.rdy, self.fatal, shutdown_status(self.cc, late)).into_bits()
    }

    /// A register without a meaning of its own here.
    pub(super) fn register(&mut self, at: u32) -> u32 {
        match at {
            _ if self.gone => u32::MAX,
            offset::VS => self.version.into_bits(),
            offset::CMBMSC => self.cmbmsc[0],
            at if at == offset::CMBMSC + 4 => self.cmbmsc[1],
            // 16 pages that take submission queues.
            offset::CMBSZ if self.has_memory => 16 << 12 | 1,
            _ => 0,
        }
    }

    /// What the driver reads in place of `value`. It believes what it reads.
    pub(super) fn disturbed(&mut self, at: u32, value: u64) -> u64 {
        let mut value = if self.gone { u64::MAX } else { value };
        if self.until[0] > 0 {
            self.until[0] -= 1;
            if self.until[0] == 0 {
                value = match self.choices.below(6) {
                    0 => u64::MAX,
                    1 => self.choices.u64(),
                    2 => 0,
                    3 => value ^ 1,
                    4 => value ^ 1 << self.choices.below(64),
                    _ => value,
                };
                self.until[0] = self.choices.below(64);
            }
        }
        if at == offset::CC {
            self.reported_enabled = Cc::from_bits(value as u32).en();
        }
        let stopped = at == offset::CSTS && !self.reported_enabled && !Csts::from_bits(value as u32).rdy();
        if stopped || value as u32 == u32::MAX {
            // The driver may do with its memory what it likes, and a controller that lied has none.
            self.space.end(|_| true);
            self.queues.clear();
            self.late.clear();
            self.event_requests.clear();
            self.shadows = None;
        }
        value
    }

    pub(super) fn set_cc(&mut self, cc: Cc, now: Duration) {
        self.counts.changes += 1;
        let before = std::mem::replace(&mut self.cc, cc);
        self.reported_enabled = cc.en();
        let (wait, never) = match self.choices.byte() {
            0..200 => (Duration::from_micros(self.choices.byte().into()), false),
            200..230 => (Duration::from_millis(self.choices.u16().into()), false),
            _ => (Duration::ZERO, self.choices.one_in(3)),
        };
        (self.follows, self.never) = (now + wait, never);
        if cc.en() && !before.en() {
            self.forget();
            let (sq_entries, cq_entries) = (self.aqa.sq_entries(), self.aqa.cq_entries());
            let (sq_base, cq_base) = (self.asq, self.acq);
            self.space.begin(User::Sq(0), sq_base, u64::from(sq_entries) * 64);
            self.space.begin(User::Cq(0), cq_base, u64::from(cq_entries) * 16);
            let queue = Queue { sq_base, sq_entries, cq_base, cq_entries, ..Queue::default() };
            self.queues.insert(0, queue);
        }
    }

    /// A doorbell: a tail brings commands, a head frees completions.
    pub(super) fn rung(&mut self, at: usize, value: u32, now: Duration) {
        let index = at / (4 << self.cap.dstrd());
        let qid = (index / 2) as u16;
        let Some(queue) = self.queues.get_mut(&qid) else { return };
        if index % 2 == 1 {
            let fresh = (u64::from(value) + u64::from(queue.cq_entries)
                - queue.freed % u64::from(queue.cq_entries))
                % u64::from(queue.cq_entries);
            queue.freed += fresh;
            if value >= queue.cq_entries || queue.freed > queue.posted {
                self.space.break_rule(format!("queue {qid}: head {value} frees what was not posted"));
            }
            return;
        }
        // The driver believes what it is told: that a queue was created, too.
        if queue.sq_entries == 0 && self.lied {
            return;
        }
        if value >= queue.sq_entries {
            return self.space.break_rule(format!("queue {qid}: tail {value} of {}", queue.sq_entries));
        }
        while let Some(sqe) = self.fetch(qid, value) {
            if qid == 0 {
                self.counts.commands += 1;
                self.claim_data(&sqe);
            }
            self.reply(qid, &sqe, now);
        }
    }

    fn fetch(&mut self, qid: u16, tail: u32) -> Option<Sqe> {
        let queue = self.queues.get_mut(&qid)?;
        if queue.sq_head == tail || self.gone || self.fatal {
            return None;
        }
        let at = queue.sq_base + u64::from(queue.sq_head) * 64;
        queue.sq_head = (queue.sq_head + 1) % queue.sq_entries;
        // A ring in the controller's own memory is not looked at.
        let window = self.space.window(at, 64)?;
        Some(zerocopy::transmute!(window.read_words::<8>(0)))
    }

    /// Answers a command, or does not.
    fn reply(&mut self, qid: u16, sqe: &Sqe, now: Duration) {
        let kind = self.choices.byte();
        if let 160..176 = kind {
            let bits = self.choices.u16();
            let status = Cqe::from_qwords(0, u64::from(bits & !1) << 48).status();
            // Nothing was done: that is no success.
            let status = if status.is_ok() { Status::INTERNAL_ERROR } else { status };
            return self.post(qid, sqe.cid(), (status, 0));
        }
        if let 196..204 = kind {
            return;
        }
        if let 246..250 = kind {
            let dw0 = self.choices.u32();
            self.raise(dw0);
        }
        if let 250.. = kind {
            return self.happen(kind);
        }
        let Some(mut answer) = self.execute(qid, sqe) else { return };
        match kind {
            // Of I/O commands the data is not looked at.
            176..188 if qid == 0 => self.spoil(sqe, false),
            188..196 if qid == 0 => self.spoil(sqe, true),
            204..216 => {
                let due = now + Duration::from_micros(self.choices.number(2000).min(10_000_000));
                self.late.push(Late { due, qid, cid: sqe.cid(), answer });
                return;
            }
            216..240 => self.post_wrongly(qid, sqe.cid(), kind),
            240..246 => answer.1 = self.choices.u32(),
            _ => {}
        }
        self.post(qid, sqe.cid(), answer);
    }

    /// Something happens that no command asked for.
    fn happen(&mut self, kind: u8) {
        match kind {
            250..253 => self.fatal = true,
            253 => self.gone = true,
            254 => {
                // It resets itself.
                self.forget();
                (self.rdy, self.never) = (false, true);
            }
            _ => {
                let qid = u16::from(self.choices.byte() % 4);
                self.post_wrongly(qid, 0, 216);
            }
        }
    }

    /// An asynchronous event, if the driver asked for one.
    fn raise(&mut self, dw0: u32) {
        if let Some(cid) = self.event_requests.pop() {
            self.post(0, cid, (Status::SUCCESS, dw0));
        }
    }

    /// Looks at doorbells in memory, heads first, and now and then says from where on it wants to be told.
    fn poll_shadows(&mut self, now: Duration) {
        let Some([shadows, events]) = self.shadows else { return };
        let stride = 4 << self.cap.dstrd();
        for qid in self.queues.keys().copied().filter(|qid| *qid > 0).collect::<Vec<_>>() {
            for index in [2 * u64::from(qid) + 1, 2 * u64::from(qid)] {
                let exists = |queue: &Queue| queue.sq_entries > 0 || index % 2 == 1;
                if !self.queues.get(&qid).is_some_and(exists) {
                    continue;
                }
                let at = index * stride;
                let Some(word) = self.space.window(shadows + at, 4) else { continue };
                let value = word.load_u32(0, Ordering::Acquire);
                if self.choices.one_in(3)
                    && let Some(event) = self.space.window(events + at, 4)
                {
                    event.store_u32(0, value, Ordering::Release);
                }
                self.rung(at as usize, value, now);
            }
        }
    }

    /// Time has passed.
    pub(super) fn act(&mut self, now: Duration) {
        self.poll_shadows(now);
        while let Some(index) = self.late.iter().position(|late| late.due <= now) {
            let Late { qid, cid, answer, .. } = self.late.swap_remove(index);
            self.post(qid, cid, answer);
        }
        if self.until[1] > 0 {
            self.until[1] -= 1;
            if self.until[1] == 0 {
                match self.choices.byte() {
                    kind @ 0..200 => {
                        let info = self.choices.u16();
                        self.raise(u32::from(kind) << 16 | u32::from(info));
                    }
                    kind => self.happen(kind),
                }
                self.until[1] = self.choices.below(200);
            }
        }
    }

    fn entry(&self, qid: u16, cid: u16, answer: (Status, u32)) -> Option<Cqe> {
        let queue = self.queues.get(&qid).filter(|queue| queue.cq_entries > 0)?;
        let phase = (queue.posted / u64::from(queue.cq_entries)).is_multiple_of(2);
        Some(Cqe::new(qid, queue.sq_head as u16, cid, answer.0, phase).with_dw0(answer.1))
    }

    /// Completes a command. From then on its memory is the driver's.
    pub(super) fn post(&mut self, qid: u16, cid: u16, answer: (Status, u32)) {
        let Some(entry) = self.entry(qid, cid, answer) else { return };
        self.write(qid, entry, true);
    }

    /// Posts an entry of which something is wrong.
    fn post_wrongly(&mut self, qid: u16, cid: u16, kind: u8) {
        let Some(mut entry) = self.entry(qid, cid, (Status::SUCCESS, 0)) else { return };
        match kind {
            216..222 => {
                entry.cid = self.choices.u16();
                self.lied |= qid == 0;
            }
            222..226 => entry.sqid = self.choices.u16(),
            226..230 => entry.sqhd = self.choices.u16(),
            236..240 => {
                // Not to be seen: the phase is that of the lap before.
                let phase = entry.phase();
                return self.write(qid, entry.with_phase(!phase), false);
            }
            _ => {}
        }
        self.write(qid, entry, true);
    }

    fn write(&mut self, qid: u16, entry: Cqe, counts: bool) {
        let Some(queue) = self.queues.get_mut(&qid) else { return };
        // No controller writes more than there is room for.
        if queue.posted - queue.freed >= u64::from(queue.cq_entries) - 1 {
            return;
        }
        let slot = queue.posted % u64::from(queue.cq_entries);
        let Some(window) = self.space.window(queue.cq_base + slot * 16, 16) else { return };
        queue.posted += u64::from(counts);
        if counts {
            self.space.end(|user| user == User::Command(qid, entry.cid));
        }
        window.store_u64(0, entry.lo(), Ordering::Relaxed);
        window.store_u64(8, entry.hi(), Ordering::Release);
    }
}
