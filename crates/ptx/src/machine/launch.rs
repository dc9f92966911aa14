//! A launch: what runs, with which arguments, and on how many threads.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rand::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::block::{Block, Pass};
use super::constant::Constant;
use super::gpu::Gpu;
use super::races::Races;
use super::real::Region;
use super::weak;
use crate::{Error, Finding, Module};

/// Instructions after which a worker offers its processor to others: some ten microseconds. To change threads takes two. More of
/// them would be polls, where kernels wait for the host or a device.
const OFFER: u64 = 1024;

/// Which addresses of the host's memory kernels may touch.
pub trait Memory: Sync {
    /// The memory that has this address.
    fn region(&self, address: u64) -> Option<Region>;
}

/// A kernel with its arguments, and the grid that runs it.
#[derive(Clone, Debug)]
#[must_use]
pub struct Launch<'a> {
    module: &'a Module,
    entry: String,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared: u32,
    arguments: Vec<u8>,
    resident: u32,
    workers: usize,
    multiprocessors: u32,
    seed: u64,
    weak: bool,
    races: bool,
    shared_races: bool,
    gpu: Option<&'a Gpu>,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Of all lanes.
    pub instructions: u64,
    /// False: it was told to stop before its end.
    pub ended: bool,
}

/// What all blocks of a running grid know.
pub(super) struct Run<'a> {
    pub(super) module: &'a Module,
    pub(super) kernel: u32,
    pub(super) memory: &'a dyn Memory,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) dynamic_shared: u32,
    pub(super) arguments: Vec<u8>,
    pub(super) multiprocessors: u32,
    /// Of all that run on this GPU.
    pub(super) grid_number: u64,
    /// Of kernels that load by `.nc`.
    pub(super) constant: Option<Constant>,
    /// What is late on its way to memory; nothing where memory is strong.
    pub(super) weak: Option<&'a weak::Gpu>,
    /// Where races are looked for.
    pub(super) races: Option<&'a Mutex<Races>>,
    /// In shared memory alone.
    pub(super) shared_alone: bool,
}

impl<'a> Launch<'a> {
    /// One thread of the kernel `entry`, without arguments.
    pub fn new(module: &'a Module, entry: &str) -> Launch<'a> {
        Launch {
            module,
            entry: entry.to_owned(),
            grid: [1; 3],
            block: [1; 3],
            dynamic_shared: 0,
            arguments: Vec::new(),
            resident: 1,
            workers: 1,
            multiprocessors: 1,
            seed: 0,
            weak: false,
            races: false,
            shared_races: false,
            gpu: None,
        }
    }

    /// Blocks, by axis.
    pub fn grid(mut self, grid: [u32; 3]) -> Self {
        self.grid = grid;
        self
    }

    /// Threads of a block, by axis: at most 1024, and what the kernel allows.
    pub fn block(mut self, block: [u32; 3]) -> Self {
        self.block = block;
        self
    }

    /// Bytes of shared memory beside the kernel's own.
    pub fn dynamic_shared(mut self, bytes: u32) -> Self {
        self.dynamic_shared = bytes;
        self
    }

    /// The bytes of all parameters, laid out as [`crate::Entry`] says.
    pub fn arguments(mut self, arguments: &[u8]) -> Self {
        self.arguments = arguments.to_vec();
        self
    }

    /// Blocks that run at the same time, rounded up to the same number for each worker: the next one begins where one ended.
    pub fn resident(mut self, blocks: u32) -> Self {
        self.resident = blocks.max(1);
        self
    }

    /// Threads of the host that run them.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// What `%nsmid` says.
    pub fn multiprocessors(mut self, count: u32) -> Self {
        self.multiprocessors = count.max(1);
        self
    }

    /// Chooses whose turn it is, and how long one lasts. One worker with one seed runs in one order.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Memory as weak as PTX allows, chosen by the seed, on one worker. Without, each access is one
    /// of the host's memory, where it stands in the program.
    pub fn weak(mut self, weak: bool) -> Self {
        self.weak = weak;
        self
    }

    /// Looks for accesses that nothing orders, on one worker, at 0.6 of its speed or less.
    pub fn races(mut self, races: bool) -> Self {
        self.races = races;
        self
    }

    /// The same in shared memory alone, where compute-sanitizer's racecheck looks. With
    /// [`Launch::races`], whichever comes first, it looks at all memory.
    pub fn shared_races(mut self, races: bool) -> Self {
        self.shared_races = races;
        self
    }

    /// Runs it on this GPU, where other grids may run at the same time.
    pub fn gpu(mut self, gpu: &'a Gpu) -> Self {
        self.gpu = Some(gpu);
        self
    }

    /// Runs the grid to its end, or until `stop`.
    ///
    /// # Errors
    ///
    /// [`Error::Launch`] before anything ran; [`Error::Found`] for the first thing that a lane did wrong.
    pub fn run(&self, memory: &dyn Memory, stop: &AtomicBool) -> Result<Ran, Error> {
        let own = Gpu::new();
        let run = self.checked(memory, self.gpu.unwrap_or(&own))?;
        run.begins(self.seed);
        let blocks = self.grid.iter().product();
        let (next, ended) = (AtomicU32::new(0), AtomicU32::new(0));
        let (instructions, found) = (AtomicU64::new(0), OnceLock::new());
        let workers =
            if self.weak || self.looks_for_races() { 1 } else { self.workers.min(blocks as usize).max(1) };
        let each = (self.resident as usize).div_ceil(workers);
        let work = |worker: u64| {
            let mut worker = Worker {
                run: &run,
                next: &next,
                blocks,
                most: each,
                held: Vec::new(),
                random: Xoshiro256PlusPlus::seed_from_u64(self.seed.wrapping_add(worker << 32)),
                ended: 0,
                instructions: 0,
            };
            if let Err(finding) = worker.work(|| stop.load(Ordering::Relaxed) || found.get().is_some()) {
                found.get_or_init(|| finding);
            }
            ended.fetch_add(worker.ended, Ordering::Relaxed);
            instructions.fetch_add(worker.instructions, Ordering::Relaxed);
        };
        std::thread::scope(|scope| {
            (1..workers as u64).for_each(|worker| drop(scope.spawn(move || work(worker))));
            work(0);
        });
        run.ends();
        match found.into_inner() {
            Some(finding) => Err(Error::Found(finding)),
            None => Ok(Ran { instructions: instructions.into_inner(), ended: ended.into_inner() == blocks }),
        }
    }

    fn checked<'b>(&'b self, memory: &'b dyn Memory, gpu: &'b Gpu) -> Result<Run<'b>, Error> {
        let refuse = |what: String| Err(Error::Launch(format!("kernel {}: {what}", self.entry)));
        let (Some(kernel), Some(entry)) = (self.module.function(&self.entry), self.module.entry(&self.entry))
        else {
            return refuse(format!("{} has no such kernel", self.module.name));
        };
        let product = |of: [u32; 3]| of.iter().try_fold(1_u32, |all, axis| all.checked_mul(*axis));
        let most = entry.most_threads.min(1024);
        match product(self.block) {
            Some(threads) if threads >= 1 && threads <= most => {}
            _ => return refuse(format!("blocks of {:?} threads: 1 to {most}", self.block)),
        }
        if let Some(required) =
            self.module.required_block(&self.entry).filter(|required| *required != self.block)
        {
            return refuse(format!("blocks of {:?} threads: it requires {required:?}", self.block));
        }
        if product(self.grid).is_none_or(|blocks| blocks == 0) {
            return refuse(format!("a grid of {:?} blocks: 1 to {}", self.grid, u32::MAX));
        }
        let bytes = entry.parameters.iter().map(|(at, bytes)| at + bytes).max().unwrap_or(0) as usize;
        if self.arguments.len() != bytes {
            return refuse(format!("{} bytes of arguments: it has {bytes}", self.arguments.len()));
        }
        Ok(Run {
            module: self.module,
            kernel,
            memory,
            grid: self.grid,
            block: self.block,
            dynamic_shared: self.dynamic_shared,
            arguments: self.arguments.clone(),
            multiprocessors: self.multiprocessors,
            grid_number: gpu.grid(),
            constant: self.module.loads_constant.then(Constant::default),
            weak: self.weak.then_some(&gpu.weak),
            races: self.looks_for_races().then_some(&gpu.races),
            shared_alone: !self.races,
        })
    }

    fn looks_for_races(&self) -> bool {
        self.races || self.shared_races
    }
}

/// A thread of the host, and the blocks that it runs.
struct Worker<'a> {
    run: &'a Run<'a>,
    /// The next block of the grid.
    next: &'a AtomicU32,
    blocks: u32,
    /// Blocks at a time.
    most: usize,
    held: Vec<Block<'a>>,
    random: Xoshiro256PlusPlus,
    ended: u32,
    instructions: u64,
}

impl Worker<'_> {
    fn work(&mut self, stop: impl Fn() -> bool) -> Result<(), Box<Finding>> {
        let mut offered = 0;
        while !stop() {
            self.fill();
            if self.held.is_empty() {
                return Ok(());
            }
            let mut at = 0;
            while at < self.held.len() {
                match self.held[at].pass(&mut self.random)? {
                    Pass::Goes => at += 1,
                    Pass::Ended => {
                        self.ended += 1;
                        self.retire(at);
                    }
                }
            }
            // Kernels poll for what other threads of this machine do.
            let ran = self.ran();
            if ran >= offered + OFFER {
                offered = ran;
                std::thread::yield_now();
            }
        }
        (0..self.held.len()).for_each(|_| self.retire(0));
        Ok(())
    }

    /// Instructions so far.
    fn ran(&self) -> u64 {
        self.instructions + self.held.iter().map(|block| block.common.instructions).sum::<u64>()
    }

    fn retire(&mut self, at: usize) {
        let block = self.held.swap_remove(at);
        block.watch_end();
        self.instructions += block.common.instructions;
    }

    fn fill(&mut self) {
        while self.held.len() < self.most {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.blocks {
                return;
            }
            self.held.push(Block::new(self.run, number));
        }
    }
}

impl Run<'_> {
    fn begins(&self, seed: u64) {
        if let Some(gpu) = self.weak {
            gpu.begin(seed);
        }
        if let Some(races) = self.races {
            races.lock().begin();
        }
    }

    fn ends(&self) {
        if let Some(gpu) = self.weak {
            gpu.end();
        }
        if let Some(races) = self.races {
            races.lock().end();
        }
    }

    pub(super) fn block_threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Places of threads that a block takes where races are looked for: of asynchronous copies each lane has one, too.
    pub(super) fn slots(&self) -> u32 {
        self.block_threads() * if self.module.copies { 2 } else { 1 }
    }

    pub(super) fn nanoseconds(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}
