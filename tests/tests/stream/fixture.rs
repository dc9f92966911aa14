//! One SSD, and blocks of warps that stream tiles of it.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use warpbell::{AttachOptions, KernelMemory, Sharing, Tile, TileSchedule, TileSpec, TraceSpec};
use warpbell_hw::{Device, Lba, Nsid};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::{Launch, Module};
use warpbell_kernels::toolchain::Variant;
use warpbell_nvme::NvmOpcode;
use warpbell_sim::several::Several;
use warpbell_sim::{TestVariant, cpu_launch_bytes};
use warpbell_softctl::{CompletionOrder, FaultPlan, NamespaceConfig, SoftConfig};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const MODES: [Sharing; 2] = [Sharing::Exclusive, Sharing::Shared];
pub const SEEDS: u64 = 3;
pub const BLOCK: u32 = 512;
pub const BLOCKS: u64 = 512;
/// Of what blocks hold.
const SEED: u64 = 1;
/// Blocks of a tile in most tests.
pub const TILE: u32 = 6;

/// `flags` of `stream_test`.
pub const BY_VERBS: u32 = 1;
pub const WAITS_AHEAD: u32 = 2;
pub const LEAVES_EARLY: u32 = 4;

/// `shape` of `stream_test`: slots and stages. From the sixth on they are by rules. The ninth has slots that are too small,
/// the next two have steps that no host would make, and the last has a ring that is too small.
#[rustfmt::skip]
pub const SHAPES: [(u32, u32, u32); 12] = [
    (1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 2), (5, 3, 2), (6, 3, 2), (7, 2, 1), (8, 2, 2), (9, 2, 1), (10, 3, 3),
    (11, 3, 3), (12, 3, 3),
];

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Args {
    ns: abi::NamespaceRef,
    ring: abi::BufferRef,
    schedule: abi::ScheduleRef,
    records: u64,
    notes: u64,
    seed: u64,
    compute_ns: u64,
    timeout_ns: u64,
    shape: u32,
    flags: u32,
}

/// What became of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Record {
    pub begin_ns: u64,
    pub end_ns: u64,
    pub tile: u64,
    /// Warps that had it.
    pub answers: u32,
    pub status: u32,
    pub wrong: u32,
    pad: u32,
}

/// What became of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Note {
    pub told: u32,
    pub loads: u32,
    pub reuses: u32,
    pub refused: u32,
    /// Of the loads that nobody waited for.
    pub left: u32,
    pad: u32,
}

pub fn source() -> Variant {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/stream.cu");
    Variant::file(&source).expect("the kernel").quick()
}

pub static MODULE: LazyLock<Module> = LazyLock::new(|| source().loaded().expect("compiles"));

/// Tiles of one row, used in this order.
pub fn order(numbers: &[u64]) -> Vec<Tile> {
    numbers.iter().map(|number| Tile::linear(*number, Lba(number * u64::from(TILE)), TILE)).collect()
}

pub fn schedule(tiles: &[Tile], slots: u32, ahead: u32) -> TileSchedule {
    TileSchedule::new(tiles, TileSpec::new(BLOCK).slots(slots).ahead(ahead)).expect("a schedule")
}

/// What is run, and on what.
#[derive(Clone, Debug)]
pub struct Setting {
    pub sharing: Sharing,
    /// Of `SHAPES`.
    pub shape: u32,
    pub grid: u32,
    pub warps: u32,
    /// Command ids of a lane.
    pub tokens: u32,
    pub schedule: TileSchedule,
    pub flags: u32,
    /// Blocks that a command moves at most.
    pub most: u32,
    pub compute: Duration,
    pub timeout: Duration,
    pub config: SoftConfig,
    pub traced: bool,
}

/// What came of a run.
pub struct Ran {
    /// Of each block of threads.
    pub records: Vec<Vec<Record>>,
    pub notes: Vec<Note>,
    pub several: Several,
    pub took: Duration,
    /// Commands that read.
    pub reads: u64,
    /// When reads were submitted, with their first block.
    pub submitted: Vec<(u64, u64)>,
}

impl Setting {
    pub fn new(sharing: Sharing, shape: u32, schedule: TileSchedule) -> Setting {
        Setting {
            sharing,
            shape,
            grid: 1,
            warps: 2,
            tokens: 8,
            schedule,
            flags: 0,
            most: 64,
            compute: Duration::ZERO,
            timeout: Duration::from_millis(10),
            config: SoftConfig::new()
                .namespaces(vec![NamespaceConfig::memory(BLOCKS * u64::from(BLOCK), BLOCK)])
                .order(CompletionOrder::Shuffled { window: 3 }),
            traced: false,
        }
    }

    pub fn failing(mut self, faults: FaultPlan) -> Setting {
        self.config.faults = faults;
        self
    }

    pub fn stages(&self) -> u32 {
        SHAPES[self.shape as usize - 1].2
    }

    pub fn options(&self) -> AttachOptions {
        let warps = self.grid * self.warps;
        AttachOptions::new()
            .queues(if self.sharing == Sharing::Exclusive { warps } else { 1 })
            .warps(warps)
            .commands_per_lane(Some(self.tokens))
            .sharing(self.sharing)
            .timeout(self.timeout)
            .recovery(false)
            .trace(self.traced.then_some(TraceSpec::new(4096)))
    }

    fn launch(&self, module: &Module, several: &Several, memory: &Memory) -> anyhow::Result<Launch> {
        let queues = &several.queues[0];
        let ring = queues.buffer(self.schedule.ring_bytes() * self.grid as usize)?;
        let list = self.schedule.list(queues.target())?;
        let ns = queues.namespace();
        let args = Args {
            ns: abi::NamespaceRef { max_blocks: ns.max_blocks.min(self.most), ..ns },
            ring: ring.as_ref(),
            schedule: list.as_ref(),
            records: memory.records.address(),
            notes: memory.notes.address(),
            seed: SEED,
            compute_ns: self.compute.as_nanos() as u64,
            timeout_ns: 0,
            shape: self.shape,
            flags: self.flags,
        };
        let launch = cpu_launch_bytes(module, "stream_test", args.as_bytes())?;
        memory.keep.borrow_mut().push(Box::new((ring, list)));
        let shared = self.schedule.shared_bytes(self.stages());
        let launch = launch.grid(self.grid).block(32 * self.warps).shared_bytes(shared);
        Ok(launch.hooks(several.hooks()?))
    }

    /// Under the schedule of threads that the seed draws.
    pub fn run(&self, module: &Module, seed: u64) -> anyhow::Result<Ran> {
        let config = self.config.clone().seed(seed);
        self.run_by(module, config, |several, launch| several.run(launch, seed, |_| ()).map(|_| ()))
    }

    /// By whoever lets time pass.
    pub fn run_by(
        &self,
        module: &Module,
        config: SoftConfig,
        run: impl FnOnce(&Several, Launch) -> anyhow::Result<()>,
    ) -> anyhow::Result<Ran> {
        let several = Several::new(vec![(config, self.options())])?;
        for lba in 0..BLOCKS {
            several.softs[0].poke(Nsid(1), Lba(lba), &content(lba))?;
        }
        let memory = Memory::new(&several, self)?;
        let launch = self.launch(module, &several, &memory)?;
        let (start, before) = (several.softs[0].clock().now(), reads(&several));
        run(&several, launch)?;
        let took = several.softs[0].clock().now() - start;
        let submitted = submissions(&several)?;
        let (records, notes) = memory.read(self)?;
        let reads = reads(&several) - before;
        Ok(Ran { records, notes, several, took, reads, submitted })
    }
}

/// What a kernel writes, and what must live as long as it runs.
struct Memory {
    records: KernelMemory,
    notes: KernelMemory,
    keep: std::cell::RefCell<Vec<Box<dyn std::any::Any>>>,
}

impl Memory {
    fn new(several: &Several, setting: &Setting) -> anyhow::Result<Memory> {
        let zeroed = |count: usize, each: usize| -> anyhow::Result<KernelMemory> {
            let memory = several.queues[0].target().memory(count * each)?;
            memory.fill(0, memory.len(), 0)?;
            Ok(memory)
        };
        let steps = setting.schedule.steps().len() * setting.grid as usize;
        Ok(Memory {
            records: zeroed(steps, size_of::<Record>())?,
            notes: zeroed(setting.grid as usize, size_of::<Note>())?,
            keep: Default::default(),
        })
    }

    fn read(&self, setting: &Setting) -> anyhow::Result<(Vec<Vec<Record>>, Vec<Note>)> {
        let steps = setting.schedule.steps().len();
        let mut records = vec![Record::default(); steps * setting.grid as usize];
        let mut notes = vec![Note::default(); setting.grid as usize];
        self.records.read(0, records.as_mut_slice().as_mut_bytes())?;
        self.notes.read(0, notes.as_mut_slice().as_mut_bytes())?;
        Ok((records.chunks(steps).map(<[Record]>::to_vec).collect(), notes))
    }
}

fn reads(several: &Several) -> u64 {
    several.softs[0].statistics().commands(NvmOpcode::READ)
}

fn submissions(several: &Several) -> anyhow::Result<Vec<(u64, u64)>> {
    let Some(trace) = several.queues[0].queues().trace() else { return Ok(Vec::new()) };
    let lanes = trace.read()?;
    let events = lanes.iter().flat_map(|lane| &lane.events);
    let submits = events.filter(|event| event.what & 0xff == abi::TRACE_SUBMIT);
    Ok(submits.map(|event| (event.clock_ns, event.value)).collect())
}

/// What a block holds, as `stream_test` expects it.
fn content(lba: u64) -> Vec<u8> {
    let word = |word: u64| {
        let mixed = (SEED + lba)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(word.wrapping_mul(0xbf58_476d_1ce4_e5b9));
        mixed ^ mixed >> 29
    };
    (0..u64::from(BLOCK) / 8).flat_map(|at| word(at).to_le_bytes()).collect()
}

impl Ran {
    /// Every step came once to every warp, in its order, with its data.
    pub fn check(&self, setting: &Setting) -> Result<(), String> {
        let warps = if setting.shape == 5 { 1 } else { setting.warps };
        for (block, records) in self.records.iter().enumerate() {
            for (at, (record, step)) in records.iter().zip(setting.schedule.steps()).enumerate() {
                let right = Record { tile: step.tile, answers: warps, ..Record::default() };
                let found = Record { begin_ns: 0, end_ns: 0, ..*record };
                if found.wrong != 0 {
                    return Err(format!("block {block}, step {at}: {} wrong words", found.wrong));
                }
                if found != right {
                    return Err(format!("block {block}, step {at}: {found:?}"));
                }
            }
            let note = self.notes[block];
            let report = setting.schedule.report();
            let right =
                Note { loads: report.loads as u32, reuses: (report.steps - report.loads) as u32, ..note };
            if note != right || [note.told, note.refused, note.left] != [0; 3] {
                return Err(format!("block {block} was told {note:?}"));
            }
        }
        match self.several.violations().first() {
            Some(violation) => Err(violation.clone()),
            None => Ok(()),
        }
    }
}
