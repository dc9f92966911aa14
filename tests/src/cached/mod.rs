//! Kernel `cache_test` over SSDs and volumes, in virtual time or on threads: cached arrays against a model on the host,
//! and pages that cannot be had.

mod model;

use std::path::Path;
use std::time::Duration;

use warpbell::{
    AttachOptions, Attachment, Buffer, KernelMemory, Launch, Module, PageCache, PageCacheReport,
    PageCacheSpec, Sharing, Volume, VolumeBuffer, VolumeLayout, VolumeSpec,
};
use warpbell_kernels::abi;
use warpbell_kernels::toolchain::Variant;
use warpbell_softctl::SoftDevice;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::Disk;
pub use model::Words;
use model::fold;
use warpbell_hw::{Lba, Nsid};
use warpbell_sim::TestLaunch;
use warpbell_sim::several::Several;

/// Bytes of a volume's chunk.
pub const CHUNK: u64 = 3 * 4096;
/// Words that all lanes add to.
const SHARED_WORDS: u64 = 40;

/// `kind` of a cache, as the kernel has them. All but the first are over shared queues of one SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Loads and stores, `clock_sweep`.
    Clock,
    /// Stores are refused.
    ReadOnly,
    /// Pages are never read.
    WriteOnce,
    /// `pinned_set`.
    Pinned,
    /// `sampled_lru`.
    Lru,
    /// Over sessions with a policy of retries.
    Retry,
}

const ASKS_FOR_PAGES: u32 = 1;
/// `flags` of [`Pages`]: stores to each page.
pub const STORES: u32 = 2;
/// Holds a page meanwhile.
pub const HOLDS_ONE: u32 = 4;
/// Ends with a flush.
pub const FLUSHES: u32 = 8;
const FLUSHES_APART: u32 = 16;
/// One warp, of whose first two lanes each has a page; two notes, with their statuses.
pub const TWO_LANES: u32 = 32;

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct CacheArgs {
    ns: abi::NamespaceRef,
    buffer: abi::BufferRef,
    volume: abi::VolumeRef,
    volume_buffer: abi::VolumeBufferRef,
    cache: abi::CacheRef,
    records: u64,
    seed: u64,
    first_byte: u64,
    words: u64,
    shared_words: u64,
    page: u64,
    by_warp: u64,
    by_step: u64,
    held_page: u64,
    timeout_ns: u64,
    steps: u32,
    over_volume: u32,
    kind: u32,
    flags: u32,
}

/// What a lane noted of its words, or a warp of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Note {
    /// Of all that was loaded.
    pub digest: u64,
    /// Calls that failed.
    pub failed: u32,
    /// How.
    pub status: u32,
}

/// The kernel.
pub fn source() -> Variant {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/cache.cu");
    Variant::file(&source).expect("the kernel")
}

/// A cache, what it lies over, and who uses it.
#[derive(Clone)]
pub struct Shape {
    /// As many as the layout has; alike.
    pub disks: Vec<Disk>,
    /// `None`: there is one SSD.
    pub layout: Option<VolumeLayout>,
    /// Who uses a queue.
    pub sharing: Sharing,
    /// Warps of a launch, each a block.
    pub warps: u32,
    /// Which cache.
    pub kind: Kind,
    /// Its lines, and so on.
    pub spec: PageCacheSpec,
    /// Where the array begins.
    pub first_byte: u64,
    /// Words of each lane.
    pub words_of_lane: u64,
    /// Nobody flushes while others store.
    pub flushes_apart: bool,
}

impl Shape {
    /// Four warps on shared queues of one SSD, with pages of one block.
    pub fn new(disk: Disk, lines: u32) -> Shape {
        let timeout = Duration::from_secs(60);
        let spec = PageCacheSpec::new().page_bytes(disk.block).lines(lines).timeout(timeout);
        Shape {
            disks: vec![disk],
            layout: None,
            sharing: Sharing::Shared,
            warps: 4,
            kind: Kind::Clock,
            spec,
            first_byte: 0,
            words_of_lane: 5,
            flushes_apart: false,
        }
    }

    /// Over a volume of `count` such SSDs.
    pub fn over(self, layout: VolumeLayout, count: usize) -> Shape {
        Shape { disks: vec![self.disks[0].clone(); count], layout: Some(layout), ..self }
    }

    /// How queues are attached.
    pub fn attach(&self, disk: &Disk) -> AttachOptions {
        let exclusive = self.sharing == Sharing::Exclusive;
        AttachOptions::new()
            .queues(if exclusive { self.warps } else { disk.queues })
            .warps(self.warps * if exclusive { 1 } else { disk.queues })
            .sharing(self.sharing)
            .timeout(Duration::from_millis(10))
            .recovery(false)
    }

    /// Stepped controllers, in virtual time.
    pub fn several(&self) -> Several {
        let each = self.disks.iter().map(|disk| (disk.config(), self.attach(disk))).collect();
        Several::new(each).expect("SSDs")
    }

    fn lanes(&self) -> u64 {
        u64::from(self.warps) * 32
    }

    fn words(&self) -> u64 {
        SHARED_WORDS + self.words_of_lane * self.lanes()
    }
}

enum Source {
    Ssd(Buffer),
    Volume(Volume, VolumeBuffer),
}

/// Which pages warps ask for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pages {
    /// The first one of warp 0.
    pub page: u64,
    /// How much later another warp's is.
    pub by_warp: u64,
    /// How much later the next one is.
    pub by_step: u64,
    /// How many.
    pub steps: u32,
    /// What else is done.
    pub flags: u32,
    /// That is held meanwhile.
    pub held: u64,
    /// Of a call; zero: the cache's.
    pub timeout: Duration,
}

/// A cache over queues.
pub struct Cached {
    shape: Shape,
    source: Source,
    cache: PageCache,
}

/// A launch, and where it writes what it noted.
pub struct Launched {
    /// To be run.
    pub launch: Launch,
    records: KernelMemory,
    count: usize,
}

impl Launched {
    /// What was noted.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = vec![Note::default(); self.count];
        self.records.read(0, notes.as_mut_bytes()).expect("notes");
        notes
    }
}

impl Cached {
    /// A cache that nobody has used.
    pub fn new(shape: &Shape, queues: &[Attachment]) -> Cached {
        let target = queues[0].target();
        let make = |blocks, block| PageCache::new(target, (blocks, block), &shape.spec).expect("a cache");
        let (source, cache) = match shape.layout {
            None => {
                let ns = queues[0].namespace();
                let cache = make(ns.blocks, 1 << ns.block_shift);
                (Source::Ssd(queues[0].buffer(cache.buffer_bytes()).expect("a buffer")), cache)
            }
            Some(layout) => {
                let all: Vec<_> = queues.iter().collect();
                let spec = VolumeSpec::new().layout(layout).chunk_bytes(CHUNK);
                let volume = Volume::new(&all, &spec).expect("a volume");
                let cache = make(volume.blocks(), volume.block_bytes());
                let buffer = volume.buffer(cache.buffer_bytes()).expect("a buffer");
                (Source::Volume(volume, buffer), cache)
            }
        };
        Cached { shape: shape.clone(), source, cache }
    }

    /// What kernels counted.
    pub fn report(&self) -> PageCacheReport {
        self.cache.report().expect("a report")
    }

    /// Random operations on words.
    pub fn words(&self, queues: &[Attachment], module: &Module, seed: u64, steps: u32) -> Launched {
        self.launch(queues, module, self.shape.lanes(), |args| CacheArgs {
            seed,
            steps,
            flags: if self.shape.flushes_apart { FLUSHES_APART } else { 0 },
            ..args
        })
    }

    /// Page after page. Each warp has a note for each, and one of its flush.
    pub fn pages(&self, queues: &[Attachment], module: &Module, pages: Pages) -> Launched {
        let count = u64::from(self.shape.warps) * (u64::from(pages.steps) + 1);
        self.launch(queues, module, count, |args| CacheArgs {
            page: pages.page,
            by_warp: pages.by_warp,
            by_step: pages.by_step,
            steps: pages.steps,
            flags: ASKS_FOR_PAGES | pages.flags,
            held_page: pages.held,
            timeout_ns: pages.timeout.as_nanos() as u64,
            ..args
        })
    }

    fn launch(
        &self,
        queues: &[Attachment],
        module: &Module,
        records: u64,
        change: impl FnOnce(CacheArgs) -> CacheArgs,
    ) -> Launched {
        let memory = queues[0].target().memory(records as usize * size_of::<Note>()).expect("memory");
        memory.fill(0, memory.len(), 0).expect("notes");
        let args = change(self.args(queues, memory.address()));
        let launch = match &self.source {
            Source::Ssd(_) => queues[0].launch_bytes(module, "cache_test", args.as_bytes()),
            Source::Volume(volume, _) => volume.launch_bytes(module, "cache_test", args.as_bytes()),
        };
        let launch = launch.expect("a launch").grid(self.shape.warps);
        let launch = launch.keep((memory.clone(), self.cache.memory()));
        Launched { launch, records: memory, count: records as usize }
    }

    fn args(&self, queues: &[Attachment], records: u64) -> CacheArgs {
        let none = (abi::VolumeRef::new(), abi::VolumeBufferRef::new());
        let (volume, volume_buffer) = match &self.source {
            Source::Ssd(_) => none,
            Source::Volume(volume, buffer) => (volume.as_ref().expect("a volume"), buffer.as_ref()),
        };
        let buffer = match &self.source {
            Source::Ssd(buffer) => buffer.as_ref(),
            Source::Volume(_, buffer) => buffer.buffer().as_ref(),
        };
        CacheArgs {
            ns: queues[0].namespace(),
            buffer,
            volume,
            volume_buffer,
            cache: self.cache.as_ref(),
            records,
            seed: 0,
            first_byte: self.shape.first_byte,
            words: self.shape.words(),
            shared_words: SHARED_WORDS,
            page: 0,
            by_warp: 0,
            by_step: 0,
            held_page: 0,
            timeout_ns: 0,
            steps: 0,
            over_volume: u32::from(self.shape.layout.is_some()),
            kind: self.shape.kind as u32,
            flags: 0,
        }
    }
}

/// What lies on SSDs that are alike, as the cache sees it.
pub struct Contents<'a> {
    shape: &'a Shape,
    softs: Vec<&'a SoftDevice>,
}

impl<'a> Contents<'a> {
    /// Of these controllers.
    pub fn new(shape: &'a Shape, softs: Vec<&'a SoftDevice>) -> Contents<'a> {
        Contents { shape, softs }
    }

    /// Blocks of the SSD, or of the volume, that the array lies in.
    fn blocks(&self) -> u64 {
        let bytes = self.shape.first_byte + self.shape.words() * 8;
        bytes.next_multiple_of(u64::from(self.shape.spec.page_bytes)) / u64::from(self.shape.disks[0].block)
    }

    /// Where a block of these is: SSD and LBA.
    fn places(&self, block: u64) -> Vec<(usize, u64)> {
        let block = block + self.shape.spec.first_block.get();
        let disk = &self.shape.disks[0];
        let (ssds, chunk) = (self.softs.len() as u64, CHUNK / u64::from(disk.block));
        let (number, within) = (block / chunk, block % chunk);
        let each = disk.bytes / CHUNK;
        match self.shape.layout {
            None => vec![(0, block)],
            Some(VolumeLayout::Replicate) => (0..self.softs.len()).map(|ssd| (ssd, block)).collect(),
            Some(VolumeLayout::Stripe) => {
                vec![((number % ssds) as usize, number / ssds * chunk + within)]
            }
            Some(VolumeLayout::Concatenate) => {
                vec![((number / each) as usize, number % each * chunk + within)]
            }
        }
    }

    /// Puts random bytes there; the model of the array that begins so.
    pub fn fill(&self, seed: u64) -> Words {
        let block = self.shape.disks[0].block as usize;
        let words =
            (0..self.blocks() * block as u64 / 8).flat_map(|at| model::draw(seed, 1 << 21, at).to_le_bytes());
        let bytes: Vec<u8> = words.collect();
        for (number, bytes) in (0..).zip(bytes.chunks_exact(block)) {
            for (ssd, lba) in self.places(number) {
                self.softs[ssd].poke(Nsid(1), Lba(lba), bytes).expect("blocks");
            }
        }
        let page = u64::from(self.shape.spec.page_bytes);
        let counts = (self.shape.words(), SHARED_WORDS, self.shape.lanes());
        Words::new(bytes, (self.shape.first_byte, page), counts)
    }

    /// All bytes, of the replica with this number, if there are several.
    pub fn bytes(&self, replica: usize) -> Vec<u8> {
        let block = self.shape.disks[0].block as usize;
        let mut bytes = vec![0; self.blocks() as usize * block];
        for (number, bytes) in (0..).zip(bytes.chunks_exact_mut(block)) {
            let places = self.places(number);
            let (ssd, lba) = places[replica.min(places.len() - 1)];
            self.softs[ssd].peek(Nsid(1), Lba(lba), bytes).expect("blocks");
        }
        bytes
    }

    /// What is not as the model says, on any replica.
    pub fn check(&self, words: &Words) -> Result<(), String> {
        for replica in 0..self.places(0).len() {
            let (found, expected) = (self.bytes(replica), words.image());
            if let Some(at) = found.iter().zip(&expected).position(|(found, expected)| found != expected) {
                return Err(format!("byte {at} of replica {replica} is not what was stored"));
            }
        }
        Ok(())
    }
}

/// The digest that a warp notes of a page.
pub fn digest_of(page: &[u8]) -> u64 {
    let words = page.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8")));
    words.fold(0, fold)
}

/// Page `page` when a warp has stored to it, where it was `before`.
pub fn stored(before: &[u8], page: u64) -> Vec<u8> {
    let mut after = before.to_vec();
    for (lane, word) in (0..32).zip(after.chunks_exact_mut(8)) {
        word.copy_from_slice(&model::draw(0, lane, page).to_le_bytes());
    }
    after
}

/// Whether all lanes of a launch loaded what the model says, without a failure.
pub fn judge(notes: &[Note], digests: &[u64]) -> Result<(), String> {
    for (lane, (note, digest)) in notes.iter().zip(digests).enumerate() {
        if note.failed != 0 {
            return Err(format!("lane {lane}: {} calls failed, status {:#x}", note.failed, note.status));
        }
        if note.digest != *digest {
            return Err(format!("lane {lane} loaded something else than was stored"));
        }
    }
    Ok(())
}
