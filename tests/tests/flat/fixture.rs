//! One warp, a stepped controller of 128 blocks, and a cache of it.

use std::fmt;
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
use warpbell_sim::{Case, TestLaunch, TestVariant, cpu_launch_bytes, peek};
use warpbell_softctl::FaultPlan;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const BLOCKS: u64 = 128;
const BLOCK: usize = 512;
const NOTES: usize = 320;
/// As many lines as a cache has where a setting names no other.
const LINES: u32 = 16;
const LANES: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scene {
    Io,
    Refused,
    Dead,
    Lost,
    Array,
    Misuse,
    Pending,
    Late,
    Crowded,
    Pages,
    Page,
    Pinned,
    Commands,
    Any,
    Adds,
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
    timeout_ns: u64,
    patience_ns: u64,
}

/// As in flat_calls.cuh.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Note {
    calls: u32,
    pad0: u32,
    statuses: [u32; NOTES],
    pub saw: [u64; NOTES],
    took_ns: [u64; NOTES],
}

impl Note {
    const NONE: Note = Note { calls: 0, pad0: 0, statuses: [0; NOTES], saw: [0; NOTES], took_ns: [0; NOTES] };

    /// Statuses of the calls that were made.
    pub fn said(&self) -> &[u32] {
        &self.statuses[..self.calls as usize]
    }

    /// How long a call took.
    pub fn took(&self, call: usize) -> Duration {
        Duration::from_nanos(self.took_ns[call])
    }
}

/// What is the same of both. How long they took is so only nearly.
impl PartialEq for Note {
    fn eq(&self, other: &Note) -> bool {
        self.said() == other.said() && self.saw == other.saw
    }
}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = self.calls as usize;
        let pairs = self.said().iter().zip(&self.saw[..calls]);
        f.debug_list().entries(pairs.map(|(said, saw)| format!("{said:#x} {saw:#x}"))).finish()
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
    queue_timeout: Duration,
    timeout: Duration,
    patience: Option<Duration>,
    entries: u32,
    ids: u32,
    lines: u32,
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
            queue_timeout: Duration::from_secs(1),
            timeout: Duration::ZERO,
            patience: None,
            entries: 256,
            ids: 4,
            lines: LINES,
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

    pub fn queue_timeout(self, queue_timeout: Duration) -> Setting {
        Setting { queue_timeout, ..self }
    }

    /// Of each call, which names it.
    pub fn timeout(self, timeout: Duration) -> Setting {
        Setting { timeout, ..self }
    }

    /// For a successor, where it is not the queue's timeout.
    pub fn patience(self, patience: Duration) -> Setting {
        Setting { patience: Some(patience), ..self }
    }

    /// Entries of a ring, and command identifiers of a lane.
    pub fn ring(self, entries: u32, ids: u32) -> Setting {
        Setting { entries, ids, ..self }
    }

    pub fn lines(self, lines: u32) -> Setting {
        Setting { lines, ..self }
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
            entries: self.entries,
            tokens: self.ids,
            commands: 8,
            async_depth: 4,
            timeout: self.queue_timeout,
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
            timeout_ns: self.timeout.as_nanos() as u64,
            patience_ns: self.patience.unwrap_or(self.queue_timeout).as_nanos() as u64,
        }
    }
}

/// A status of the library's.
pub fn library(code: u32) -> u32 {
    abi::STATUS_LIBRARY | code
}

pub fn source() -> Variant {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/flat.cu");
    let headers = [
        ("flat_calls.cuh", include_str!("../../kernels/flat_calls.cuh")),
        ("flat_misuse.cuh", include_str!("../../kernels/flat_misuse.cuh")),
        ("flat_scenes.cuh", include_str!("../../kernels/flat_scenes.cuh")),
    ];
    let source = Variant::file(&source).expect("the kernel").quick();
    headers.into_iter().fold(source, |source, (name, text)| source.header(name, text))
}

pub static MODULE: LazyLock<Module> = LazyLock::new(|| source().loaded().expect("compiles"));

fn read_notes(memory: &KernelMemory) -> Vec<Note> {
    let mut notes = vec![Note::NONE; LANES];
    memory.read(0, notes.as_mut_bytes()).expect("notes");
    notes
}

/// What came of a scene.
pub struct Played {
    pub notes: Vec<Note>,
    /// All blocks of the SSD, afterwards.
    pub blocks: Vec<u8>,
    pub commands: u64,
    /// What the lanes have kept: hazard slots of queues, and pins of pages. Nothing is right.
    pub kept: String,
}

/// A scene, by the flat layer or by the C++ API, on a controller of its own.
pub fn play(setting: &Setting, flat: bool) -> Played {
    play_by(&MODULE, setting, flat)
}

/// The same by other kernels.
pub fn play_by(module: &Module, setting: &Setting, flat: bool) -> Played {
    let case = setting.case();
    let config = case.soft_config().faults(setting.faults.clone());
    let mut simulation = Simulation::with_config(&case, module, config).expect("a rig");
    let queues = &simulation.rig.attachment;
    let target = Target::Cpu.open().expect("the CPU");
    let notes = target.memory(LANES * size_of::<Note>()).expect("memory");
    notes.fill(0, notes.len(), 0).expect("notes");
    let ns = queues.namespace();
    let spec =
        PageCacheSpec::new().page_bytes(BLOCK as u32).lines(setting.lines).timeout(setting.queue_timeout);
    let cache = PageCache::new(&target, (BLOCKS, BLOCK as u32), &spec).expect("a cache");
    let pages = queues.buffer(cache.buffer_bytes()).expect("memory");
    let pairs = Pairs::new(setting.after, queues);
    let ns = abi::NamespaceRef { blocks: BLOCKS, queues: pairs.refs.address(), ..ns };
    let args = Args {
        cache: cache.as_ref(),
        pages: pages.as_ref(),
        ..setting.args(ns, simulation.rig.buffer.as_ref(), &notes, flat)
    };
    let launch = cpu_launch_bytes(module, "flat_test", args.as_bytes()).expect("a launch");
    let outcome = simulation.run_launch(launch, |_, _| setting.alive).expect("a run");
    outcome.expect_right(&case);
    let soft = &simulation.rig.soft;
    let mut blocks = vec![0; BLOCKS as usize * BLOCK];
    soft.peek(Nsid(1), Lba(0), &mut blocks).expect("blocks");
    Played {
        notes: read_notes(&notes),
        blocks,
        commands: soft.statistics().total_commands(),
        kept: pairs.kept() + &pinned(&cache),
    }
}

/// Lines that have pins, of which nobody knows any more.
fn pinned(cache: &PageCache) -> String {
    let (shape, mut text) = (cache.as_ref(), String::new());
    for line in 0..u64::from(shape.line_count) {
        let state: u64 = peek(shape.lines + line * size_of::<abi::CacheLine>() as u64);
        if state as u32 != 0 {
            text += &format!("line {line} has {} pins; ", state as u32);
        }
    }
    text
}

/// The queue that kernels are handed, and its successor, with the host's pages: of which we look at the hazard slots. Kept
/// for as long as kernels use them.
struct Pairs {
    refs: KernelMemory,
    pages: [SharedMemory; 2],
}

impl Pairs {
    /// The queue itself; or one that the host has given up, and behind it the queue in its place.
    fn new(after: After, queues: &Attachment) -> Pairs {
        let (target, queue) = (queues.target(), queues.queue(0).expect("a queue"));
        let bytes = HAZARDS as usize + 4 * LANES * queue.warp_slots as usize;
        let pages = [(); 2].map(|()| target.shared(bytes).expect("memory"));
        let [first, second] = pages.each_ref().map(|page| abi::QueueRef { host: page.address(), ..queue });
        let refs = target.memory(2 * size_of::<abi::QueueRef>()).expect("memory");
        refs.write(0, first.as_bytes()).expect("a reference");
        refs.write(size_of::<abi::QueueRef>(), second.as_bytes()).expect("a reference");
        let state = match after {
            After::Running => abi::QUEUE_RUNNING,
            After::Dead => abi::QUEUE_DEAD,
            After::Replaced | After::Lost => abi::QUEUE_LOST,
        };
        let behind = refs.address() + size_of::<abi::QueueRef>() as u64;
        let successor = if after == After::Replaced { behind } else { 0 };
        for (page, state, successor) in [(&pages[0], state, successor), (&pages[1], abi::QUEUE_RUNNING, 0)] {
            let hazards = page.address() + HAZARDS;
            let host = abi::QueueHost { state, successor, hazards, ..abi::QueueHost::new() };
            page.window().fill(0, bytes, 0).expect("a page");
            page.window().write(0, host.as_bytes()).expect("a page");
        }
        Pairs { refs, pages }
    }

    /// Lanes that the host would wait for.
    fn kept(&self) -> String {
        let of_queue = |page: &SharedMemory| {
            let slots = (page.window().len() as u64 - HAZARDS) / 4;
            let held = |slot: &u64| peek::<u32>(page.address() + HAZARDS + 4 * slot) != abi::HAZARD_FREE;
            (0..slots).filter(held).collect::<Vec<_>>()
        };
        let held = self.pages.each_ref().map(of_queue);
        if held.iter().all(Vec::is_empty) { String::new() } else { format!("hazard slots {held:?}; ") }
    }
}

/// Where the hazard slots are in a host's page.
const HAZARDS: u64 = size_of::<abi::QueueHost>() as u64;

/// For how many of all statuses the flat layer says what the library says.
pub fn statuses_alike() -> u64 {
    let mut alike = 0u64;
    let notes = on_threads(&MODULE, "flat_status_test", (65536 / 256, 256));
    notes.read(0, alike.as_mut_bytes()).expect("memory");
    alike
}

/// What one thread is answered between stores of its own, in a kernel that is optimised as users' are.
pub fn alias_answers() -> [u32; 6] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/flat_alias.cu");
    let source = Variant::file(&path).expect("the kernel");
    let source = source.header("flat_calls.cuh", include_str!("../../kernels/flat_calls.cuh"));
    let notes = on_threads(&source.loaded().expect("compiles"), "flat_alias_test", (1, 1));
    let mut note = Note::NONE;
    notes.read(0, note.as_mut_bytes()).expect("memory");
    note.statuses[..6].try_into().expect("six of them")
}

/// Runs a kernel on shared queues of an SSD of its own, and returns its notes.
fn on_threads(module: &Module, kernel: &str, (grid, block): (u32, u32)) -> KernelMemory {
    let setting = settings(Scene::Io).next().expect("a setting");
    let name: DeviceName = "soft:size=64k".parse().expect("a device");
    let ssd = Ssd::open(&name, &OpenOptions::default()).expect("an SSD");
    let queues = ssd.attach(&AttachOptions::new().sharing(Sharing::Shared)).expect("queues");
    let target = Target::Cpu.open().expect("the CPU");
    let cache = PageCache::new(&target, (BLOCKS, BLOCK as u32), &PageCacheSpec::new().lines(1));
    let cache = cache.expect("a cache");
    let buffer = queues.buffer(cache.buffer_bytes()).expect("memory");
    let notes = queues.target().memory(size_of::<Note>()).expect("memory");
    notes.fill(0, notes.len(), 0).expect("notes");
    let args = setting.args(queues.namespace(), buffer.as_ref(), &notes, true);
    let args = Args { cache: cache.as_ref(), ..args };
    let launch = queues.launch_bytes(&module.clone().into(), kernel, args.as_bytes());
    let launch = launch.expect("a launch").grid(grid).block(block);
    launch.start().and_then(|run| run.join()).expect("a run");
    notes
}
