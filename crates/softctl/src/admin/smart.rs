//! The SMART / Health Information page (Base 2.0, 5.16.1.3; NVM command set 1.0, 4.1.4.2).

use warpbell_nvme::NvmOpcode;
use warpbell_nvme::log::SmartLog;

use super::health::critical_warning;
use crate::control::Control;
use crate::core::Core;
use crate::statistics::Statistics;

/// Data units are thousands of 512 bytes, begun ones too.
const DATA_UNIT: u64 = 512_000;

fn commands(counters: &Statistics, opcodes: &[NvmOpcode]) -> u128 {
    opcodes.iter().map(|opcode| u128::from(counters.commands(*opcode))).sum()
}

impl Core {
    pub(super) fn smart(&self, control: &Control) -> SmartLog {
        let counters = self.statistics(control);
        let now = self.subsystem.now();
        let units = |bytes: u64| u128::from(bytes.div_ceil(DATA_UNIT)).into();
        let mut log = SmartLog::zeroed();
        let mut state = self.subsystem.state();
        let warm = state.life.warm_minutes(now);
        let life = state.life;
        drop(state);
        let health = life.health;
        log.critical_warning = critical_warning(&control.features, &health);
        log.composite_temperature = health.temperature.into();
        log.available_spare = health.spare;
        log.available_spare_threshold = health.spare_threshold;
        log.percentage_used = health.used;
        log.data_units_read = units(counters.bytes_read + counters.bytes_checked);
        log.data_units_written = units(counters.bytes_written);
        log.host_reads = commands(&counters, &[NvmOpcode::READ, NvmOpcode::COMPARE]).into();
        log.host_writes = commands(&counters, &[NvmOpcode::WRITE]).into();
        log.busy_minutes = u128::from((counters.busy + counters.poller_cpu).as_secs() / 60).into();
        log.power_cycles = u128::from(life.power_cycles).into();
        log.power_on_hours = u128::from(now.as_secs() / 3600).into();
        log.unsafe_shutdowns = u128::from(life.unsafe_shutdowns).into();
        log.media_errors = u128::from(counters.media_errors).into();
        log.error_log_entries = u128::from(self.errors.count()).into();
        [log.warning_temperature_minutes, log.critical_temperature_minutes] = warm;
        log.temperature_sensors[..2].copy_from_slice(&health.sensors);
        log
    }
}
