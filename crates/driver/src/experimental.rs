//! What Warpbell's soft controller offers beyond the specification (`docs/soft-controller.md`).

use warpbell_nvme::command;
use warpbell_nvme::experimental::{Experimental, WIDE_CIDS};
use warpbell_nvme::identify::IdentifyController;

use crate::controller::Controller;
use crate::core::Core;
use crate::data::Data;
use crate::{DriverError, NotOffered, Offer};

/// Asks for 32-bit command identifiers if the options do. Must come before the first I/O queue, and again after each
/// reset.
pub(crate) fn enable_wide_cids(core: &Core, identify: &IdentifyController) -> Result<(), DriverError> {
    if !core.options.wide_cids {
        return Ok(());
    }
    if !Experimental::of(identify).wide_cids() {
        return Err(NotOffered { device: core.name(), asked: Offer::WideCids }.into());
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
