//! One open SSD.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::channel::Receiver;
use parking_lot::Mutex;
use warpbell_driver::{Controller, ControllerOptions, DoorbellBuffer, IoQueueOptions, Namespace, Waiting};
use warpbell_files::NamespaceId;
use warpbell_hw::{DeviceInfo, DmaAccess, DoorbellPath, Nsid, Window};
use warpbell_nvme::identify::IdentifyController;
use warpbell_softctl::{FaultPlan, SoftDevice};
use warpbell_vfio::user::UserOptions;
use warpbell_vfio::{PciDevice, PciOptions};

use crate::host_io::HostQueues;
use crate::open::Opened;
use crate::queues::memory::Memory;
use crate::recovery::Watch;
use crate::{
    AttachOptions, Attachment, Buffer, DataPath, DataPlacement, DataPointers, DeviceMemory, DeviceName,
    DoorbellChoice, Error, HostQueue, HostQueueSpec, Recovery, RecoveryCounters, RecoveryPolicy,
    RingPlacement, SsdEvent, offered,
};

warpbell_base::options! {
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
        /// How kernels ring doorbells.
        pub doorbells: DoorbellChoice,
        /// Weighted round robin between queues, so that attachments may have a priority.
        pub weighted_round_robin: bool,
        /// 32-bit command identifiers (experimental), with which any number of warps may share a queue.
        pub wide_cids: bool,
        /// Where rings of queues lie.
        pub rings: RingPlacement,
        /// Where data lies.
        pub data: DataPlacement,
        /// Describes data by PRP entries even where the controller takes SGLs.
        pub prp_only: bool,
        /// How a PCI function is reached.
        pub pci: PciOptions,
        /// How to speak with a controller of another process.
        pub vfio_user: UserOptions,
        /// Whether waits for admin commands sleep until an interrupt.
        pub admin_waiting: Waiting,
        /// What is done about queues and a controller that do not answer.
        pub recovery: RecoveryPolicy,
    }
}

/// How many SSDs this process has opened so far.
static OPENINGS: AtomicU64 = AtomicU64::new(0);

/// One SSD: a controller, enabled and identified, that queues can be attached to.
pub struct Ssd {
    /// Gone before the controller is.
    host_queues: HostQueues,
    allow_write: Vec<String>,
    name: DeviceName,
    /// Of all SSDs that this process has opened.
    opening: u64,
    controller: Arc<Controller>,
    soft: Option<Arc<SoftDevice>>,
    pci: Option<Arc<PciDevice>>,
    memory: Memory,
    watch: Arc<Watch>,
    doorbells: DoorbellChoice,
    /// How kernels of the newest attachment ring, and why not otherwise.
    rung: Mutex<Option<(DoorbellPath, Option<String>)>>,
}

impl Ssd {
    /// Opens the device of that name and brings its controller up.
    #[tracing::instrument(level = "info", name = "open", skip_all, fields(device = %name))]
    pub fn open(name: &DeviceName, options: &OpenOptions) -> Result<Ssd, Error> {
        let opened = crate::open::device(name, options)?;
        Ssd::bring_up(name.clone(), opened, options)
    }

    pub(crate) fn bring_up(name: DeviceName, opened: Opened, options: &OpenOptions) -> Result<Ssd, Error> {
        let space = (opened.space(), opened.is_translated());
        let Opened { device, soft, pci } = opened;
        let mut driver_options = ControllerOptions::default();
        if let Some(queues) = options.queues {
            driver_options.queues = queues;
        }
        driver_options.admin_waiting = options.admin_waiting;
        driver_options.doorbell_buffer = options.doorbell_buffer;
        driver_options.wide_cids = options.wide_cids;
        driver_options.weighted_round_robin = options.weighted_round_robin;
        let controller = Controller::open(device, driver_options);
        let controller = Arc::new(controller.map_err(|error| offered::named(&name, error))?);
        offered::check(&name, &controller, options)?;
        let memory = Memory::new(&controller, options, space)?;
        let recovery = Recovery::new(controller.clone(), pci.clone(), options.recovery.clone());
        let watch = Arc::new(Watch::new(Arc::new(recovery)));
        let (host_queues, allow_write) = (HostQueues::default(), options.allow_write.clone());
        let (doorbells, rung) = (options.doorbells, Mutex::default());
        let opening = OPENINGS.fetch_add(1, Ordering::Relaxed);
        Ok(Ssd {
            host_queues,
            allow_write,
            name,
            opening,
            controller,
            soft,
            pci,
            memory,
            watch,
            doorbells,
            rung,
        })
    }

    /// The name it was opened by.
    pub fn name(&self) -> &DeviceName {
        &self.name
    }

    /// What tells its namespace `nsid` from all others.
    pub fn namespace_id(&self, nsid: Nsid) -> NamespaceId {
        NamespaceId {
            opening: self.opening,
            ssd: self.name.to_string(),
            serial: self.identify().serial().trim().to_owned(),
            nsid: nsid.get(),
        }
    }

    pub(crate) fn host_queues(&self) -> &HostQueues {
        &self.host_queues
    }

    pub(crate) fn allow_write(&self) -> &[String] {
        &self.allow_write
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

    /// The most bytes of one command of the host's: of what the controller takes, and of what data pointers describe.
    pub fn max_command_bytes(&self) -> u64 {
        let described = DataPointers::max_bytes(self.data_path().data_pointer);
        self.max_transfer_bytes().unwrap_or(u64::MAX).min(described)
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
    fn stepped(&self) -> Option<&Arc<SoftDevice>> {
        self.soft.as_ref().filter(|soft| soft.is_stepped())
    }

    /// The PCI function that it is, if it is one.
    pub fn pci(&self) -> Option<&Arc<PciDevice>> {
        self.pci.as_ref()
    }

    /// Whether `text` names this SSD, as those who permit writes do: by its PCI address, its serial number (with or
    /// without `sn:`), its socket, or the name that it was opened by.
    pub fn is_named(&self, text: &str) -> bool {
        let serial = self.identify().serial();
        let socket = match &self.name {
            DeviceName::VfioUser(path) => same_file(path, Path::new(text)),
            _ => false,
        };
        let function = self.pci.as_ref().is_some_and(|pci| text.parse() == Ok(pci.bdf()));
        let serial =
            self.pci.is_some() && !serial.is_empty() && text.strip_prefix("sn:").unwrap_or(text) == serial;
        socket || function || serial || text.parse().as_ref() == Ok(&self.name)
    }

    /// Where rings and data lie, how data is described, and how doorbells are rung: by kernels, once queues were
    /// attached for some.
    pub fn data_path(&self) -> DataPath {
        let path = self.memory.path();
        let (doorbells, refused) = self.rung.lock().clone().unwrap_or((path.doorbells, None));
        DataPath { doorbells, refused, route: self.pci.as_ref().map(|pci| pci.route().to_string()), ..path }
    }

    /// Where data lies, as it was asked for.
    pub fn data_placement(&self) -> &DataPlacement {
        self.memory.data()
    }

    /// Where rings lie, as it was asked for.
    pub fn ring_placement(&self) -> &RingPlacement {
        self.memory.ring_placement()
    }

    /// How kernels are to ring doorbells, as it was asked for.
    pub fn doorbell_choice(&self) -> DoorbellChoice {
        self.doorbells
    }

    /// Where its memory comes from.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// A buffer of at least `bytes` zeroed bytes that the controller, the host and kernels of the CPU target reach.
    ///
    /// A host queue keeps its buffer until it is deleted. Buffers of kernels come from
    /// [`Attachment::buffer`](crate::Attachment::buffer), which keeps them as long as its queues: a command that timed
    /// out may still be over one, and the place of a dropped buffer is given out again.
    pub fn buffer(&self, bytes: usize) -> Result<Buffer, Error> {
        self.memory.buffer(bytes)
    }

    /// Memory of the caller's as a buffer; its contents stay. It is mapped once: memory that is registered already, or
    /// lies in memory that is, uses the mapping that there is. It must begin on a page of 4096 bytes, and, where it is
    /// new, have whole pages. Unmapped with the last of its buffers, which must outlive all commands over it.
    pub fn register(&self, window: Window) -> Result<Buffer, Error> {
        self.memory.register(window, DmaAccess::READ_WRITE)
    }

    /// The same for memory that the controller only reads, such as data that nobody may change: commands that would write to
    /// it fail.
    pub fn register_read_only(&self, window: Window) -> Result<Buffer, Error> {
        self.memory.register(window, DmaAccess::READ)
    }

    /// Memory of a GPU's that the caller has ([`Gpu::foreign`](crate::Gpu::foreign)), as a buffer; its contents stay. The
    /// SSD's data lies in the memory of that GPU ([`DataPlacement::Hbm`]). Mapped once, however often it is registered.
    pub fn register_device(&self, memory: &DeviceMemory) -> Result<Buffer, Error> {
        self.memory.register_device(memory)
    }

    /// A polled queue pair of `entries` ring entries that this thread drives by itself, for commands over `buffer`.
    pub fn host_queue(
        &self,
        entries: u32,
        options: IoQueueOptions,
        buffer: Buffer,
    ) -> Result<HostQueue, Error> {
        self.host_queue_with(HostQueueSpec::new(entries, options), buffer)
    }

    /// A queue pair that this thread drives by itself, for commands over `buffer`.
    pub fn host_queue_with(&self, spec: HostQueueSpec, buffer: Buffer) -> Result<HostQueue, Error> {
        HostQueue::new(&self.memory, self.namespace(None)?.nsid, spec, buffer)
    }

    /// What happens to this SSD: events that its controller reports, and every step of recovery. The newest of before
    /// are there, too. All receivers of an SSD share one channel: each event goes to one of them. A reader that is too
    /// slow loses the oldest ([`RecoveryCounters::events_lost`]).
    pub fn events(&self) -> Receiver<SsdEvent> {
        self.watch.start();
        self.watch.recovery().receiver()
    }

    /// Calls `callback` with each event from now on, on the thread that watches the SSD, which waits for its end. It
    /// must not own the SSD, which would then never be dropped.
    pub fn on_event(&self, callback: impl Fn(&SsdEvent) + Send + Sync + 'static) {
        self.watch.recovery().call(callback);
        self.watch.start();
    }

    /// What recovery did so far.
    pub fn recovery_counters(&self) -> RecoveryCounters {
        self.watch.recovery().counters()
    }

    /// What watches this SSD. A thread does so by itself, unless the device's time is virtual.
    pub fn recovery(&self) -> &Arc<Recovery> {
        self.watch.recovery()
    }

    /// Queues for kernels.
    #[tracing::instrument(level = "info", name = "attach", skip_all, fields(device = %self.name(), target = %options.target, queues = options.queues, warps = options.warps, iodepth = options.iodepth))]
    pub fn attach(&self, options: &AttachOptions) -> Result<Attachment, Error> {
        let namespace = self.namespace(options.nsid)?;
        let soft = self.stepped();
        let made = (namespace, self.doorbells);
        let id = self.namespace_id(namespace.nsid);
        let attachment = Attachment::new((self.memory.clone(), id), soft, &self.watch, made, options)?;
        let (path, refused) = attachment.doorbell_path();
        *self.rung.lock() = Some((path, refused.map(str::to_owned)));
        Ok(attachment)
    }
}

/// Whether two paths lead to the same file: they are equal, or resolve to the same place.
pub fn same_file(one: &Path, other: &Path) -> bool {
    let resolve = |path: &Path| path.canonicalize().ok();
    one == other || resolve(one).is_some_and(|one| resolve(other) == Some(one))
}
