//! Features with a data buffer, and what Identify Controller says.

use warpbell_nvme::Status;
use warpbell_nvme::command;
use warpbell_nvme::feature::FeatureId;
use warpbell_nvme::identify::{Cns, IdentifyController};

use super::Client;

impl Client {
    pub fn identify_controller(&mut self) -> IdentifyController {
        super::parsed(&self.admin_data(command::identify(Cns::CONTROLLER, 0)))
    }

    /// Sets a feature that has data, and expects `status`.
    pub fn set_data_feature(&mut self, feature: FeatureId, cdw11: u32, data: &[u8], status: Status) {
        self.fill(0, data);
        let at = self.buffer.iova().0;
        let got = self.admin(command::set_features(feature, cdw11, 0).with_prp(at, 0)).status();
        assert_eq!(got, status, "{feature}");
    }
}
