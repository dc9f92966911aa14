// UNSAFETY: kernels reach what the driver's client allocated or registered, by its addresses.
#![expect(unsafe_code, reason = "vouches for the memory that a driver's kernels reach")]
//! Launches on the PTX machine: what a module says runs, with all checks.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use warpbell_ptx::{Check, Error, Gpu, Launch, Memory, Module, Region, Source};

use crate::code::Code;
use crate::context::Fault;
#[cfg(not(feature = "defects"))]
use crate::error::MutationError;
use crate::image::Refusal;
use crate::kernel::Shape;
use crate::log;
use crate::memory::{FRESH, Mappings};
#[cfg(feature = "defects")]
use crate::mutate::mutated;
use crate::options::{Options, Races};

/// A module's text, with the defect that is asked for.
pub(crate) fn text<'a>(bytes: &'a [u8], mutate: Option<&str>) -> Result<Cow<'a, str>, Refusal> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|error| Refusal(Code::INVALID_IMAGE, error.to_string()))?;
    match mutate {
        Some(name) => {
            mutated(text, name).map(Cow::Owned).map_err(|error| Refusal(Code::INVALID_PTX, error.to_string()))
        }
        None => Ok(Cow::Borrowed(text)),
    }
}

/// Reads PTX: what messages call it.
pub(crate) fn read(text: &str) -> Result<Source<'_>, Refusal> {
    Source::read("module.ptx", text).map_err(|error| Refusal(Code::INVALID_PTX, error.to_string()))
}

/// Makes a module of it for the machine.
pub(crate) fn module(source: &Source<'_>) -> Result<Arc<Module>, Refusal> {
    source.decode().map(Arc::new).map_err(|error| Refusal(Code::INVALID_PTX, error.to_string()))
}

#[cfg(not(feature = "defects"))]
fn mutated(_text: &str, name: &str) -> Result<String, MutationError> {
    Err(MutationError::NotBuilt { name: name.to_owned() })
}

/// Launches so far.
static LAUNCHES: AtomicU64 = AtomicU64::new(0);

/// A kernel of a module with its arguments.
pub(crate) struct Prepared {
    module: Arc<Module>,
    gpu: Arc<Gpu>,
    kernel: String,
    shape: Shape,
    args: Vec<u8>,
    resident: u32,
    multiprocessors: u32,
    weak: Option<u64>,
    races: Races,
}

impl Prepared {
    pub(crate) fn new(
        (module, gpu): (&Arc<Module>, &Arc<Gpu>),
        kernel: &str,
        shape: &Shape,
        args: &[u8],
        resident: u32,
        options: &Options,
    ) -> Prepared {
        let (kernel, args) = (kernel.to_owned(), args.to_vec());
        Prepared {
            module: module.clone(),
            gpu: gpu.clone(),
            kernel,
            shape: *shape,
            args,
            resident,
            multiprocessors: options.multiprocessors,
            weak: options.weak,
            races: options.races,
        }
    }

    pub(crate) fn run(self, mappings: &'static Mappings) -> Result<(), Fault> {
        let Shape { grid, block, shared } = self.shape;
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let launch = Launch::new(&self.module, &self.kernel).grid([grid, 1, 1]).block([block, 1, 1]);
        let launch = launch.dynamic_shared(shared).arguments(&self.args).resident(self.resident);
        let launch = launch.workers(workers).multiprocessors(self.multiprocessors);
        let launch = launch.gpu(&self.gpu);
        let launch = match self.races {
            Races::Nowhere => launch,
            Races::Shared => launch.shared_races(true),
            Races::Everywhere => launch.races(true),
        };
        // Each launch has an order of its own.
        let seed = self.weak.unwrap_or_default() ^ LAUNCHES.fetch_add(1, Ordering::Relaxed) << 32;
        let launch = launch.weak(self.weak.is_some()).seed(seed);
        let ran = launch.run(&Mapped(mappings), &AtomicBool::new(false));
        let ran = ran.map_err(|error| Fault { code: code_of(&error), text: error.to_string() })?;
        log::executed(&self.kernel, ran.instructions);
        Ok(())
    }
}

/// As a GPU tells it.
fn code_of(error: &Error) -> Code {
    match error {
        Error::Found(finding) if finding.check == Check::Bounds => Code::ILLEGAL_ADDRESS,
        Error::Found(finding) if finding.check == Check::Alignment => Code::MISALIGNED_ADDRESS,
        _ => Code::LAUNCH_FAILED,
    }
}

/// What the device reaches.
struct Mapped(&'static Mappings);

impl Memory for Mapped {
    fn region(&self, address: u64) -> Option<Region> {
        let range = self.0.range(address)?;
        // SAFETY: the driver's contract: what was allocated or registered stays mapped while kernels run, for its client
        // waits for them before it takes it away; all that the driver itself does there is copies of bytes.
        let region = unsafe { Region::new(range.start, range.end, range.io) };
        Some(if range.fresh { region.fresh(FRESH) } else { region })
    }
}
