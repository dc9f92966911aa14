//! What tests alone need of an SSD. Behind a feature, not in a crate of tests: opening a device that was made elsewhere
//! takes parts of [`Ssd`] that are private.

use std::sync::Arc;

use warpbell_hw::Device;
use warpbell_softctl::{SoftDevice, Violation};

use crate::open::Opened;
use crate::{DeviceName, Error, OpenOptions, Ssd};

/// For tests.
pub trait TestSsd: Sized {
    /// Brings up the controller of a soft device that was made elsewhere: threaded, or stepped by a simulation.
    fn over_soft(name: DeviceName, soft: Arc<SoftDevice>, options: &OpenOptions) -> Result<Self, Error> {
        Self::over_device(name, soft.clone(), Some(soft), options)
    }

    /// Brings up the controller of any device, and says which soft controller it is, if it is one: a test may stand
    /// between the two.
    fn over_device(
        name: DeviceName,
        device: Arc<dyn Device>,
        soft: Option<Arc<SoftDevice>>,
        options: &OpenOptions,
    ) -> Result<Self, Error>;

    /// What this client did wrong, as far as the controller checks and tells.
    fn violations(&self) -> Vec<Violation>;
}

impl TestSsd for Ssd {
    fn over_device(
        name: DeviceName,
        device: Arc<dyn Device>,
        soft: Option<Arc<SoftDevice>>,
        options: &OpenOptions,
    ) -> Result<Ssd, Error> {
        Ssd::bring_up(name, Opened { device, soft, pci: None }, options)
    }

    fn violations(&self) -> Vec<Violation> {
        self.soft().map(|soft| soft.violations()).unwrap_or_default()
    }
}
