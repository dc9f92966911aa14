//! What all parts of one controller share.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use crate::admin::{AdminLate, ErrorLog, KeepAlive};
use crate::checker::{Checker, Rule};
use crate::cmb::Cmb;
use crate::config::{CompletionOrder, SoftConfig};
use crate::control::Control;
use crate::copying::Copier;
use crate::doorbell::DoorbellPage;
use crate::engine::{Engine, Limits, field};
use crate::error::SoftError;
use crate::fault::Injector;
use crate::interrupt::Vectors;
use crate::memory::{IovaSpace, PAGE, View};
use crate::poll_group::{PollGroup, PollGroupMode};
use crate::power::Power;
use crate::profile::Media;
use crate::sim::{TimeSource, VirtualTime};
use crate::statistics::Statistics;
use crate::store::{Namespaces, Published};
use crate::subsystem::{Mailbox, Reservation, Subsystem};
use crate::test_hooks::Defect;

/// A poll group, and how others get at it while its poller serves it.
///
/// The poller keeps the lock from pass to pass, so that a pass costs no lock, and lets go when it sees somebody
/// waiting.
#[repr(align(128))]
pub(crate) struct PollGroupCell {
    pub(crate) waiters: AtomicU32,
    pub(crate) poll_group: Mutex<PollGroup>,
}

impl PollGroupCell {
    fn new(poll_group: PollGroup) -> PollGroupCell {
        PollGroupCell { waiters: AtomicU32::new(0), poll_group: Mutex::new(poll_group) }
    }

    /// Locks the poll group from outside its poller.
    pub(crate) fn lock(&self) -> MutexGuard<'_, PollGroup> {
        self.waiters.fetch_add(1, Ordering::AcqRel);
        let poll_group = self.poll_group.lock();
        self.waiters.fetch_sub(1, Ordering::AcqRel);
        poll_group
    }
}

/// One controller.
pub(crate) struct Core {
    pub(crate) config: SoftConfig,
    pub(crate) checker: Arc<Checker>,
    pub(crate) errors: Arc<ErrorLog>,
    pub(crate) space: Arc<IovaSpace>,
    pub(crate) subsystem: Arc<Subsystem>,
    /// The controller's identifier in its subsystem.
    pub(crate) cntlid: u16,
    /// What other controllers brought upon this one.
    pub(crate) mailbox: Mailbox,
    pub(crate) injector: Option<Arc<Mutex<Injector>>>,
    /// Present where there are several power states.
    pub(crate) power: Option<Arc<Power>>,
    pub(crate) vectors: Arc<Vectors>,
    pub(crate) doorbells: DoorbellPage,
    pub(crate) control: Mutex<Control>,
    pub(crate) poll_groups: Vec<PollGroupCell>,
    /// Virtual time of a stepped controller; `None` where pollers run.
    pub(crate) time: Option<Arc<VirtualTime>>,
    pub(crate) keep_alive: KeepAlive,
    /// The admin tail doorbell's value when the admin queue was last served.
    pub(crate) admin_tail: AtomicU32,
    /// When a fault's late admin completion is due.
    pub(crate) admin_late: AdminLate,
    /// Whether the admin queue has work that no doorbell announces.
    pub(crate) admin_backlog: AtomicBool,
    /// The function is gone: a fault.
    pub(crate) removed: AtomicBool,
    /// Pollers are to end.
    pub(crate) stop: AtomicBool,
}

impl Core {
    /// Sets up a controller that has its subsystem to itself.
    pub(crate) fn alone(config: SoftConfig, stepped: bool) -> Result<Arc<Core>, SoftError> {
        let subsystem = Subsystem::alone(&config, !stepped && config.pollers > 1)?;
        Core::join(&subsystem, config, stepped)
    }

    /// Sets up one more controller of a subsystem.
    pub(crate) fn join(
        subsystem: &Arc<Subsystem>,
        config: SoftConfig,
        stepped: bool,
    ) -> Result<Arc<Core>, SoftError> {
        config.validate()?;
        let reservation = subsystem.reservation(stepped)?;
        let cntlid = reservation.cntlid;
        let core = Core::new(config, subsystem.clone(), reservation, stepped)
            .inspect_err(|_| subsystem.leave(cntlid))?;
        let core = Arc::new(core);
        subsystem.occupy(cntlid, Arc::downgrade(&core));
        let host: Weak<Core> = Arc::downgrade(&core);
        core.space.copied_by(host);
        Ok(core)
    }

    /// A controller that is not enabled yet.
    fn new(
        config: SoftConfig,
        subsystem: Arc<Subsystem>,
        reservation: Reservation,
        stepped: bool,
    ) -> Result<Core, SoftError> {
        let shared = EngineParts::new(&config, &subsystem, &reservation, stepped);
        let vectors = Arc::new(Vectors::new(config.highest_qid()));
        let poll_group_count = if stepped { 1 } else { config.pollers };
        let poll_group = |index| {
            let mode = poll_group_mode(&config, stepped, subsystem.volatile, index);
            PollGroupCell::new(PollGroup::new(shared.engine(), mode, vectors.clone()))
        };
        let memory = Cmb::new(config.controller_memory)?;
        let control = Control::new(shared.engine(), memory, config.queue_pairs, config.seed.rotate_left(17));
        Ok(Core {
            control: Mutex::new(control),
            poll_groups: (0..poll_group_count as u64).map(poll_group).collect(),
            time: stepped.then(|| subsystem.time.clone()),
            keep_alive: KeepAlive::default(),
            admin_late: AdminLate::default(),
            admin_tail: AtomicU32::new(0),
            admin_backlog: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            doorbells: DoorbellPage::new(config.highest_qid(), config.stride)?,
            config,
            checker: shared.checker,
            errors: shared.errors,
            space: shared.space,
            injector: shared.injector,
            power: shared.power,
            subsystem,
            cntlid: reservation.cntlid,
            mailbox: Mailbox::default(),
            vectors,
        })
    }

    /// Counters of the control plane and of all poll groups.
    pub(crate) fn statistics(&self, control: &Control) -> Statistics {
        let mut sum = control.engine.statistics.clone();
        for cell in &self.poll_groups {
            let mut poll_group = cell.lock();
            // Stepped, doorbells go to the sink: what lies in their memory was never written.
            if self.time.is_none() {
                poll_group.catch_up();
            }
            sum.add(&poll_group.engine.statistics);
            let counts = poll_group.engine.copier.counts;
            sum.remote_batches += counts.batches;
            sum.remote_copies += counts.copies;
            sum.remote_bytes += counts.bytes;
            sum.staged_bytes += counts.staged;
        }
        sum.faults = self.injector.as_ref().map_or(0, |injector| injector.lock().count());
        sum.violations = self.checker.count();
        sum.interrupts += self.vectors.timed();
        sum
    }

    /// Reports doorbells that were written although their queue does not exist, where writes are not seen one by one.
    pub(crate) fn scan_stray_doorbells(&self, control: &Control) {
        if self.time.is_some() || control.surprised || self.removed() {
            return;
        }
        for qid in 0..=self.config.highest_qid() {
            let enabled = control.admin.is_some();
            let exists = |kind| match (qid, kind) {
                (0, _) => enabled,
                (_, 0) => control.sqs.contains_key(&qid),
                _ => control.cqs.contains_key(&qid),
            };
            for kind in [0, 1] {
                let index = 2 * usize::from(qid) + kind;
                if !exists(kind) && self.doorbells.load(index) != 0 {
                    let value = self.doorbells.load(index);
                    self.doorbells.clear(index);
                    let name = ["submission", "completion"][kind];
                    let detail =
                        format!("{name} queue {qid} does not exist; its doorbell was set to {value}");
                    self.checker.report_doorbell(Rule::DoorbellRegister, detail);
                }
            }
        }
    }

    /// All doorbells read zero after a reset.
    pub(crate) fn clear_stray_doorbells(&self) {
        self.doorbells.clear_all();
        self.admin_tail.store(0, Ordering::Relaxed);
        self.admin_backlog.store(false, Ordering::Relaxed);
    }
}

/// What the engines of all threads of a controller have in common.
struct EngineParts {
    space: Arc<IovaSpace>,
    published: Arc<Published>,
    checker: Arc<Checker>,
    errors: Arc<ErrorLog>,
    injector: Option<Arc<Mutex<Injector>>>,
    time: TimeSource,
    write_through: Arc<AtomicBool>,
    retry_delays: Arc<AtomicBool>,
    power: Option<Arc<Power>>,
    media: Option<Arc<Mutex<Media>>>,
    defect: Option<Defect>,
    limits: Limits,
}

impl EngineParts {
    fn new(
        config: &SoftConfig,
        subsystem: &Subsystem,
        reservation: &Reservation,
        stepped: bool,
    ) -> EngineParts {
        let checker = Arc::new(Checker::default());
        let injector = || Arc::new(Mutex::new(Injector::new(&config.faults, config.seed)));
        let media = |profile| Arc::new(Mutex::new(Media::new(profile, config.seed)));
        EngineParts {
            space: IovaSpace::new(checker.clone()),
            published: reservation.published.clone(),
            checker,
            errors: Arc::new(ErrorLog::default()),
            injector: (!config.faults.is_empty()).then(injector),
            time: match stepped {
                true => TimeSource::Virtual(subsystem.time.clone()),
                false => TimeSource::Monotonic(Arc::default()),
            },
            write_through: Arc::new(AtomicBool::new(false)),
            retry_delays: Arc::new(AtomicBool::new(false)),
            power: config.has_power_states().then(|| Arc::new(Power::new(&config.power_states))),
            media: config.profile.as_ref().map(media),
            defect: config.defect,
            limits: limits(config),
        }
    }

    fn engine(&self) -> Engine {
        Engine {
            view: View::new(self.space.clone()),
            namespaces: Namespaces::new(self.published.clone()),
            checker: self.checker.clone(),
            errors: self.errors.clone(),
            injector: self.injector.clone(),
            fault: None,
            deferred: None,
            time: self.time.clone(),
            write_through: self.write_through.clone(),
            retry_delays: self.retry_delays.clone(),
            power: self.power.clone(),
            media: self.media.clone(),
            defect: self.defect,
            limits: self.limits,
            job: None,
            copier: Copier::default(),
            segments: Vec::new(),
            scratch: Vec::new(),
            statistics: Statistics::default(),
            location: Cell::new(field::NONE),
            specific: Cell::new(0),
        }
    }
}

fn limits(config: &SoftConfig) -> Limits {
    let bytes = if config.mdts == 0 { u64::MAX } else { PAGE << config.mdts };
    Limits { page: PAGE, bytes, sgl: config.sgl, optional: config.optional }
}

fn poll_group_mode(config: &SoftConfig, stepped: bool, volatile: bool, index: u64) -> PollGroupMode {
    let (window, ordered) = match config.order {
        CompletionOrder::Immediate => (0, false),
        CompletionOrder::Shuffled { window } => (window, false),
        CompletionOrder::Submission { window } => (window, true),
    };
    PollGroupMode {
        window,
        // Where nothing says how long commands take, each is done as soon as it was fetched.
        slots: config.slots.filter(|_| config.profile.is_some()).map_or(usize::MAX, |slots| slots as usize),
        ordered,
        poison: stepped && config.poison_fetched,
        quick: !stepped
            && window == 0
            && config.faults.is_empty()
            && config.profile.is_none()
            && !config.has_power_states()
            && !volatile
            && !config.defect.is_some_and(Defect::is_of_data),
        planned: !config.faults.is_empty() || config.profile.is_some() || config.has_power_states(),
        seed: config.seed.wrapping_add(index),
    }
}
