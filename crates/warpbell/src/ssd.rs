//! One open SSD.

use std::path::Path;
use std::sync::Arc;

use warpbell_driver::{Controller, ControllerOptions, DoorbellBuffer, IoQueueOptions, Namespace};
use warpbell_hw::{Device, DeviceInfo, Nsid};
use warpbell_nvme::identify::IdentifyController;
use warpbell_softctl::{FaultPlan, SoftConfig, SoftDevice, StoreConfig, Violation};

use crate::{AttachOptions, Attachment, Buffer, DataPath, Descriptor, DeviceName, Error, HostQueue};

/// How to open an SSD.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Paths, serial numbers or PCI addresses that may be written. Memory-backed soft controllers need no leave.
    pub allow_write: Vec<String>,
    /// Faults that a soft controller injects.
    pub faults: Option<FaultPlan>,
    /// I/O queue pairs to ask for; `None`: the driver's default.
    pub queues: Option<u16>,
    /// Whether doorbells go through memory that the controller polls (Doorbell Buffer Config).
    pub doorbell_buffer: DoorbellBuffer,
    /// Weighted round robin between queues, so that attachments may have a priority.
    pub weighted_round_robin: bool,
    /// 32-bit command identifiers (experimental), with which any number of warps may share a queue.
    pub wide_cids: bool,
    /// Where rings of queues lie.
    pub rings: RingPlacement,
}

/// Where the rings of queues lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RingPlacement {
    /// In host memory.
    #[default]
    Host,
    /// Submission rings in the controller memory buffer, completion rings in host memory.
    Cmb,
}

impl RingPlacement {
    /// The word for reports: what it became.
    pub fn name(self) -> &'static str {
        match self {
            RingPlacement::Host => "host",
            RingPlacement::Cmb => "cmb (SQ), host (CQ)",
        }
    }
}

/// One SSD: a controller, enabled and identified, that queues can be attached to.
pub struct Ssd {
    name: DeviceName,
    controller: Arc<Controller>,
    soft: Option<Arc<SoftDevice>>,
    descriptor: Descriptor,
    rings: RingPlacement,
}

impl Ssd {
    /// Opens the device of that name and brings its controller up.
    pub fn open(name: &DeviceName, options: &OpenOptions) -> Result<Ssd, Error> {
        match name {
            DeviceName::Soft(text) => {
                let mut config = SoftConfig::parse(text)?;
                allow_writes(&mut config, &options.allow_write);
                if let Some(faults) = &options.faults {
                    config.faults = faults.clone();
                }
                let make = if config.virtual_time { SoftDevice::stepped } else { SoftDevice::threaded };
                Ssd::over_soft(name.clone(), make(config)?, options)
            }
            DeviceName::VfioUser(_) => Err(unavailable(name, "this version has no vfio-user client")),
            DeviceName::Pci(_) | DeviceName::Serial(_) => {
                Err(unavailable(name, "this version has no VFIO backend; try soft:size=1g"))
            }
        }
    }

    /// Brings up the controller of a soft device that was made elsewhere: threaded, or stepped by a simulation.
    pub fn over_soft(name: DeviceName, soft: Arc<SoftDevice>, options: &OpenOptions) -> Result<Ssd, Error> {
        Ssd::over_device(name, soft.clone(), Some(soft), options)
    }

    /// Brings up the controller of any device, and says which soft controller it is, if it is one: a test may stand
    /// between the two.
    pub fn over_device(
        name: DeviceName,
        device: Arc<dyn Device>,
        soft: Option<Arc<SoftDevice>>,
        options: &OpenOptions,
    ) -> Result<Ssd, Error> {
        let mut driver_options = ControllerOptions::default();
        if let Some(queues) = options.queues {
            driver_options.queues = queues;
        }
        driver_options.doorbell_buffer = options.doorbell_buffer;
        driver_options.wide_cids = options.wide_cids;
        driver_options.weighted_round_robin = options.weighted_round_robin;
        let controller = Arc::new(Controller::open(device, driver_options)?);
        let descriptor = if controller.supports_sgl() { Descriptor::Sgl } else { Descriptor::Prp };
        Ok(Ssd { name, controller, soft, descriptor, rings: options.rings })
    }

    /// The name it was opened by.
    pub fn name(&self) -> &DeviceName {
        &self.name
    }

    /// Name and kind, as the backend tells them.
    pub fn info(&self) -> DeviceInfo {
        self.controller.device().info()
    }

    /// The controller's driver.
    pub fn controller(&self) -> &Arc<Controller> {
        &self.controller
    }

    /// Identify Controller.
    pub fn identify(&self) -> &IdentifyController {
        self.controller.identify()
    }

    /// The usable namespaces, in the order of their identifiers.
    pub fn namespaces(&self) -> &[Namespace] {
        self.controller.namespaces()
    }

    /// One namespace; `None`: the first usable one.
    pub fn namespace(&self, nsid: Option<Nsid>) -> Result<&Namespace, Error> {
        let found = self.namespaces().iter().find(|namespace| nsid.is_none_or(|nsid| namespace.nsid == nsid));
        found.ok_or_else(|| {
            let usable: Vec<String> = self.namespaces().iter().map(|n| n.nsid.get().to_string()).collect();
            Error::Argument {
                object: "namespace",
                value: nsid.map_or("(first)".to_owned(), |nsid| nsid.get().to_string()),
                limit: format!("the device has usable namespaces [{}]", usable.join(", ")),
            }
        })
    }

    /// The most bytes of one command; `None`: no limit.
    pub fn max_transfer_bytes(&self) -> Option<u64> {
        self.controller.max_transfer_bytes()
    }

    /// I/O queue pairs that can be created.
    pub fn granted_queues(&self) -> u16 {
        self.controller.granted_queues()
    }

    /// The soft controller behind it, if it is one in this process.
    pub fn soft(&self) -> Option<&Arc<SoftDevice>> {
        self.soft.as_ref()
    }

    /// The soft controller behind it, if that works only when stepped, in virtual time.
    pub fn stepped(&self) -> Option<&Arc<SoftDevice>> {
        self.soft.as_ref().filter(|soft| soft.is_stepped())
    }

    /// What this client did wrong, as far as the controller checks and tells.
    pub fn violations(&self) -> Vec<Violation> {
        self.soft.as_ref().map(|soft| soft.violations()).unwrap_or_default()
    }

    /// Where rings and data lie, and how data is described.
    pub fn data_path(&self) -> DataPath {
        DataPath {
            rings: self.rings.name(),
            data: "host",
            doorbells: self.controller.device().doorbells().path(),
            shadows: self.controller.uses_doorbell_buffer(),
            descriptor: self.descriptor,
        }
    }

    /// A buffer of at least `bytes` zeroed bytes that the controller, the host and kernels reach.
    pub fn buffer(&self, bytes: usize) -> Result<Buffer, Error> {
        Buffer::host(self.controller.device().dma(), bytes, self.descriptor)
    }

    /// A queue pair of `entries` ring entries that this thread drives by itself, for commands over `buffer`.
    pub fn host_queue(
        &self,
        entries: u32,
        options: IoQueueOptions,
        buffer: Buffer,
    ) -> Result<HostQueue, Error> {
        let nsid = self.namespace(None)?.nsid;
        HostQueue::new(self.controller.clone(), nsid, self.rings, entries, options, buffer)
    }

    /// Queues for kernels.
    pub fn attach(&self, options: &AttachOptions) -> Result<Attachment, Error> {
        let namespace = self.namespace(options.nsid)?;
        Attachment::new(self.controller.clone(), namespace, self.descriptor, self.rings, options)
    }
}

/// Makes the file-backed namespaces writable whose path was named.
fn allow_writes(config: &mut SoftConfig, allowed: &[String]) {
    for namespace in &mut config.namespaces {
        if let StoreConfig::File { path, writable } = &mut namespace.store {
            *writable |= allowed.iter().any(|name| same_file(path, Path::new(name)));
        }
    }
}

/// Whether two paths lead to the same file: they are equal, or resolve to the same place.
pub fn same_file(one: &Path, other: &Path) -> bool {
    let resolve = |path: &Path| path.canonicalize().ok();
    one == other || resolve(one).is_some_and(|one| resolve(other) == Some(one))
}

fn unavailable(name: &DeviceName, remedy: &str) -> Error {
    Error::Missing { what: format!("device '{name}'"), remedy: remedy.to_owned() }
}
