//! A cache over one stepped SSD, and a kernel that uses its pages, with a prefetcher or without one.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use warpbell::{
    AttachOptions, Launch, Module, PageCache, PageCacheReport, PageCacheSpec, Sharing, Volume, VolumeLayout,
    VolumeSpec,
};
use warpbell_hw::{Device, Lba, Nsid};
use warpbell_kernels::toolchain::Variant;
use warpbell_kernels::{abi, cpu};
use warpbell_nvme::NvmOpcode;
use warpbell_sim::several::Several;
use warpbell_sim::{TestLaunch, TestVariant, on_cpu};
use warpbell_softctl::{FaultPlan, NamespaceConfig, Profile, SoftConfig, SoftDevice};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const MODES: [Sharing; 2] = [Sharing::Exclusive, Sharing::Shared];
pub const PAGE: u64 = 4096;
pub const PAGES: u64 = 600;

pub const IN_ORDER: u32 = 0;
pub const DRAWN: u32 = 1;
pub const NAMED: u32 = 2;
/// Four pages, again and again.
pub const LOOPED: u32 = 3;

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct PrefetchArgs {
    ns: abi::NamespaceRef,
    buffer: abi::BufferRef,
    volume: abi::VolumeRef,
    volume_buffer: abi::VolumeBufferRef,
    cache: abi::CacheRef,
    notes: u64,
    steps: u64,
    stride: u64,
    apart: u64,
    order: u32,
    ahead: u32,
    sharing: u32,
    stores: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Note {
    pub refused: u32,
    pub wrong: u32,
}

static MODULE: LazyLock<cpu::Module> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/prefetch.cu");
    Variant::file(&source).expect("the kernel").quick().loaded().expect("compiles")
});

/// What the warps do.
#[derive(Clone, Debug)]
pub struct Fixture {
    pub sharing: Sharing,
    pub warps: u32,
    pub lines: u32,
    pub steps: u64,
    pub stride: u64,
    pub apart: u64,
    pub order: u32,
    pub ahead: bool,
    pub stores: bool,
    pub tokens: Option<u32>,
    pub faults: FaultPlan,
    /// Over a volume of three SSDs.
    pub volume: Option<VolumeSpec>,
}

impl Fixture {
    /// One warp that uses so many pages one after the other.
    pub fn scan(sharing: Sharing, steps: u64) -> Fixture {
        Fixture {
            sharing,
            warps: 1,
            lines: 64,
            steps,
            stride: 1,
            apart: 0,
            order: IN_ORDER,
            ahead: true,
            stores: false,
            tokens: None,
            faults: FaultPlan::default(),
            volume: None,
        }
    }

    pub fn without(&self) -> Fixture {
        Fixture { ahead: false, ..self.clone() }
    }

    fn several(&self, profile: Option<Profile>) -> Several {
        let config = SoftConfig::new()
            .namespaces(vec![NamespaceConfig::memory(PAGES * PAGE, 512)])
            .faults(self.faults.clone())
            .profile(profile);
        let options = AttachOptions::new()
            .queues(if self.sharing == Sharing::Exclusive { self.warps } else { 1 })
            .warps(self.warps)
            .sharing(self.sharing)
            .commands_per_lane(self.tokens)
            .timeout(Duration::from_millis(10))
            .recovery(false);
        let ssds = if self.volume.is_some() { 3 } else { 1 };
        Several::new(vec![(config, options); ssds]).expect("SSDs")
    }

    /// By a schedule that the seed draws.
    pub fn drawn(&self, seed: u64) -> Ran {
        let several = self.several(None);
        self.fill(&several);
        self.run(&several, |launch| {
            several.run(launch, seed, |_| ()).expect("a run");
        })
    }

    /// In the virtual time of an SSD that takes as long as `optane`: what the kernel computes takes none.
    pub fn timed(&self) -> Ran {
        let several = self.several(Some(Profile::optane()));
        self.fill(&several);
        let soft = several.softs[0].clone();
        self.run(&several, |launch| stepped(&launch, &soft))
    }

    fn run(&self, several: &Several, go: impl FnOnce(cpu::Launch)) -> Ran {
        let (queues, clock) = (&several.queues[0], several.softs[0].clone());
        let volume = self
            .volume
            .as_ref()
            .map(|spec| Volume::new(&several.queues.iter().collect::<Vec<_>>(), spec).expect("a volume"));
        let spec = PageCacheSpec::new().lines(self.lines).timeout(Duration::from_millis(100));
        let cache = PageCache::new(queues.target(), (PAGES * PAGE / 512, 512), &spec).expect("a cache");
        let mut notes = vec![Note::default(); self.warps as usize];
        let memory = queues.target().memory(size_of_val(&notes[..])).expect("memory");
        let mut args = PrefetchArgs {
            ns: queues.namespace(),
            buffer: queues.buffer(cache.buffer_bytes()).expect("a buffer").as_ref(),
            volume: abi::VolumeRef::new(),
            volume_buffer: abi::VolumeBufferRef::new(),
            cache: cache.as_ref(),
            notes: memory.address(),
            steps: self.steps,
            stride: self.stride,
            apart: self.apart,
            order: self.order,
            ahead: u32::from(self.ahead),
            sharing: if self.sharing == Sharing::Shared {
                abi::SHARING_SHARED
            } else {
                abi::SHARING_EXCLUSIVE
            },
            stores: u32::from(self.stores),
        };
        let of_volume = volume.as_ref().map(|volume| {
            let buffer = volume.buffer(cache.buffer_bytes()).expect("a buffer");
            args.volume = volume.as_ref().expect("a volume");
            args.volume_buffer = buffer.as_ref();
            buffer
        });
        let module = Module::from(MODULE.clone());
        let launch: Launch = match &volume {
            Some(volume) => volume.launch_bytes(&module, "prefetch_test", args.as_bytes()),
            None => queues.launch_bytes(&module, "prefetch_test", args.as_bytes()),
        }
        .expect("a launch");
        let reads =
            || several.softs.iter().map(|soft| soft.statistics().commands(NvmOpcode::READ)).sum::<u64>();
        let (begin, before) = (clock.clock().now(), reads());
        go(on_cpu(&launch.grid(self.warps)).expect("the CPU target"));
        drop(of_volume);
        memory.read(0, notes.as_mut_bytes()).expect("notes");
        assert_eq!(several.violations(), Vec::<String>::new(), "{self:?}");
        let took = clock.clock().now() - begin;
        Ran { notes, report: cache.report().expect("a report"), reads: reads() - before, took }
    }

    /// The words of the namespace or the volume, each of them its number, mixed.
    fn fill(&self, several: &Several) {
        let words =
            |from: u64, to: u64| (from..to).flat_map(|word| mixed(word).to_le_bytes()).collect::<Vec<u8>>();
        let Some(spec) = &self.volume else {
            return several.softs[0].poke(Nsid(1), Lba(0), &words(0, PAGES * PAGE / 8)).expect("contents");
        };
        let (chunk, ssds) = (spec.chunk_bytes / 8, several.softs.len() as u64);
        for number in 0..PAGES * PAGE / 8 / chunk {
            let contents = words(number * chunk, (number + 1) * chunk);
            for (ssd, soft) in several.softs.iter().enumerate() {
                let row = match spec.layout {
                    VolumeLayout::Replicate => number,
                    _ if number % ssds == ssd as u64 => number / ssds,
                    _ => continue,
                };
                soft.poke(Nsid(1), Lba(row * chunk / 64), &contents).expect("contents");
            }
        }
    }
}

/// What became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    pub notes: Vec<Note>,
    pub report: PageCacheReport,
    pub reads: u64,
    pub took: Duration,
}

impl Ran {
    /// Everybody got the right pages, and the counts fit each other and what the SSD did.
    pub fn expect_right(&self) {
        self.expect_pages();
        assert_eq!(self.reads, self.report.prefetched + self.report.misses, "{self:?}");
    }

    /// The same, where a page may take several reads.
    pub fn expect_pages(&self) {
        let report = &self.report;
        assert!(self.notes.iter().all(|note| *note == Note::default()), "{self:?}");
        assert_eq!(report.prefetched, report.prefetched_used + report.prefetched_in_vain, "{self:?}");
        assert_eq!(report.error, None, "{self:?}");
    }

    pub fn hit_rate(&self) -> f64 {
        self.report.hit_rate().expect("pages were wanted")
    }
}

fn stepped(launch: &cpu::Launch, soft: &Arc<SoftDevice>) {
    let mut worker = launch.worker().expect("a worker");
    while !worker.finished().expect("no fault") {
        if *worker.step(64) == cpu::State::Idle && !soft.wait() {
            soft.advance(Duration::from_micros(100));
        }
    }
}

fn mixed(n: u64) -> u64 {
    let n = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n ^ n >> 27
}
