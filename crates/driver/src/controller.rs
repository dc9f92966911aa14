//! A controller that is up and running.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_hw::{Device, DmaArena, Iova};
use warpbell_nvme::command::Sqe;
use warpbell_nvme::completion::Cqe;
use warpbell_nvme::identify::{IdentifyController, SglSupport};
use warpbell_nvme::register::{Cap, Vs};

use crate::core::Core;
use crate::data::Data;
use crate::features::FeatureSet;
use crate::keep_alive::Heartbeat;
use crate::shutdown::Notices;
use crate::{
    CommandLimits, ControllerOptions, ControllerState, DriverError, Namespace, QueueGrant, RefusedNamespace,
    SpuriousCompletion,
};

/// One NVMe controller, enabled and identified.
///
/// Dropping it shuts it down in bounded time; [`shutdown`](Controller::shutdown) does the same and tells how it
/// went. Everything takes `&self` and may be called from several threads.
pub struct Controller {
    pub(crate) core: Core,
    pub(crate) identify: Box<IdentifyController>,
    pub(crate) version: Vs,
    pub(crate) limits: CommandLimits,
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) refused: Vec<RefusedNamespace>,
    pub(crate) grant: Mutex<QueueGrant>,
    pub(crate) heartbeat: Mutex<Option<Heartbeat>>,
    /// What was set, for the next reset to set again.
    pub(crate) features: Mutex<Vec<FeatureSet>>,
    /// Held by whoever resets it or shuts it down.
    pub(crate) resetting: Mutex<()>,
    pub(crate) notices: Notices,
}

/// What the admin queue counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdminCounters {
    /// Commands outstanding, asynchronous event requests and timed out ones included.
    pub outstanding: usize,
    /// Timed out commands whose completion has not come.
    pub timed_out: u32,
    /// Commands submitted again because their status said that this may help.
    pub retried: u64,
    /// Completions of no outstanding command.
    pub spurious: u64,
    /// The last of those.
    pub last_spurious: Option<SpuriousCompletion>,
}

impl Controller {
    /// Enables and identifies the controller, asks for I/O queues and arms asynchronous events.
    ///
    /// A controller that is enabled already is disabled first; one that does not react is reset once from
    /// outside (function level reset).
    pub fn open(device: Arc<dyn Device>, options: ControllerOptions) -> Result<Controller, DriverError> {
        let core = Core::new(device, options)?;
        core.disable()?;
        core.listen_to_admin()?;
        let opened = core.set_up(Duration::MAX, ControllerState::Ready, || {
            core.enable()?;
            let version = core.regs.vs()?;
            let identify = core.identify_controller()?;
            core.set_limits(&identify);
            let grant = core.configure(&identify)?;
            core.arm_events(&identify);
            let limits = core.command_limits(&identify, version)?;
            let namespaces = core.identify_namespaces(&identify, version)?;
            Ok((version, identify, limits, grant, namespaces))
        });
        let (version, identify, limits, grant, (namespaces, refused)) = opened?;
        let controller = Controller {
            core,
            identify,
            version,
            limits,
            namespaces,
            refused,
            grant: Mutex::new(grant),
            heartbeat: Mutex::default(),
            features: Mutex::default(),
            resetting: Mutex::default(),
            notices: Notices::default(),
        };
        controller.trace_opened();
        Ok(controller)
    }

    fn trace_opened(&self) {
        tracing::debug!(
            device = %self.name(),
            model = self.identify.model(),
            version = %self.version,
            namespaces = self.namespaces.len(),
            refused = self.refused.len(),
            grant = ?self.grant(),
            "controller opened"
        );
    }

    /// The device's name, as messages call it.
    pub fn name(&self) -> Arc<str> {
        self.core.name()
    }

    /// The device behind the controller.
    pub fn device(&self) -> &Arc<dyn Device> {
        self.core.regs.device()
    }

    /// Host memory that the controller reaches, in as few mappings as there can be: its queues lie there too.
    pub fn arena(&self) -> &Arc<DmaArena> {
        &self.core.arena
    }

    /// Where the controller is in its life.
    pub fn state(&self) -> ControllerState {
        self.core.book.state()
    }

    /// Controller Capabilities.
    pub fn capabilities(&self) -> Cap {
        self.core.cap
    }

    /// The version of the specification that the controller follows.
    pub fn version(&self) -> Vs {
        self.version
    }

    /// Identify Controller.
    pub fn identify(&self) -> &IdentifyController {
        &self.identify
    }

    /// The namespaces that this driver can use, in the order of their identifiers.
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// The namespaces that it cannot use, with the reason.
    pub fn refused_namespaces(&self) -> &[RefusedNamespace] {
        &self.refused
    }

    /// I/O queue pairs that may be created.
    pub fn granted_queues(&self) -> u16 {
        self.grant().usable()
    }

    /// What was asked for and granted, in full.
    pub fn grant(&self) -> QueueGrant {
        *self.grant.lock()
    }

    /// The most data of one command, in bytes; `None` for no limit.
    pub fn max_transfer_bytes(&self) -> Option<u64> {
        self.core.max_transfer()
    }

    /// How large Write Zeroes and Dataset Management may be, as the controller said when it was opened.
    pub fn command_limits(&self) -> CommandLimits {
        self.limits
    }

    /// Whether I/O commands may describe their data by SGLs. Admin commands always use PRPs.
    pub fn supports_sgl(&self) -> bool {
        !self.core.quirks.no_sgl
            && matches!(self.identify.sgls.support(), SglSupport::ANY_ALIGNMENT | SglSupport::DWORD)
    }

    /// Whether doorbells of I/O queues go through memory (Doorbell Buffer Config).
    pub fn uses_doorbell_buffer(&self) -> bool {
        self.core.doorbell_pages.lock().is_some()
    }

    /// Whether the controller's addresses have enough bits for memory that was mapped for it.
    pub fn check_reach(&self, what: &'static str, iova: Iova, len: u64) -> Result<(), DriverError> {
        self.core.check_reach(what, iova, len)
    }

    /// What the admin queue counted.
    pub fn admin_counters(&self) -> AdminCounters {
        let admin = self.core.admin.lock();
        let (spurious, last_spurious) = admin.spurious();
        let (outstanding, timed_out) = (admin.outstanding(), admin.quarantined());
        AdminCounters { outstanding, timed_out, retried: admin.retried, spurious, last_spurious }
    }

    /// Executes an admin command and waits for it. Command identifier and data pointer are filled in.
    pub fn admin(&self, sqe: Sqe, data: Data<'_>) -> Result<Cqe, DriverError> {
        self.core.execute(sqe, data)
    }

    /// The vector whose interrupts wake those who wait for admin commands; `None`: they poll.
    pub fn admin_vector(&self) -> Option<u16> {
        self.core.admin_vector.get().map(|vector| vector.number)
    }

    /// Interrupt vectors that queues may have.
    pub fn vectors(&self) -> u16 {
        self.core.vector_count()
    }

    /// Keeps memory until the controller is disabled next, as for a reset: commands of queues that it did not delete may
    /// still use it.
    pub fn keep_until_disabled(&self, memory: impl std::any::Any + Send) {
        self.core.book.keep(Box::new(memory));
    }

    /// Whether the controller answers, is ready and not in fatal error, from its status register.
    pub fn check_health(&self) -> Result<(), DriverError> {
        self.core.check_health("running")
    }
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Controller");
        debug.field("device", &self.name()).field("state", &self.state()).finish_non_exhaustive()
    }
}
