//! What kernels need of their queues: references, state, completion slots, and the pages that they share with the host.
//! Who has rings and doorbells says where they are; whether an SSD is behind them does not matter here.

use std::time::Duration;

use warpbell_driver::CommandLimits;
use warpbell_kernels::abi::{self, Plain, Span};

use crate::queues::flush::FlushMapping;
use crate::queues::host_pages::HostPages;
use crate::queues::layout::{CidLayout, LANES};
use crate::recovery::mutation::{Mutation, off};
use crate::{Error, KernelMemory, OpenTarget, Regions, TraceMemory, TraceSpec};

/// Whether warps share a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One warp owns a queue pair: no atomic operation anywhere.
    Exclusive,
    /// Any warps, concurrently.
    Shared,
}

impl Sharing {
    /// The word for kernels.
    pub fn code(self) -> u32 {
        match self {
            Sharing::Exclusive => abi::SHARING_EXCLUSIVE,
            Sharing::Shared => abi::SHARING_SHARED,
        }
    }
}

warpbell_base::options! {
    /// What the queues of one launch have in common.
    #[derive(Clone, Copy, Debug)]
    pub struct KernelQueuesSpec {
        /// Warps, lanes and CIDs. Wide CIDs have 16 local bits.
        pub layout: CidLayout,
        /// Who uses a queue.
        pub sharing: Sharing,
        /// Deadline of a wait in kernels, from its start.
        pub timeout: Duration,
        /// Where the 64-bit counters start; the rings stand at this position modulo twice their entries.
        pub start: u64,
        /// Whether command identifiers have 32 bits (experimental).
        pub wide_cids: bool,
        /// The controller completes commands in the order of submission.
        pub in_order: bool,
        /// How large the controller takes commands that deallocate.
        pub limits: CommandLimits,
    } no new
}

impl KernelQueuesSpec {
    /// Exclusive queues, whose counters start at 0 and whose waits end after 10 s.
    pub fn new(layout: CidLayout) -> KernelQueuesSpec {
        KernelQueuesSpec {
            layout,
            sharing: Sharing::Exclusive,
            timeout: Duration::from_secs(10),
            start: 0,
            wide_cids: false,
            in_order: false,
            limits: CommandLimits::default(),
        }
    }
}

/// Where kernels find rings and doorbells of one queue pair. Whoever publishes them keeps the memory behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingAddresses {
    /// Submission entries, 64 bytes each.
    pub sq: u64,
    /// Completion entries, 16 bytes each.
    pub cq: u64,
    /// The tail doorbell.
    pub sq_doorbell: u64,
    /// The head doorbell.
    pub cq_doorbell: u64,
    /// Entries of each ring, a power of two.
    pub entries: u32,
    /// Queue identifier.
    pub qid: u16,
    /// Its shadow doorbells, if it has any.
    pub shadow: Option<ShadowAddresses>,
}

impl RingAddresses {
    /// What kernels touch there.
    fn spans(&self) -> impl Iterator<Item = Span> + use<> {
        let entries = u64::from(self.entries);
        let rings = [
            Span::new("sq", self.sq, entries * 64),
            Span::new("cq", self.cq, entries * 16),
            Span::new("sq_doorbell", self.sq_doorbell, 4),
            Span::new("cq_doorbell", self.cq_doorbell, 4),
        ];
        let shadow = self.shadow.into_iter().flat_map(move |shadow| {
            let bytes = u64::from(shadow.stride) + 4;
            [Span::new("shadow", shadow.tail, bytes), Span::new("event", shadow.event, bytes)]
        });
        rings.into_iter().chain(shadow)
    }
}

/// Where kernels find the shadow doorbells of one queue pair (Doorbell Buffer Config).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowAddresses {
    /// The tail's shadow.
    pub tail: u64,
    /// The tail's EventIdx.
    pub event: u64,
    /// Bytes from the tail's entries to the head's, in both pages.
    pub stride: u32,
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

/// What kernels keep per queue, in the target's memory, and the pages that the host shares with them. A clone is the
/// same memory.
///
/// Each queue has a *slot*, in which it lies, and further ones for queues in its place, should it be lost: slot `index`
/// is queue `index`'s first, and the others follow at distances of the number of queues. Where a method takes a slot,
/// the index of a queue that was never replaced is one.
#[derive(Clone, Debug)]
pub struct KernelQueues {
    spec: KernelQueuesSpec,
    slots: usize,
    states: KernelMemory,
    words: KernelMemory,
    /// Of each queue, as kernels find it when they start; then of each slot.
    refs: KernelMemory,
    pages: HostPages,
    trace: Option<TraceMemory>,
    /// What is read before completions are delivered.
    flush: Option<FlushMapping>,
}

impl KernelQueues {
    /// Memory for `spec.layout.queues` queues, none of them published yet.
    pub fn new(target: &OpenTarget, spec: KernelQueuesSpec) -> Result<KernelQueues, Error> {
        KernelQueues::with_replacement_queues(target, spec, 0)
    }

    /// The same with `replacement_queues` more slots for each queue.
    pub fn with_replacement_queues(
        target: &OpenTarget,
        spec: KernelQueuesSpec,
        replacement_queues: u32,
    ) -> Result<KernelQueues, Error> {
        let queues = spec.layout.queues as usize;
        let slots = queues * (replacement_queues as usize + 1);
        Ok(KernelQueues {
            spec,
            slots,
            states: target.memory(slots * size_of::<abi::QueueState>())?,
            words: target.memory(slots * spec.layout.words() * size_of::<u32>())?,
            refs: target.memory((queues + slots) * size_of::<abi::QueueRef>())?,
            pages: HostPages::new(target, &spec.layout, slots)?,
            trace: None,
            flush: None,
        })
    }

    /// The same with memory for traces: queues that are published from now on, and what replaces them, have it.
    pub fn traced(self, target: &OpenTarget, spec: TraceSpec) -> Result<KernelQueues, Error> {
        let trace = TraceMemory::new(target, self.spec.layout, spec)?;
        Ok(KernelQueues { trace: Some(trace), ..self })
    }

    /// The same, for data that is flushed by whoever reaps: on queues that are published from now on, and on what
    /// replaces them.
    pub(crate) fn flushed(self, flush: Option<FlushMapping>) -> KernelQueues {
        KernelQueues { flush, ..self }
    }

    /// What is read before completions are delivered, if anything is.
    pub(crate) fn flush(&self) -> Option<&FlushMapping> {
        self.flush.as_ref()
    }

    /// The memory for traces, if there is any.
    pub fn trace(&self) -> Option<&TraceMemory> {
        self.trace.as_ref()
    }

    /// Writes state, host page and reference of queue `index`: from now on kernels may use it. Rings and doorbells lie
    /// in `memory`, which is kept as long as the queues are: hand it to each launch over them.
    pub fn publish_in(&self, memory: &Regions, index: usize, rings: &RingAddresses) -> Result<(), Error> {
        rings.spans().try_for_each(|span| memory.check("of queues", &span))?;
        self.publish(index, rings)
    }

    /// The same for rings that the caller knows to be there.
    pub(crate) fn publish(&self, index: usize, rings: &RingAddresses) -> Result<(), Error> {
        self.write(index, rings, self.spec.start, 0)?;
        self.name(index, index)
    }

    /// Fills a slot that no lane has a hazard slot in: with a queue whose counters start at `start`, and that has taken the place of
    /// `epoch` others.
    pub(crate) fn write(
        &self,
        slot: usize,
        rings: &RingAddresses,
        start: u64,
        epoch: u32,
    ) -> Result<(), Error> {
        self.pages.renew(slot)?;
        put(&self.states, slot, &self.state(slot, rings, start))?;
        if !off(Mutation::WordsKept) {
            self.clear_words(slot)?;
        }
        put(&self.refs, self.queues() + slot, &self.reference(slot, rings, epoch))?;
        // Last: a lane that sits there and sees this finds the rest.
        self.pages.set_state(slot, abi::QUEUE_RUNNING);
        Ok(())
    }

    /// The state of a queue that begins in that slot.
    fn state(&self, slot: usize, rings: &RingAddresses, start: u64) -> abi::QueueState {
        let limits = &self.spec.limits;
        let trace = self.trace.as_ref().map_or(0, |trace| trace.address(slot % self.queues()));
        let (flush_register, flush_data) = self
            .flush
            .as_ref()
            .map_or((0, 0), |flush| (flush.register(), flush.data(self.pages.address(slot))));
        abi::QueueState {
            trace,
            flush_register,
            flush_data,
            deallocate_blocks: limits.ranges_blocks.unwrap_or(0),
            deallocate_ranges: limits.ranges.unwrap_or(0),
            deallocate_range_blocks: limits.range_blocks.unwrap_or(0),
            ..first_state(start, rings.shadow)
        }
    }

    /// By what kernels find the queue in that slot.
    fn reference(&self, slot: usize, rings: &RingAddresses, epoch: u32) -> abi::QueueRef {
        let spec = &self.spec;
        let shift = rings.entries.trailing_zeros();
        abi::QueueRef {
            sq: rings.sq,
            cq: rings.cq,
            sq_doorbell: rings.sq_doorbell,
            cq_doorbell: rings.cq_doorbell,
            state: element::<abi::QueueState>(self.states.address(), slot),
            words: element::<u32>(self.words.address(), slot * spec.layout.words()),
            host: self.pages.address(slot),
            quarantine: self.pages.quarantine_address(slot),
            timeout_ns: spec.timeout.as_nanos() as u64,
            sq_shift: shift,
            cq_shift: shift,
            ring_shift: 5,
            cq_doorbell_batch: (rings.entries / 4).clamp(1, 32),
            local_bits: spec.layout.local_bits,
            token_shift: spec.layout.token_shift,
            warp_slots: spec.layout.warp_slots,
            qid: rings.qid.into(),
            epoch,
            sharing: spec.sharing.code(),
            flags: flags(spec, rings) | if self.flush.is_some() { abi::QUEUE_FLUSH } else { 0 },
            ..abi::QueueRef::new()
        }
    }

    /// Not by a fill: on a GPU that would be a kernel, which waits for those that run.
    fn clear_words(&self, slot: usize) -> Result<(), Error> {
        let bytes = self.spec.layout.words() * size_of::<u32>();
        self.words.write(slot * bytes, &vec![0; bytes])
    }

    /// From the next launch on, queue `index` is the one in this slot.
    pub(crate) fn name(&self, index: usize, slot: usize) -> Result<(), Error> {
        put(&self.refs, index, &self.entry(slot)?)
    }

    /// Queues.
    fn queues(&self) -> usize {
        self.spec.layout.queues as usize
    }

    /// Slots of queue `index`.
    pub(crate) fn slots_of(&self, index: usize) -> impl Iterator<Item = usize> + use<> {
        (index..self.slots).step_by(self.queues())
    }

    /// The reference of the queue in a slot.
    pub(crate) fn entry(&self, slot: usize) -> Result<abi::QueueRef, Error> {
        get(&self.refs, self.queues() + slot)
    }

    /// Where kernels find it.
    pub(crate) fn entry_address(&self, slot: usize) -> u64 {
        element::<abi::QueueRef>(self.refs.address(), self.queues() + slot)
    }

    /// The references of all queues.
    pub(crate) fn references(&self) -> &KernelMemory {
        &self.refs
    }

    /// What the host shares with kernels.
    pub(crate) fn pages(&self) -> &HostPages {
        &self.pages
    }

    /// Who uses a queue.
    pub(crate) fn sharing(&self) -> Sharing {
        self.spec.sharing
    }

    /// One completion slot of the queue in a slot.
    pub(crate) fn word(&self, slot: usize, word: usize) -> Result<u32, Error> {
        let first = slot * self.spec.layout.words();
        self.words.load_u32((first + word) * size_of::<u32>())
    }

    /// The argument that names a namespace behind these queues, but for what only the namespace knows: `blocks`,
    /// `nsid`, `block_shift`, `max_blocks`, `zeroes_blocks`, `crdt` and `flags`.
    pub fn namespace(&self) -> abi::NamespaceRef {
        abi::NamespaceRef {
            queues: self.refs.address(),
            queue_count: self.spec.layout.queues,
            sharing: self.spec.sharing.code(),
            warps: self.spec.layout.warps,
            page_shift: 12,
            ..abi::NamespaceRef::unleased()
        }
    }

    /// The layout of warps, lanes and CIDs.
    pub fn layout(&self) -> CidLayout {
        self.spec.layout
    }

    /// The reference of queue `index`, for kernels that take one queue.
    pub fn queue(&self, index: usize) -> Result<abi::QueueRef, Error> {
        get(&self.refs, index)
    }

    /// What kernels counted on the queue in a slot.
    pub fn counters(&self, slot: usize) -> Result<QueueCounters, Error> {
        let state: abi::QueueState = look(&self.states, slot)?;
        let (ticket, head) = match self.spec.sharing {
            Sharing::Shared => (state.ticket & !(1 << 63), state.head),
            Sharing::Exclusive => (state.exclusive_tail, state.exclusive_head),
        };
        let sum = |lanes: [u32; LANES as usize]| lanes.into_iter().map(u64::from).sum();
        Ok(QueueCounters {
            ticket,
            head,
            spurious: sum(state.spurious),
            late: sum(state.late),
            sqhd_mismatch: state.sqhd_mismatch.into(),
        })
    }

    /// Commands on the queue in a slot whose completion no kernel has taken, quarantined ones among them: the controller
    /// may still use their buffers. Not exact while a kernel runs.
    pub fn pending(&self, slot: usize) -> Result<usize, Error> {
        let bytes = self.spec.layout.words() * size_of::<u32>();
        let mut words = vec![0; bytes];
        self.words.load(slot * bytes, &mut words)?;
        let words =
            words.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        Ok(words.filter(|word| word & abi::SLOT_PENDING != 0).count())
    }

    /// Declares the queue in a slot lost: kernels on it return `queue_lost` from now on.
    pub fn declare_lost(&self, slot: usize) {
        self.pages.set_state(slot, abi::QUEUE_LOST);
    }

    /// Whether a lane raised the alarm of the queue in a slot (quarantined a command) since the last call.
    pub fn take_alarm(&self, slot: usize) -> bool {
        self.pages.take_alarm(slot)
    }
}

fn first_state(start: u64, shadow: Option<ShadowAddresses>) -> abi::QueueState {
    let state = abi::QueueState::starting_at(start);
    match shadow {
        None => state,
        Some(shadow) => abi::QueueState {
            shadow: shadow.tail,
            events: shadow.event,
            shadow_stride: shadow.stride,
            ..state
        },
    }
}

fn flags(spec: &KernelQueuesSpec, rings: &RingAddresses) -> u32 {
    let shadow = if rings.shadow.is_some() { abi::QUEUE_SHADOW } else { 0 };
    let wide = if spec.wide_cids { abi::QUEUE_WIDE_CIDS } else { 0 };
    let in_order = if spec.in_order { abi::QUEUE_IN_ORDER } else { 0 };
    shadow | wide | in_order
}

/// The address of element `index` of an array of `T`.
fn element<T>(base: u64, index: usize) -> u64 {
    base + (index * size_of::<T>()) as u64
}

fn put<T: Plain>(memory: &KernelMemory, index: usize, value: &T) -> Result<(), Error> {
    memory.write(index * size_of::<T>(), bytes_of(value))
}

fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    value.as_bytes()
}

fn get<T: Plain>(memory: &KernelMemory, index: usize) -> Result<T, Error> {
    let mut value = T::new_zeroed();
    memory.read(index * size_of::<T>(), value.as_mut_bytes())?;
    Ok(value)
}

/// The same of a value that kernels may be writing.
fn look<T: Plain>(memory: &KernelMemory, index: usize) -> Result<T, Error> {
    let mut value = T::new_zeroed();
    memory.load(index * size_of::<T>(), value.as_mut_bytes())?;
    Ok(value)
}
