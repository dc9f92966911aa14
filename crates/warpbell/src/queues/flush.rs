//! What kernels read before they deliver, where completions and data lie in different memory.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpbell_gpu::routes;
use warpbell_hw::{BASE_PAGE, Device, DoorbellPath, PoolPart, Window};
use warpbell_kernels::cpu::Hooks;
use warpbell_nvme::register::offset;

use crate::order::{OrderPolicy, OrderRefusal, Reaper};
use crate::queues::memory::Memory;
use crate::{DataPlacement, Error, OpenTarget, SharedMemory};

/// The register, and a word of the memory that data lies in where one is read too; kernels reach both as long as this
/// lives.
#[derive(Clone, Debug)]
pub(crate) struct FlushMapping {
    page: Page,
    data: Data,
}

/// The page of the registers.
#[derive(Clone)]
enum Page {
    /// Memory.
    Mapped(SharedMemory),
    /// Each access is a call. Kernels on the CPU have the addresses of this memory for it, which the hooks of their launch
    /// tell from memory; without hooks they find all ones there, as where no controller answers.
    Calls(SharedMemory, Arc<dyn Device>),
}

/// What is read after the register.
#[derive(Clone, Debug)]
enum Data {
    /// Nothing: data lies in the reader's own memory.
    Nothing,
    /// A word of the foreign memory.
    Word {
        memory: SharedMemory,
        /// Keeps the place from buffers.
        _part: Arc<PoolPart>,
    },
    /// A word of host memory, of which each queue's page is a part.
    Host,
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Page::Mapped(_) => "Mapped",
            Page::Calls(..) => "Calls",
        })
    }
}

impl FlushMapping {
    /// What keeps the order of completions and data of `source` for kernels of `target`, and what they read for it. An
    /// error where nothing does.
    pub(crate) fn new(
        source: &Memory,
        target: &OpenTarget,
    ) -> Result<(OrderPolicy, Option<FlushMapping>), Error> {
        let (rings, data) = (source.ring_placement(), source.data());
        let reaper = target.gpu().map_or(Reaper::Cpu, |gpu| Reaper::Gpu(gpu.write_ordering()));
        let policy = source.order(reaper, true);
        let OrderPolicy::Flush { data: reads_data } = policy else {
            // Memory that these kernels do not reach is refused by name where they ask for a part of it.
            let unreachable = policy == OrderPolicy::Refused(OrderRefusal::Unreachable);
            return Ok((if unreachable { policy } else { policy.require(rings, data)? }, None));
        };
        let device = source.controller().device();
        let page = match Page::new(target, device) {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "registers of {} for kernels", device.info().name);
                return Err(source.order(reaper, false).require(rings, data).err().unwrap_or(error));
            }
        };
        let data = match (reads_data, data) {
            (false, _) => Data::Nothing,
            (true, DataPlacement::Foreign(memory)) => {
                // A part that no buffer lies in: registered with a GPU it must not overlap one.
                let part = memory.take(BASE_PAGE)?;
                // All ones is what is read where nobody answers.
                part.window().store_u32(0, 0, Ordering::Relaxed);
                Data::Word { memory: target.share(part.window().clone())?, _part: Arc::new(part) }
            }
            (true, _) => Data::Host,
        };
        Ok((policy, Some(FlushMapping { page, data })))
    }

    /// Refuses registers of a BAR where kernels do not store to it themselves: nothing shows then that they reach it, and
    /// a register that nobody answers for would hold back every completion.
    pub(crate) fn require_proven(&self, source: &Memory, doorbells: DoorbellPath) -> Result<(), Error> {
        let in_a_bar = match &self.page {
            Page::Mapped(memory) => !memory.window().memory().is_ordinary(),
            Page::Calls(..) => false,
        };
        if !in_a_bar || doorbells == DoorbellPath::Mapped {
            return Ok(());
        }
        OrderPolicy::Refused(OrderRefusal::Registers)
            .require(source.ring_placement(), source.data())
            .map(drop)
    }

    /// The address of the register: CSTS, which can be read at any time and changes by no read.
    pub(crate) fn register(&self) -> u64 {
        self.page.memory().address() + u64::from(offset::CSTS)
    }

    /// The address of the word, of a queue whose page lies at `host`; 0: none.
    pub(crate) fn data(&self, host: u64) -> u64 {
        match &self.data {
            Data::Nothing => 0,
            Data::Word { memory, .. } => memory.address(),
            Data::Host => host,
        }
    }

    /// Where kernels find it, by way of PCIe.
    pub(crate) fn range(&self) -> Range<u64> {
        self.page.memory().range()
    }

    /// With the calls by which kernels on the CPU read registers that are not memory.
    pub(crate) fn hooks(&self, hooks: Hooks) -> Hooks {
        match &self.page {
            Page::Mapped(_) => hooks,
            Page::Calls(memory, device) => {
                let device = device.clone();
                let read = move |at: usize| device.registers().read32(at as u32);
                hooks.registers(memory.address(), memory.window().len(), read)
            }
        }
    }
}

impl Page {
    fn new(target: &OpenTarget, device: &Arc<dyn Device>) -> Result<Page, Error> {
        if let Some(gpu) = target.gpu() {
            return Ok(Page::Mapped(SharedMemory::registered(routes::registers(gpu, device.as_ref())?)));
        }
        if let Some(page) = device.register_page() {
            return Ok(Page::Mapped(target.share(page)?));
        }
        let memory = Window::host(BASE_PAGE)?;
        memory.fill(0, memory.len(), 0xff)?;
        Ok(Page::Calls(target.share(memory)?, device.clone()))
    }

    fn memory(&self) -> &SharedMemory {
        match self {
            Page::Mapped(memory) | Page::Calls(memory, _) => memory,
        }
    }
}
