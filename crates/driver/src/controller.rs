//! A controller that is up and running.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_hw::{Cid, Device, Nsid, Qid};
use warpbell_nvme::command::{self, AbortResult, Sqe};
use warpbell_nvme::completion::Cqe;
use warpbell_nvme::identify::{IdentifyController, SglSupport};
use warpbell_nvme::register::{Cap, Vs};

use crate::core::Core;
use crate::data::Data;
use crate::keep_alive::Heartbeat;
use crate::queues::negotiate;
use crate::{
    ControllerOptions, ControllerState, DriverError, Namespace, QueueGrant, RefusedNamespace,
    SpuriousCompletion, doorbell_buffer, experimental,
};

/// One NVMe controller, enabled and identified.
///
/// Dropping it shuts it down in bounded time; [`shutdown`](Controller::shutdown) does the same and tells how it
/// went. Everything takes `&self` and may be called from several threads.
pub struct Controller {
    pub(crate) core: Core,
    pub(crate) identify: Box<IdentifyController>,
    pub(crate) version: Vs,
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) refused: Vec<RefusedNamespace>,
    pub(crate) grant: Mutex<QueueGrant>,
    pub(crate) heartbeat: Mutex<Option<Heartbeat>>,
}

/// What a controller reset changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResetReport {
    /// Queue pairs that existed before. Their commands never complete; the pairs can only be dropped.
    pub lost_queues: Vec<Qid>,
    /// Namespaces whose size or format is not what [`Controller::namespaces`] says, or that are gone or new.
    pub changed_namespaces: Vec<Nsid>,
}

/// What the admin queue counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdminCounters {
    /// Commands outstanding, asynchronous event requests and timed out ones included.
    pub outstanding: usize,
    /// Timed out commands whose completion has not come.
    pub timed_out: u32,
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
        core.enable()?;
        let version = core.regs.vs()?;
        let identify = core.identify_controller()?;
        core.set_limits(
            identify.max_transfer_bytes(core.cap.min_page_size()),
            (identify.rtd3e != 0).then(|| Duration::from_micros(identify.rtd3e.into())),
        );
        let grant = negotiate(&core)?;
        doorbell_buffer::configure(&core, &identify, grant)?;
        experimental::enable_wide_cids(&core, &identify)?;
        core.start_events(&identify);
        let (namespaces, refused) = core.identify_namespaces(&identify, version)?;
        let controller = Controller {
            core,
            identify,
            version,
            namespaces,
            refused,
            grant: Mutex::new(grant),
            heartbeat: Mutex::default(),
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

    /// Whether I/O commands may describe their data by SGLs. Admin commands always use PRPs.
    pub fn supports_sgl(&self) -> bool {
        matches!(self.identify.sgls.support(), SglSupport::ANY_ALIGNMENT | SglSupport::DWORD)
    }

    /// Whether doorbells of I/O queues go through memory (Doorbell Buffer Config).
    pub fn uses_doorbell_buffer(&self) -> bool {
        self.core.doorbell_pages.lock().is_some()
    }

    /// What the admin queue counted.
    pub fn admin_counters(&self) -> AdminCounters {
        let admin = self.core.admin.lock();
        let (spurious, last_spurious) = admin.spurious();
        let (outstanding, timed_out) = (admin.outstanding(), admin.quarantined());
        AdminCounters { outstanding, timed_out, spurious, last_spurious }
    }

    /// Executes an admin command and waits for it. Command identifier and data pointer are filled in.
    pub fn admin(&self, sqe: Sqe, data: Data<'_>) -> Result<Cqe, DriverError> {
        self.core.execute(sqe, data)
    }

    /// Asks that a command be aborted, best effort: true if the controller says that it was. Its identifier
    /// and buffer stay in use until its own completion in any case.
    pub fn abort(&self, qid: Qid, cid: Cid) -> Result<bool, DriverError> {
        let cqe = self.core.execute(command::abort(qid.0, cid.0), Data::None)?;
        Ok(!AbortResult::from_bits(cqe.dw0).not_aborted())
    }

    /// Whether the controller answers and is not in fatal error, from its status register.
    pub fn check_health(&self) -> Result<(), DriverError> {
        self.core.check_health("running")
    }

    /// Resets the controller: disables and enables it, asks for queues and arms events again.
    ///
    /// All I/O queues are lost, and outstanding admin commands end with an error. Kernels that use the
    /// queues must have stopped, and doorbells that a GPU has mapped must be unregistered before.
    pub fn reset(&self) -> Result<ResetReport, DriverError> {
        let mut grant = self.grant.lock();
        if self.state() == ControllerState::Starting {
            return Err(self.core.wrong_state("reset"));
        }
        self.core.close();
        *self.heartbeat.lock() = None;
        let lost_queues = self.core.disable()?;
        self.core.enable()?;
        *grant = negotiate(&self.core)?;
        doorbell_buffer::configure(&self.core, &self.identify, *grant)?;
        experimental::enable_wide_cids(&self.core, &self.identify)?;
        self.core.renew_controller_memory()?;
        self.core.start_events(&self.identify);
        let (namespaces, _) = self.core.identify_namespaces(&self.identify, self.version)?;
        let changed_namespaces = crate::namespace::differences(&self.namespaces, &namespaces);
        Ok(ResetReport { lost_queues, changed_namespaces })
    }

    /// Deletes all queues, shuts the controller down in good order and disables it.
    ///
    /// Queue pairs that still exist can only be dropped afterwards.
    pub fn shutdown(self) -> Result<(), DriverError> {
        if self.state() != ControllerState::Ready {
            return Err(self.core.wrong_state("shut down in good order"));
        }
        self.delete_all_queues();
        self.core.shut_down()
    }
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Controller");
        debug.field("device", &self.name()).field("state", &self.state()).finish_non_exhaustive()
    }
}
