//! One warp, a stepped controller of 128 blocks, and a cache of it.

use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use warpbell::{
    AttachOptions, Attachment, DeviceName, KernelMemory, OpenOptions, PageCache, PageCacheSpec, SharedMemory,
    Sharing, Ssd, Target,
};
use warpbell_hw::{Lba, Nsid};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::simulation::Simulation;
use warpbell_sim::{Case, TestLaunch, cpu_launch_bytes};
use warpbell_softctl::{FaultPlan, SoftConfig};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const BLOCKS: u64 = 128;
const BLOCK: usize = 512;
const NOTES: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scene {
    Io,
    Refused,
    Dead,
    Lost,
    Array,
    Misuse,
}

/// What the host has done to the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum After {
    Running,
    /// Given up, with another in its place.
    Replaced,
    /// Given up, and nothing comes.
    Lost,
    /// Given up for good.
    Dead,
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Args {
    ns: abi::NamespaceRef,
    buffer: abi::BufferRef,
    cache: abi::CacheRef,
    pages: abi::BufferRef,
    notes: u64,
    first_byte: u64,
    elements: u64,
    scene: u32,
    by_thread: u32,
    flat: u32,
    element_bytes: u32,
    patience_ns: u64,
}

/// As in flat_calls.cuh.
#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Note {
    calls: u32,
    pad0: u32,
    statuses: [u32; NOTES],
    pub saw: [u64; NOTES],
}

impl Note {
    /// Statuses of the calls that were made.
    pub fn said(&self) -> &[u32] {
        &self.statuses[..self.calls as usize]
    }
}

/// What is done, by whom, and on what.
#[derive(Clone, Debug)]
pub struct Setting {
    scene: Scene,
    pub sharing: Sharing,
    pub by_thread: bool,
    seed: u64,
    flags: u32,
    most_blocks: u32,
    lease: Range<u64>,
    faults: FaultPlan,
    deadline: Duration,
    alive: bool,
    first_byte: u64,
    element_bytes: u32,
    after: After,
}

/// Both sharing modes, for a warp and for one thread, in order and on random schedules.
pub fn settings(scene: Scene) -> impl Iterator<Item = Setting> {
    let sharing = [Sharing::Exclusive, Sharing::Shared];
    let all = sharing.into_iter().flat_map(|sharing| [(sharing, false), (sharing, true)]);
    all.flat_map(move |(sharing, by_thread)| {
        [0, 7].map(|seed| Setting {
            scene,
            sharing,
            by_thread,
            seed,
            flags: 0,
            most_blocks: u32::MAX,
            lease: 0..u64::MAX,
            faults: FaultPlan::default(),
            deadline: Duration::from_secs(1),
            alive: true,
            first_byte: 0,
            element_bytes: 4,
            after: After::Running,
        })
    })
}

impl Setting {
    /// An exclusive queue has one thread of the warp.
    pub fn is_one_thread(&self) -> bool {
        self.by_thread && self.sharing == Sharing::Exclusive
    }

    pub fn flags(self, flags: u32) -> Setting {
        Setting { flags, ..self }
    }

    pub fn most_blocks(self, most_blocks: u32) -> Setting {
        Setting { most_blocks, ..self }
    }

    pub fn lease(self, lease: Range<u64>) -> Setting {
        Setting { lease, ..self }
    }

    pub fn faults(self, faults: FaultPlan) -> Setting {
        Setting { faults, ..self }
    }

    pub fn deadline(self, deadline: Duration) -> Setting {
        Setting { deadline, ..self }
    }

    pub fn dead(self) -> Setting {
        Setting { alive: false, ..self }
    }

    pub fn elements(self, first_byte: u64, element_bytes: u32) -> Setting {
        Setting { first_byte, element_bytes, ..self }
    }

    /// The queue is given up before the kernel begins.
    pub fn after(self, after: After) -> Setting {
        Setting { after, ..self }
    }

    fn case(&self) -> Case {
        let mut case = Case {
            seed: self.seed,
            sharing: self.sharing,
            entries: 256,
            commands: 4,
            async_depth: 4,
            deadline: self.deadline,
            ..Case::new("flat")
        };
        case.schedule.random = self.seed != 0;
        case
    }

    fn args(&self, ns: abi::NamespaceRef, buffer: abi::BufferRef, notes: &KernelMemory, flat: bool) -> Args {
        let ns = abi::NamespaceRef {
            flags: ns.flags | self.flags,
            max_blocks: ns.max_blocks.min(self.most_blocks),
            lease_first: ns.lease_first.max(self.lease.start),
            lease_end: ns.lease_end.min(self.lease.end),
            ..ns
        };
        Args {
            ns,
            buffer,
            cache: abi::CacheRef::new(),
            pages: buffer,
            notes: notes.address(),
            first_byte: self.first_byte,
            elements: (BLOCKS * BLOCK as u64 - self.first_byte) / u64::from(self.element_bytes),
            scene: self.scene as u32,
            by_thread: self.by_thread.into(),
            flat: flat.into(),
            element_bytes: self.element_bytes,
            patience_ns: self.deadline.as_nanos() as u64,
        }
    }
}

/// A status of the library's.
pub fn library(code: u32) -> u32 {
    abi::STATUS_LIBRARY | code
}

fn source() -> Variant {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/flat.cu");
    let calls = include_str!("../../kernels/flat_calls.cuh");
    Variant::file(&source).expect("the kernel").header("flat_calls.cuh", calls).quick()
}

pub static MODULE: LazyLock<Module> = LazyLock::new(|| source().load().expect("compiles"));

fn read_notes(memory: &KernelMemory) -> Vec<Note> {
    let mut notes = vec![Note { calls: 0, pad0: 0, statuses: [0; NOTES], saw: [0; NOTES] }; 32];
    memory.read(0, notes.as_mut_bytes()).expect("notes");
    notes
}

/// What came of a scene.
pub struct Played {
    pub notes: Vec<Note>,
    /// All blocks of the SSD, afterwards.
    pub blocks: Vec<u8>,
    pub commands: u64,
}

/// A scene, by the flat layer or by the C++ API, on a controller of its own.
pub fn play(setting: &Setting, flat: bool) -> Played {
    let case = setting.case();
    let config = SoftConfig { faults: setting.faults.clone(), ..case.soft_config() };
    let mut simulation = Simulation::with_config(&case, &MODULE, config).expect("a rig");
    let queues = &simulation.rig.attachment;
    let target = Target::Cpu.open().expect("the CPU");
    let notes = target.memory(32 * size_of::<Note>()).expect("memory");
    notes.fill(0, notes.len(), 0).expect("notes");
    let ns = queues.namespace();
    let spec = PageCacheSpec::new().page_bytes(BLOCK as u32).lines(16).deadline(setting.deadline);
    let cache = PageCache::new(&target, (BLOCKS, BLOCK as u32), &spec).expect("a cache");
    let pages = queues.buffer(cache.buffer_bytes()).expect("memory");
    let lost = (setting.after != After::Running).then(|| given_up(setting.after, queues));
    let refs = lost.as_ref().map_or(ns.queues, |(refs, _)| refs.address());
    let ns = abi::NamespaceRef { blocks: BLOCKS, queues: refs, ..ns };
    let args = Args {
        cache: cache.as_ref(),
        pages: pages.as_ref(),
        ..setting.args(ns, simulation.rig.buffer.as_ref(), &notes, flat)
    };
    let launch = cpu_launch_bytes(&MODULE, "flat_test", args.as_bytes()).expect("a launch");
    let outcome = simulation.run_launch(launch, |_, _| setting.alive).expect("a run");
    outcome.expect_right(&case);
    let soft = &simulation.rig.soft;
    let mut blocks = vec![0; BLOCKS as usize * BLOCK];
    soft.peek(Nsid(1), Lba(0), &mut blocks).expect("blocks");
    Played { notes: read_notes(&notes), blocks, commands: soft.statistics().total_commands() }
}

/// A queue that the host has given up, and its page. Kept for as long as kernels use them.
fn given_up(after: After, queues: &Attachment) -> (KernelMemory, SharedMemory) {
    let (target, queue) = (queues.target(), queues.queue(0).expect("a queue"));
    let page = target.shared(size_of::<abi::QueueHost>()).expect("memory");
    let state = if after == After::Dead { abi::QUEUE_DEAD } else { abi::QUEUE_LOST };
    let successor = if after == After::Replaced { queues.namespace().queues } else { 0 };
    let host = abi::QueueHost { state, successor, ..abi::QueueHost::new() };
    page.window().write(0, host.as_bytes()).expect("a page");
    let refs = target.memory(size_of::<abi::QueueRef>()).expect("memory");
    let lost = abi::QueueRef { host: page.address(), ..queue };
    refs.write(0, lost.as_bytes()).expect("a reference");
    (refs, page)
}

/// For how many of all statuses the flat layer says what the library says.
pub fn statuses_alike() -> u64 {
    let setting = settings(Scene::Io).next().expect("a setting");
    let name: DeviceName = "soft:size=64k".parse().expect("a device");
    let ssd = Ssd::open(&name, &OpenOptions::default()).expect("an SSD");
    let queues = ssd.attach(&AttachOptions::new()).expect("queues");
    let buffer = queues.buffer(BLOCK).expect("memory");
    let notes = queues.target().memory(size_of::<u64>()).expect("memory");
    notes.fill(0, notes.len(), 0).expect("notes");
    let args = setting.args(queues.namespace(), buffer.as_ref(), &notes, true);
    let launch = queues.launch_bytes(&(*MODULE).clone().into(), "flat_status_test", args.as_bytes());
    let launch = launch.expect("a launch").grid(65536 / 256).block(256);
    launch.start().and_then(|run| run.join()).expect("a run");
    let mut alike = 0u64;
    notes.read(0, alike.as_mut_bytes()).expect("memory");
    alike
}
