//! Queues handed to kernels: queue pairs, and the memory that kernels keep their state in.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_driver::{Controller, Namespace, QueuePair};
use warpbell_hw::{Device, Nsid, Window};
use warpbell_kernels::abi;
use warpbell_nvme::command::QueuePriority;

use crate::layout::{CidLayout, DEFAULT_TOKENS, LANES};
use crate::pairs::{create_pairs, delete_pairs};
use crate::{Buffer, Descriptor, Error, RingPlacement};

/// Whether warps share a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One warp owns a queue pair: no atomic operation anywhere.
    Exclusive,
    /// Any warps, concurrently.
    Shared,
}

/// What to attach.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// The namespace; `None`: the first usable one.
    pub nsid: Option<Nsid>,
    /// Queue pairs.
    pub queues: u32,
    /// Warps over all queues.
    pub warps: u32,
    /// Outstanding commands per queue, 1 to 65,535; rings get one entry more, rounded up to a power of two.
    pub iodepth: u32,
    /// Commands in flight per lane at most; `None`: 4, or as many as there are CIDs for.
    pub tokens: Option<u32>,
    /// Who uses a queue.
    pub sharing: Sharing,
    /// Deadline of a wait in kernels, from its start.
    pub deadline: Duration,
    /// Where the 64-bit counters start. Flush commands bring the rings to the same position first.
    pub start: u64,
    /// The queues' priority, where the SSD was opened with weighted round robin.
    pub priority: QueuePriority,
}

impl Default for AttachOptions {
    /// One exclusive queue for one warp, 64 commands outstanding, 10 s deadline.
    fn default() -> AttachOptions {
        AttachOptions {
            nsid: None,
            queues: 1,
            warps: 1,
            iodepth: 64,
            tokens: None,
            sharing: Sharing::Exclusive,
            deadline: Duration::from_secs(10),
            start: 0,
            priority: QueuePriority::URGENT,
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
        let layout = match self.tokens {
            Some(tokens) => make(self.queues, self.warps, tokens)?,
            None => [DEFAULT_TOKENS, 2]
                .iter()
                .find_map(|tokens| make(self.queues, self.warps, *tokens).ok())
                .map_or_else(|| make(self.queues, self.warps, 1), Ok)?,
        };
        if self.sharing == Sharing::Exclusive && self.warps != self.queues {
            return Err(crate::LayoutError::NotExclusive { warps: self.warps, queues: self.queues }.into());
        }
        Ok(layout)
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

/// A kernel's counters of one queue, for tests and reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Next index to reserve (shared), or the tail saved at detach (exclusive).
    pub ticket: u64,
    /// Completions reaped.
    pub head: u64,
    /// Completions that no pending command owned.
    pub spurious: u64,
    /// Commands whose completion came after their deadline.
    pub late: u64,
    /// Completions whose SQ head was not as expected.
    pub sqhd_mismatch: u64,
}

/// Queues that kernels may use, until dropped. Queue pairs are deleted then: no kernel may run any more.
pub struct Attachment {
    controller: Arc<Controller>,
    pairs: Vec<QueuePair>,
    memory: QueueMemory,
    layout: CidLayout,
    namespace: abi::NamespaceRef,
    /// Buffers that commands of these queues may still use: they go after the queues.
    buffers: Mutex<Vec<Buffer>>,
}

/// What kernels keep per queue, in the target's memory, and the page that the host shares with them.
struct QueueMemory {
    states: Window,
    words: Window,
    hosts: Window,
    quarantine: Window,
    refs: Window,
}

impl QueueMemory {
    fn new(layout: &CidLayout) -> Result<QueueMemory, Error> {
        let queues = layout.queues as usize;
        let quarantine = queues * (layout.warp_slots * LANES) as usize * size_of::<u32>();
        Ok(QueueMemory {
            states: Window::host(queues * size_of::<abi::QueueState>())?,
            words: Window::host(queues * layout.words() * size_of::<u32>())?,
            hosts: Window::host(queues * size_of::<abi::QueueHost>())?,
            quarantine: Window::host(quarantine)?,
            refs: Window::host(queues * size_of::<abi::QueueRef>())?,
        })
    }
}

impl Attachment {
    pub(crate) fn new(
        controller: Arc<Controller>,
        namespace: &Namespace,
        by: Descriptor,
        rings: RingPlacement,
        options: &AttachOptions,
    ) -> Result<Attachment, Error> {
        options.check(controller.max_entries())?;
        let layout = options.layout(controller.wide_cids())?;
        let memory = QueueMemory::new(&layout)?;
        let pairs = create_pairs(&controller, namespace.nsid, rings, options)?;
        let namespace = namespace_ref(&controller, namespace, by, options, &memory);
        let attachment =
            Attachment { controller, pairs, memory, layout, namespace, buffers: Mutex::default() };
        for index in 0..attachment.pairs.len() {
            attachment.publish(index, options)?;
        }
        Ok(attachment)
    }

    /// Writes state, host page and reference of one queue.
    fn publish(&self, index: usize, options: &AttachOptions) -> Result<(), Error> {
        let pair = &self.pairs[index];
        let memory = &self.memory;
        let quarantine = slot::<u32>(&memory.quarantine, index * (self.layout.warp_slots * LANES) as usize);
        let mut state = abi::QueueState::starting_at(options.start);
        let wide = if self.controller.wide_cids() { abi::QUEUE_WIDE_CIDS } else { 0 };
        let flags = shadow_doorbells(pair, &mut state) | wide;
        put(&memory.states, index, &state)?;
        put(&memory.hosts, index, &abi::QueueHost { quarantine, ..abi::QueueHost::new() })?;
        let shift = pair.entries().trailing_zeros();
        let queue = abi::QueueRef {
            sq: pair.sq().window().as_ptr() as u64,
            cq: pair.cq().window().as_ptr() as u64,
            sq_doorbell: pair.sq_doorbell().as_ptr() as u64,
            cq_doorbell: pair.cq_doorbell().as_ptr() as u64,
            state: slot::<abi::QueueState>(&memory.states, index),
            words: slot::<u32>(&memory.words, index * self.layout.words()),
            host: slot::<abi::QueueHost>(&memory.hosts, index),
            quarantine,
            deadline_ns: options.deadline.as_nanos() as u64,
            sq_shift: shift,
            cq_shift: shift,
            ring_shift: 5,
            told_threshold: (pair.entries() / 4).clamp(1, 32),
            local_bits: self.layout.local_bits,
            token_shift: self.layout.token_shift,
            warp_slots: self.layout.warp_slots,
            qid: u32::from(pair.qid().get()),
            epoch: 0,
            sharing: self.namespace.sharing,
            flags,
            ..abi::QueueRef::new()
        };
        put(&memory.refs, index, &queue)
    }

    /// The kernel argument that names the namespace and its queues. Valid while the attachment lives.
    pub fn namespace(&self) -> abi::NamespaceRef {
        self.namespace
    }

    /// The device that the queues belong to.
    pub fn device(&self) -> &dyn Device {
        self.controller.device().as_ref()
    }

    pub(crate) fn shared_device(&self) -> &Arc<dyn Device> {
        self.controller.device()
    }

    /// The layout of warps, lanes and CIDs.
    pub fn layout(&self) -> CidLayout {
        self.layout
    }

    /// The queue pairs.
    pub fn pairs(&self) -> &[QueuePair] {
        &self.pairs
    }

    /// The reference of queue `index`, for kernels that take one queue.
    pub fn queue(&self, index: usize) -> Result<abi::QueueRef, Error> {
        get(&self.memory.refs, index)
    }

    /// What kernels counted on queue `index`.
    pub fn counters(&self, index: usize) -> QueueCounters {
        let base = index * size_of::<abi::QueueState>();
        let word = |offset| self.memory.states.load_u64(base + offset, Ordering::Acquire);
        let count = |offset| u64::from(self.memory.states.load_u32(base + offset, Ordering::Acquire));
        let per_lane = |offset| (0..LANES as usize).map(|lane| count(offset + 4 * lane)).sum();
        let shared = self.namespace.sharing == abi::SHARING_SHARED;
        let (ticket, head) = if shared {
            (word(offset_of!(abi::QueueState, ticket)) & !(1 << 63), word(offset_of!(abi::QueueState, head)))
        } else {
            (
                word(offset_of!(abi::QueueState, exclusive_tail)),
                word(offset_of!(abi::QueueState, exclusive_head)),
            )
        };
        QueueCounters {
            ticket,
            head,
            spurious: per_lane(offset_of!(abi::QueueState, spurious)),
            late: per_lane(offset_of!(abi::QueueState, late)),
            sqhd_mismatch: count(offset_of!(abi::QueueState, sqhd_mismatch)),
        }
    }

    /// Declares queue `index` lost: kernels on it return `queue_lost` from now on.
    pub fn declare_lost(&self, index: usize) {
        let offset = index * size_of::<abi::QueueHost>() + offset_of!(abi::QueueHost, state);
        self.memory.hosts.store_u32(offset, abi::QUEUE_LOST, Ordering::Release);
    }

    /// Whether a lane raised the alarm of queue `index` (quarantined a command) since the last call.
    pub fn take_alarm(&self, index: usize) -> bool {
        let offset = index * size_of::<abi::QueueHost>() + offset_of!(abi::QueueHost, alarm);
        self.memory.hosts.swap_u32(offset, 0, Ordering::AcqRel) != 0
    }

    /// A buffer of at least `bytes` zeroed bytes that the controller and kernels both reach. It stays
    /// mapped until the attachment's queues are deleted: a command that timed out may still use it.
    pub fn buffer(&self, bytes: usize) -> Result<Buffer, Error> {
        let buffer = Buffer::host(self.controller.device().dma(), bytes, descriptor(&self.namespace))?;
        self.buffers.lock().push(buffer.clone());
        Ok(buffer)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        delete_pairs(&self.controller, std::mem::take(&mut self.pairs));
    }
}

fn descriptor(namespace: &abi::NamespaceRef) -> Descriptor {
    if namespace.flags & abi::NAMESPACE_SGL != 0 { Descriptor::Sgl } else { Descriptor::Prp }
}

fn namespace_ref(
    controller: &Controller,
    namespace: &Namespace,
    by: Descriptor,
    options: &AttachOptions,
    memory: &QueueMemory,
) -> abi::NamespaceRef {
    let block_bytes = u64::from(namespace.block_size);
    let by_prp = if by == Descriptor::Prp { u64::from(abi::PRP_LIST_MAX) * 4096 } else { u64::MAX };
    let transfer = controller.max_transfer_bytes().unwrap_or(u64::MAX).min(by_prp);
    abi::NamespaceRef {
        queues: memory.refs.as_ptr() as u64,
        blocks: namespace.blocks,
        queue_count: options.queues,
        sharing: if options.sharing == Sharing::Shared {
            abi::SHARING_SHARED
        } else {
            abi::SHARING_EXCLUSIVE
        },
        warps: options.warps,
        nsid: namespace.nsid.get(),
        block_shift: namespace.block_size.trailing_zeros(),
        max_blocks: (transfer / block_bytes).clamp(1, 65536) as u32,
        page_shift: 12,
        flags: if by == Descriptor::Sgl { abi::NAMESPACE_SGL } else { 0 },
        ..abi::NamespaceRef::new()
    }
}

/// Tells kernels where a queue's shadow doorbells are, if it has any; returns the queue's flags.
fn shadow_doorbells(pair: &QueuePair, state: &mut abi::QueueState) -> u32 {
    let (Some(tail), Some(head)) = (pair.sq_doorbell().shadow(), pair.cq_doorbell().shadow()) else {
        return 0;
    };
    // Both pages have the same layout.
    state.shadow = tail.entry.as_ptr() as u64;
    state.events = tail.event.as_ptr() as u64;
    state.shadow_stride = (head.entry.as_ptr() as u64 - state.shadow) as u32;
    abi::QUEUE_SHADOW
}

/// The address of element `index` of an array of `T` in `window`.
fn slot<T>(window: &Window, index: usize) -> u64 {
    window.as_ptr() as u64 + (index * size_of::<T>()) as u64
}

fn put<T: abi::Plain>(window: &Window, index: usize, value: &T) -> Result<(), Error> {
    Ok(window.write(index * size_of::<T>(), value.as_bytes())?)
}

fn get<T: abi::Plain>(window: &Window, index: usize) -> Result<T, Error> {
    let mut value = T::new_zeroed();
    window.read(index * size_of::<T>(), value.as_mut_bytes())?;
    Ok(value)
}
