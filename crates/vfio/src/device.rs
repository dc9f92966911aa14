//! An NVMe function of this machine.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use vfio_bindings::bindings::vfio as abi;
use warpbell_hw::{
    Clock, Device, DeviceInfo, DeviceKind, DmaSpace, DoorbellProxy, Doorbells, Interrupts, MonotonicClock,
    PciId, Registers, Reset, ResetError, ResetKind, Window,
};

use crate::bar::{self, Bar0};
use crate::cmb;
use crate::config::{Config, MsixPages};
use crate::info::Region;
use crate::irq::Vectors;
use crate::pci::Sysfs;
use crate::{Bdf, IommuChoice, Route, VfioError, route, sys};

warpbell_base::options! {
    /// How to open a function.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct PciOptions {
        /// Which way to take.
        pub iommu: IommuChoice,
        /// A DMA space of its own, in place of the one that the devices of this process share. Buffers then have to be
        /// mapped for this device again, and it reaches none of the others' buffers.
        pub own_dma_space: bool,
    }
}

/// An open device, however it was obtained.
pub(crate) struct Attached {
    pub(crate) device: OwnedFd,
    pub(crate) space: Arc<dyn DmaSpace>,
    pub(crate) ownership: Box<dyn Ownership>,
}

/// What keeps the device ours; let go after the device is closed.
pub(crate) trait Ownership: Send + Sync {
    /// Resets the bus or slot of the function, if everything on it is ours.
    fn hot_reset(&self, device: BorrowedFd<'_>) -> Result<(), ResetError>;
}

/// An NVMe function through VFIO. Open as long as this value lives; all DMA of the function ends when it is dropped.
pub struct PciDevice {
    bdf: Bdf,
    route: Route,
    regions: Regions,
    bar0: Bar0,
    config: Config<Arc<OwnedFd>>,
    vectors: Vectors,
    clock: MonotonicClock,
    id: PciId,
    space: Arc<dyn DmaSpace>,
    can_reset: bool,
    /// Counts requests to let go of the function, once somebody asked for it.
    requests: Mutex<Option<OwnedFd>>,
    device: Arc<OwnedFd>,
    ownership: Box<dyn Ownership>,
}

/// The device's regions, and which of their pages are MSI-X's.
pub(crate) struct Regions {
    pub(crate) bdf: Bdf,
    pub(crate) device: Arc<OwnedFd>,
    pub(crate) msix: MsixPages,
}

impl Regions {
    pub(crate) fn region(&self, index: u32) -> Result<Region, VfioError> {
        region(self.bdf, self.device.as_fd(), index)
    }
}

fn region(bdf: Bdf, device: BorrowedFd<'_>, index: u32) -> Result<Region, VfioError> {
    let bytes = sys::device::region(device, index).map_err(VfioError::call(bdf))?;
    Region::parse(&bytes).map_err(|source| VfioError::Malformed { bdf, source })
}

impl PciDevice {
    /// Opens a function that is bound to vfio-pci, and lets it master the bus. The controller in it is not touched.
    pub fn open(bdf: Bdf, options: &PciOptions) -> Result<Arc<PciDevice>, VfioError> {
        let (attached, route) = route::attach(&Sysfs::system(), bdf, options)?;
        tracing::debug!(%bdf, %route, "attached");
        Ok(Arc::new(PciDevice::over(bdf, attached, route)?))
    }

    fn over(bdf: Bdf, attached: Attached, route: Route) -> Result<PciDevice, VfioError> {
        let Attached { device, space, ownership } = attached;
        let device = Arc::new(device);
        let info = sys::device::info(device.as_fd()).map_err(VfioError::call(bdf))?;
        if info.flags & abi::VFIO_DEVICE_FLAGS_PCI == 0 {
            let what = format!("not a PCI device to VFIO (flags {:#x})", info.flags);
            let remedy = format!("run `warpbell bind {bdf}`");
            return Err(VfioError::Missing { bdf, what, remedy });
        }
        let config = region(bdf, device.as_fd(), abi::VFIO_PCI_CONFIG_REGION_INDEX)?;
        let config = Config::new(bdf, device.clone(), config);
        config.enable()?;
        let regions = Regions { bdf, device: device.clone(), msix: config.msix_pages()? };
        let first = regions.region(abi::VFIO_PCI_BAR0_REGION_INDEX)?;
        let spare = regions.msix.spare(0, &first.mappable);
        let bar0 = Bar0::map(bdf, device.as_fd(), &first, &spare)?;
        let vectors = Vectors::new(device.clone()).map_err(VfioError::call(bdf))?;
        let can_reset = info.flags & abi::VFIO_DEVICE_FLAGS_RESET != 0;
        let (id, clock) = (config.id()?, MonotonicClock::new());
        Ok(PciDevice {
            bdf,
            route,
            regions,
            bar0,
            config,
            vectors,
            clock,
            id,
            space,
            can_reset,
            requests: Mutex::new(None),
            device,
            ownership,
        })
    }

    /// The function's address.
    pub fn bdf(&self) -> Bdf {
        self.bdf
    }

    /// How the function was reached, and why not otherwise.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// The highest queue identifier whose doorbells this process can map; higher ones are refused by
    /// [`Doorbells::doorbell`].
    pub fn last_mapped_queue(&self) -> u16 {
        self.bar0.last_queue()
    }

    /// An eventfd that counts requests of the system to let go of the function, as when it is unplugged or unbound: the
    /// same for all who ask, so that each may poll it and none should read it.
    /// Whoever asked waits until this value, and every window into its BARs, is dropped.
    pub fn release_requests(&self) -> std::io::Result<OwnedFd> {
        let mut requests = self.requests.lock();
        let event = match requests.take() {
            Some(event) => event,
            None => self.vectors.event(abi::VFIO_PCI_REQ_IRQ_INDEX)?,
        };
        requests.insert(event).try_clone()
    }

    /// An eventfd that counts uncorrectable errors of the function (PCIe advanced error reporting).
    pub fn errors(&self) -> std::io::Result<OwnedFd> {
        self.vectors.event(abi::VFIO_PCI_ERR_IRQ_INDEX)
    }
}

/// Resets. After each the command register is written again, and the pages of the doorbells are touched again: a reset
/// takes them out of the page table.
impl PciDevice {
    /// Resets the bus or slot of the function, if all functions there are open in this DMA space: the next step where a
    /// function level reset does not bring a controller back. The other functions lose their state too.
    pub fn reset_bus(&self) -> Result<(), ResetError> {
        self.ownership.hot_reset(self.device.as_fd())?;
        self.restore(ResetKind::Function)
    }

    fn restore(&self, kind: ResetKind) -> Result<(), ResetError> {
        let enabled = self.config.enable();
        enabled
            .map_err(|error| ResetError::System { kind, source: std::io::Error::other(error.to_string()) })?;
        self.bar0.proxy().clear();
        bar::fault_in(self.bar0.register_page());
        bar::fault_in(&self.bar0.window());
        Ok(())
    }
}

impl std::fmt::Debug for PciDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PciDevice")
            .field("bdf", &self.bdf)
            .field("route", &self.route)
            .finish_non_exhaustive()
    }
}

impl Device for PciDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { name: self.bdf.to_string(), kind: DeviceKind::Pcie }
    }
    fn registers(&self) -> &dyn Registers {
        &self.bar0
    }
    fn register_page(&self) -> Option<Window> {
        Some(self.bar0.register_page().clone())
    }
    fn doorbells(&self) -> &dyn Doorbells {
        &self.bar0
    }
    fn forwarded_doorbells(&self) -> Option<io::Result<Arc<DoorbellProxy>>> {
        Some(self.bar0.proxy().get(&self.bar0))
    }
    fn dma(&self) -> Arc<dyn DmaSpace> {
        self.space.clone()
    }
    fn interrupts(&self) -> &dyn Interrupts {
        &self.vectors
    }
    fn reset(&self) -> &dyn Reset {
        self
    }
    fn clock(&self) -> &dyn Clock {
        &self.clock
    }
    fn pci_id(&self) -> Option<PciId> {
        Some(self.id)
    }
    fn controller_memory(&self) -> Option<Window> {
        cmb::map(&self.regions, &self.bar0)
            .inspect_err(|error| tracing::warn!(%error, "controller memory"))
            .ok()
            .flatten()
    }
}

/// The function level reset; where the function has none, that of its bus or slot.
impl Reset for PciDevice {
    fn reset(&self, kind: ResetKind) -> Result<(), ResetError> {
        let ResetKind::Function = kind;
        if !self.can_reset {
            return self.reset_bus();
        }
        let done = sys::device::reset(self.device.as_fd());
        done.map_err(|error| ResetError::System { kind, source: error.into() })?;
        self.restore(kind)
    }
}

impl Drop for PciDevice {
    /// A window into a BAR may keep the device open for longer; its DMA ends here all the same.
    fn drop(&mut self) {
        if let Err(error) = self.config.stop_dma() {
            tracing::warn!(%error, "bus mastering stays on");
        }
    }
}
