//! The NVM subsystem: what its controllers share.
//!
//! Locks, outermost first: a controller's control lock, `operations`, poll groups in the order of controllers, `state`. Whoever
//! changes what commands may do stops every poll group, publishes a new [`Table`] for each controller, and lets the poll groups
//! see it before they go on.

mod firmware;
mod health;
mod namespaces;
mod pending_reset;
mod sanitize;

pub(crate) use firmware::{Download, Firmware, SLOTS};
pub use health::Health;
pub(crate) use health::{CRITICAL_TEMPERATURE, Life, WARNING_TEMPERATURE};
pub(crate) use namespaces::{Allocated, NewNamespace};
pub(crate) use pending_reset::{Mailbox, PendingReset};
use sanitize::Sanitize;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rand::Rng;
use warpbell_nvme::command::{AsyncEvent, AsyncEventType, AsyncNoticeInfo};
use warpbell_nvme::log::LogPageId;

use crate::config::SoftConfig;
use crate::core::{Core, PollGroupCell};
use crate::engine::Refused;
use crate::error::SoftError;
use crate::sim::VirtualTime;
use crate::store::{Namespace, Published, Table};

/// Most controllers that a subsystem ever has: what a Controller List can name.
const MAX_CONTROLLERS: u16 = 2047;

/// Namespaces, capacity and identity that one or more controllers share.
///
/// [`crate::SoftDevice::threaded`] makes one for itself. To put several controllers on one, make it here and pass it
/// to [`crate::SoftDevice::threaded_on`] or [`crate::SoftDevice::stepped_on`]. Of the configuration, `namespaces`,
/// `capacity`, `max_namespaces`, `name`, `serial`, `model` and `firmware` are the subsystem's; the rest is each controller's.
pub struct Subsystem {
    /// What messages call it.
    pub(crate) name: String,
    pub(crate) serial: String,
    pub(crate) model: String,
    /// Whether there may be several controllers (CMIC).
    pub(crate) several: bool,
    /// Whether several threads may access a store at a time.
    shared: bool,
    /// Whether writes that were not flushed can be lost.
    pub(crate) volatile: bool,
    /// The largest valid NSID (NN).
    pub(crate) last_nsid: u32,
    /// Virtual time of its controllers, if they are stepped.
    pub(crate) time: Arc<VirtualTime>,
    /// Whether the controllers are stepped: as the first of them.
    stepped: OnceLock<bool>,
    started: Instant,
    /// Held by whoever changes namespaces, from the change until every poll group has seen it.
    operations: Mutex<()>,
    /// Whether something goes on in the background.
    busy: AtomicBool,
    state: Mutex<State>,
}

/// What changes at run time.
pub(crate) struct State {
    /// By NSID.
    pub(crate) namespaces: BTreeMap<u32, Allocated>,
    /// Bytes that new namespaces may take.
    pub(crate) unallocated: u64,
    pub(crate) sanitize: Sanitize,
    pub(crate) life: Life,
    pub(crate) firmware: Firmware,
    /// Namespaces created so far.
    created: u64,
    members: BTreeMap<u16, Member>,
    next_cntlid: u16,
}

/// A controller of the subsystem.
struct Member {
    core: Weak<Core>,
    published: Arc<Published>,
    /// The Changed Namespace List.
    changed: BTreeSet<u32>,
    /// Namespaces deleted since the controller last asked.
    deleted: BTreeSet<u32>,
}

/// A controller's place in the subsystem.
pub(crate) struct Reservation {
    pub(crate) cntlid: u16,
    pub(crate) published: Arc<Published>,
}

impl std::fmt::Debug for Subsystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subsystem").field("serial", &self.serial).finish_non_exhaustive()
    }
}

impl Subsystem {
    /// Opens the namespaces that the configuration names, for any number of controllers.
    pub fn new(config: &SoftConfig) -> Result<Arc<Subsystem>, SoftError> {
        Subsystem::open(config, true, true)
    }

    /// The subsystem of one controller. `shared` says that several threads will access its namespaces.
    pub(crate) fn alone(config: &SoftConfig, shared: bool) -> Result<Arc<Subsystem>, SoftError> {
        Subsystem::open(config, false, shared)
    }

    fn open(config: &SoftConfig, several: bool, shared: bool) -> Result<Arc<Subsystem>, SoftError> {
        config.validate()?;
        let mut namespaces = BTreeMap::new();
        for (nsid, one) in (1..).zip(&config.namespaces) {
            let cache = config.loses_writes().then(Arc::default);
            let namespace = Namespace { cache, ..Namespace::open(nsid, one, shared)? };
            namespaces.insert(nsid, Allocated::configured(namespace, several));
        }
        let clean = namespaces.values().all(|one| one.namespace.is_fresh());
        Ok(Arc::new(Subsystem {
            name: config.name.clone().unwrap_or_else(|| format!("soft:{}", config.serial)),
            serial: config.serial.clone(),
            model: config.model.clone(),
            several,
            shared,
            volatile: config.loses_writes(),
            last_nsid: config.last_nsid(),
            time: Arc::default(),
            stepped: OnceLock::new(),
            started: Instant::now(),
            operations: Mutex::new(()),
            busy: AtomicBool::new(false),
            state: Mutex::new(State {
                sanitize: Sanitize::new(clean),
                life: Life::new(config.health),
                firmware: Firmware::new(&config.firmware),
                namespaces,
                unallocated: config.capacity,
                created: 0,
                members: BTreeMap::new(),
                next_cntlid: 1,
            }),
        }))
    }

    /// A place for one more controller. Namespaces of the configuration that may be shared are attached to it.
    pub(crate) fn reservation(&self, stepped: bool) -> Result<Reservation, SoftError> {
        if *self.stepped.get_or_init(|| stepped) != stepped {
            return Err(SoftError::MixedModes { serial: self.serial.clone() });
        }
        let mut state = self.state.lock();
        let cntlid = state.next_cntlid;
        if cntlid > MAX_CONTROLLERS {
            return Err(SoftError::Controllers { limit: MAX_CONTROLLERS });
        }
        state.next_cntlid += 1;
        for allocated in state.namespaces.values_mut().filter(|one| one.joins(cntlid)) {
            allocated.attached.insert(cntlid);
        }
        let published = Arc::new(Published::new(state.table(cntlid, self.last_nsid)));
        let member = Member {
            core: Weak::new(),
            published: published.clone(),
            changed: BTreeSet::new(),
            deleted: BTreeSet::new(),
        };
        state.members.insert(cntlid, member);
        Ok(Reservation { cntlid, published })
    }

    /// The controller of a reservation exists now.
    pub(crate) fn occupy(&self, cntlid: u16, core: Weak<Core>) {
        if let Some(member) = self.state.lock().members.get_mut(&cntlid) {
            member.core = core;
        }
    }

    /// The controller of a reservation is gone.
    pub(crate) fn leave(&self, cntlid: u16) {
        let mut state = self.state.lock();
        state.members.remove(&cntlid);
        for allocated in state.namespaces.values_mut() {
            allocated.attached.remove(&cntlid);
        }
    }

    /// Its controllers.
    pub(crate) fn controllers(&self) -> Vec<Arc<Core>> {
        self.state.lock().members.values().filter_map(|member| member.core.upgrade()).collect()
    }

    /// Its namespaces, attached or not.
    pub(crate) fn all_namespaces(&self) -> Vec<Namespace> {
        self.state.lock().namespaces.values().map(|one| one.namespace.clone()).collect()
    }

    /// Makes every write durable, also in namespaces that are attached to no controller.
    pub(crate) fn flush_all(&self) -> Result<(), SoftError> {
        self.all_namespaces().iter().filter(|namespace| namespace.writable).try_for_each(Namespace::flushed)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Time since the subsystem began: virtual where its controllers are stepped.
    pub(crate) fn now(&self) -> Duration {
        match self.stepped.get() {
            Some(true) => self.time.now(),
            _ => self.started.elapsed(),
        }
    }

    /// Changes what controllers may do, while no poll group serves anything. When it returns, every poll group has seen the change.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        self.alter(&self.operations.lock(), |state, _| change(state))
    }

    /// [`Subsystem::change`] for who has the lock already. The change is also told how much clients have written.
    fn alter<T>(
        &self,
        _operation: &MutexGuard<'_, ()>,
        change: impl FnOnce(&mut State, u64) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let controllers = self.controllers();
        let cells = controllers.iter().flat_map(|core| &core.poll_groups);
        let mut poll_groups: Vec<_> = cells.map(PollGroupCell::lock).collect();
        poll_groups.iter_mut().for_each(|poll_group| poll_group.settle_copies());
        let written =
            poll_groups.iter().map(|poll_group| poll_group.engine.statistics.content_changes()).sum();
        let result = {
            let mut state = self.state.lock();
            let result = change(&mut state, written)?;
            state.publish(self.last_nsid);
            result
        };
        poll_groups.iter_mut().for_each(|poll_group| poll_group.refresh());
        Ok(result)
    }

    /// Takes back what was written and not flushed, each block with probability `1 - keep`, while no poll group of any
    /// controller serves anything.
    pub(crate) fn lose_power(&self, keep: f64, random: &mut impl Rng) {
        let _operation = self.operations.lock();
        let controllers = self.controllers();
        let cells = controllers.iter().flat_map(|core| &core.poll_groups);
        let mut poll_groups: Vec<_> = cells.map(PollGroupCell::lock).collect();
        poll_groups.iter_mut().for_each(|poll_group| poll_group.settle_copies());
        self.all_namespaces().iter().for_each(|namespace| namespace.lose_power(keep, random));
    }

    /// How many commands of clients have changed contents.
    pub(crate) fn written(&self) -> u64 {
        let controllers = self.controllers();
        let cells = controllers.iter().flat_map(|core| &core.poll_groups);
        cells.map(|cell| cell.lock().engine.statistics.content_changes()).sum()
    }
}

impl State {
    fn table(&self, cntlid: u16, last: u32) -> Table {
        let attached = |one: &&Allocated| one.attached.contains(&cntlid);
        let highest = self.namespaces.values().filter(attached).map(|one| one.namespace.nsid).max();
        let slot = |nsid: u32| self.namespaces.get(&nsid).filter(attached).map(|one| one.namespace.clone());
        let closed = self.sanitize.refusal();
        if closed.is_some() {
            return Table { slots: Arc::default(), last, closed };
        }
        Table { slots: (1..=highest.unwrap_or(0)).map(slot).collect(), last, closed }
    }

    fn publish(&self, last: u32) {
        for (cntlid, member) in &self.members {
            member.published.publish(self.table(*cntlid, last));
        }
    }

    /// The controllers' identifiers, in increasing order.
    pub(crate) fn cntlids(&self) -> impl Iterator<Item = u16> + '_ {
        self.members.keys().copied()
    }

    /// An event for every controller.
    fn tell_all(&self, event: AsyncEvent) {
        for core in self.members.values().filter_map(|member| member.core.upgrade()) {
            core.checker.raise(event);
        }
    }

    /// A namespace changed: the controllers of `whom`, other than `by`, are told.
    pub(crate) fn tell_changed(&mut self, nsid: u32, whom: &BTreeSet<u16>, by: u16) {
        let event = AsyncEvent::new()
            .with_event_type(AsyncEventType::NOTICE)
            .with_info(AsyncNoticeInfo::NAMESPACE_ATTRIBUTE_CHANGED.0)
            .with_log_page(LogPageId::CHANGED_NAMESPACE_LIST.0);
        for (cntlid, member) in &mut self.members {
            if *cntlid == by || !whom.contains(cntlid) {
                continue;
            }
            member.changed.insert(nsid);
            if let Some(core) = member.core.upgrade() {
                core.checker.raise(event);
            }
        }
    }

    /// The namespaces that changed since the list was last forgotten.
    pub(crate) fn changed(&self, cntlid: u16) -> impl Iterator<Item = u32> + '_ {
        self.members.get(&cntlid).into_iter().flat_map(|member| member.changed.iter().copied())
    }

    /// A namespace is gone: what controllers keep about it means nothing any more.
    fn note_deleted(&mut self, nsid: u32) {
        for member in self.members.values_mut() {
            member.deleted.insert(nsid);
        }
    }

    /// The namespaces deleted since the last call.
    pub(crate) fn take_deleted(&mut self, cntlid: u16) -> BTreeSet<u32> {
        let member = self.members.get_mut(&cntlid);
        member.map(|member| std::mem::take(&mut member.deleted)).unwrap_or_default()
    }

    /// The controller knows what changed, or was reset.
    pub(crate) fn forget_changed(&mut self, cntlid: u16) {
        if let Some(member) = self.members.get_mut(&cntlid) {
            member.changed.clear();
        }
    }
}
