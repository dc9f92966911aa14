//! The device: what clients hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use warpbell_hw::{
    Clock, Device, DeviceInfo, DeviceKind, DmaSpace, Doorbells, Interrupts, Lba, MonotonicClock, Nsid,
    Registers, Reset, ResetError, ResetKind, Window,
};

use warpbell_nvme::Status;
use warpbell_nvme::command::{AsyncErrorInfo, AsyncEvent, AsyncEventType, AsyncNoticeInfo};
use warpbell_nvme::log::LogPageId;

use crate::checker::Violation;
use crate::config::{ClientModel, ClientRings, SoftConfig};
use crate::core::Core;
use crate::error::SoftError;
use crate::fault::{FaultKind, Incident, InjectedFault};
use crate::memory::IovaSpace;
use crate::poller;
use crate::sim::VirtualClock;
use crate::statistics::Statistics;
use crate::store::Namespace;
use crate::subsystem::{Health, Subsystem};

/// An NVMe SSD in software.
///
/// [`SoftDevice::threaded`] serves its queues with polling threads until it is dropped. Doorbells are plain memory
/// there, which the pollers read: a doorbell value that is written again, or replaced before the next poll,
/// is invisible to the checker. [`SoftDevice::stepped`] has no threads: [`SoftDevice::step`], and every pause on
/// its clock, does one thing, chosen by the seed, and virtual time passes. Its doorbells have a sink that sees
/// every write.
pub struct SoftDevice {
    core: Arc<Core>,
    clock: MonotonicClock,
    pollers: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for SoftDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SoftDevice").field("info", &self.info()).finish_non_exhaustive()
    }
}

impl SoftDevice {
    /// A controller with polling threads, in a subsystem of its own.
    pub fn threaded(config: SoftConfig) -> Result<Arc<SoftDevice>, SoftError> {
        SoftDevice::with_pollers(Core::alone(config, false)?)
    }

    /// One more controller with polling threads in a subsystem.
    pub fn threaded_on(subsystem: &Arc<Subsystem>, config: SoftConfig) -> Result<Arc<SoftDevice>, SoftError> {
        SoftDevice::with_pollers(Core::join(subsystem, config, false)?)
    }

    fn with_pollers(core: Arc<Core>) -> Result<Arc<SoftDevice>, SoftError> {
        let mut device = SoftDevice { core, clock: MonotonicClock::new(), pollers: Vec::new() };
        for index in 0..device.core.poll_groups.len() {
            device.pollers.push(poller::start(device.core.clone(), index)?);
        }
        Ok(Arc::new(device))
    }

    /// A controller that works only when stepped, in virtual time, in a subsystem of its own.
    pub fn stepped(config: SoftConfig) -> Result<Arc<SoftDevice>, SoftError> {
        Ok(SoftDevice::without_pollers(Core::alone(config, true)?))
    }

    /// One more stepped controller in a subsystem. All its controllers share one virtual clock, and each works only
    /// when it is stepped itself.
    pub fn stepped_on(subsystem: &Arc<Subsystem>, config: SoftConfig) -> Result<Arc<SoftDevice>, SoftError> {
        Ok(SoftDevice::without_pollers(Core::join(subsystem, config, true)?))
    }

    fn without_pollers(core: Arc<Core>) -> Arc<SoftDevice> {
        core.doorbells.forward_to(Arc::downgrade(&core));
        Arc::new(SoftDevice { core, clock: MonotonicClock::new(), pollers: Vec::new() })
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// The controller's identifier in its subsystem.
    pub fn cntlid(&self) -> u16 {
        self.core.cntlid
    }

    /// Stepped mode: does one thing that can be done now. False if there was nothing to do, as always in threaded
    /// mode.
    pub fn step(&self) -> bool {
        self.core.time.as_ref().is_some_and(|time| self.core.step(time))
    }

    /// Stepped mode: lets virtual time pass.
    pub fn advance(&self, by: Duration) {
        if let Some(time) = &self.core.time {
            time.advance(by);
        }
    }

    /// Stepped mode: the virtual time at which something can be done although nothing can be done now; `None` if
    /// only the client can bring the controller to do anything.
    pub fn next_event(&self) -> Option<Duration> {
        self.core.time.as_ref().and_then(|time| self.core.next_event(time.now()))
    }

    /// Whether it is stepped, in virtual time.
    pub fn is_stepped(&self) -> bool {
        self.core.time.is_some()
    }

    /// Stepped mode, when everybody waits for it: does one thing if it can, else lets time pass until it can. False
    /// if neither will be.
    pub fn wait(&self) -> bool {
        let Some(time) = &self.core.time else { return false };
        if self.step() {
            return true;
        }
        let event = self.core.next_event(time.now());
        event.map(|event| time.advance_to(event)).is_some()
    }

    /// Stepped mode, for clients that do something themselves at `then`: does what can be done, and lets time pass, until
    /// it is so late.
    pub fn wait_until(&self, then: Duration) {
        let Some(time) = &self.core.time else { return };
        while time.now() < then {
            if !self.core.step(time) {
                time.advance_to(self.core.next_event(time.now()).map_or(then, |event| event.min(then)));
            }
        }
    }

    /// What kernels take of the virtual time, and where their rings lie.
    pub fn client(&self) -> (ClientModel, ClientRings) {
        let config = &self.core.config;
        (config.client, config.client_rings.unwrap_or(ClientRings::Host))
    }

    /// Takes the function away by surprise: registers read all ones, doorbells and DMA stop, for good.
    pub fn remove(&self) {
        self.suffer(Incident::Remove);
    }

    /// Power fails and comes back: of the blocks that were written and not flushed each survives with probability
    /// `keep`, and the controller is as after an NVM subsystem reset. Without a volatile cache
    /// ([`SoftConfig::volatile_cache`]) every write survives.
    pub fn power_loss(&self, keep: f64) {
        self.suffer(Incident::PowerLoss(keep));
    }

    /// CSTS.CFS becomes 1: nothing completes any more until a reset.
    pub fn fail_fatally(&self) {
        self.suffer(Incident::Fatal);
    }

    fn suffer(&self, incident: Incident) {
        self.core.suffer(&mut self.core.control.lock(), incident);
    }

    /// What clients did against the specification so far, oldest first; at most [`crate::LOG_LIMIT`] of them
    /// (`statistics().violations` counts all).
    pub fn violations(&self) -> Vec<Violation> {
        let control = self.core.control.lock();
        // Stepped, doorbells go to the sink: what lies in their memory was never written.
        if self.core.time.is_none() {
            self.core.poll_groups.iter().for_each(|cell| cell.lock().catch_up());
        }
        self.core.scan_stray_doorbells(&control);
        drop(control);
        self.core.checker.violations()
    }

    /// Commands so far that asked for what there is not, oldest first, at most [`crate::LOG_LIMIT`]: what a client may
    /// do to find out, unlike [`SoftDevice::violations`].
    pub fn refusals(&self) -> Vec<Violation> {
        self.core.checker.refusals()
    }

    /// Counters so far.
    pub fn statistics(&self) -> Statistics {
        self.core.statistics(&self.core.control.lock())
    }

    /// The first thing that the system refused about the file of a namespace, such as that its disk is full: commands
    /// fail then with a status that does not say why.
    pub fn store_failure(&self) -> Option<String> {
        let state = self.core.subsystem.state();
        state.namespaces.values().find_map(|one| one.namespace.file_failure().map(str::to_owned))
    }

    /// Faults injected so far, oldest first.
    pub fn faults(&self) -> Vec<InjectedFault> {
        self.core.injector.as_ref().map_or_else(Vec::new, |injector| injector.lock().record())
    }

    /// How many of each kind, all of them: [`SoftDevice::faults`] has the first.
    pub fn fault_counts(&self) -> BTreeMap<FaultKind, u64> {
        self.core.injector.as_ref().map_or_else(BTreeMap::new, |injector| injector.lock().counts())
    }

    /// Reads blocks of a namespace past all queues and faults, from the start of block `lba` on.
    pub fn peek(&self, nsid: Nsid, lba: Lba, into: &mut [u8]) -> Result<(), SoftError> {
        let namespace = self.range(nsid, lba, into.len())?;
        let _lanes: Vec<_> = self.core.poll_groups.iter().map(|cell| cell.lock()).collect();
        let refused =
            |error: crate::store::StoreError| SoftError::Store { nsid, lba, reason: error.to_string() };
        namespace.read(namespace.offset(lba), into).map_err(refused)
    }

    /// Writes blocks of a namespace past all queues and faults, from the start of block `lba` on.
    pub fn poke(&self, nsid: Nsid, lba: Lba, from: &[u8]) -> Result<(), SoftError> {
        let namespace = self.range(nsid, lba, from.len())?;
        let blocks = (from.len() as u64).div_ceil(u64::from(namespace.block_size()));
        if namespace.protected(lba, blocks) {
            return Err(SoftError::Protected { nsid, lba });
        }
        let _lanes: Vec<_> = self.core.poll_groups.iter().map(|cell| cell.lock()).collect();
        let refused =
            |error: crate::store::StoreError| SoftError::Store { nsid, lba, reason: error.to_string() };
        let offset = namespace.offset(lba);
        namespace.write(offset, from).map_err(refused)?;
        namespace.make_durable(offset, from.len() as u64).map_err(refused)
    }

    fn range(&self, nsid: Nsid, lba: Lba, len: usize) -> Result<Namespace, SoftError> {
        let state = self.core.subsystem.state();
        let count = state.namespaces.len();
        let namespace = state.namespaces.get(&nsid.get()).map(|one| one.namespace.clone());
        let namespace = namespace.ok_or(SoftError::Namespace { nsid, count })?;
        let block_size = namespace.block_size();
        if !namespace.contains(lba, (len as u64).div_ceil(block_size.into())) {
            return Err(SoftError::Range { nsid, lba, len, blocks: namespace.blocks, block_size });
        }
        Ok(namespace)
    }

    /// What SMART / Health Information says of the media.
    pub fn health(&self) -> Health {
        self.core.subsystem.state().life.health
    }

    /// Changes what SMART / Health Information says of the media, for all controllers of the subsystem, and lets them
    /// report what is critical about it.
    pub fn set_health(&self, health: Health) {
        self.core.subsystem.set_health(health);
    }

    /// The controller reports an error of its own: a log entry that belongs to no command, and an asynchronous event.
    pub fn report_error(&self, info: AsyncErrorInfo) {
        self.core.errors.note_internal(Status::INTERNAL_ERROR);
        self.core.checker.raise_error(info);
    }

    /// The controller says that it is about to activate firmware: an asynchronous event.
    pub fn announce_firmware_activation(&self) {
        let event = AsyncEvent::new()
            .with_event_type(AsyncEventType::NOTICE)
            .with_info(AsyncNoticeInfo::FIRMWARE_ACTIVATION_STARTING.0)
            .with_log_page(LogPageId::FIRMWARE_SLOT.0);
        self.core.checker.raise(event);
    }

    /// The power state that holds now.
    pub fn power_state(&self) -> u8 {
        let now = self.core.control.lock().engine.time.now();
        self.core.power.as_ref().map_or(0, |power| power.state(now))
    }

    /// The subsystem's next sanitize operation fails when it is half done.
    pub fn fail_next_sanitize(&self) {
        self.core.subsystem.fail_next_sanitize();
    }

    /// The client's memory, as a controller's side sees it.
    pub fn client_memory(&self) -> Arc<IovaSpace> {
        self.core.space.clone()
    }
}

impl Drop for SoftDevice {
    fn drop(&mut self) {
        self.core.stop.store(true, Ordering::Release);
        for poller in self.pollers.drain(..) {
            if poller.join().is_err() {
                tracing::error!("a poller panicked");
            }
        }
        self.core.subsystem.leave(self.core.cntlid);
    }
}

impl Device for SoftDevice {
    fn info(&self) -> DeviceInfo {
        let subsystem = &self.core.subsystem;
        let mut name = subsystem.name.clone();
        if subsystem.several {
            name = format!("{name}/{}", self.core.cntlid);
        }
        DeviceInfo { name, kind: DeviceKind::Software }
    }

    fn registers(&self) -> &dyn Registers {
        &*self.core
    }

    fn doorbells(&self) -> &dyn Doorbells {
        &self.core.doorbells
    }

    fn dma(&self) -> Arc<dyn DmaSpace> {
        self.core.space.clone()
    }

    fn interrupts(&self) -> &dyn Interrupts {
        &*self.core.vectors
    }

    fn reset(&self) -> &dyn Reset {
        &*self.core
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn controller_memory(&self) -> Option<Window> {
        self.core.control.lock().cmb.window().cloned()
    }
}

impl Clock for SoftDevice {
    fn now(&self) -> Duration {
        match &self.core.time {
            Some(time) => VirtualClock { core: &self.core, time }.now(),
            None => self.clock.now(),
        }
    }

    fn pause(&self, hint: Duration) {
        match &self.core.time {
            Some(time) => VirtualClock { core: &self.core, time }.pause(hint),
            None => self.clock.pause(hint),
        }
    }

    fn passes_by_itself(&self) -> bool {
        !self.is_stepped()
    }
}

impl Reset for Core {
    fn reset(&self, kind: ResetKind) -> Result<(), ResetError> {
        if self.removed() {
            return Err(ResetError::Unavailable { kind, reason: "the function was removed".to_owned() });
        }
        match kind {
            ResetKind::Function => self.reset_function(&mut self.control.lock()),
        }
        Ok(())
    }
}
