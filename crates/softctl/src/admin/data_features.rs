//! Features whose value is a data buffer: Host Behavior Support and Autonomous Power State Transition (Base 2.0,
//! 5.27.1.18 and 5.27.1.8).

use std::sync::atomic::Ordering;

use warpbell_nvme::Status;
use warpbell_nvme::feature::{ApstTable, FeatureCapabilities, FeatureId, FeatureSelect, HostBehavior};
use zerocopy::IntoBytes;

use crate::checker::Rule;
use crate::control::Control;
use crate::core::Core;
use crate::engine::{Command, Refused, field, never};
use crate::transfer::Direction;

/// Bits of an entry of Autonomous Power State Transition that mean nothing.
const APST_RESERVED: u64 = 0xffff_ffff_0000_0007;

impl Core {
    /// Whether a feature has a data buffer.
    pub(super) fn has_data(&self, id: FeatureId) -> bool {
        match id {
            FeatureId::HOST_BEHAVIOR_SUPPORT => true,
            FeatureId::AUTONOMOUS_POWER_STATE_TRANSITION => control_power(self).is_some(),
            _ => false,
        }
    }

    /// Sets a feature that [has data](Core::has_data).
    pub(super) fn set_data_feature(
        &self,
        control: &mut Control,
        command: Command<'_>,
        id: FeatureId,
        save: bool,
    ) -> Result<u32, Refused> {
        if save {
            return Err(never(Status::FEATURE_NOT_SAVEABLE));
        }
        match id {
            FeatureId::HOST_BEHAVIOR_SUPPORT => set_behavior(control, command),
            _ => self.set_autonomy(control, command),
        }
    }

    /// Gets a feature that [has data](Core::has_data).
    pub(super) fn get_data_feature(
        &self,
        control: &mut Control,
        command: Command<'_>,
        id: FeatureId,
        select: FeatureSelect,
    ) -> Result<u32, Refused> {
        if select == FeatureSelect::SUPPORTED_CAPABILITIES {
            return Ok(FeatureCapabilities::new().with_changeable(true).into_bits());
        }
        let current = select == FeatureSelect::CURRENT;
        if id == FeatureId::HOST_BEHAVIOR_SUPPORT {
            let on = current && control.engine.retry_delays.load(Ordering::Acquire);
            return send(control, command, HostBehavior::new(on.into(), 0, 0).as_bytes()).map(|()| 0);
        }
        let (enabled, table) = match control_power(self) {
            Some(power) if current => power.autonomy(),
            _ => (false, ApstTable::default()),
        };
        send(control, command, table.as_bytes()).map(|()| enabled.into())
    }

    fn set_autonomy(&self, control: &mut Control, command: Command<'_>) -> Result<u32, Refused> {
        let value = command.sqe.cdw11;
        control.engine.check_reserved(command, &[("dword 11 bits 31:1", value >> 1)]);
        let mut table = ApstTable::default();
        receive(control, command, table.as_mut_bytes())?;
        let Some(power) = control_power(self) else { return Err(never(Status::INVALID_FIELD)) };
        for (index, entry) in table.0.iter().enumerate() {
            if entry.into_bits() & APST_RESERVED != 0 {
                let what = format_args!("entry {index} of the table is {:#x}", entry.into_bits());
                control.engine.violation(Rule::ReservedField, command, what);
            }
            if index <= power.last().into() && !power.allows(*entry) {
                return Err(never(Status::INVALID_FIELD));
            }
        }
        power.set_autonomy(value & 1 != 0, table, control.engine.time.now());
        Ok(0)
    }
}

fn control_power(core: &Core) -> Option<&crate::power::Power> {
    core.power.as_deref()
}

/// Host Behavior Support: of what it is about, only retry delays are there.
fn set_behavior(control: &mut Control, command: Command<'_>) -> Result<u32, Refused> {
    control.engine.check_reserved(command, &[("dword 11", command.sqe.cdw11)]);
    let mut behavior = HostBehavior::default();
    receive(control, command, behavior.as_mut_bytes())?;
    if !behavior.reserved_is_zero() {
        control.engine.violation(Rule::ReservedField, command, "bytes 511:3 of Host Behavior Support");
    }
    if behavior.acre > 1 || behavior.etdas != 0 || behavior.lbafee != 0 {
        return Err(control.engine.blame(field::CDW10, Status::INVALID_FIELD));
    }
    control.engine.retry_delays.store(behavior.acre == 1, Ordering::Release);
    Ok(0)
}

fn receive(control: &mut Control, command: Command<'_>, bytes: &mut [u8]) -> Result<(), Refused> {
    control.engine.map_data(command, bytes.len(), Direction::FromClient)?;
    control.engine.receive(0, bytes)
}

fn send(control: &mut Control, command: Command<'_>, bytes: &[u8]) -> Result<(), Refused> {
    control.engine.map_data(command, bytes.len(), Direction::ToClient)?;
    control.engine.send(0, bytes)
}
