// UNSAFETY: what a kernel does with addresses in its arguments is checked here, or promised by the caller.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]
//! Kernels on a target: what to run, and what runs.

mod own;
pub(crate) mod ring;
#[cfg(test)]
mod tests;
mod unchecked;

pub use unchecked::LaunchOver;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use warpbell_base::Time;
use warpbell_gpu::{Function, LaunchConfig, Watchdog};
use warpbell_kernels::abi::{
    BLOCK_THREADS_MAX, Grid, KernelArgs, Mailbox, check_arguments, check_size, check_taken,
};
use warpbell_kernels::cpu::{self, Hooks, Threads, spawn_threads};
use warpbell_kernels::toolchain::CudaImage;
use zerocopy::{Immutable, IntoBytes};

use crate::cuda::{CudaModule, CudaTarget};
use crate::running::{Running, StopFlag};
use crate::{Error, OpenTarget, Regions, SharedMemory, Target};

/// The most dynamic shared memory of a block that any GPU has: sm_90 and its like. Others have less, and say so.
const SHARED_BYTES_MAX: u32 = 227 << 10;

/// Kernels that a target can run. A clone is the same module.
#[derive(Clone, Debug)]
pub struct Module(Kernels);

#[derive(Clone, Debug)]
enum Kernels {
    Cpu(cpu::Module),
    /// Our own, each file loaded when one of its kernels is first asked for.
    Builtin(Arc<CudaTarget>),
    Cuda(Arc<CudaTarget>, CudaModule),
}

/// Kernels compiled for the CPU target.
impl From<cpu::Module> for Module {
    fn from(module: cpu::Module) -> Module {
        Module(Kernels::Cpu(module))
    }
}

impl Module {
    /// Where it runs.
    pub fn target(&self) -> Target {
        match &self.0 {
            Kernels::Cpu(_) => Target::Cpu,
            Kernels::Builtin(cuda) | Kernels::Cuda(cuda, _) => cuda.target(),
        }
    }

    /// A kernel of it, with the size of its arguments in bytes.
    fn kernel(&self, name: &str) -> Result<(Kernel, u64), Error> {
        let cuda = |module: &CudaModule| {
            let (function, args_size) = module.function(name)?;
            Ok((Kernel::Cuda(function), args_size))
        };
        match &self.0 {
            Kernels::Cpu(module) => {
                let args_size = module.kernel(name)?.args_size();
                Ok((Kernel::Cpu(module.clone()), args_size))
            }
            Kernels::Builtin(target) => cuda(&target.builtin(name)?),
            Kernels::Cuda(_, module) => cuda(module),
        }
    }
}

enum Kernel {
    Cpu(cpu::Module),
    Cuda(Function),
}

impl OpenTarget {
    /// Our own kernels.
    pub fn module(&self) -> Result<Module, Error> {
        Ok(Module(match self.cuda() {
            None => Kernels::Cpu(cpu::Module::builtin()?),
            Some(cuda) => Kernels::Builtin(cuda.clone()),
        }))
    }

    /// Kernels that were compiled for this GPU.
    pub fn load(&self, image: &CudaImage) -> Result<Module, Error> {
        let cuda = self.cuda().ok_or_else(|| Error::Argument {
            object: "image",
            value: image.name.clone(),
            limit: "compiled for a GPU, and this is target cpu".to_owned(),
        })?;
        let module = CudaModule::load(cuda.gpu(), &image.name, &image.bytes, image.kernels.clone())?;
        Ok(Module(Kernels::Cuda(cuda.clone(), module)))
    }
}

/// Looks at the arguments of a launch once its grid is known.
type Check = Arc<dyn Fn(&Grid<'_>) -> Result<(), Error> + Send + Sync>;

/// One run of a kernel: at first a single block of one warp. A clone starts the same once more.
///
/// The kernel reads and writes wherever addresses in its arguments point, and wherever what it finds there leads. Of our own
/// kernels the arguments are compared with the launch's memory at each start. For all else the caller answers, who made the
/// launch by an unsafe function.
#[derive(Clone)]
pub struct Launch {
    name: String,
    work: Work,
    grid: u32,
    block: u32,
    shared_bytes: u32,
    cooperative: bool,
    stream: Option<u64>,
    threads: Threads,
    keep: Vec<Arc<dyn Any + Send + Sync>>,
    stop: Option<StopFlag>,
    limit: Option<Duration>,
    /// None where the caller answers for the arguments.
    check: Option<Check>,
}

#[derive(Clone)]
enum Work {
    Cpu(cpu::Launch),
    Cuda { function: Function, args: Arc<[u8]> },
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Launch");
        text.field("kernel", &self.name).field("grid", &self.grid).field("block", &self.block);
        text.finish_non_exhaustive()
    }
}

impl Launch {
    /// Runs `kernel` of our own with `args`, after a check of their version and size. What their addresses name lies in
    /// `memory`, which is kept: compared when the launch starts.
    ///
    /// # Safety
    /// As long as a kernel runs, what it follows in `memory` (lists, tables of queues, a cache's lines, requests) is as the
    /// kernel's host part or the kernel itself has written it: that is not compared.
    pub unsafe fn new<T: KernelArgs>(
        target: &OpenTarget,
        kernel: &str,
        args: &T,
        memory: Regions,
    ) -> Result<Launch, Error> {
        check_taken::<T>(kernel)?;
        let (found, args_size) = target.module()?.kernel(kernel)?;
        check_arguments(kernel, args, args_size)?;
        let launch = Launch::of(found, kernel, args.as_bytes())?;
        let (args, regions) = (*args, memory.clone());
        let check: Check = Arc::new(move |grid| {
            if let Some(limit) = args.refusal(grid) {
                let value = format!("{} blocks of {} threads", grid.blocks, grid.block);
                return Err(Error::Argument { object: "launch", value, limit: limit.to_owned() });
            }
            regions.check_commands(grid.kernel, &args)?;
            args.spans(grid).iter().try_for_each(|span| regions.check(grid.kernel, span))
        });
        Ok(Launch { check: Some(check), ..launch.keep(memory) })
    }

    /// Runs `kernel` of any module with `args`, a struct or its bytes: their size is compared.
    ///
    /// # Safety
    /// For each grid that the launch is started with, the kernel touches only memory that is valid until it has ended, as
    /// what is handed to [`keep`](Launch::keep) is, and only in ways that other users of that memory expect.
    pub unsafe fn unchecked<T: IntoBytes + Immutable + ?Sized>(
        module: &Module,
        kernel: &str,
        args: &T,
    ) -> Result<Launch, Error> {
        let (found, args_size) = module.kernel(kernel)?;
        check_size(kernel, args.as_bytes(), args_size)?;
        Launch::of(found, kernel, args.as_bytes())
    }

    /// Not to be started before its arguments were checked, or promised for.
    fn of(kernel: Kernel, name: &str, args: &[u8]) -> Result<Launch, Error> {
        Ok(Launch {
            name: name.to_owned(),
            work: match kernel {
                Kernel::Cpu(module) => {
                    // SAFETY: nobody gets it but from `ready`, which checks, and `on_cpu`, whose caller promises.
                    let launch = unsafe { cpu::Launch::with_bytes(&module, name, args) };
                    Work::Cpu(launch?)
                }
                Kernel::Cuda(function) => Work::Cuda { function, args: args.into() },
            },
            grid: 1,
            block: 32,
            shared_bytes: 0,
            cooperative: false,
            stream: None,
            threads: Threads::default(),
            keep: Vec::new(),
            stop: None,
            limit: None,
            check: None,
        })
    }

    /// Blocks of the grid.
    pub fn grid(self, grid: u32) -> Launch {
        Launch { grid, ..self }
    }

    /// Threads of a block, 1 to [`BLOCK_THREADS_MAX`], the bound that every kernel is compiled with.
    pub fn block(self, block: u32) -> Launch {
        Launch { block, ..self }
    }

    /// Dynamic shared memory of each block.
    pub fn shared_bytes(self, shared_bytes: u32) -> Launch {
        Launch { shared_bytes, ..self }
    }

    /// All blocks run at the same time, or the launch is refused: for blocks that wait for each other. Without it, blocks
    /// for which there is no room begin when others have ended; the CPU target has room for
    /// [`resident_limit`](cpu::resident_limit).
    pub fn cooperative(self, cooperative: bool) -> Launch {
        Launch { cooperative, ..self }
    }

    /// Puts it on a CUDA stream, by the driver's handle: it begins after what is there, and what comes later begins after
    /// it. 0, 1 and 2 are the default streams of `cuda.h`. Without this it runs on a stream of its own, beside others.
    /// Its [`limit`](Launch::limit) includes the wait for its turn. The CPU target refuses it.
    ///
    /// # Safety
    /// `stream` is a stream of the GPU's primary context, and is not destroyed before all that is started so has been
    /// joined or dropped.
    pub unsafe fn stream(self, stream: u64) -> Launch {
        Launch { stream: Some(stream), ..self }
    }

    /// Threads that run it, on the CPU target.
    pub fn threads(self, threads: Threads) -> Launch {
        Launch { threads, ..self }
    }

    /// What the kernel uses: alive until it has ended.
    pub fn keep(mut self, used: impl Any + Send + Sync) -> Launch {
        self.keep.push(Arc::new(used));
        self
    }

    /// The [`Mailbox`] by which the kernel is asked to stop. It is kept.
    pub fn mailbox(self, mailbox: &SharedMemory) -> Result<Launch, Error> {
        self.stop_flag(mailbox, std::mem::offset_of!(Mailbox, stop))
    }

    /// The 32-bit word by which the kernel is asked to stop: not 0. It is kept.
    pub fn stop_flag(self, memory: &SharedMemory, offset: usize) -> Result<Launch, Error> {
        let stop = StopFlag::new(memory, offset)?;
        Ok(Launch { stop: Some(stop), ..self.keep(memory.clone()) })
    }

    /// How long it may run; for kernels with a stop flag. A watchdog sets that then. Where that does not help either,
    /// [`Running::is_finished`] and [`Running::join`] say so.
    pub fn limit(self, limit: Duration) -> Launch {
        Launch { limit: Some(limit), ..self }
    }

    /// The kernel's name.
    pub fn kernel(&self) -> &str {
        &self.name
    }

    /// Warps of the whole grid.
    pub fn warps(&self) -> u32 {
        self.grid.saturating_mul(self.block.div_ceil(32))
    }

    /// The same as the CPU executor takes it, under schedules of the caller's; `None` on a GPU. It keeps what this launch
    /// does.
    ///
    /// # Safety
    /// As for [`unchecked`](Launch::unchecked), for each grid that it is given from now on.
    pub unsafe fn on_cpu(&self) -> Option<cpu::Launch> {
        match &self.work {
            Work::Cpu(launch) => {
                let launch = launch.clone().grid(self.grid).block(self.block).keep(self.keep.clone());
                Some(launch.shared_bytes(self.shared_bytes).cooperative(self.cooperative))
            }
            Work::Cuda { .. } => None,
        }
    }

    /// A worker for all of it, to be stepped by the calling thread; `None` on a GPU.
    pub fn worker(&self) -> Result<Option<cpu::Worker>, Error> {
        Ok(self.ready()?.map(|launch| launch.worker()).transpose()?)
    }

    /// With the CPU executor's lanes in an order that this seed decides.
    pub fn seed(self, seed: u64) -> Launch {
        self.map_cpu(|launch| launch.seed(seed))
    }

    /// Its arguments are right for its grid. What the CPU executor runs, if it is to.
    fn ready(&self) -> Result<Option<cpu::Launch>, Error> {
        let grid = Grid {
            kernel: &self.name,
            blocks: self.grid,
            warps: self.warps(),
            block: self.block,
            shared_bytes: self.shared_bytes,
        };
        // A GPU refuses what is above its kernels' bound: so does the CPU target.
        if !(1..=BLOCK_THREADS_MAX).contains(&self.block) {
            let limit = format!("kernel {}: must be 1 to {BLOCK_THREADS_MAX} threads", self.name);
            return Err(Error::Argument { object: "block", value: self.block.to_string(), limit });
        }
        if self.shared_bytes > SHARED_BYTES_MAX {
            let limit = format!("kernel {}: must be at most {SHARED_BYTES_MAX}", self.name);
            return Err(Error::Argument {
                object: "shared_bytes",
                value: self.shared_bytes.to_string(),
                limit,
            });
        }
        if let (Work::Cpu(_), Some(stream)) = (&self.work, self.stream) {
            let limit = format!("kernel {}: target cpu has no CUDA streams", self.name);
            return Err(Error::Argument { object: "stream", value: format!("{stream:#x}"), limit });
        }
        if let Some(check) = &self.check {
            check(&grid)?;
        }
        // SAFETY: checked for this grid, or promised for by who made the launch; it is not changed before it runs.
        Ok(unsafe { self.on_cpu() })
    }

    /// Changes what only the CPU executor knows, such as seed and hooks; nothing on a GPU.
    pub(crate) fn map_cpu(self, change: impl FnOnce(cpu::Launch) -> cpu::Launch) -> Launch {
        let work = match self.work {
            Work::Cpu(launch) => Work::Cpu(change(launch)),
            cuda @ Work::Cuda { .. } => cuda,
        };
        Launch { work, ..self }
    }

    pub(crate) fn hooks(self, hooks: impl FnOnce() -> Hooks) -> Launch {
        self.map_cpu(|launch| launch.hooks(hooks()))
    }

    /// Starts it.
    #[tracing::instrument(level = "info", name = "launch", skip_all, fields(kernel = self.name, grid = self.grid, block = self.block))]
    pub fn start(&self) -> Result<Running, Error> {
        let on_cpu = self.ready()?;
        let watchdog = self.watchdog()?;
        let (name, keep, stop) = (self.name.clone(), self.keep.clone(), self.stop.clone());
        let running = |kernel| Running::new(kernel, name, keep, stop, watchdog);
        match (&self.work, on_cpu) {
            (Work::Cuda { function, args }, _) => {
                let config = LaunchConfig::new(self.grid, self.block)
                    .shared_bytes(self.shared_bytes)
                    .cooperative(self.cooperative)
                    .stream(self.stream)
                    .keep(self.keep.clone());
                // SAFETY: as in `ready`; the configuration keeps what this launch does; `stream` was promised for.
                let started = unsafe { function.launch(&config, args) };
                Ok(running(started?.into()))
            }
            (Work::Cpu(_), on_cpu) => {
                let launch = on_cpu.expect("on the CPU target");
                Ok(running(spawn_threads(&launch, &self.threads)?.into()))
            }
        }
    }

    fn watchdog(&self) -> Result<Option<Watchdog>, Error> {
        let watch = |limit: Duration| match &self.stop {
            Some(stop) => stop.watch(&self.name, limit),
            None => Err(Error::Argument {
                object: "limit",
                value: Time(limit).to_string(),
                limit: format!("kernel {} was given no stop flag, by which to end it", self.name),
            }),
        };
        self.limit.map(watch).transpose()
    }
}
