//! One NVMe function, as its driver sees it.

use std::io;
use std::sync::Arc;

use crate::{Clock, DmaSpace, DoorbellProxy, Doorbells, Interrupts, Registers, Reset, Window};

/// What kind of controller answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A PCIe function through VFIO.
    Pcie,
    /// A controller in another process over a vfio-user socket.
    VfioUser,
    /// The soft controller in this process.
    Software,
}

/// What to call a device in messages and results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The name it was opened by: BDF, `soft:...` or `vfio-user:...`.
    pub name: String,
    /// What answers behind that name.
    pub kind: DeviceKind,
}

/// Which PCI function it is: what quirks are looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PciId {
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
}

impl std::fmt::Display for PciId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04x}:{:04x}", self.vendor, self.device)
    }
}

/// Everything that a driver needs of one NVMe function.
pub trait Device: Send + Sync {
    /// Name and kind.
    fn info(&self) -> DeviceInfo;
    /// BAR0 below the doorbells.
    fn registers(&self) -> &dyn Registers;
    /// The page of the registers, for kernels that read one as memory; `None` where accesses are calls.
    fn register_page(&self) -> Option<Window> {
        None
    }
    /// The doorbell registers.
    fn doorbells(&self) -> &dyn Doorbells;
    /// The same doorbells through a shadow page of host memory, for kernels that cannot store to the page itself; made
    /// when it is first asked for. `None` where there is no need: doorbells are ordinary memory, or forwarded already.
    fn forwarded_doorbells(&self) -> Option<io::Result<Arc<DoorbellProxy>>> {
        None
    }
    /// The function's DMA address space. Shared: mappings keep it alive.
    fn dma(&self) -> Arc<dyn DmaSpace>;
    /// Interrupt vectors.
    fn interrupts(&self) -> &dyn Interrupts;
    /// Resets from outside.
    fn reset(&self) -> &dyn Reset;
    /// The clock that this device's deadlines run on.
    fn clock(&self) -> &dyn Clock;
    /// Vendor and device ID from configuration space; `None` where there is none.
    fn pci_id(&self) -> Option<PciId> {
        None
    }
    /// The controller memory buffer (CMBLOC), as this process sees it; `None` if there is none, or if it cannot be
    /// mapped.
    fn controller_memory(&self) -> Option<Window> {
        None
    }
}
