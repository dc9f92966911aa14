//! One SSD, and warps that make asynchronous requests of it, each of its own blocks.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use warpbell::Sharing;
use warpbell_base::mix64;
use warpbell_hw::{Device, Lba, Nsid};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::{Counters, Module};
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::several::Several;
use warpbell_sim::{TestVariant, cpu_launch_bytes};
use warpbell_softctl::{CompletionOrder, FaultAction, FaultPlan, OptionalCommands, Selector};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use crate::fixture::BLOCK;
use crate::fixture::{CONTENT, attached, only, shuffled};

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Args {
    ns: abi::NamespaceRef,
    buffer: abi::BufferRef,
    records: u64,
    seed: u64,
    timeout_ns: u64,
    mode: u32,
    blocks: u32,
    rounds: u32,
    pad: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Record {
    pub answers: u32,
    pub status: u32,
    pub wrong: u32,
    pub pad: u32,
    pub bytes: u64,
}

pub fn source() -> Variant {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/requests.cu");
    Variant::file(&source).expect("the kernel").quick()
}

pub static PIECES: LazyLock<Module> = LazyLock::new(|| source().loaded().expect("compiles"));

/// What is run, and on what.
#[derive(Clone, Debug)]
pub struct Work {
    pub sharing: Sharing,
    pub kernel: &'static str,
    pub mode: u32,
    pub warps: u32,
    /// Of a lane.
    pub blocks: u32,
    /// Records of a lane.
    pub rounds: u32,
    /// Blocks that a command moves at most.
    pub most: u32,
    pub iodepth: u32,
    /// The controller completes commands in the order of submission, in whatever order it executes them.
    pub in_order: bool,
    /// Identifiers of a lane.
    pub tokens: u32,
    pub optional: OptionalCommands,
    pub faults: FaultPlan,
    pub timeout: Duration,
    /// The round after which the host gives the queues up.
    pub lost: Option<u64>,
}

pub struct Done {
    pub work: Work,
    /// By warp, round and lane.
    pub records: Vec<Record>,
    pub counters: Counters,
    pub several: Several,
    pub took: Duration,
}

impl Work {
    pub fn new(sharing: Sharing, kernel: &'static str, mode: u32) -> Work {
        let (warps, blocks, rounds, most, iodepth) = (2, 8, 2, 64, 63);
        let (faults, timeout) = (FaultPlan::default(), Duration::from_millis(10));
        let (tokens, in_order, lost, optional) = (4, false, None, OptionalCommands::new());
        Work {
            sharing,
            kernel,
            mode,
            warps,
            blocks,
            rounds,
            most,
            iodepth,
            tokens,
            in_order,
            optional,
            faults,
            timeout,
            lost,
        }
    }

    pub fn failing(self, action: FaultAction, selector: Selector) -> Work {
        Work { faults: only(action, selector), ..self }
    }

    pub fn content(block: u64) -> u64 {
        mix64(CONTENT ^ block)
    }

    fn all_blocks(&self) -> u64 {
        u64::from(self.warps * self.blocks) * 32
    }

    /// On a controller that executes commands in an order of its own.
    pub fn run(&self, module: &Module, seed: u64) -> Result<Done, String> {
        self.try_run(module, seed).map_err(|error| format!("seed {seed}: {error:#}"))
    }

    fn try_run(&self, module: &Module, seed: u64) -> anyhow::Result<Done> {
        let several = self.open(seed)?;
        for block in 0..self.all_blocks() {
            let mut bytes = vec![0; BLOCK as usize];
            bytes[..8].copy_from_slice(&Work::content(block).to_le_bytes());
            several.softs[0].poke(Nsid(1), Lba(block), &bytes)?;
        }
        let queues = &several.queues[0];
        let mut records = vec![Record::default(); (self.warps * self.rounds) as usize * 32];
        let memory = queues.target().memory(size_of_val(&records[..]))?;
        memory.fill(0, memory.len(), 0)?;
        let buffer = queues.buffer((self.all_blocks() * BLOCK) as usize)?;
        let ns = queues.namespace();
        let args = Args {
            ns: abi::NamespaceRef { max_blocks: ns.max_blocks.min(self.most), ..ns },
            buffer: buffer.as_ref(),
            records: memory.address(),
            seed: CONTENT,
            timeout_ns: 0,
            mode: self.mode,
            blocks: self.blocks,
            rounds: self.rounds,
            pad: 0,
        };
        let launch = cpu_launch_bytes(module, self.kernel, args.as_bytes())?;
        let launch = launch.grid(self.warps).hooks(several.hooks()?);
        let start = several.softs[0].clock().now();
        let counters = several.run(launch, seed, |round| several.lose(self.lost == Some(round)))?;
        let took = several.softs[0].clock().now() - start;
        memory.read(0, records.as_mut_bytes())?;
        Ok(Done { work: self.clone(), records, counters, several, took })
    }

    fn open(&self, seed: u64) -> anyhow::Result<Several> {
        let (blocks, window, warps) = (self.all_blocks(), 16, self.warps);
        let options = attached(self.sharing, warps, self.iodepth, self.timeout);
        let options = options.commands_per_lane(Some(self.tokens));
        let mut config = shuffled(blocks, window, &self.faults, seed).optional(self.optional);
        if self.in_order {
            config.order = CompletionOrder::Submission { window };
        }
        Several::new(vec![(config, options)])
    }
}

impl Done {
    /// Each with its warp, round and lane.
    pub fn each(&self) -> impl Iterator<Item = (u32, u32, u32, Record)> {
        let rounds = self.work.rounds;
        let each = self.records.iter().zip(0u32..);
        each.map(move |(record, at)| (at / 32 / rounds, at / 32 % rounds, at % 32, *record))
    }

    /// All records are as they should be, and the controller found nothing wrong.
    pub fn expect(&self, expected: impl Fn(u32, u32, u32) -> Record) -> Result<(), String> {
        for (warp, round, lane, record) in self.each() {
            if record != expected(warp, round, lane) {
                return Err(format!("warp {warp}, round {round}, lane {lane}: {record:?}"));
            }
        }
        self.several.violations().first().map_or(Ok(()), |violation| Err(violation.clone()))
    }
}
