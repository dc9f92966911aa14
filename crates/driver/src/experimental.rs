//! What Warpbell's soft controller offers beyond the specification (`docs/soft-controller.md`).

use warpbell_nvme::command;
use warpbell_nvme::experimental::{Experimental, WIDE_CIDS};
use warpbell_nvme::identify::IdentifyController;

use crate::DriverError;
use crate::controller::Controller;
use crate::core::Core;
use crate::data::Data;

/// Asks for 32-bit command identifiers if the options do. Must come before the first I/O queue, and again after each
/// reset.
pub(crate) fn enable_wide_cids(core: &Core, identify: &IdentifyController) -> Result<(), DriverError> {
    if !core.options.wide_cids {
        return Ok(());
    }
    let offer = Experimental::of(identify);
    if !offer.wide_cids() {
        let what = "the offer of 32-bit command identifiers (Identify Controller, byte 3080 behind its mark)";
        let need = "bit 1 set, as a soft controller with wide_cids=on has it";
        return Err(DriverError::Unsupported {
            device: core.name(),
            what,
            value: offer.into_bits().into(),
            need,
        });
    }
    core.execute(command::set_features(WIDE_CIDS, 1, 0), Data::None).map(|_| ())
}

impl Controller {
    /// Whether command identifiers of I/O queues have 32 bits; those of host queues use the lower 16.
    pub fn wide_cids(&self) -> bool {
        self.core.options.wide_cids
    }

    /// Whether the completions of each submission queue come in the order of submission.
    pub fn completes_in_order(&self) -> bool {
        Experimental::of(&self.identify).ordered_completions()
    }
}
