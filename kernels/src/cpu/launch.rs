// UNSAFETY: what a kernel does with addresses in its arguments is the caller's promise.
#![expect(unsafe_code, reason = "constructors with a contract")]
//! What to run, and under which schedule.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::costs::{AccessCosts, Charged};
use super::hooks::Hooks;
use super::module::{Kernel, Module};
use super::{ffi, worker::Worker};
use crate::Error;
use crate::abi::{Plain, check_arguments, check_size};

/// One run of a kernel over a grid. Cheap to clone; shared by all its workers.
#[derive(Clone)]
pub struct Launch {
    pub(super) module: Module,
    pub(super) kernel: Kernel,
    /// In words, so that they are aligned for any argument struct.
    pub(super) args: Arc<[u64]>,
    pub(super) args_size: usize,
    pub(super) grid: u32,
    pub(super) block: u32,
    pub(super) resident_blocks: u32,
    pub(super) cooperative: bool,
    pub(super) stack_bytes: u32,
    pub(super) shared_bytes: u32,
    pub(super) seed: u64,
    pub(super) preempt_one_in: u32,
    pub(super) store_buffer: u32,
    pub(super) flags: u32,
    pub(super) hooks: Hooks,
    pub(super) charged: Option<Arc<Charged>>,
    /// What the kernel uses. Goes after the workers, which have clones.
    keep: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Launch {
    /// Runs `kernel` with `args`, at first as a single block of one warp.
    ///
    /// # Safety
    /// For the grid that the launch gets, the kernel touches memory that is valid until the last worker of the launch,
    /// and of its clones, is gone. What is handed to [`keep`](Launch::keep) is.
    pub unsafe fn new<T: Plain>(module: &Module, kernel: &str, args: &T) -> Result<Launch, Error> {
        let kernel = module.kernel(kernel)?;
        check_arguments(&kernel.name, args, kernel.args_size)?;
        Ok(Launch::checked(module, kernel, args.as_bytes()))
    }

    /// The same for an argument struct that this crate does not know.
    ///
    /// # Safety
    /// As for [`new`](Launch::new).
    pub unsafe fn with_bytes(module: &Module, kernel: &str, args: &[u8]) -> Result<Launch, Error> {
        let kernel = module.kernel(kernel)?;
        check_size(&kernel.name, args, kernel.args_size)?;
        Ok(Launch::checked(module, kernel, args))
    }

    fn checked(module: &Module, kernel: &Kernel, args: &[u8]) -> Launch {
        let words = args.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        Launch {
            module: module.clone(),
            kernel: kernel.clone(),
            args: words.collect(),
            args_size: args.len(),
            grid: 1,
            block: 32,
            resident_blocks: 0,
            cooperative: false,
            stack_bytes: 0,
            shared_bytes: 0,
            seed: 0,
            preempt_one_in: 0,
            store_buffer: 0,
            flags: 0,
            hooks: Hooks::new(),
            charged: None,
            keep: Vec::new(),
        }
    }

    /// What the kernel uses: alive until the last worker is gone.
    pub fn keep(mut self, used: impl Any + Send + Sync) -> Launch {
        self.keep.push(Arc::new(used));
        self
    }

    /// Blocks of the grid.
    pub fn grid(self, grid: u32) -> Launch {
        Launch { grid, ..self }
    }

    /// Threads of a block, 1 to 1024.
    pub fn block(self, block: u32) -> Launch {
        Launch { block, ..self }
    }

    /// Blocks that a worker runs at a time; 0, the default: what [`resident_limit`](super::resident_limit) has room for,
    /// over all workers.
    pub fn resident_blocks(self, resident_blocks: u32) -> Launch {
        Launch { resident_blocks, ..self }
    }

    /// All blocks are there at the same time, or the launch is refused: for blocks that wait for each other.
    pub fn cooperative(self, cooperative: bool) -> Launch {
        Launch { cooperative, ..self }
    }

    /// Stack of each lane; 0, the default: what fits the build.
    pub fn stack_bytes(self, stack_bytes: u32) -> Launch {
        Launch { stack_bytes, ..self }
    }

    /// Shared memory of each block.
    pub fn shared_bytes(self, shared_bytes: u32) -> Launch {
        Launch { shared_bytes, ..self }
    }

    /// Lanes run in an order that this seed decides, and are pre-empted; the same seed on one worker gives the
    /// same run. 0, the default: in order, until they block.
    pub fn seed(self, seed: u64) -> Launch {
        Launch { seed, ..self }
    }

    /// With a seed: a lane is pre-empted at one of so many hooks; 0: one of 8.
    pub fn preempt_one_in(self, preempt_one_in: u32) -> Launch {
        Launch { preempt_one_in, ..self }
    }

    /// Entries of each lane's store buffer: stores are held back until a fence orders them or the seed lets
    /// them go. 0, the default: stores go straight through.
    pub fn store_buffer(self, store_buffer: u32) -> Launch {
        Launch { store_buffer, ..self }
    }

    /// A lane that overruns its stack crashes there; costs two memory mappings a lane.
    pub fn guard_pages(self, on: bool) -> Launch {
        self.flag(ffi::GUARD_PAGES, on)
    }

    /// Reading a lane outside the group is a fault, not a poison value.
    pub fn strict_shuffle(self, on: bool) -> Launch {
        self.flag(ffi::STRICT_SHUFFLE, on)
    }

    /// The memory hook is told of the shared memory of blocks, too.
    pub fn observe_shared(self, on: bool) -> Launch {
        self.flag(ffi::OBSERVE_SHARED, on)
    }

    /// Stepped by hand, with room for as many stores as a lane can have between two fences.
    pub(super) fn exploring(self) -> Launch {
        Launch { seed: 0, store_buffer: 64, ..self.flag(ffi::EXPLORE, true) }
    }

    /// Who sees doorbells, clock and memory accesses.
    pub fn hooks(self, hooks: Hooks) -> Launch {
        Launch { hooks, ..self }
    }

    /// What lanes do takes so much virtual time; `host` is what lies in host memory, all else in the GPU's. `pass` lets
    /// time pass to a moment in nanoseconds, or some of it, and says how late it is then; the hook `clock` must agree.
    /// Not with a store buffer.
    pub fn client(
        self,
        costs: AccessCosts,
        host: Vec<Range<u64>>,
        pass: impl Fn(u64) -> u64 + Send + Sync + 'static,
    ) -> Launch {
        let hooks = self.hooks.pass_time(pass);
        Launch { charged: Some(Arc::new(Charged::new(costs, host))), hooks, ..self }
    }

    /// A worker for all blocks, for the calling thread.
    pub fn worker(&self) -> Result<Worker, Error> {
        Worker::new(self, 0, 1)
    }

    /// The kernel's name.
    pub fn kernel(&self) -> &str {
        self.kernel.name()
    }

    /// Warps of the whole grid.
    pub fn warps(&self) -> u32 {
        self.grid.saturating_mul(self.block.div_ceil(32))
    }

    fn flag(self, flag: u32, on: bool) -> Launch {
        let flags = if on { self.flags | flag } else { self.flags & !flag };
        Launch { flags, ..self }
    }
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Launch");
        text.field("kernel", &self.kernel()).field("grid", &self.grid).field("block", &self.block);
        text.field("seed", &self.seed).field("store_buffer", &self.store_buffer).finish_non_exhaustive()
    }
}
