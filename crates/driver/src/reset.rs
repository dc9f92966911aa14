//! Resetting a controller that is in use, and setting up again what it forgets.

use std::time::Duration;

use warpbell_hw::{Nsid, Qid, ResetError, ResetKind};
use warpbell_nvme::feature::FeatureId;
use warpbell_nvme::opcode::AdminOpcode;

use crate::controller::Controller;
use crate::registers::Deadline;
use crate::{ControllerState, DriverError, doorbell_buffer};

/// How to reset a controller, from the mildest to the harshest. Each is a Controller Level Reset (NVMe Base 2.0,
/// 3.7.2): all queues are lost, and no command of before touches memory any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResetMethod {
    /// Controller Reset: CC.EN is cleared and set again.
    Controller,
    /// Function Level Reset. Doorbells that a GPU has mapped must be unregistered before, and kernels that may ring
    /// them must have ended: the reset may take their mapping away for a moment.
    Function,
    /// NVM Subsystem Reset, where the controller has it (CAP.NSSRS). It hits every controller of the subsystem.
    Subsystem,
}

/// What a controller reset changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResetReport {
    /// Queue pairs that existed before. Their commands never complete; the pairs can only be dropped.
    pub lost_queues: Vec<Qid>,
    /// Namespaces whose size or format is not what [`Controller::namespaces`] says, or that are gone or new.
    pub changed_namespaces: Vec<Nsid>,
    /// Features that had been set through this driver and could not be set again, with the reason.
    pub features_lost: Vec<(FeatureId, String)>,
    /// How long it took, in the device's time.
    pub took: Duration,
}

impl Controller {
    /// Whether a controller can be reset like this. A function level reset may still turn out not to be there.
    pub fn can_reset(&self, method: ResetMethod) -> bool {
        method != ResetMethod::Subsystem || self.core.cap.nssrs()
    }

    /// Resets the controller by CC.EN; a controller that does not react is reset once from outside (function level
    /// reset). Otherwise as [`reset_within`](Self::reset_within), with the limits of each step alone.
    ///
    /// Doorbells that a GPU has mapped must be unregistered before, for the function level reset's sake.
    pub fn reset(&self) -> Result<ResetReport, DriverError> {
        self.reset_by(Duration::MAX, || self.core.disable())
    }

    /// Resets the controller, and has it as it was within `limit`: number of queues, doorbell buffer, controller memory
    /// buffer, events, keep alive, and every feature that was set through [`Controller::set_feature`] and its like.
    ///
    /// All I/O queues are lost, and outstanding admin commands end with an error. Kernels may still hold old
    /// [`QueuePair`](crate::QueuePair)s, unless the method says otherwise: their memory stays mapped, and their
    /// identifiers stay unused, until they are dropped. Their doorbells lead nowhere.
    ///
    /// Nothing else is tried: whoever calls decides about a harsher method. The reset of a function itself takes as
    /// long as the system lets it.
    #[tracing::instrument(level = "info", name = "reset", skip_all, fields(device = %self.name(), ?method, ?limit))]
    pub fn reset_within(&self, method: ResetMethod, limit: Duration) -> Result<ResetReport, DriverError> {
        if !self.can_reset(method) {
            let what = "the support for NVM subsystem resets (CAP.NSSRS)";
            return Err(DriverError::Unsupported { device: self.name(), what, value: 0, need: "1" });
        }
        self.reset_by(limit, || {
            match method {
                ResetMethod::Controller => {}
                ResetMethod::Function => self.reset_function()?,
                ResetMethod::Subsystem => {
                    self.core.regs.reset_subsystem();
                    let deadline = Deadline::after(self.core.regs.clock(), self.core.within_setup(limit));
                    self.core.regs.wait_answer(deadline)?;
                }
            }
            self.core.disable_only()
        })
    }

    fn reset_function(&self) -> Result<(), DriverError> {
        let reset = self.device().reset().reset(ResetKind::Function);
        reset.map_err(|cause| DriverError::FunctionReset { device: self.name(), cause })?;
        self.core.pause(self.core.quirks.reset_delay);
        Ok(())
    }

    /// Resets by `disable` and sets everything up again. One reset at a time; a second waits for the first.
    fn reset_by(
        &self,
        limit: Duration,
        disable: impl FnOnce() -> Result<Vec<Qid>, DriverError>,
    ) -> Result<ResetReport, DriverError> {
        let begun = self.core.regs.clock().now();
        let Some(_alone) = self.resetting.try_lock_for(limit) else {
            let (device, doing) = (self.name(), "waiting for another reset to end");
            return Err(DriverError::OutOfTime { device, doing, limit });
        };
        let before = self.state();
        self.core.close();
        let report = self.core.set_up(limit, ControllerState::Stuck, || {
            let lost_queues = disable().inspect_err(|error| self.not_reset(before, error))?;
            *self.heartbeat.lock() = None;
            self.core.enable()?;
            self.set_up_again(lost_queues)
        })?;
        let took = self.core.regs.clock().now().saturating_sub(begun);
        tracing::debug!(device = %self.name(), ?took, ?report, "controller reset");
        Ok(ResetReport { took, ..report })
    }

    /// A function that has no such reset is as it was.
    fn not_reset(&self, before: ControllerState, error: &DriverError) {
        if matches!(error, DriverError::FunctionReset { cause: ResetError::Unavailable { .. }, .. }) {
            self.core.book.set_state(before);
        }
    }

    fn set_up_again(&self, lost_queues: Vec<Qid>) -> Result<ResetReport, DriverError> {
        *self.grant.lock() = self.core.configure(&self.identify)?;
        self.core.renew_controller_memory()?;
        let features_lost = self.restore_features()?;
        self.core.arm_events(&self.identify);
        let (namespaces, refused) = self.core.identify_namespaces(&self.identify, self.version)?;
        if let Some((nsid, status)) = crate::namespace::unknown(&self.namespaces, &refused) {
            let (device, command) = (self.core.name(), AdminOpcode::IDENTIFY);
            return Err(DriverError::Command { device, command, cdw10: 0, nsid, status });
        }
        let changed_namespaces = crate::namespace::differences(&self.namespaces, &namespaces);
        Ok(ResetReport { lost_queues, changed_namespaces, features_lost, took: Duration::ZERO })
    }
}

impl crate::core::Core {
    /// Sets an enabled controller up: what it forgets in each reset, but for what users chose.
    pub(crate) fn configure(
        &self,
        identify: &warpbell_nvme::identify::IdentifyController,
    ) -> Result<crate::QueueGrant, DriverError> {
        let grant = crate::queues::negotiate(self)?;
        doorbell_buffer::configure(self, identify, grant)?;
        crate::experimental::enable_wide_cids(self, identify)?;
        self.enable_retry_delays(identify);
        self.configure_events(identify);
        Ok(grant)
    }
}
