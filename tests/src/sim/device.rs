//! The soft controller with another clock: whoever pauses on it lets the whole world act.

use std::sync::Arc;
use std::time::Duration;

use warpbell_hw::{Clock, Device, DeviceInfo, DmaSpace, Doorbells, Interrupts, Registers, Reset};
use warpbell_softctl::SoftDevice;

use super::world;

/// A device that is the soft controller in everything but its clock.
pub(super) struct SimDevice(pub(super) Arc<SoftDevice>);

impl Device for SimDevice {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }

    fn registers(&self) -> &dyn Registers {
        self.0.registers()
    }

    fn doorbells(&self) -> &dyn Doorbells {
        self.0.doorbells()
    }

    fn dma(&self) -> Arc<dyn DmaSpace> {
        self.0.dma()
    }

    fn interrupts(&self) -> &dyn Interrupts {
        self.0.interrupts()
    }

    fn reset(&self) -> &dyn Reset {
        self.0.reset()
    }

    fn clock(&self) -> &dyn Clock {
        self
    }
}

impl Clock for SimDevice {
    fn now(&self) -> Duration {
        self.0.clock().now()
    }

    fn pause(&self, hint: Duration) {
        if !world::turn(hint) {
            self.0.clock().pause(hint);
        }
    }
}
