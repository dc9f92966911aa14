//! One SSD, and blocks of warps that make requests of it.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use warpbell::{AttachOptions, KernelMemory, Sharing};
use warpbell_hw::Device;
use warpbell_kernels::abi;
use warpbell_kernels::cpu::{Counters, Module};
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::several::Several;
use warpbell_sim::{TestVariant, cpu_launch_bytes};
use warpbell_softctl::{
    CompletionOrder, Fault, FaultAction, FaultPlan, NamespaceConfig, Selector, SoftConfig,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const MODES: [Sharing; 2] = [Sharing::Exclusive, Sharing::Shared];
pub const SEEDS: u64 = 4;
pub const BLOCK: u64 = 512;
/// Requests of a group, and their room in blocks.
pub const SLOTS: u64 = 96;
const MOST_BLOCKS: u64 = 5;
/// `io_batch<SLOTS>::storage`.
const STORAGE: u32 = SLOTS as u32 * 84 + 128;

/// `flags` of `batch_requests_test`.
pub const BY_WARP: u32 = 1;
pub const WITH_FLUSH: u32 = 2;
pub const WITH_RETRY: u32 = 4;
pub const REFUSED: u32 = 8;

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Args {
    ns: abi::NamespaceRef,
    buffer: abi::BufferRef,
    records: u64,
    notes: u64,
    seed: u64,
    timeout_ns: u64,
    submitters: u32,
    flags: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Record {
    pub answers: u32,
    pub status: u32,
    pub wrong: u32,
    /// Why it was not added.
    pub refused: u32,
    pub bytes: u64,
}

pub fn source() -> Variant {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/batch.cu");
    Variant::file(&source).expect("the kernel").quick()
}

pub static MODULE: LazyLock<Module> = LazyLock::new(|| source().loaded().expect("compiles"));

/// The seed of what blocks hold. No block has this number: its contents would be zero, as memory is that was
/// never read into.
pub const CONTENT: u64 = 29 << 32;

/// One fault, again and again.
pub fn only(action: FaultAction, selector: Selector) -> FaultPlan {
    FaultPlan::new().faults(vec![Fault::new(action, selector)])
}

/// A controller that executes commands in an order of its own, out of up to `window` that it holds back.
pub fn shuffled(blocks: u64, window: usize, faults: &FaultPlan, seed: u64) -> SoftConfig {
    SoftConfig::new()
        .namespaces(vec![NamespaceConfig::memory(blocks * BLOCK, BLOCK as u32)])
        .faults(faults.clone())
        .order(CompletionOrder::Shuffled { window })
        .volatile_cache(true)
        .seed(seed)
}

/// Queues for so many warps.
pub fn attached(sharing: Sharing, warps: u32, iodepth: u32, timeout: Duration) -> AttachOptions {
    let queues = if sharing == Sharing::Exclusive { warps } else { 1 };
    AttachOptions::new()
        .queues(queues)
        .warps(warps)
        .iodepth(iodepth)
        .sharing(sharing)
        .timeout(timeout)
        .recovery(false)
}

/// What is run, and on what.
#[derive(Clone, Debug)]
pub struct Setting {
    pub sharing: Sharing,
    /// Blocks of threads.
    pub grid: u32,
    pub threads: u32,
    /// Warps of a block that have a queue.
    pub submitters: u32,
    /// Blocks that a command moves at most.
    pub most: u32,
    pub flags: u32,
    pub iodepth: u32,
    pub faults: FaultPlan,
    pub timeout: Duration,
    /// The round after which the host gives the queues up.
    pub lost: Option<u64>,
}

impl Setting {
    pub fn new(sharing: Sharing, grid: u32, warps: u32) -> Setting {
        let (flags, iodepth, timeout) = (0, 63, Duration::from_millis(10));
        let (threads, submitters, faults) = (32 * warps, warps, FaultPlan::default());
        let (most, lost) = (64, None);
        Setting { sharing, grid, threads, submitters, most, flags, iodepth, faults, timeout, lost }
    }

    pub fn failing(self, action: FaultAction, selector: Selector) -> Setting {
        Setting { faults: only(action, selector), ..self }
    }

    fn by_warp(&self) -> bool {
        self.flags & BY_WARP != 0
    }

    /// Each has requests of its own.
    pub fn groups(&self) -> u32 {
        if self.by_warp() { self.grid * self.threads / 32 } else { self.grid }
    }

    /// Warps with a queue.
    pub fn sessions(&self) -> u32 {
        if self.by_warp() { self.groups() } else { self.grid * self.submitters }
    }

    /// Requests of a group, with their sizes in blocks: most of them have some.
    pub fn sizes() -> impl Iterator<Item = (u64, u64)> {
        (0..SLOTS).map(|slot| (slot, if slot % 7 == 6 { 0 } else { 1 + slot % MOST_BLOCKS }))
    }

    /// Commands that all requests of a group take.
    pub fn commands_of_group(&self) -> u64 {
        Setting::sizes().map(|(_, blocks)| blocks.div_ceil(u64::from(self.most))).sum()
    }

    /// The first block of a request.
    pub fn first_of(group: u64, slot: u64) -> u64 {
        (group * SLOTS + slot) * MOST_BLOCKS
    }

    fn blocks(&self) -> u64 {
        u64::from(self.groups()) * SLOTS * MOST_BLOCKS
    }
}

/// What came of a run.
pub struct Ran {
    /// Of the writes, and of the reads.
    pub records: [Vec<Record>; 2],
    /// What each thread was told of all requests.
    pub notes: [Vec<u32>; 2],
    pub counters: Counters,
    pub several: Several,
    pub took: Duration,
}

impl Setting {
    /// On a controller that completes commands in an order of its own.
    pub fn run(&self, module: &Module, seed: u64) -> anyhow::Result<Ran> {
        let several = self.open(seed)?;
        let queues = &several.queues[0];
        let target = queues.target();
        let zeroed = |bytes: usize| -> anyhow::Result<KernelMemory> {
            let memory = target.memory(bytes)?;
            memory.fill(0, memory.len(), 0)?;
            Ok(memory)
        };
        let per_phase = self.groups() as usize * SLOTS as usize;
        let threads = (self.grid * self.threads) as usize;
        let records = zeroed(2 * per_phase * size_of::<Record>())?;
        let notes = zeroed(2 * threads * 4)?;
        let buffer = queues.buffer((self.blocks() * BLOCK) as usize)?;
        let ns = queues.namespace();
        let args = Args {
            ns: abi::NamespaceRef { max_blocks: ns.max_blocks.min(self.most), ..ns },
            buffer: buffer.as_ref(),
            records: records.address(),
            notes: notes.address(),
            seed: CONTENT,
            timeout_ns: 0,
            submitters: self.submitters,
            flags: self.flags,
        };
        let storages = if self.by_warp() { self.threads / 32 } else { 1 };
        let launch = cpu_launch_bytes(module, "batch_requests_test", args.as_bytes())?;
        let launch = launch.grid(self.grid).block(self.threads).shared_bytes(storages * STORAGE);
        let start = several.softs[0].clock().now();
        let lose = |round| several.lose(self.lost == Some(round));
        let counters = several.run(launch.hooks(several.hooks()?), seed, lose)?;
        let took = several.softs[0].clock().now() - start;
        let mut found = [vec![Record::default(); per_phase], vec![Record::default(); per_phase]];
        let mut told = [vec![0u32; threads], vec![0u32; threads]];
        for phase in 0..2 {
            records.read(phase * per_phase * size_of::<Record>(), found[phase].as_mut_bytes())?;
            notes.read(phase * threads * 4, told[phase].as_mut_bytes())?;
        }
        Ok(Ran { records: found, notes: told, counters, several, took })
    }

    pub fn open(&self, seed: u64) -> anyhow::Result<Several> {
        let (blocks, window, warps) = (self.blocks(), 4, self.sessions());
        let options = attached(self.sharing, warps, self.iodepth, self.timeout);
        Several::new(vec![(shuffled(blocks, window, &self.faults, seed), options)])
    }
}

impl Ran {
    /// What each request was answered, with its group, its slot, and its size in blocks.
    pub fn answers(&self, phase: usize) -> impl Iterator<Item = (u64, u64, u64, Record)> {
        let of_group = self.records[phase].chunks(SLOTS as usize).enumerate();
        of_group.flat_map(|(group, records)| {
            let each = Setting::sizes().zip(records);
            each.map(move |((slot, blocks), record)| (group as u64, slot, blocks, *record))
        })
    }

    /// Each request was answered well, to every thread, and no answer came from elsewhere.
    pub fn check(&self) -> Result<(), String> {
        for phase in 0..2 {
            for (group, slot, blocks, record) in self.answers(phase) {
                let good = Record { answers: 1, bytes: blocks * BLOCK, ..Record::default() };
                if record != good {
                    return Err(format!("phase {phase}, group {group}, slot {slot}: {record:?}"));
                }
            }
            if let Some(told) = self.notes[phase].iter().find(|told| **told != 0) {
                return Err(format!("phase {phase}: a thread was told {told:#x} of all"));
            }
        }
        match self.several.violations().first() {
            Some(violation) => Err(violation.clone()),
            None => Ok(()),
        }
    }

    /// Commands with data that the controller executed.
    pub fn commands(&self) -> u64 {
        self.counters.sqes
    }
}
