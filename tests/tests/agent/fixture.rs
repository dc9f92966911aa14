//! One SSD, agents with a queue each or one for all, compute warps with a request queue each.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use warpbell::{AttachOptions, Buffer, KernelMemory, SharedMemory, Sharing};
use warpbell_hw::{Device, Lba, Nsid};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::{Counters, Module};
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::{TestVariant, several::Several};
use warpbell_softctl::{FaultPlan, NamespaceConfig, SoftConfig};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::watch::Watch;
use warpbell_sim::cpu_launch_bytes;

pub const SEEDS: u64 = 8;
pub const BLOCK: u64 = 512;
/// Requests of a client lane, as the kernel has them.
pub const SLOTS: u64 = 2;
/// `request_queue<SLOTS>`.
pub const QUEUE_BYTES: u64 = (1 + 9 * SLOTS) * 128;
pub const POSTED: u32 = 1 << 31;
pub const ANSWERED: u32 = 1 << 30;

/// `flags` of `agent_test`.
pub const BY_HALF: u32 = 1;
pub const TWO_AT_ONCE: u32 = 2;
pub const GOES_AT_ONCE: u32 = 4;
pub const BACKS_OFF: u32 = 8;
pub const STAYS: u32 = 16;
pub const BY_OPCODE: u32 = 32;
pub const PAUSES: u32 = 64;

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct AgentArgs {
    ns: abi::NamespaceRef,
    buffer: abi::BufferRef,
    request_queues: u64,
    placed: u64,
    records: u64,
    reports: u64,
    stop: u64,
    timeout_ns: u64,
    seed: u64,
    agents: u32,
    compute: u32,
    rounds: u32,
    flags: u32,
}

/// What a compute lane noted of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Record {
    pub answers: u32,
    pub wrote: u32,
    pub read: u32,
    pub wrong: u32,
}

/// What an agent's lane did.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Report {
    pub requests: u32,
    pub batches: u32,
    pub refused: u32,
}

pub fn source() -> Variant {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/agent.cu");
    Variant::file(&source).expect("the kernel").quick()
}

pub static MODULE: LazyLock<Module> = LazyLock::new(|| source().loaded().expect("compiles"));

#[derive(Clone, Debug)]
pub struct Setting {
    pub sharing: Sharing,
    pub agents: u32,
    pub compute: u32,
    pub rounds: u32,
    pub flags: u32,
    /// Request queues in the memory of one block of all warps, else in the device's.
    pub in_block: bool,
    pub faults: FaultPlan,
    /// Of the clients; zero: a long one.
    pub timeout: Duration,
}

impl Setting {
    pub fn new(sharing: Sharing, agents: u32, compute: u32) -> Setting {
        let (faults, timeout) = (FaultPlan::default(), Duration::ZERO);
        Setting { sharing, agents, compute, rounds: 2, flags: 0, in_block: false, faults, timeout }
    }

    pub fn blocks(&self) -> u64 {
        u64::from(self.compute * 32 * self.rounds)
    }
}

pub struct Fixture {
    pub setting: Setting,
    pub several: Several,
    pub stop: SharedMemory,
    buffer: Buffer,
    request_queues: KernelMemory,
    /// Where the request_queues of a run lie, as a number.
    placed: KernelMemory,
    records: KernelMemory,
    reports: KernelMemory,
}

pub struct Ran {
    pub records: Vec<Record>,
    pub reports: Vec<Report>,
    pub counters: Counters,
    /// What the monitor saw, and what the controller did.
    pub breaches: Vec<String>,
    /// Words of all request_queues in the device's memory.
    pub words: Vec<u32>,
}

impl Ran {
    /// Requests that agents submitted.
    pub fn requests(&self) -> u64 {
        self.reports.iter().map(|report| u64::from(report.requests)).sum()
    }

    /// Whether each lane's blocks went there and back.
    pub fn is_good(&self) -> bool {
        let good = Record { answers: 1, ..Record::default() };
        self.records.iter().all(|record| *record == good) && self.breaches.is_empty()
    }

    /// What is wrong, for messages.
    pub fn story(&self) -> String {
        let bad =
            self.records.iter().position(|record| (record.wrote, record.read, record.wrong) != (0, 0, 0));
        let bad = bad.map(|at| (at, self.records[at]));
        format!("first bad block {bad:?}; {:?}", &self.breaches[..self.breaches.len().min(5)])
    }
}

impl Fixture {
    pub fn new(setting: &Setting) -> Fixture {
        let config = SoftConfig::new()
            .namespaces(vec![NamespaceConfig::memory(setting.blocks() * BLOCK, BLOCK as u32)])
            .faults(setting.faults.clone());
        let exclusive = setting.sharing == Sharing::Exclusive;
        let options = AttachOptions::new()
            .queues(if exclusive { setting.agents } else { 1 })
            .warps(setting.agents)
            .sharing(setting.sharing)
            .timeout(Duration::from_millis(10));
        let several = Several::new(vec![(config, options)]).expect("an SSD");
        let target = several.queues[0].target();
        let lanes = setting.compute as usize * 32;
        let memory = |bytes: usize| {
            let memory = target.memory(bytes).expect("memory");
            memory.fill(0, memory.len(), 0).expect("zeroed");
            memory
        };
        Fixture {
            buffer: several.queues[0].buffer(setting.blocks() as usize * BLOCK as usize).expect("a buffer"),
            request_queues: memory(setting.compute as usize * QUEUE_BYTES as usize),
            placed: memory(size_of::<u64>()),
            records: memory(lanes * setting.rounds as usize * size_of::<Record>()),
            reports: memory(setting.agents as usize * 32 * size_of::<Report>()),
            stop: target.shared(4).expect("memory"),
            setting: setting.clone(),
            several,
        }
    }

    pub fn run(&self, module: &Module, seed: u64, host: impl FnMut(u64)) -> anyhow::Result<Ran> {
        let setting = &self.setting;
        let queues = &self.several.queues[0];
        let request_queues = if setting.in_block { 0 } else { self.request_queues.address() };
        self.placed.write(0, request_queues.as_bytes())?;
        let args = AgentArgs {
            ns: queues.namespace(),
            buffer: self.buffer.as_ref(),
            request_queues,
            placed: self.placed.address(),
            records: self.records.address(),
            reports: self.reports.address(),
            stop: if setting.flags & STAYS != 0 || setting.rounds > 50 { self.stop.address() } else { 0 },
            timeout_ns: setting.timeout.as_nanos() as u64,
            seed: 11,
            agents: setting.agents,
            compute: setting.compute,
            rounds: setting.rounds,
            flags: setting.flags,
        };
        let of_queues =
            (0..queues.pairs().len()).map(|at| queues.queue(at)).collect::<Result<Vec<_>, _>>()?;
        let bytes = u64::from(setting.compute) * QUEUE_BYTES;
        let watch = Watch::new(setting.agents, self.placed.address(), bytes, &of_queues);
        let watch = Arc::new(Mutex::new(watch));
        let seen = watch.clone();
        let hooks = self.several.hooks()?.memory(move |event| seen.lock().look(event));
        let warps = setting.agents + setting.compute;
        let launch = cpu_launch_bytes(module, "agent_test", args.as_bytes())?.hooks(hooks);
        let launch = if setting.in_block {
            launch.block(32 * warps).shared_bytes(setting.compute * QUEUE_BYTES as u32).observe_shared(true)
        } else {
            launch.grid(warps)
        };
        let counters = self.several.run(launch, seed, host)?;
        let mut breaches = watch.lock().breaches.clone();
        breaches.extend(self.several.violations());
        let mut words = vec![0u32; self.request_queues.len() / 4];
        self.request_queues.read(0, words.as_mut_bytes())?;
        let per_queue = QUEUE_BYTES as usize / 4;
        let words = words.chunks(per_queue).take(setting.compute as usize);
        let words = words.flat_map(|each| each[..SLOTS as usize * 32].to_vec()).collect();
        let mut records = vec![Record::default(); setting.blocks() as usize];
        self.records.read(0, records.as_mut_bytes())?;
        let mut reports = vec![Report::default(); setting.agents as usize * 32];
        self.reports.read(0, reports.as_mut_bytes())?;
        Ok(Ran { records, reports, counters, breaches, words })
    }

    /// What lies on the SSD, as the first word of each block; and what should.
    pub fn stored(&self) -> Vec<(u64, u64)> {
        let mut bytes = vec![0; BLOCK as usize];
        let content = |block: u64| (11 + block).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..self.setting.blocks())
            .map(|block| {
                self.several.softs[0].peek(Nsid(1), Lba(block), &mut bytes).expect("a block");
                (u64::from_le_bytes(bytes[..8].try_into().expect("a word")), content(block))
            })
            .collect()
    }

    /// Whether each block lies on the SSD whose write was answered well.
    pub fn has_what_was_written(&self, ran: &Ran) -> bool {
        let rounds = self.setting.rounds as usize;
        self.stored().into_iter().enumerate().all(|(block, (found, expected))| {
            let (lane, turn) = (block % 32, block / 32);
            let record = ran.records[(turn / rounds * 32 + lane) * rounds + turn % rounds];
            record.wrote != 0 || found == expected
        })
    }

    /// Virtual time.
    pub fn now(&self) -> Duration {
        self.several.softs[0].clock().now()
    }
}
