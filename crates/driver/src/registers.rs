//! Typed registers: what is read and written shows in the debug log, and a device that is gone is an error.

use std::sync::Arc;
use std::time::Duration;

use warpbell_hw::{Clock, Device};
use warpbell_nvme::register::{Aqa, Cap, Cc, CmbMsc, CmbSts, CmbSz, Crto, Csts, NSSR_MAGIC, Vs, offset};

use crate::DriverError;

/// The registers of one device, and the clock that its deadlines run on.
pub(crate) struct RegisterFile {
    device: Arc<dyn Device>,
    name: Arc<str>,
}

impl RegisterFile {
    pub(crate) fn new(device: Arc<dyn Device>) -> RegisterFile {
        let name = device.info().name.into();
        RegisterFile { device, name }
    }

    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    pub(crate) fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.device.clock()
    }

    fn read32(&self, at: u32, register: &'static str) -> Result<u32, DriverError> {
        let value = self.device.registers().read32(at);
        if value == u32::MAX {
            return Err(DriverError::Gone { device: self.name(), register });
        }
        Ok(value)
    }

    fn write32(&self, at: u32, register: &'static str, value: u32) {
        tracing::debug!(device = %self.name, register, value = format_args!("{value:#x}"), "write");
        self.device.registers().write32(at, value);
    }

    fn write64(&self, at: u32, register: &'static str, value: u64) {
        tracing::debug!(device = %self.name, register, value = format_args!("{value:#x}"), "write");
        self.device.registers().write64(at, value);
    }

    pub(crate) fn cap(&self) -> Result<Cap, DriverError> {
        match self.device.registers().read64(offset::CAP) {
            u64::MAX => Err(DriverError::Gone { device: self.name(), register: "CAP" }),
            value => Ok(Cap::from_bits(value)),
        }
    }

    pub(crate) fn vs(&self) -> Result<Vs, DriverError> {
        self.read32(offset::VS, "VS").map(Vs::from_bits)
    }

    pub(crate) fn cc(&self) -> Result<Cc, DriverError> {
        self.read32(offset::CC, "CC").map(Cc::from_bits)
    }

    pub(crate) fn set_cc(&self, cc: Cc) {
        self.write32(offset::CC, "CC", cc.into_bits());
    }

    pub(crate) fn csts(&self) -> Result<Csts, DriverError> {
        self.read32(offset::CSTS, "CSTS").map(Csts::from_bits)
    }

    /// Clears the write-1-to-clear bits of `csts` that are set.
    pub(crate) fn clear_csts(&self, csts: Csts) {
        self.write32(offset::CSTS, "CSTS", csts.into_bits());
    }

    pub(crate) fn crto(&self) -> Result<Crto, DriverError> {
        self.read32(offset::CRTO, "CRTO").map(Crto::from_bits)
    }

    pub(crate) fn cmbsz(&self) -> Result<CmbSz, DriverError> {
        self.read32(offset::CMBSZ, "CMBSZ").map(CmbSz::from_bits)
    }

    pub(crate) fn cmbsts(&self) -> Result<CmbSts, DriverError> {
        self.read32(offset::CMBSTS, "CMBSTS").map(CmbSts::from_bits)
    }

    pub(crate) fn cmbmsc(&self) -> Result<CmbMsc, DriverError> {
        let low = self.read32(offset::CMBMSC, "CMBMSC")?;
        let high = self.device.registers().read32(offset::CMBMSC + 4);
        Ok(CmbMsc::from_bits(u64::from(low) | u64::from(high) << 32))
    }

    /// The high half first: the low one has the bits that make the address count.
    pub(crate) fn set_cmbmsc(&self, value: CmbMsc) {
        let bits = value.into_bits();
        self.write32(offset::CMBMSC + 4, "CMBMSC", (bits >> 32) as u32);
        self.write32(offset::CMBMSC, "CMBMSC", bits as u32);
    }

    pub(crate) fn set_admin_queues(&self, entries: u32, asq: u64, acq: u64) {
        let size_z = (entries - 1) as u16;
        let aqa = Aqa::new().with_asqs_z(size_z).with_acqs_z(size_z);
        self.write32(offset::AQA, "AQA", aqa.into_bits());
        self.write64(offset::ASQ, "ASQ", asq);
        self.write64(offset::ACQ, "ACQ", acq);
    }

    /// Has the whole NVM subsystem reset.
    pub(crate) fn reset_subsystem(&self) {
        self.write32(offset::NSSR, "NSSR", NSSR_MAGIC);
    }

    /// Waits until the function answers: after some resets it does not for a while.
    pub(crate) fn wait_answer(&self, deadline: Deadline) -> Result<(), DriverError> {
        loop {
            let passed = deadline.passed(self.clock());
            match self.vs() {
                Err(DriverError::Gone { .. }) if !passed => self.clock().pause(POLL_PAUSE),
                answer => return answer.map(|_| ()),
            }
        }
    }

    /// Looks at CSTS until `done` says so, and at least once more after the deadline.
    pub(crate) fn wait_csts(
        &self,
        waiting_for: &'static str,
        limit: Duration,
        mut done: impl FnMut(Csts) -> Result<bool, DriverError>,
    ) -> Result<Csts, DriverError> {
        let deadline = Deadline::after(self.clock(), limit);
        loop {
            let passed = deadline.passed(self.clock());
            let csts = self.csts()?;
            if done(csts)? {
                return Ok(csts);
            }
            if passed {
                let csts = csts.into_bits();
                return Err(DriverError::StateTimeout { device: self.name(), waiting_for, limit, csts });
            }
            self.clock().pause(POLL_PAUSE);
        }
    }
}

/// Between two polls of CSTS.
const POLL_PAUSE: Duration = Duration::from_millis(1);

/// A point in a device's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Duration);

impl Deadline {
    pub(crate) fn after(clock: &dyn Clock, limit: Duration) -> Deadline {
        Deadline(clock.now().saturating_add(limit))
    }

    pub(crate) fn left(&self, clock: &dyn Clock) -> Duration {
        self.0.saturating_sub(clock.now())
    }

    pub(crate) fn passed(&self, clock: &dyn Clock) -> bool {
        clock.now() >= self.0
    }
}
