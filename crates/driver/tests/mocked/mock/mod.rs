//! A scripted controller that can do what no well-behaved one does: never get ready, vanish, answer with
//! synthetic command identifiers, answer late or not at all. Single-threaded, on a virtual clock.

mod admin;
mod device;
mod host;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use warpbell_hw::*;
use warpbell_nvme::command::Sqe;
use warpbell_nvme::completion::Cqe;
use warpbell_nvme::identify::{IdentifyController, IdentifyNamespace, LbaFormat};
use warpbell_nvme::register::{Aqa, Cap, Cc, Crto, Csts, NSSR_MAGIC, Shn, Shst, Vs};
use warpbell_nvme::status::Status;

pub use host::{MockDma, VirtualClock};

/// How CSTS follows CC.EN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// After this time.
    After(Duration),
    Never,
    /// CSTS.CFS in place of a change.
    Fatal,
    /// All ones from then on.
    Gone,
}

/// What to do with a command.
#[derive(Clone, Copy, Debug)]
pub enum Reply {
    /// As a good controller would.
    Normal,
    /// Complete at once with this status.
    Status(Status),
    /// Fetch it and never complete it, unless a test does with [`Mock::complete`].
    Swallow,
    /// Execute it (an admin command), and never complete it, unless a test does.
    Mute,
}

/// What the driver did, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Cc(Cc),
    AdminQueues,
    Admin { opcode: u8, cdw10: u32 },
    Unmap(u64),
    FunctionReset,
    SubsystemReset,
    Subscribe(u16),
}

pub type Script = Box<dyn FnMut(u16, &Sqe) -> Reply + Send>;

/// The behaviour, to be changed by tests at any time.
pub struct Behaviour {
    pub cap: Cap,
    /// Of the doorbells, whatever CAP says when it is read.
    pub stride: u8,
    pub version: Vs,
    pub crto: Crto,
    pub enable: Follow,
    pub disable: Follow,
    pub shutdown: Follow,
    pub function_reset: bool,
    /// How long registers read all ones after an NVM subsystem reset.
    pub silence: Duration,
    pub identify: Box<IdentifyController>,
    pub namespaces: BTreeMap<u32, Box<IdentifyNamespace>>,
    /// Queue pairs granted, whatever was asked for.
    pub grant: u16,
    pub vectors: u16,
    /// Why no vector can be set up.
    pub no_vector: Option<rustix::io::Errno>,
    /// The function disappears at the register access with this number.
    pub gone_at: Option<u64>,
    pub pci_id: Option<PciId>,
    pub script: Script,
}

pub struct Queue {
    sq_base: u64,
    cq_base: u64,
    entries: u32,
    sq_head: u32,
    cq_tail: u64,
    has_sq: bool,
}

pub struct State {
    pub behaviour: Behaviour,
    pub events: Vec<Event>,
    pub queues: BTreeMap<u16, Queue>,
    cc: Cc,
    aqa: Aqa,
    asq: u64,
    acq: u64,
    changed_at: Duration,
    rdy: bool,
    gone: bool,
    /// Register accesses so far.
    pub accesses: u64,
    pub fatal: bool,
    /// Commands fetched and not completed: queue and identifier.
    pub swallowed: Vec<(u16, u16)>,
    pub event_requests: Vec<u16>,
    /// Features set, but for the number of queues: CDW10 and CDW11.
    pub features: Vec<(u32, u32)>,
    /// The command being executed is not to be completed.
    mute: bool,
    /// The eventfds of vectors that are listened to.
    vectors: BTreeMap<u16, OwnedFd>,
    /// Until when registers read all ones after an NVM subsystem reset.
    silent_until: Duration,
}

pub struct Mock {
    state: Mutex<State>,
    pub clock: Arc<VirtualClock>,
    pub dma: Arc<MockDma>,
    page: Window,
    weak: std::sync::Weak<Mock>,
}

pub fn namespace(blocks: u64, lbads: u8) -> Box<IdentifyNamespace> {
    let mut data = Box::new(IdentifyNamespace::zeroed());
    (data.nsze, data.ncap) = (blocks, blocks);
    data.lbaf[0] = LbaFormat::new().with_lbads(lbads);
    data
}

impl Behaviour {
    fn good() -> Behaviour {
        let mut identify = Box::new(IdentifyController::zeroed());
        identify.sqes.set_min(6);
        identify.sqes.set_max(6);
        identify.cqes.set_min(4);
        identify.cqes.set_max(4);
        identify.mdts = 5;
        identify.nn = 1;
        identify.aerl_z = 2;
        identify.elpe_z = 63;
        Behaviour {
            stride: 0,
            cap: Cap::new().with_mqes_z(u16::MAX).with_cqr(true).with_to(2).with_css(1),
            version: Vs::from_parts(1, 4, 0),
            crto: Crto::new(),
            enable: Follow::After(Duration::from_millis(20)),
            disable: Follow::After(Duration::from_millis(10)),
            shutdown: Follow::After(Duration::from_millis(30)),
            function_reset: true,
            silence: Duration::ZERO,
            identify,
            namespaces: BTreeMap::from([(1, namespace(1000, 9))]),
            grant: 64,
            vectors: 4,
            no_vector: None,
            gone_at: None,
            pci_id: None,
            script: Box::new(|_, _| Reply::Normal),
        }
    }
}

impl Mock {
    pub fn new(change: impl FnOnce(&mut Behaviour)) -> Arc<Mock> {
        let mut behaviour = Behaviour::good();
        change(&mut behaviour);
        Arc::new_cyclic(|weak| Mock {
            state: Mutex::new(State {
                behaviour,
                events: vec![],
                queues: BTreeMap::new(),
                cc: Cc::new(),
                aqa: Aqa::new(),
                asq: 0,
                acq: 0,
                changed_at: Duration::ZERO,
                rdy: false,
                gone: false,
                accesses: 0,
                fatal: false,
                swallowed: vec![],
                event_requests: vec![],
                features: vec![],
                mute: false,
                vectors: BTreeMap::new(),
                silent_until: Duration::ZERO,
            }),
            clock: Arc::new(VirtualClock::default()),
            dma: Arc::new(MockDma::new(weak.clone())),
            page: Window::host(1 << 20).unwrap(),
            weak: weak.clone(),
        })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Changes the behaviour from here on.
    pub fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.state().behaviour);
    }

    pub fn events(&self) -> Vec<Event> {
        self.state().events.clone()
    }

    /// Opcodes of the admin commands so far.
    pub fn admin_opcodes(&self) -> Vec<u8> {
        let opcode = |event: &Event| match event {
            Event::Admin { opcode, .. } => Some(*opcode),
            _ => None,
        };
        self.events().iter().filter_map(opcode).collect()
    }

    /// Leaves the controller as some earlier driver might have: CC.EN set, ready or not.
    pub fn left_enabled(&self, ready: bool) {
        let mut state = self.state();
        state.cc = Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).with_mps(0);
        state.rdy = ready;
        state.changed_at = Duration::ZERO;
    }

    pub fn vanish(&self) {
        self.state().gone = true;
    }

    /// CSTS.RDY falls though CC.EN was not cleared, as after a reset by someone else.
    pub fn fall(&self) {
        let mut state = self.state();
        state.forget();
        (state.cc, state.rdy) = (Cc::new(), false);
    }

    /// A register is accessed.
    fn accessed(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.accesses += 1;
        state.gone |= state.behaviour.gone_at.is_some_and(|at| state.accesses >= at);
        state
    }

    /// Posts a completion, whether or not there is such a command.
    pub fn complete(&self, qid: u16, cid: u16, status: Status) {
        let mut state = self.state();
        state.swallowed.retain(|command| *command != (qid, cid));
        state.post(&self.dma, qid, cid, status, 0);
    }

    /// Interrupts.
    pub fn fire(&self, vector: u16) {
        rustix::io::write(&self.state().vectors[&vector], &1u64.to_ne_bytes()).unwrap();
    }

    /// Completes a command with an entry of which `change` spoils something.
    pub fn complete_wrongly(&self, qid: u16, cid: u16, change: impl FnOnce(&mut Cqe)) {
        let mut state = self.state();
        let Some(mut cqe) = state.next_cqe(qid, cid, Status::SUCCESS, 0) else { return };
        change(&mut cqe);
        state.post_cqe(&self.dma, qid, cqe);
    }

    /// Completes an asynchronous event request.
    pub fn raise(&self, dw0: u32) -> bool {
        let mut state = self.state();
        let Some(cid) = state.event_requests.pop() else { return false };
        state.post(&self.dma, 0, cid, Status::SUCCESS, dw0);
        true
    }

    fn note(&self, event: Event) {
        self.state().events.push(event);
    }
}

impl State {
    /// The register as it reads at `now`.
    fn csts(&mut self, now: Duration) -> u32 {
        let target = self.cc.en();
        if self.rdy != target {
            let follow = if target { self.behaviour.enable } else { self.behaviour.disable };
            match follow {
                Follow::After(delay) if now >= self.changed_at + delay => self.rdy = target,
                Follow::After(_) | Follow::Never => {}
                Follow::Fatal => self.fatal = true,
                Follow::Gone => self.gone = true,
            }
        }
        let shst = match (self.cc.shn() == Shn::NONE, self.behaviour.shutdown) {
            (true, _) => Shst::NORMAL_OPERATION,
            (false, Follow::After(delay)) if now >= self.changed_at + delay => Shst::COMPLETE,
            _ => Shst::OCCURRING,
        };
        if self.gone {
            return u32::MAX;
        }
        Csts::new().with_rdy(self.rdy).with_cfs(self.fatal).with_shst(shst).into_bits()
    }

    fn set_cc(&mut self, cc: Cc, now: Duration) {
        self.events.push(Event::Cc(cc));
        self.changed_at = now;
        let before = std::mem::replace(&mut self.cc, cc);
        if before.en() && !cc.en() {
            self.forget();
        }
        if !before.en() && cc.en() {
            let queue = Queue {
                sq_base: self.asq,
                cq_base: self.acq,
                entries: self.aqa.sq_entries(),
                sq_head: 0,
                cq_tail: 0,
                has_sq: true,
            };
            self.queues.insert(0, queue);
        }
    }

    fn reset_subsystem(&mut self, value: u32, now: Duration) {
        assert_eq!(value, NSSR_MAGIC);
        self.events.push(Event::SubsystemReset);
        self.forget();
        (self.cc, self.rdy) = (Cc::new(), false);
        self.silent_until = now + self.behaviour.silence;
    }

    fn forget(&mut self) {
        self.queues.clear();
        self.swallowed.clear();
        self.event_requests.clear();
        self.fatal = false;
    }

    /// Whether a queue or the controller may access these bytes.
    pub fn in_use(&self, iova: u64, len: u64) -> bool {
        let inside = |base: u64| (iova..iova + len).contains(&base);
        let alive = !self.gone && (self.rdy || self.cc.en());
        alive && self.queues.values().any(|q| inside(q.sq_base) || inside(q.cq_base))
    }

    fn next_cqe(&self, qid: u16, cid: u16, status: Status, dw0: u32) -> Option<Cqe> {
        let queue = self.queues.get(&qid)?;
        let phase = (queue.cq_tail / u64::from(queue.entries)).is_multiple_of(2);
        Some(Cqe::new(qid, queue.sq_head as u16, cid, status, phase).with_dw0(dw0))
    }

    fn post(&mut self, dma: &MockDma, qid: u16, cid: u16, status: Status, dw0: u32) {
        if let Some(cqe) = self.next_cqe(qid, cid, status, dw0) {
            self.post_cqe(dma, qid, cqe);
        }
    }

    fn post_cqe(&mut self, dma: &MockDma, qid: u16, cqe: Cqe) {
        let Some(queue) = self.queues.get_mut(&qid) else { return };
        let slot = queue.cq_tail % u64::from(queue.entries);
        queue.cq_tail += 1;
        let (window, at) = dma.find(queue.cq_base + slot * 16);
        window.store_u64(at, cqe.lo(), Ordering::Relaxed);
        window.store_u64(at + 8, cqe.hi(), Ordering::Release);
    }

    fn fetch(&mut self, dma: &MockDma, qid: u16, tail: u32) -> Option<Sqe> {
        let queue = self.queues.get_mut(&qid)?;
        if queue.sq_head == tail {
            return None;
        }
        let (window, at) = dma.find(queue.sq_base + u64::from(queue.sq_head) * 64);
        queue.sq_head = (queue.sq_head + 1) % queue.entries;
        Some(zerocopy::transmute!(window.read_words::<8>(at)))
    }

    fn serve(&mut self, dma: &MockDma, qid: u16, sqe: &Sqe) {
        if qid == 0 {
            self.events.push(Event::Admin { opcode: sqe.opcode(), cdw10: sqe.cdw10 });
        }
        let mut script = std::mem::replace(&mut self.behaviour.script, Box::new(|_, _| Reply::Normal));
        let reply = script(qid, sqe);
        self.behaviour.script = script;
        match reply {
            Reply::Normal if qid == 0 => self.serve_admin(dma, sqe),
            Reply::Normal => self.post(dma, qid, sqe.cid(), Status::SUCCESS, 0),
            Reply::Status(status) => self.post(dma, qid, sqe.cid(), status, 0),
            Reply::Swallow => self.swallowed.push((qid, sqe.cid())),
            Reply::Mute => {
                self.mute = true;
                self.swallowed.push((qid, sqe.cid()));
                self.serve_admin(dma, sqe);
            }
        }
    }
}
