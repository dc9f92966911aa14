//! What the media says about itself, as tests set it, and the counters of power.

use std::time::Duration;

use super::{State, Subsystem};

/// Composite temperature from which on the media is warm, and too warm, in kelvin (WCTEMP, CCTEMP).
pub(crate) const WARNING_TEMPERATURE: u16 = 343;
pub(crate) const CRITICAL_TEMPERATURE: u16 = 353;

warpbell_base::options! {
    /// What SMART / Health Information says of the media, set by [`crate::SoftDevice::set_health`]. It changes nothing else:
    /// a `read_only` medium still takes writes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Health {
        /// Composite Temperature, in kelvin.
        pub temperature: u16,
        /// Temperature Sensors 1 and 2, in kelvin.
        pub sensors: [u16; 2],
        /// Available Spare, in percent.
        pub spare: u8,
        /// Available Spare Threshold, in percent.
        pub spare_threshold: u8,
        /// Percentage Used.
        pub used: u8,
        /// NVM subsystem reliability is degraded.
        pub degraded: bool,
        /// The media is in read only mode.
        pub read_only: bool,
        /// The volatile memory backup device failed.
        pub backup_failed: bool,
    }
}

impl Default for Health {
    fn default() -> Health {
        Health {
            temperature: 303,
            sensors: [303; 2],
            spare: 100,
            spare_threshold: 10,
            used: 0,
            degraded: false,
            read_only: false,
            backup_failed: false,
        }
    }
}

/// Times and counts of the whole subsystem.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub(crate) health: Health,
    /// Time spent at or above the warning temperature but below the critical one, and at or above the critical one.
    warm: [Duration; 2],
    /// Until when it is counted.
    counted: Duration,
    pub(crate) power_cycles: u64,
    pub(crate) unsafe_shutdowns: u64,
}

impl Life {
    pub(super) fn new(health: Health) -> Life {
        Life {
            health,
            warm: [Duration::ZERO; 2],
            counted: Duration::ZERO,
            power_cycles: 1,
            unsafe_shutdowns: 0,
        }
    }

    /// Counts the time since the last call at the present temperature; minutes of warning, and of critical temperature.
    pub(crate) fn warm_minutes(&mut self, now: Duration) -> [u32; 2] {
        let spent = now.saturating_sub(self.counted);
        self.counted = now;
        match self.health.temperature {
            CRITICAL_TEMPERATURE.. => self.warm[1] += spent,
            WARNING_TEMPERATURE.. => self.warm[0] += spent,
            _ => {}
        }
        self.warm.map(|time| u32::try_from(time.as_secs() / 60).unwrap_or(u32::MAX))
    }
}

impl State {
    fn set_health(&mut self, health: Health, now: Duration) {
        self.life.warm_minutes(now);
        self.life.health = health;
        for core in self.members.values().filter_map(|member| member.core.upgrade()) {
            core.checker.wake();
        }
    }
}

impl Subsystem {
    pub(crate) fn set_health(&self, health: Health) {
        let now = self.now();
        self.state().set_health(health, now);
    }
}
