//! Enabling and disabling a controller: one function per state, each wait with its own deadline.

use std::time::Duration;

use warpbell_hw::Iova;
use warpbell_nvme::register::{ArbitrationMechanism, Cap, Cc, CommandSet, Csts, Shn, Shst, TIMEOUT_UNIT_MS};

use crate::registers::{Deadline, RegisterFile};
use crate::{ControllerOptions, DriverError};

/// A state of the transition. `Stopped` and `Running` are where it rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing is known yet.
    Examine,
    /// CC.EN is set and CSTS.RDY is not: it may not be cleared before the controller got ready.
    AwaitOldReady,
    /// CC.EN is to be cleared.
    Disable,
    /// CC.EN is clear; CSTS.RDY may still be set.
    AwaitStopped,
    /// The controller is disabled.
    Stopped,
    /// The admin queues and CC are to be written, CC.EN still clear.
    Program,
    /// CC.EN is to be set.
    Enable,
    /// CC.EN is set; CSTS.RDY is not.
    AwaitRunning,
    /// The controller is ready.
    Running,
}

/// The admin queues that the controller is to use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdminAddresses {
    pub(crate) entries: u32,
    pub(crate) sq: Iova,
    pub(crate) cq: Iova,
}

/// A transition of one controller.
pub(crate) struct Transition<'a> {
    regs: &'a RegisterFile,
    options: &'a ControllerOptions,
    admin: AdminAddresses,
    /// The longest that any wait may take, whatever the controller asks for.
    until: Option<Deadline>,
}

impl<'a> Transition<'a> {
    pub(crate) fn new(
        regs: &'a RegisterFile,
        options: &'a ControllerOptions,
        admin: AdminAddresses,
        most: Duration,
    ) -> Transition<'a> {
        let until = (most != Duration::MAX).then(|| Deadline::after(regs.clock(), most));
        Transition { regs, options, admin, until }
    }

    /// Disables the controller, whatever it is doing.
    #[tracing::instrument(level = "info", name = "disable", skip_all, fields(device = %self.regs.name()))]
    pub(crate) fn disable(&self) -> Result<(), DriverError> {
        self.run(Step::Examine, Step::Stopped)
    }

    /// Enables the disabled controller.
    #[tracing::instrument(level = "info", name = "enable", skip_all, fields(device = %self.regs.name()))]
    pub(crate) fn enable(&self) -> Result<(), DriverError> {
        self.run(Step::Program, Step::Running)
    }

    fn run(&self, from: Step, until: Step) -> Result<(), DriverError> {
        let mut step = from;
        while step != until {
            let next = self.take(step)?;
            tracing::debug!(device = %self.regs.name(), from = ?step, to = ?next, "controller transition");
            step = next;
        }
        Ok(())
    }

    fn take(&self, step: Step) -> Result<Step, DriverError> {
        match step {
            Step::Examine => self.examine(),
            Step::AwaitOldReady => self.await_old_ready(),
            Step::Disable => self.clear_enable(),
            Step::AwaitStopped => self.await_stopped(),
            Step::Stopped | Step::Program => self.program(),
            Step::Enable => self.set_enable(),
            Step::AwaitRunning | Step::Running => self.await_running(),
        }
    }

    fn examine(&self) -> Result<Step, DriverError> {
        self.regs.vs()?;
        let (cc, csts) = (self.regs.cc()?, self.regs.csts()?);
        Ok(match (cc.en(), csts.rdy() || csts.cfs()) {
            (false, _) => Step::AwaitStopped,
            (true, false) => Step::AwaitOldReady,
            (true, true) => Step::Disable,
        })
    }

    /// A controller that never gets ready is disabled all the same.
    fn await_old_ready(&self) -> Result<Step, DriverError> {
        match self.wait("becoming ready before it is disabled", |csts| Ok(csts.rdy() || csts.cfs())) {
            Ok(()) => Ok(Step::Disable),
            Err(DriverError::StateTimeout { .. }) => {
                tracing::warn!(device = %self.regs.name(), "enabled, never ready; disabling it");
                Ok(Step::Disable)
            }
            Err(error) => Err(error),
        }
    }

    /// Everything but EN stays: other bits must not change together with it. No shutdown either: that could
    /// complete into memory which is not ours.
    fn clear_enable(&self) -> Result<Step, DriverError> {
        let cc = self.regs.cc()?;
        self.regs.set_cc(cc.with_en(false));
        self.settle();
        Ok(Step::AwaitStopped)
    }

    /// CFS does not count here: it may stay set until the reset is over.
    fn await_stopped(&self) -> Result<Step, DriverError> {
        self.wait("becoming disabled (CSTS.RDY = 0)", |csts| Ok(!csts.rdy()))?;
        Ok(Step::Stopped)
    }

    fn program(&self) -> Result<Step, DriverError> {
        let csts = self.regs.csts()?;
        if csts.nssro() {
            self.regs.clear_csts(Csts::new().with_nssro(true));
        }
        let AdminAddresses { entries, sq, cq } = self.admin;
        self.regs.set_admin_queues(entries, sq.0, cq.0);
        let cc = configuration(self.regs, self.regs.cap()?, self.options)?;
        self.regs.set_cc(cc);
        Ok(Step::Enable)
    }

    fn set_enable(&self) -> Result<Step, DriverError> {
        let cc = self.regs.cc()?;
        self.regs.set_cc(cc.with_en(true));
        self.settle();
        Ok(Step::AwaitRunning)
    }

    fn await_running(&self) -> Result<Step, DriverError> {
        self.wait("becoming ready (CSTS.RDY = 1)", |csts| {
            if csts.cfs() {
                let (device, csts) = (self.regs.name(), csts.into_bits());
                return Err(DriverError::Fatal { device, doing: "becoming ready", csts });
            }
            Ok(csts.rdy())
        })?;
        Ok(Step::Running)
    }

    fn wait(
        &self,
        waiting_for: &'static str,
        done: impl FnMut(Csts) -> Result<bool, DriverError>,
    ) -> Result<(), DriverError> {
        // CAP is read again each time: CAP.TO may depend on CC.
        let limit = transition_limit(self.regs)?;
        let limit = self.until.map_or(limit, |until| limit.min(until.left(self.regs.clock())));
        self.regs.wait_csts(waiting_for, limit, done).map(|_| ())
    }

    fn settle(&self) {
        if !self.options.ready_poll_delay.is_zero() {
            self.regs.clock().pause(self.options.ready_poll_delay);
        }
    }
}

/// How long a change of CSTS.RDY may take: the larger of CAP.TO and CRTO.CRWMT, and never nothing,
/// though a TO of 0 is legal.
pub(crate) fn transition_limit(regs: &RegisterFile) -> Result<Duration, DriverError> {
    let cap = regs.cap()?;
    let with_media = if cap.crwms() { regs.crto()?.with_media_ms() } else { 0 };
    Ok(Duration::from_millis(cap.timeout_ms().max(with_media).max(TIMEOUT_UNIT_MS).into()))
}

/// CC with everything but EN, from what the controller can.
fn configuration(regs: &RegisterFile, cap: Cap, options: &ControllerOptions) -> Result<Cc, DriverError> {
    let unsupported = |what, value, need| DriverError::Unsupported { device: regs.name(), what, value, need };
    if cap.mpsmin() != 0 {
        let what = "the smallest memory page (CAP.MPSMIN) in bytes";
        return Err(unsupported(what, cap.min_page_size(), "4096"));
    }
    let css = match (cap.supports_csi(), cap.supports_nvm()) {
        (true, _) => CommandSet::CSI,
        (false, true) => CommandSet::NVM,
        (false, false) => {
            return Err(unsupported("the command set bitmap (CAP.CSS)", cap.css().into(), "bit 0 or 6 set"));
        }
    };
    let ams = match (options.weighted_round_robin, cap.supports_wrr()) {
        (false, _) => ArbitrationMechanism::ROUND_ROBIN,
        (true, true) => ArbitrationMechanism::WEIGHTED_ROUND_ROBIN,
        (true, false) => {
            let what = "the arbitration bitmap (CAP.AMS)";
            return Err(unsupported(what, cap.ams().into(), "bit 0 set for weighted round robin"));
        }
    };
    let cc = regs.cc()?.with_en(false).with_shn(Shn::NONE);
    Ok(cc.with_css(css).with_mps(0).with_ams(ams).with_iosqes(6).with_iocqes(4).with_crime(false))
}

/// Announces a shutdown, normal or abrupt, and waits for its end.
pub(crate) fn notify_shutdown(regs: &RegisterFile, shn: Shn, limit: Duration) -> Result<(), DriverError> {
    let cc = regs.cc()?;
    regs.set_cc(cc.with_shn(shn));
    regs.wait_csts("shutting down (CSTS.SHST = 2)", limit, |csts| {
        if csts.cfs() {
            let (device, csts) = (regs.name(), csts.into_bits());
            return Err(DriverError::Fatal { device, doing: "shutting down", csts });
        }
        Ok(csts.shst() == Shst::COMPLETE)
    })?;
    Ok(())
}
