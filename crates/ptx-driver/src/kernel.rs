// UNSAFETY: runs kernels as the driver does, over whatever addresses its client hands over.
#![expect(unsafe_code, reason = "a driver launches what its client says")]
//! Modules, their functions, and launches on the CPU executor.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use warpbell_kernels::cpu::{self, Access, Hooks, Idle, Launch, MemoryEvent, Threads, spawn_threads};

use crate::code::{Code, Result};
use crate::context::Fault;
use crate::driver::misuse;
use crate::image::{Entry, Image};
use crate::machine;
use crate::memory::Mappings;
use crate::options::Options;

/// Registers of a kernel whose image does not say: synthetic.
const SOME_REGISTERS: u32 = 32;
/// Shared memory, static and dynamic, that a block may have without its dynamic part being asked for, and with.
const PLAIN_SHARED: u32 = 48 << 10;
pub(crate) const MOST_SHARED: u32 = 227 << 10;

/// A module that was loaded.
pub(crate) struct Module {
    pub(crate) entries: HashMap<String, (Entry, Image)>,
    /// The module for the PTX machine, where that runs kernels.
    pub(crate) ptx: Option<Arc<warpbell_ptx::Module>>,
    /// Handles of the functions that were asked for.
    pub(crate) functions: parking_lot::Mutex<HashMap<String, u64>>,
}

/// A kernel of a module.
pub(crate) struct Function {
    pub(crate) entry: Entry,
    pub(crate) image: Image,
    pub(crate) ptx: Option<Arc<warpbell_ptx::Module>>,
    /// cuFuncLoad was called, or it was launched.
    pub(crate) loaded: AtomicBool,
    dynamic: AtomicU32,
}

/// What a launch looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: u32,
    pub(crate) block: u32,
    pub(crate) shared: u32,
}

impl Function {
    pub(crate) fn new(entry: Entry, image: Image, ptx: Option<Arc<warpbell_ptx::Module>>) -> Function {
        let dynamic = AtomicU32::new(PLAIN_SHARED.saturating_sub(entry.shared_bytes));
        Function { entry, image, ptx, loaded: AtomicBool::new(false), dynamic }
    }

    pub(crate) fn registers(&self) -> u32 {
        self.entry.registers.unwrap_or(SOME_REGISTERS)
    }

    pub(crate) fn dynamic(&self) -> u32 {
        self.dynamic.load(Ordering::Relaxed)
    }

    pub(crate) fn allow(&self, dynamic: u32) -> Result<()> {
        if dynamic + self.entry.shared_bytes > MOST_SHARED {
            return Err(Code::INVALID_VALUE);
        }
        self.dynamic.store(dynamic, Ordering::Relaxed);
        Ok(())
    }

    /// Blocks that one multiprocessor runs at a time.
    pub(crate) fn occupancy(&self, block: u32, shared: u32, arch: u32) -> u32 {
        let threads = match arch {
            75 => 1024,
            86..=89 | 120.. => 1536,
            _ => 2048,
        };
        let warps = block.div_ceil(32).max(1);
        let by_threads = threads / (warps * 32);
        let by_registers = 65536 / (self.registers().next_multiple_of(8) * warps * 32);
        let by_shared = (MOST_SHARED + 1024) / (shared + self.entry.shared_bytes + 1024);
        if block > self.entry.most_threads || shared > self.dynamic() {
            return 0;
        }
        by_threads.min(by_registers).min(by_shared).min(32)
    }

    pub(crate) fn check(&self, shape: &Shape) -> Result<()> {
        let Shape { grid, block, shared } = *shape;
        if grid == 0 || block == 0 || grid > i32::MAX as u32 || shared > self.dynamic() {
            return Err(misuse(Code::INVALID_VALUE, &format!("{shape:?}")));
        }
        if block > self.entry.most_threads {
            return Err(misuse(
                Code::INVALID_VALUE,
                &format!("{shape:?}: at most {} threads", self.entry.most_threads),
            ));
        }
        Ok(())
    }
}

/// A kernel with its arguments, and what runs it.
pub(crate) enum Prepared {
    /// With `check`, an access outside of what the device reaches ends the kernel, as on a GPU.
    Cpu {
        launch: Box<Launch>,
        threads: Threads,
        check: bool,
    },
    Ptx(machine::Prepared),
}

impl Prepared {
    /// Runs it to its end.
    pub(crate) fn run(self, mappings: &'static Mappings) -> std::result::Result<(), Fault> {
        match self {
            Prepared::Cpu { launch, threads, check } => run(*launch, &threads, check.then_some(mappings)),
            Prepared::Ptx(prepared) => prepared.run(mappings),
        }
    }
}

/// The kernel with its arguments, of which as many blocks run at once as `resident`.
pub(crate) fn prepare(
    function: &Function,
    shape: &Shape,
    args: &[u8],
    resident: u32,
    (options, gpu): (&Options, &Arc<warpbell_ptx::Gpu>),
) -> Result<Prepared> {
    if let Some(module) = &function.ptx {
        let prepared =
            machine::Prepared::new((module, gpu), &function.entry.name, shape, args, resident, options);
        return Ok(Prepared::Ptx(prepared));
    }
    let name = &function.entry.name;
    let Some(module) = find(name, options.modules.as_deref()) else {
        return Err(misuse(Code::INVALID_IMAGE, &format!("kernel {name} has no code for the CPU executor")));
    };
    // SAFETY: the driver's contract: its client answers for the kernel and its arguments.
    let launch = unsafe { Launch::with_bytes(&module, name, args) };
    let launch = launch.map_err(|error| misuse(Code::INVALID_VALUE, &error.to_string()))?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(shape.grid as usize);
    let each = resident.div_ceil(workers as u32);
    let launch = launch.grid(shape.grid).block(shape.block).shared_bytes(shape.shared).resident_blocks(each);
    let threads = Threads::new().workers(workers).idle(Idle::YieldAfter(16));
    Ok(Prepared::Cpu { launch: Box::new(launch), threads, check: options.check })
}

fn run(
    launch: Launch,
    threads: &Threads,
    mappings: Option<&'static Mappings>,
) -> std::result::Result<(), Fault> {
    let illegal: Arc<OnceLock<MemoryEvent>> = Arc::default();
    let kernel = launch.kernel().to_owned();
    let launch = match mappings {
        Some(mappings) => launch.hooks(watch(mappings, illegal.clone())),
        None => launch,
    };
    let failed =
        |error: warpbell_kernels::Error| Fault { code: Code::LAUNCH_FAILED, text: error.to_string() };
    let running = spawn_threads(&launch, threads).map_err(failed)?;
    while !running.is_finished() {
        if illegal.get().is_some() {
            running.cancel();
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    let result = running.join();
    match illegal.get() {
        Some(event) => {
            let text = format!("kernel {kernel}: {event:?}: no device memory, nor registered host memory");
            Err(Fault { code: Code::ILLEGAL_ADDRESS, text })
        }
        None => result.map(|_| ()).map_err(failed),
    }
}

fn watch(mappings: &'static Mappings, illegal: Arc<OnceLock<MemoryEvent>>) -> Hooks {
    Hooks::new().memory(move |event| {
        let accesses = matches!(event.access, Access::Load | Access::Store | Access::Rmw | Access::Doorbell);
        if accesses && !mappings.has(event.address, u64::from(event.bytes)) {
            illegal.get_or_init(|| *event);
        }
    })
}

/// The CPU's code of a kernel: built in, or in a shared object at that path; in a folder, the newest that has it.
fn find(kernel: &str, path: Option<&Path>) -> Option<cpu::Module> {
    let has = |module: &cpu::Module| module.kernel(kernel).is_ok();
    let built_in = cpu::Module::builtin().ok().filter(has);
    // SAFETY: whoever names the folder to this driver vouches for what is in it.
    let load = |path: &PathBuf| unsafe { cpu::Module::load(path) }.ok();
    built_in.or_else(|| objects(path?).iter().filter_map(load).find(has))
}

/// The shared objects at a path, newest first.
fn objects(path: &Path) -> Vec<PathBuf> {
    let Ok(folder) = std::fs::read_dir(path) else { return vec![path.to_owned()] };
    let files = folder.filter_map(|file| Some(file.ok()?.path()));
    let mut objects: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "so")).collect();
    objects.sort_by_key(|path| std::cmp::Reverse(path.metadata().and_then(|of| of.modified()).ok()));
    objects
}
