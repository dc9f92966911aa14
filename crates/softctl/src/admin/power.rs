//! Power Management (Base 2.0, 5.27.1.2): the feature, and what Identify says of the states.

use warpbell_nvme::feature::{FeatureId, PowerManagement};
use warpbell_nvme::identify::IdentifyController;

use crate::control::Control;
use crate::core::Core;

/// Largest workload hint that the specification defines.
const LAST_HINT: u8 = 2;

impl Core {
    /// Bits of the feature that may be set: a controller with one state has no choice of it.
    pub(super) fn power_mask(&self) -> u32 {
        let state = if self.power.is_some() { 0x1f } else { 0 };
        PowerManagement::from_bits(state).with_wh(7).into_bits()
    }

    /// Whether a value names a state and a workload that there are.
    pub(super) fn has_power_state(&self, value: u32) -> bool {
        let value = PowerManagement::from_bits(value);
        let last = self.power.as_ref().map_or(0, |power| power.last());
        value.ps() <= last && value.wh() <= LAST_HINT
    }

    /// The feature's value with the state that holds now: it may have changed by itself, or for a command.
    pub(super) fn present_power(&self, control: &Control, value: u32) -> u32 {
        let Some(power) = &self.power else { return value };
        PowerManagement::from_bits(value).with_ps(power.state(control.engine.time.now())).into_bits()
    }

    /// Follows the feature. The command completes when the controller is there.
    pub(super) fn enter_power_state(&self, control: &mut Control, value: u32) {
        let Some(power) = &self.power else { return };
        let state = PowerManagement::from_bits(value).ps();
        control.settled = Some(power.enter(state, control.engine.time.now()));
    }

    /// After a reset: the state of the feature, which may have been saved.
    pub(crate) fn reset_power(&self, control: &Control) {
        let Some(power) = &self.power else { return };
        let value = control.features.value(FeatureId::POWER_MANAGEMENT, 0);
        power.reset(PowerManagement::from_bits(value).ps(), control.engine.time.now());
    }

    pub(super) fn identify_power(&self, data: &mut IdentifyController) {
        let Some(power) = &self.power else { return };
        data.npss_z = power.last();
        let states = self.config.power_states.iter().zip(0..);
        data.psd.iter_mut().zip(states).for_each(|(slot, (state, index))| *slot = state.descriptor(index));
        data.apsta = u8::from((0..=power.last()).any(|state| !power.is_operational(state)));
    }
}
