//! The soft controller with fewer vectors, or with interrupts that never arrive.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use warpbell_hw::{
    Clock, Device, DeviceInfo, DmaSpace, Doorbells, InterruptError, Interrupts, Registers, Reset,
};
use warpbell_softctl::SoftDevice;

pub struct Wired {
    pub soft: Arc<SoftDevice>,
    pub vectors: u16,
    /// Nothing ever arrives.
    pub cut: bool,
}

impl Device for Wired {
    fn info(&self) -> DeviceInfo {
        self.soft.info()
    }
    fn registers(&self) -> &dyn Registers {
        self.soft.registers()
    }
    fn doorbells(&self) -> &dyn Doorbells {
        self.soft.doorbells()
    }
    fn dma(&self) -> Arc<dyn DmaSpace> {
        self.soft.dma()
    }
    fn interrupts(&self) -> &dyn Interrupts {
        self
    }
    fn reset(&self) -> &dyn Reset {
        Device::reset(&*self.soft)
    }
    fn clock(&self) -> &dyn Clock {
        self.soft.clock()
    }
}

impl Interrupts for Wired {
    fn count(&self) -> u16 {
        self.vectors
    }
    fn subscribe(&self, vector: u16) -> Result<OwnedFd, InterruptError> {
        let event = self.soft.interrupts().subscribe(vector)?;
        Ok(if self.cut {
            rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap()
        } else {
            event
        })
    }
}
