//! Power states: which there are, which one holds, and changes without being asked.

use std::time::Duration;

use warpbell_nvme::command;
use warpbell_nvme::feature::{ApstEnable, ApstTable, FeatureId, FeatureSelect, PowerManagement};
use warpbell_nvme::identify::PowerStateDescriptor;
use zerocopy::IntoBytes;

use crate::controller::Controller;
use crate::data::Data;
use crate::{DriverError, Notice};

impl Controller {
    /// The power states that the controller has, from state 0 on.
    ///
    /// In a [non-operational](PowerStateDescriptor::is_operational) state it takes admin commands; an I/O command brings
    /// it back to the last operational one first, which takes the latencies of both.
    pub fn power_states(&self) -> &[PowerStateDescriptor] {
        self.identify.power_state_descriptors()
    }

    /// The power state that holds now, and the workload hint. The controller may have changed it by itself.
    pub fn power_state(&self) -> Result<PowerManagement, DriverError> {
        self.current(FeatureId::POWER_MANAGEMENT).map(PowerManagement::from_bits)
    }

    /// Goes to a power state; `workload` is a hint, 0 for none. Returns when the controller is there. It may take the
    /// latencies of the states longer than other admin commands.
    pub fn set_power_state(&self, state: u8, workload: u8) -> Result<(), DriverError> {
        let count = self.power_states().len();
        if usize::from(state) >= count || workload > 7 {
            return Err(DriverError::PowerState { device: self.name(), state, workload, count });
        }
        let from = self.power_state()?.ps();
        let value = PowerManagement::new().with_ps(state).with_wh(workload).into_bits();
        let within = self.core.options.admin_timeout + self.change_latency(from, state);
        self.set_within(FeatureId::POWER_MANAGEMENT, value, &[], within)?;
        self.notices.add(Notice::PowerState { from, to: state });
        Ok(())
    }

    fn change_latency(&self, from: u8, to: u8) -> Duration {
        let states = self.power_states();
        let exit = states.get(usize::from(from)).map(PowerStateDescriptor::exit_latency);
        let entry = states.get(usize::from(to)).map(PowerStateDescriptor::entry_latency);
        exit.unwrap_or_default() + entry.unwrap_or_default()
    }

    /// Whether the controller goes to non-operational power states by itself, and after how much idle time.
    pub fn autonomous_power(&self) -> Result<(bool, ApstTable), DriverError> {
        self.require_apst()?;
        let feature = FeatureId::AUTONOMOUS_POWER_STATE_TRANSITION;
        let mut table = ApstTable::default();
        let get = command::get_features(feature, FeatureSelect::CURRENT, 0);
        let cqe = self.core.execute(get, Data::In(table.as_mut_bytes()))?;
        Ok((ApstEnable::from_bits(cqe.dw0).apste(), table))
    }

    /// Lets the controller go to non-operational power states by itself, as `table` says, or no longer.
    pub fn set_autonomous_power(&self, on: bool, table: &ApstTable) -> Result<(), DriverError> {
        self.require_apst()?;
        let value = ApstEnable::new().with_apste(on).into_bits();
        self.set(FeatureId::AUTONOMOUS_POWER_STATE_TRANSITION, value, None, table.as_bytes()).map(|_| ())
    }

    fn require_apst(&self) -> Result<(), DriverError> {
        if self.identify.supports_apst() {
            return Ok(());
        }
        let what = "the support for autonomous power state transitions (APSTA)";
        let value = self.identify.apsta.into();
        Err(DriverError::Unsupported { device: self.name(), what, value, need: "bit 0 set" })
    }
}
