//! Get Features and Set Features.

use std::time::Duration;

use warpbell_hw::Nsid;
use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::feature::{
    Arbitration, AsyncEventConfig, FeatureId, FeatureSelect, TemperatureThreshold, VolatileWriteCache,
};

use crate::DriverError;
use crate::controller::Controller;
use crate::data::Data;

/// A feature that was set through this driver.
#[derive(Clone, Debug)]
pub(crate) struct FeatureSet {
    feature: FeatureId,
    nsid: u32,
    value: u32,
    data: Vec<u8>,
}

impl FeatureSet {
    /// Which of the values that the feature has: some are kept per sensor or per vector.
    fn part(&self) -> u32 {
        match self.feature {
            FeatureId::TEMPERATURE_THRESHOLD => self.value >> 16,
            FeatureId::INTERRUPT_VECTOR_CONFIG => self.value & 0xffff,
            _ => 0,
        }
    }

    fn replaces(&self, other: &FeatureSet) -> bool {
        (self.feature, self.nsid, self.part()) == (other.feature, other.nsid, other.part())
    }

    fn sqe(&self) -> Sqe {
        command::set_features(self.feature, self.value, self.nsid)
    }

    fn data(&self) -> Data<'_> {
        if self.data.is_empty() { Data::None } else { Data::Out(&self.data) }
    }
}

impl Controller {
    /// Sets a feature and remembers it: a reset sets it again.
    pub(crate) fn set(
        &self,
        feature: FeatureId,
        value: u32,
        nsid: Option<Nsid>,
        data: &[u8],
    ) -> Result<u32, DriverError> {
        self.set_as(FeatureSet { feature, nsid: nsid.map_or(0, Nsid::get), value, data: data.to_vec() }, None)
    }

    /// Like [`set`](Self::set), for a feature of the controller that may take `within`.
    pub(crate) fn set_within(
        &self,
        feature: FeatureId,
        value: u32,
        data: &[u8],
        within: Duration,
    ) -> Result<u32, DriverError> {
        self.set_as(FeatureSet { feature, nsid: 0, value, data: data.to_vec() }, Some(within))
    }

    fn set_as(&self, set: FeatureSet, within: Option<Duration>) -> Result<u32, DriverError> {
        let within = within.unwrap_or(self.core.options.admin_timeout);
        let dw0 = self.core.execute_within(set.sqe(), set.data(), within)?.dw0;
        // How many queues there are is negotiated anew.
        if set.feature != FeatureId::NUMBER_OF_QUEUES {
            let mut features = self.features.lock();
            features.retain(|other| !set.replaces(other));
            features.push(set);
        }
        Ok(dw0)
    }

    /// Sets again what was set before a reset, in the same order; returns what the controller refused, and why.
    pub(crate) fn restore_features(&self) -> Result<Vec<(FeatureId, String)>, DriverError> {
        let features = self.features.lock().clone();
        let mut lost = Vec::new();
        for set in features {
            match self.core.execute(set.sqe(), set.data()) {
                Ok(_) => self.note_restored(&set),
                Err(error) if error.status().is_some() => {
                    tracing::warn!(%error, feature = %set.feature, "not set again after a reset");
                    lost.push((set.feature, error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(lost)
    }

    fn note_restored(&self, set: &FeatureSet) {
        if set.feature == FeatureId::KEEP_ALIVE_TIMER {
            self.start_heartbeat((set.value > 0).then(|| Duration::from_millis(set.value.into())));
        }
    }

    /// The value of a feature that fits one dword.
    pub fn get_feature(
        &self,
        feature: FeatureId,
        select: FeatureSelect,
        nsid: Option<Nsid>,
    ) -> Result<u32, DriverError> {
        let nsid = nsid.map_or(0, Nsid::get);
        Ok(self.core.execute(command::get_features(feature, select, nsid), Data::None)?.dw0)
    }

    /// Sets a feature and returns dword 0 of the completion, which a few features use. After a reset of the controller
    /// it is set again.
    pub fn set_feature(
        &self,
        feature: FeatureId,
        value: u32,
        nsid: Option<Nsid>,
    ) -> Result<u32, DriverError> {
        self.set(feature, value, nsid, &[])
    }

    pub(crate) fn current(&self, feature: FeatureId) -> Result<u32, DriverError> {
        self.get_feature(feature, FeatureSelect::CURRENT, None)
    }

    /// How the controller arbitrates between submission queues.
    pub fn arbitration(&self) -> Result<Arbitration, DriverError> {
        self.current(FeatureId::ARBITRATION).map(Arbitration::from_bits)
    }

    /// Sets burst and weights of the arbitration.
    pub fn set_arbitration(&self, value: Arbitration) -> Result<(), DriverError> {
        self.set_feature(FeatureId::ARBITRATION, value.into_bits(), None).map(|_| ())
    }

    /// Whether the volatile write cache is on.
    pub fn volatile_write_cache(&self) -> Result<bool, DriverError> {
        self.current(FeatureId::VOLATILE_WRITE_CACHE).map(|bits| VolatileWriteCache::from_bits(bits).wce())
    }

    /// Switches the volatile write cache on or off.
    pub fn set_volatile_write_cache(&self, on: bool) -> Result<(), DriverError> {
        let value = VolatileWriteCache::new().with_wce(on);
        self.set_feature(FeatureId::VOLATILE_WRITE_CACHE, value.into_bits(), None).map(|_| ())
    }

    /// A temperature threshold; `which` selects sensor and type, its temperature is ignored.
    pub fn temperature_threshold(
        &self,
        which: TemperatureThreshold,
    ) -> Result<TemperatureThreshold, DriverError> {
        let (feature, select) = (FeatureId::TEMPERATURE_THRESHOLD, FeatureSelect::CURRENT);
        let mut sqe = command::get_features(feature, select, 0);
        sqe.cdw11 = which.with_tmpth(0).into_bits();
        Ok(TemperatureThreshold::from_bits(self.core.execute(sqe, Data::None)?.dw0))
    }

    /// Sets a temperature threshold.
    pub fn set_temperature_threshold(&self, value: TemperatureThreshold) -> Result<(), DriverError> {
        self.set_feature(FeatureId::TEMPERATURE_THRESHOLD, value.into_bits(), None).map(|_| ())
    }

    /// Which asynchronous events are on.
    pub fn async_event_config(&self) -> Result<AsyncEventConfig, DriverError> {
        self.current(FeatureId::ASYNC_EVENT_CONFIG).map(AsyncEventConfig::from_bits)
    }
}
