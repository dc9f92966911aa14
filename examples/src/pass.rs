// UNSAFETY: launches kernels of programs, who answer for their arguments.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]
//! One run of a program's work, over a page cache or over memory.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpbell::abi::{BufferRef, CacheRef};
use warpbell::describe_status;
use warpbell::{Buffer, KernelMemory, Launch, PageCache, SharedMemory};
use zerocopy::{Immutable, IntoBytes};

use crate::Failure;
use crate::progress::Bar;
use crate::stage::{Stage, StageRef};

/// Where kernels find the data.
pub enum Way {
    /// On the SSD, through this cache.
    Cached(PageCache),
    /// All of it in this memory.
    Loaded {
        /// The memory.
        memory: KernelMemory,
        /// How long loading took.
        took: Duration,
    },
}

/// What a pass took.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Loading everything, where that was first.
    pub load: Duration,
    /// In kernels, with the starts of them.
    pub compute: Duration,
    /// Storing results, where the host did it.
    pub store: Duration,
    /// All three. What the host does besides, such as making memory ready or comparing results, is in none of them.
    pub total: Duration,
    /// What the cache counted; `None` where everything was loaded, or nothing asked for a page.
    pub cache: Option<CacheFigures>,
    /// Commands that kernels sent.
    pub commands: u64,
    /// Memory for the data: the cache with its bookkeeping, or everything.
    pub memory_bytes: u64,
}

/// What a page cache counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheFigures {
    /// Pages that were there when a warp wanted them.
    pub hits: u64,
    /// Pages that had to be read.
    pub misses: u64,
    /// Pages that were written.
    pub write_backs: u64,
}

impl CacheFigures {
    /// Whether anything asked for a page.
    pub(crate) fn is_used(&self) -> bool {
        self.hits + self.misses > 0
    }

    /// Hits of all, 0 to 1.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }
}

/// A pass on its way: launches kernels and takes the time.
pub struct Pass<'a> {
    stage: &'a Stage<'a>,
    way: Way,
    buffer: Option<Buffer>,
    notes: SharedMemory,
    /// Memory of the program's own, which kernels use.
    kept: Vec<KernelMemory>,
    compute: Duration,
    store: Duration,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(stage: &'a Stage<'a>, way: Way) -> Result<Pass<'a>, Failure> {
        let buffer = match &way {
            Way::Cached(cache) => Some(stage.queues.buffer(cache.buffer_bytes())?),
            Way::Loaded { .. } => None,
        };
        let notes = stage.queues.target().shared(4 * (1 + stage.options.warps as usize))?;
        let (compute, store) = (Duration::ZERO, Duration::ZERO);
        Ok(Pass { stage, way, buffer, notes, kept: Vec::new(), compute, store })
    }

    /// Whether this is the pass over the page cache.
    pub fn is_cached(&self) -> bool {
        matches!(self.way, Way::Cached(_))
    }

    /// The first member of the kernels' arguments.
    pub fn stage(&self) -> StageRef {
        let (cache, loaded) = match &self.way {
            Way::Cached(cache) => (cache.as_ref(), 0),
            Way::Loaded { memory, .. } => (CacheRef::new(), memory.address()),
        };
        let buffer = self.buffer.as_ref().map_or_else(BufferRef::new, Buffer::as_ref);
        let file = self.stage.reference;
        let (ns, notes) = (self.stage.queues.namespace(), self.notes.address());
        StageRef { ns, buffer, cache, loaded, notes, file }
    }

    /// Zeroed memory of the target for the program's own use, alive as long as the pass and its kernels.
    pub fn memory(&mut self, bytes: u64) -> Result<KernelMemory, Failure> {
        let memory = self.stage.queues.target().memory(bytes as usize)?;
        self.kept.push(memory.clone());
        Ok(memory)
    }

    /// Runs `NAME_cached` or `NAME_loaded` on all warps to its end, and shows how much of `steps` its warps have done
    /// (`data.advance`). An error where a warp noted one (`data.good`), or a page of the cache could not be moved.
    ///
    /// # Safety
    /// The kernels touch only what is valid until they have ended, such as memory of this pass.
    pub unsafe fn launch<T: IntoBytes + Immutable>(
        &mut self,
        name: &str,
        args: &T,
        steps: u64,
    ) -> Result<(), Failure> {
        let start = Instant::now();
        let (word, label) =
            if self.is_cached() { ("cached", "over the cache") } else { ("loaded", "in memory") };
        let kernel = format!("{name}_{word}");
        // SAFETY: the contract of this function.
        let launch = unsafe { self.prepared(&kernel, args) }?;
        let bar = Bar::new(&format!("{name} {label}"), steps, self.stage.options.quiet);
        let words = self.stage.options.warps as usize;
        let notes = self.notes.window();
        (0..=words).for_each(|word| notes.store_u32(4 * word, 0, Ordering::Relaxed));
        let running = launch.start()?;
        let done = |word: usize| u64::from(notes.load_u32(4 * word, Ordering::Relaxed));
        running.wait(|_| bar.at((1..=words).map(done).sum()))?;
        running.join()?;
        self.compute += start.elapsed();
        self.failures(&kernel)
    }

    /// # Safety
    /// As for [`launch`](Pass::launch); what the pass has is kept.
    unsafe fn prepared<T: IntoBytes + Immutable>(&self, kernel: &str, args: &T) -> Result<Launch, Failure> {
        // SAFETY: the contract of this function.
        let launch = unsafe { self.stage.program.launch(&self.stage.queues, kernel, args) }?;
        let launch = launch.grid(self.stage.options.warps).keep(self.notes.clone()).keep(self.kept.clone());
        let launch = match &self.stage.file {
            Some(file) => launch.keep(file.memory()),
            None => launch,
        };
        Ok(match &self.way {
            Way::Cached(cache) => launch.keep(cache.memory()),
            Way::Loaded { memory, .. } => launch.keep(memory.clone()),
        })
    }

    fn failures(&self, kernel: &str) -> Result<(), Failure> {
        let failed = |what| Err(Failure::Kernel { kernel: kernel.to_owned(), what });
        let noted = self.notes.window().load_u32(0, Ordering::Relaxed);
        if let Way::Cached(cache) = &self.way
            && let Some((status, page)) = cache.report()?.error
        {
            return failed(format!("page {page} of the cache: {}", describe_status(status)));
        }
        if noted != 0 {
            return failed(describe_status(noted));
        }
        Ok(())
    }

    /// What a result is called that this pass found.
    pub fn result(&self, name: &str) -> String {
        if self.is_cached() { name.to_owned() } else { format!("{name} of the loaded program") }
    }

    /// Puts results where a cache puts them by itself: writes `bytes` of memory from `offset` on to the SSD, whole blocks
    /// of them. Nothing where there is a cache, which the kernel has flushed.
    pub fn store(&mut self, offset: u64, bytes: u64) -> Result<(), Failure> {
        let Way::Loaded { memory, .. } = &self.way else { return Ok(()) };
        let start = Instant::now();
        let mut from = vec![0; bytes.next_multiple_of(self.stage.disk.block()) as usize];
        memory.read(offset as usize, &mut from)?;
        self.stage.disk.write(offset, from.len() as u64, &mut from.as_slice())?;
        self.store += start.elapsed();
        Ok(())
    }

    pub(crate) fn run<R>(
        mut self,
        work: impl FnOnce(&mut Pass<'a>) -> Result<R, Failure>,
    ) -> Result<(R, Measured), Failure> {
        let before = self.commands()?;
        let result = work(&mut self)?;
        let commands = self.commands()? - before;
        let (load, cache, memory_bytes) = match &self.way {
            Way::Loaded { memory, took } => (*took, None, memory.len() as u64),
            Way::Cached(cache) => {
                let report = cache.report()?;
                let figures = CacheFigures {
                    hits: report.hits,
                    misses: report.misses,
                    write_backs: report.write_backs,
                };
                let bytes = cache.buffer_bytes() + cache.memory().len();
                (Duration::ZERO, figures.is_used().then_some(figures), bytes as u64)
            }
        };
        if let Some(buffer) = &self.buffer {
            self.stage.queues.release(buffer)?;
        }
        let Pass { compute, store, .. } = self;
        let total = load + compute + store;
        Ok((result, Measured { load, compute, store, total, cache, commands, memory_bytes }))
    }

    /// Completions that kernels have taken so far, over all queues.
    fn commands(&self) -> Result<u64, Failure> {
        let queues = 0..self.stage.options.queues() as usize;
        let heads = queues.map(|index| Ok(self.stage.queues.counters(index)?.head));
        heads.sum()
    }
}
