//! Get Features and Set Features.

use warpbell_hw::Nsid;
use warpbell_nvme::command;
use warpbell_nvme::feature::{
    Arbitration, AsyncEventConfig, FeatureId, FeatureSelect, TemperatureThreshold, VolatileWriteCache,
};

use crate::DriverError;
use crate::controller::Controller;
use crate::data::Data;

impl Controller {
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

    /// Sets a feature and returns dword 0 of the completion, which a few features use.
    pub fn set_feature(
        &self,
        feature: FeatureId,
        value: u32,
        nsid: Option<Nsid>,
    ) -> Result<u32, DriverError> {
        let nsid = nsid.map_or(0, Nsid::get);
        Ok(self.core.execute(command::set_features(feature, value, nsid), Data::None)?.dw0)
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

    /// Chooses the asynchronous events.
    pub fn set_async_event_config(&self, value: AsyncEventConfig) -> Result<(), DriverError> {
        self.set_feature(FeatureId::ASYNC_EVENT_CONFIG, value.into_bits(), None).map(|_| ())
    }
}
