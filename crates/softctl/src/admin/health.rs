//! Critical warnings and their events: temperature thresholds (Base 2.0, 5.27.1.3), spare, reliability.

use warpbell_nvme::Status;
use warpbell_nvme::command::{AsyncEvent, AsyncEventType, AsyncHealthInfo};
use warpbell_nvme::feature::{FeatureId, TemperatureThreshold};
use warpbell_nvme::log::{CriticalWarning, LogPageId};

use super::Features;
use crate::control::Control;
use crate::core::Core;
use crate::engine::{Refused, field};
use crate::subsystem::{Health, WARNING_TEMPERATURE};

/// Threshold Type Select.
const OVER: u8 = 0;
const UNDER: u8 = 1;
/// Threshold Temperature Select: the composite temperature, and all there are.
const COMPOSITE: u8 = 0;
const ALL: u8 = 0xf;

/// The temperatures that have thresholds, by Threshold Temperature Select.
fn temperatures(health: &Health) -> [u16; 3] {
    [health.temperature, health.sensors[0], health.sensors[1]]
}

/// The key of a threshold among the features.
fn scope(threshold: TemperatureThreshold) -> u32 {
    u32::from(threshold.thsel()) << 4 | u32::from(threshold.tmpsel())
}

/// A threshold that was never set.
pub(super) fn default_threshold(selected: TemperatureThreshold) -> TemperatureThreshold {
    let kelvin = match (selected.thsel(), selected.tmpsel()) {
        (UNDER, _) => 0,
        (_, COMPOSITE) => WARNING_TEMPERATURE,
        _ => u16::MAX,
    };
    selected.with_tmpth(kelvin)
}

/// The thresholds that CDW11 selects: one, or, to set, all of a type. The first is what Get Features is about.
pub(super) fn selected_thresholds(
    control: &Control,
    cdw11: u32,
    set: bool,
) -> Result<Vec<(u32, TemperatureThreshold)>, Refused> {
    let asked = TemperatureThreshold::from_bits(cdw11);
    let count = temperatures(&Health::default()).len() as u8;
    let sensors = match asked.tmpsel() {
        ALL if set => 0..count,
        one if one < count => one..one + 1,
        _ => return Err(control.engine.blame(field::CDW11 + 2, Status::INVALID_FIELD)),
    };
    if asked.thsel() > UNDER {
        return Err(control.engine.blame(field::CDW11 + 2, Status::INVALID_FIELD));
    }
    let each = sensors.map(|sensor| asked.with_tmpsel(sensor));
    Ok(each.map(|threshold| (scope(threshold), threshold)).collect())
}

/// The bits of Critical Warning: states, not events.
pub(super) fn critical_warning(features: &Features, health: &Health) -> CriticalWarning {
    let threshold = |sensor: u8, kind: u8| {
        let selected = TemperatureThreshold::new().with_tmpsel(sensor).with_thsel(kind);
        let value = features.set_value(FeatureId::TEMPERATURE_THRESHOLD, scope(selected));
        value.map_or(default_threshold(selected), TemperatureThreshold::from_bits).tmpth()
    };
    let beyond =
        |(sensor, kelvin): (u8, u16)| kelvin >= threshold(sensor, OVER) || kelvin <= threshold(sensor, UNDER);
    CriticalWarning::new()
        .with_spare(health.spare < health.spare_threshold)
        .with_temperature((0..).zip(temperatures(health)).any(beyond))
        .with_reliability(health.degraded)
        .with_read_only(health.read_only)
        .with_backup_failed(health.backup_failed)
}

/// What an event says about a bit of Critical Warning.
fn info(bit: u8) -> AsyncHealthInfo {
    if bit == CriticalWarning::new().with_spare(true).into_bits() {
        AsyncHealthInfo::SPARE_BELOW_THRESHOLD
    } else if bit == CriticalWarning::new().with_temperature(true).into_bits() {
        AsyncHealthInfo::TEMPERATURE_THRESHOLD
    } else {
        AsyncHealthInfo::SUBSYSTEM_RELIABILITY
    }
}

impl Core {
    /// Raises an event for each critical warning that is new and enabled.
    pub(super) fn watch_health(&self, control: &mut Control) {
        let health = self.subsystem.state().life.health;
        let warning = critical_warning(&control.features, &health).into_bits();
        let enabled = control.features.value(FeatureId::ASYNC_EVENT_CONFIG, 0) as u8;
        let fresh = warning & enabled & !control.warned;
        control.warned = warning & (control.warned | enabled);
        for bit in (0..8).map(|bit| 1 << bit).filter(|bit| fresh & bit != 0) {
            let event = AsyncEvent::new()
                .with_event_type(AsyncEventType::SMART_HEALTH)
                .with_info(info(bit).0)
                .with_log_page(LogPageId::SMART.0);
            control.raise(event);
        }
    }
}
