//! Queues handed to kernels: queue pairs, and the memory that kernels keep their state in.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_driver::{Controller, DriverError, Namespace, QueuePair};
use warpbell_files::NamespaceId;
use warpbell_hw::{Device, DmaAccess, DoorbellPath, Nsid, Window};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Hooks;
use warpbell_nvme::command::QueuePriority;
use warpbell_softctl::SoftDevice;

use crate::client_time::{self, ClientTime, device_hooks};
use crate::queues::doorbells::{DoorbellMapping, DoorbellRequest};
use crate::queues::flush::FlushMapping;
use crate::queues::layout::{CidLayout, DEFAULT_COMMANDS_PER_LANE};
use crate::queues::mapping::{RingMapping, ShadowMapping};
use crate::queues::memory::Memory;
use crate::queues::namespace::namespace_ref;
use crate::queues::pairs::{check_queues, check_replacement_queues, create_pairs, delete_pairs};
use crate::recovery::{QueueTable, TableParts, Watch};
use crate::{
    Buffer, DeviceMemory, DoorbellChoice, Error, KernelQueues, KernelQueuesSpec, Launch, Module, OpenTarget,
    OrderPolicy, QueueCounters, Recovery, Regions, Sharing, Target, TraceSpec,
};

warpbell_base::options! {
    /// What to attach.
    #[derive(Clone, Debug)]
    pub struct AttachOptions {
        /// Where the kernels run that use the queues.
        pub target: Target,
        /// The namespace; `None`: the first usable one.
        pub nsid: Option<Nsid>,
        /// Queue pairs.
        pub queues: u32,
        /// Warps over all queues.
        pub warps: u32,
        /// Outstanding commands per queue, 1 to 65,535; rings get one entry more, rounded up to a power of two.
        pub iodepth: u32,
        /// Commands in flight per lane at most; `None`: 4, or as many as there are CIDs for.
        pub commands_per_lane: Option<u32>,
        /// Who uses a queue.
        pub sharing: Sharing,
        /// Deadline of a wait in kernels, from its start.
        pub timeout: Duration,
        /// Where the 64-bit counters start. Flush commands bring the rings to the same position first.
        pub start: u64,
        /// The queues' priority, where the SSD was opened with weighted round robin.
        pub priority: QueuePriority,
        /// Replacements for each queue, should it have to be given up while kernels run: their memory is set aside now. One
        /// more than there are warps on a queue is enough for any number of losses in any time; fewer are, as long as
        /// kernels come to a replacement before that is lost, too.
        pub replacement_queues: u32,
        /// Whether the host answers alarms of these queues ([`RecoveryPolicy`](crate::RecoveryPolicy)).
        pub recovery: bool,
        /// Whether kernels that can (`bench_traced`) write down what they do, and how much of it is kept.
        pub trace: Option<TraceSpec>,
    }
}

impl Default for AttachOptions {
    /// One exclusive queue for one warp, 64 commands outstanding, 10 s for each.
    fn default() -> AttachOptions {
        AttachOptions {
            target: Target::Cpu,
            nsid: None,
            queues: 1,
            warps: 1,
            iodepth: 64,
            commands_per_lane: None,
            sharing: Sharing::Exclusive,
            timeout: Duration::from_secs(10),
            start: 0,
            priority: QueuePriority::URGENT,
            replacement_queues: 2,
            recovery: true,
            trace: None,
        }
    }
}

impl AttachOptions {
    /// Ring entries of each queue.
    pub fn entries(&self) -> u32 {
        (self.iodepth + 1).next_power_of_two()
    }

    fn layout(&self, wide: bool) -> Result<CidLayout, Error> {
        let make = if wide { CidLayout::wide } else { CidLayout::new };
        let layout = match self.commands_per_lane {
            Some(commands_per_lane) => make(self.queues, self.warps, commands_per_lane)?,
            None => [DEFAULT_COMMANDS_PER_LANE, 2]
                .iter()
                .find_map(|commands_per_lane| make(self.queues, self.warps, *commands_per_lane).ok())
                .map_or_else(|| make(self.queues, self.warps, 1), Ok)?,
        };
        if self.sharing == Sharing::Exclusive && self.warps != self.queues {
            return Err(crate::LayoutError::NotExclusive { warps: self.warps, queues: self.queues }.into());
        }
        Ok(layout)
    }

    fn queues_spec(&self, controller: &Controller) -> Result<KernelQueuesSpec, Error> {
        let (wide_cids, in_order) = (controller.wide_cids(), controller.completes_in_order());
        let layout = self.layout(wide_cids)?;
        let (sharing, timeout, start) = (self.sharing, self.timeout, self.start);
        let limits = controller.command_limits();
        Ok(KernelQueuesSpec { layout, sharing, timeout, start, wide_cids, in_order, limits })
    }

    fn check(&self, max_entries: u32) -> Result<(), Error> {
        let limit = max_entries - 1;
        if self.iodepth == 0 || self.iodepth > limit {
            return Err(Error::Argument {
                object: "iodepth",
                value: self.iodepth.to_string(),
                limit: format!("must be from 1 to {limit}, the controller's queue size less one"),
            });
        }
        Ok(())
    }
}

/// Queues that kernels may use, until dropped. Queue pairs are deleted then, or with the last launch that uses them.
pub struct Attachment(Arc<Inner>);

/// What kernels of a launch use: the launch keeps it.
struct Inner {
    table: Arc<QueueTable>,
    /// Where buffers come from.
    source: Memory,
    namespace: abi::NamespaceRef,
    id: NamespaceId,
    target: OpenTarget,
    /// What is done between a completion and the use of its data.
    order: OrderPolicy,
    /// Whether what kernels do takes virtual time.
    client: Option<ClientTime>,
    /// Buffers that commands of these queues may still use: they go after the queues.
    buffers: Mutex<Vec<Buffer>>,
    watch: Arc<Watch>,
    /// Whether the controller deleted the queues, once it was asked to, or why not.
    deleted: Arc<OnceLock<Result<(), Arc<DriverError>>>>,
}

/// A launch over the queues of all of these. On the CPU target its clock is that of the last of their devices that has
/// one of its own.
pub(crate) fn prepare(attachments: &[Attachment], launch: Launch) -> Result<Launch, Error> {
    let hooks = || {
        attachments.iter().fold(Hooks::new(), |hooks, each| {
            let hooks = device_hooks(hooks, each.0.source.controller().device());
            match each.queues().flush() {
                Some(flush) => flush.hooks(hooks),
                None => hooks,
            }
        })
    };
    let used = attachments.iter().map(|each| InUse::new(&each.0)).collect::<Result<Vec<_>, Error>>()?;
    let launch = client_time::charge(
        attachments.iter().filter_map(|each| each.0.client.as_ref()),
        launch.hooks(hooks),
    );
    Ok(used.into_iter().fold(launch, Launch::keep))
}

/// A launch that exists: kernels of it may be on the queues.
struct InUse(Arc<Inner>);

impl InUse {
    fn new(inner: &Arc<Inner>) -> Result<InUse, Error> {
        inner.table.enter()?;
        Ok(InUse(inner.clone()))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.table.leave();
    }
}

impl Attachment {
    pub(crate) fn new(
        (source, id): (Memory, NamespaceId),
        soft: Option<&Arc<SoftDevice>>,
        watch: &Arc<Watch>,
        (namespace, choice): (&Namespace, DoorbellChoice),
        options: &AttachOptions,
    ) -> Result<Attachment, Error> {
        let controller = source.controller();
        options.check(controller.max_entries())?;
        check_queues(controller, options.queues)?;
        check_replacement_queues(options.replacement_queues)?;
        let target = options.target.open()?;
        let spec = options.queues_spec(controller)?;
        let (order, flush) = FlushMapping::new(&source, &target)?;
        let queues = KernelQueues::with_replacement_queues(&target, spec, options.replacement_queues)?;
        let queues = queues.flushed(flush);
        let queues = match options.trace {
            Some(trace) => queues.traced(&target, trace)?,
            None => queues,
        };
        let namespace_ref = namespace_ref(controller, namespace, source.data_pointer(), &queues);
        let (nsid, limit) = (namespace.nsid, options.timeout);
        let left = watch.recovery().left_proof();
        let request = DoorbellRequest { source: &source, choice, nsid, limit, left };
        request.prepare(&target)?;
        // No reset comes into the proof of doorbells, nor between the creation of the queues and their registration.
        let alone = watch.recovery().alone();
        let doorbells = DoorbellMapping::new(&target, &request)?;
        if let (Some(flush), Some(_)) = (queues.flush(), target.gpu()) {
            flush.require_proven(&source, doorbells.path().0)?;
        }
        let table =
            make_table(&source, &target, (queues, doorbells), (namespace, options), watch.recovery())?;
        watch.recovery().register(&table);
        drop(alone);
        let client = soft.and_then(|soft| ClientTime::new(soft, &table.parts));
        let (watch, buffers, deleted) = (watch.clone(), Mutex::default(), Arc::default());
        watch.start();
        let namespace = namespace_ref;
        let inner = Inner { table, source, namespace, id, target, order, client, buffers, watch, deleted };
        Ok(Attachment(Arc::new(inner)))
    }

    /// The target whose kernels use the queues.
    pub fn target(&self) -> &OpenTarget {
        &self.0.target
    }

    /// What kernels keep of the queues.
    pub fn queues(&self) -> &KernelQueues {
        &self.0.table.parts.queues
    }

    /// Lets a launch have its queues and buffers, too.
    pub(crate) fn lend(&self, memory: Regions) -> Regions {
        memory.with_attached(self.0.namespace, self.queues(), &self.0.buffers.lock())
    }

    pub(crate) fn on_this_target(&self, module: &Module) -> Result<(), Error> {
        let (own, its) = (self.0.target.target(), module.target());
        if own == its {
            return Ok(());
        }
        let limit = format!("the queues were attached for kernels on {own}, and these run on {its}");
        Err(Error::Argument { object: "target", value: its.to_string(), limit })
    }

    /// What tells the namespace from all others.
    pub fn namespace_id(&self) -> &NamespaceId {
        &self.0.id
    }

    /// The kernel argument that names the namespace and its queues. Valid while the attachment lives.
    pub fn namespace(&self) -> abi::NamespaceRef {
        if let Err(error) = self.0.table.refresh() {
            // Kernels come to the newest queues by way of the old ones.
            tracing::warn!(%error, "kernels find queues as they were");
        }
        self.0.namespace
    }

    /// The device that the queues belong to.
    pub fn device(&self) -> &dyn Device {
        self.0.source.controller().device().as_ref()
    }

    /// What is done between a completion and the use of its data. A refusal that these kernels do not reach the data's
    /// memory stands here, as they may use memory of their own; [`Attachment::buffer`] fails then.
    pub fn order(&self) -> OrderPolicy {
        self.0.order
    }

    /// How a doorbell store of a kernel reaches the controller, and why not directly.
    pub fn doorbell_path(&self) -> (DoorbellPath, Option<&str>) {
        self.0.table.parts.doorbells.path()
    }

    /// The layout of warps, lanes and CIDs.
    pub fn layout(&self) -> CidLayout {
        self.queues().layout()
    }

    /// The newest pair of each queue. One that was given up and deleted is missing as soon as no kernel is on it, until
    /// its successor is there. A pair's identifier is in use as long as somebody has the pair.
    pub fn pairs(&self) -> Vec<Arc<QueuePair>> {
        self.0.table.pairs()
    }

    /// The reference of queue `index` as a kernel finds it that is launched now, for kernels that take one queue. Valid
    /// for launches that are prepared before the queue is replaced.
    pub fn queue(&self, index: usize) -> Result<abi::QueueRef, Error> {
        self.0.table.reference(index)
    }

    /// What kernels counted on queue `index`, those included that it replaced.
    pub fn counters(&self, index: usize) -> Result<QueueCounters, Error> {
        self.0.table.counters(index)
    }

    /// Declares queue `index` lost: kernels on it return `queue_lost` from now on. At the next pass it is replaced,
    /// unless the queues were attached without recovery.
    pub fn declare_lost(&self, index: usize) {
        self.0.table.declare_lost(index);
    }

    /// Whether a lane raised the alarm of queue `index` (quarantined a command) since the last call.
    pub fn take_alarm(&self, index: usize) -> bool {
        self.0.table.take_alarm(index)
    }

    /// A buffer of at least `bytes` zeroed bytes that the controller and kernels both reach. It stays
    /// mapped until the attachment's queues are deleted: a command that timed out may still use it.
    pub fn buffer(&self, bytes: usize) -> Result<Buffer, Error> {
        self.keep(self.0.source.kernel_buffer(&self.0.target, bytes)?)
    }

    /// Memory of the caller's as a buffer, as [`Ssd::register`](crate::Ssd::register) has it. It too stays mapped until
    /// the attachment's queues are deleted.
    pub fn register(&self, window: Window) -> Result<Buffer, Error> {
        self.keep(self.0.source.register(window, DmaAccess::READ_WRITE)?)
    }

    /// Memory of a GPU's that the caller has, as a buffer, as [`Ssd::register_device`](crate::Ssd::register_device) has
    /// it: of the GPU that kernels run on. It too stays mapped until the attachment's queues are deleted.
    pub fn register_device(&self, memory: &DeviceMemory) -> Result<Buffer, Error> {
        self.0.source.reached_by(&self.0.target)?;
        self.keep(self.0.source.register_device(memory)?)
    }

    /// Lets go of a buffer of this attachment while its queues go on: it is unmapped with the caller's last clone. No
    /// kernel may use it any more. Refused while a command waits for its completion: it may be one over this buffer.
    pub fn release(&self, buffer: &Buffer) -> Result<(), Error> {
        if let Some((qid, pending)) = self.0.table.pending()? {
            return Err(Error::Busy {
                object: "buffer",
                reason: format!("{pending} commands on {qid} have no completion yet"),
                remedy: "delete the queues first, which takes their commands with them",
            });
        }
        let mut kept = self.0.buffers.lock();
        if let Some(index) = kept.iter().position(|kept| kept.as_ref() == buffer.as_ref()) {
            kept.swap_remove(index);
        }
        Ok(())
    }

    /// Deletes the queues now, as dropping does, and says how that went. An error where a lease or a launch keeps them,
    /// with the last of which they are deleted then; and where the controller did not delete them.
    pub fn close(self) -> Result<(), Error> {
        let deleted = self.0.deleted.clone();
        drop(self);
        match deleted.get() {
            Some(Ok(())) => Ok(()),
            Some(Err(cause)) => Err(Error::Undeleted { cause: cause.clone() }),
            None => Err(Error::Busy {
                object: "queues",
                reason: "leases or launches of them are left".to_owned(),
                remedy: "the queues are deleted when the last of them is dropped",
            }),
        }
    }

    /// The same attachment, for what keeps it.
    pub(crate) fn share(&self) -> Attachment {
        Attachment(self.0.clone())
    }

    /// Whether both are queues for one namespace.
    pub(crate) fn is_over_the_same(&self, other: &Attachment) -> bool {
        let device = |each: &Attachment| each.0.source.controller().device().clone();
        Arc::ptr_eq(&device(self), &device(other)) && self.0.namespace.nsid == other.0.namespace.nsid
    }

    /// What moves its data.
    pub(crate) fn source(&self) -> &Memory {
        &self.0.source
    }

    /// Whether a buffer is one of this attachment's.
    pub(crate) fn has(&self, buffer: &Buffer) -> bool {
        self.0.buffers.lock().iter().any(|kept| kept.as_ref() == buffer.as_ref())
    }

    fn keep(&self, buffer: Buffer) -> Result<Buffer, Error> {
        let buffer = buffer.for_kernels(&self.0.target)?;
        self.0.buffers.lock().push(buffer.clone());
        Ok(buffer)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _alone = self.watch.recovery().alone();
        self.watch.recovery().forget(&self.table);
        let deleted = delete_pairs(&self.source, &self.table.take_pairs()).map_err(Arc::new);
        let kept = deleted.is_err();
        // Set here alone, and once.
        let _ = self.deleted.set(deleted);
        if kept {
            // The controller may still write to them. Not the table itself, which has the controller, which would have
            // itself then.
            let buffers = std::mem::take(self.buffers.get_mut());
            let rings = self.table.parts.rings.iter().map(|ring| (ring.sq.clone(), ring.cq.clone()));
            self.source.controller().keep_until_disabled((buffers, rings.collect::<Vec<_>>()));
        }
    }
}

/// Creates the queues in rings of their own, and sets rings aside for those that may have to take their place.
fn make_table(
    source: &Memory,
    target: &OpenTarget,
    (queues, doorbells): (KernelQueues, DoorbellMapping),
    (namespace, options): (&Namespace, &AttachOptions),
    recovery: &Recovery,
) -> Result<Arc<QueueTable>, Error> {
    let controller = source.controller().clone();
    let slots = options.queues * (options.replacement_queues + 1);
    let reserve = |slot| source.reserve_rings(target, options.entries(), slot >= options.queues);
    let rings = (0..slots).map(|slot| RingMapping::new(target, reserve(slot)?));
    let rings = rings.collect::<Result<Vec<_>, Error>>()?;
    let pairs = create_pairs(source, namespace.nsid, options, &rings)?;
    let published = publish(target, &queues, &rings, &doorbells, &pairs);
    let shadows = published.inspect_err(|_| {
        // Logged; why there are no queues is the error to tell.
        _ = delete_pairs(source, &pairs);
    })?;
    let parts = TableParts {
        number: recovery.next_number(),
        nsid: namespace.nsid,
        priority: options.priority,
        entries: options.entries(),
        recovers: options.recovery,
        controller,
        queues,
        rings,
        doorbells,
        shadows,
    };
    Ok(Arc::new(QueueTable::new(parts, pairs)))
}

fn publish(
    target: &OpenTarget,
    queues: &KernelQueues,
    rings: &[RingMapping],
    doorbells: &DoorbellMapping,
    pairs: &[QueuePair],
) -> Result<ShadowMapping, Error> {
    let shadows = ShadowMapping::new(target, &pairs[0])?;
    for (index, (pair, rings)) in pairs.iter().zip(rings).enumerate() {
        queues.publish(index, &rings.addresses(pair, doorbells, &shadows)?)?;
    }
    Ok(shadows)
}
