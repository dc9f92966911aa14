//! The soft controller with another clock: whoever pauses on it lets the whole world act. What the host asks of the
//! controller passes through here, and is noted.

use std::sync::Arc;
use std::time::Duration;

use warpbell_hw::{
    Clock, Device, DeviceInfo, DmaAccess, DmaError, DmaLimits, DmaSource, DmaSpace, DoorbellPath,
    DoorbellSink, Doorbells, Interrupts, Iova, Registers, Reset, Window,
};
use warpbell_softctl::SoftDevice;

use super::wire::Wire;
use super::world;

/// A device that is the soft controller in everything but its clock.
pub(super) struct SimDevice {
    soft: Arc<SoftDevice>,
    wire: Arc<Wire>,
    dma: Arc<SimDma>,
}

impl SimDevice {
    pub(super) fn new(soft: Arc<SoftDevice>, wire: Arc<Wire>) -> SimDevice {
        let dma = Arc::new(SimDma { space: soft.dma(), wire: wire.clone() });
        SimDevice { soft, wire, dma }
    }
}

impl Device for SimDevice {
    fn info(&self) -> DeviceInfo {
        self.soft.info()
    }

    fn registers(&self) -> &dyn Registers {
        self
    }

    fn doorbells(&self) -> &dyn Doorbells {
        self
    }

    fn dma(&self) -> Arc<dyn DmaSpace> {
        self.dma.clone()
    }

    fn interrupts(&self) -> &dyn Interrupts {
        self.soft.interrupts()
    }

    fn reset(&self) -> &dyn Reset {
        self.soft.reset()
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn controller_memory(&self) -> Option<Window> {
        self.soft.controller_memory()
    }
}

impl Clock for SimDevice {
    fn now(&self) -> Duration {
        self.soft.clock().now()
    }

    fn pause(&self, hint: Duration) {
        if !world::turn(hint) {
            self.soft.clock().pause(hint);
        }
    }
}

impl Registers for SimDevice {
    fn read32(&self, offset: u32) -> u32 {
        self.soft.registers().read32(offset)
    }

    fn read64(&self, offset: u32) -> u64 {
        self.soft.registers().read64(offset)
    }

    fn write32(&self, offset: u32, value: u32) {
        self.wire.writes(self.now(), offset, value.into());
        self.soft.registers().write32(offset, value);
    }

    fn write64(&self, offset: u32, value: u64) {
        self.wire.writes(self.now(), offset, value);
        self.soft.registers().write64(offset, value);
    }
}

impl Doorbells for SimDevice {
    fn path(&self) -> DoorbellPath {
        self.soft.doorbells().path()
    }

    fn stride(&self) -> u8 {
        self.soft.doorbells().stride()
    }

    fn window(&self) -> Window {
        self.soft.doorbells().window()
    }

    fn sink(&self) -> Option<Arc<dyn DoorbellSink>> {
        let sink = self.soft.doorbells().sink()?;
        Some(Arc::new(SimSink { sink, soft: self.soft.clone(), wire: self.wire.clone() }))
    }
}

/// The host's way to doorbells; kernels have another one.
struct SimSink {
    sink: Arc<dyn DoorbellSink>,
    soft: Arc<SoftDevice>,
    wire: Arc<Wire>,
}

impl DoorbellSink for SimSink {
    fn ring(&self, offset: usize, value: u32) {
        if offset == 0 {
            self.wire.rings(self.soft.clock().now(), value);
        }
        self.sink.ring(offset, value);
    }
}

/// The controller's address space, and the books that are kept of it.
struct SimDma {
    space: Arc<dyn DmaSpace>,
    wire: Arc<Wire>,
}

impl DmaSpace for SimDma {
    fn map(&self, source: DmaSource<'_>, access: DmaAccess) -> Result<Iova, DmaError> {
        let iova = self.space.map(source, access)?;
        if let DmaSource::Memory(window) = source {
            self.wire.maps(iova, window);
        }
        Ok(iova)
    }

    fn unmap(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
        self.space.unmap(iova, len)?;
        self.wire.unmaps(iova);
        Ok(())
    }

    fn limits(&self) -> DmaLimits {
        self.space.limits()
    }

    fn allocate(&self, len: usize) -> Result<Window, DmaError> {
        self.space.allocate(len)
    }
}
