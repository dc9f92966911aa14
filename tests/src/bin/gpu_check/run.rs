//! A check, a figure, and what they run on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use warpbell::{DataPlacement, DeviceName, OpenOptions, OpenTarget, Ssd, Target};

use warpbell_gpu::GpuInfo;
use warpbell_kernels::builtin;
use warpbell_kernels::toolchain::CudaImage;

use crate::options::Options;
use crate::report::{CheckResult, FigureResult, Outcome, Row};
use warpbell::test_hooks::TestSsd;
use warpbell_tests::suite;

/// What checks and figures run on.
pub struct Fixture {
    pub target: Target,
    /// As long as it is open, its modules stay loaded.
    pub open: OpenTarget,
    /// What the target calls itself.
    pub target_name: String,
    pub quick: bool,
    /// Whether each PTX is loaded, too.
    pub all: bool,
    pub seconds: f64,
    /// Of the checks of queues the first of so many cases, or of others the only size of I/O, and how long a command may take.
    pub case: Option<u64>,
    pub cases: u64,
    pub timeout: Option<Duration>,
}

impl Fixture {
    /// Finds out whether the target is here at all.
    pub fn new(options: &Options) -> anyhow::Result<Fixture> {
        let Options { target, quick, all, seconds, case, cases, timeout, .. } = *options;
        anyhow::ensure!(seconds > 0.0 && seconds <= 600.0, "--seconds {seconds}: from above 0 to 600");
        let open = target.open()?;
        let target_name = match open.gpu() {
            None => "CPU executor".to_owned(),
            Some(gpu) => describe(gpu.info()),
        };
        let timeout = timeout.map(Duration::from_secs);
        Ok(Fixture { target, open, target_name, quick, all, seconds, case, cases, timeout })
    }

    /// Our kernel file `file` for the target, whose compute capability is `arch`.
    pub fn image(&self, file: &str, arch: u32) -> anyhow::Result<CudaImage> {
        Ok(if self.target.is_ptx() { builtin::ptx(file, arch)? } else { builtin::for_gpu(file, arch)? })
    }

    /// A soft controller.
    pub fn soft(&self, settings: &str, options: &OpenOptions) -> anyhow::Result<Ssd> {
        Ok(Ssd::open(&DeviceName::Soft(settings.to_owned()), options)?)
    }

    /// Data in the GPU's memory.
    pub fn device_data(&self) -> anyhow::Result<OpenOptions> {
        match self.target {
            Target::Cpu => Err(Skipped("data in GPU memory: the CPU target has none".to_owned()).into()),
            Target::Cuda(_) | Target::Ptx | Target::PtxWith(_) => {
                let gpu = self.open.gpu().cloned();
                let gpu = gpu.ok_or_else(|| Skipped("data in GPU memory: no GPU".to_owned()))?;
                Ok(OpenOptions::new().data(DataPlacement::Hbm(gpu)))
            }
        }
    }

    /// The checker of the soft controller has nothing against its client.
    pub fn no_violations(&self, ssd: &Ssd) -> anyhow::Result<()> {
        let found = ssd.violations();
        anyhow::ensure!(found.is_empty(), "violations: {found:?}");
        Ok(())
    }

    /// How long a figure is measured.
    pub fn runtime(&self) -> Duration {
        Duration::from_secs_f64(if self.quick { self.seconds.min(0.1) } else { self.seconds })
    }

    /// `full` of something, or less where time matters.
    pub fn sized(&self, full: u64) -> u64 {
        if self.quick { (full / 8).max(1) } else { full }
    }

    /// Bytes that benchmarks with verification use: where time matters still several times what is in flight.
    pub fn range(&self) -> u64 {
        if self.quick { suite::RANGE / 4 } else { suite::RANGE }
    }

    /// How many sizes of I/O a check runs.
    pub fn sizes_said(&self) -> &'static str {
        if self.case.is_some() { "one of three sizes" } else { "three sizes" }
    }

    /// Whether figures are those of a GPU, and not of the CPU or of a fake driver.
    pub fn is_hardware(&self) -> bool {
        self.on_gpu() && !self.target_name.contains("no GPU")
    }

    /// Whether kernels run through the CUDA driver.
    pub fn on_gpu(&self) -> bool {
        self.target != Target::Cpu
    }
}

fn describe(info: &GpuInfo) -> String {
    let GpuInfo { name, capability: (major, minor), multiprocessors, driver, .. } = info;
    format!(
        "{name}, compute capability {major}.{minor}, {multiprocessors} multiprocessors, {} GiB, CUDA {}.{}",
        info.memory >> 30,
        driver.0,
        driver.1
    )
}

/// Does not hold: an error. Does hold: what was done, in a line. `Skipped` where it cannot be tried here.
pub type Run = fn(&Fixture) -> anyhow::Result<String>;

/// Why a check was not run.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Skipped(pub String);

/// Something that must hold.
pub struct Check {
    pub name: &'static str,
    pub body: Run,
}

/// Something that is measured.
pub struct Figure {
    pub name: &'static str,
    pub body: fn(&Fixture) -> anyhow::Result<Vec<Row>>,
}

impl Check {
    pub fn run(&self, fixture: &Fixture) -> CheckResult {
        let begin = Instant::now();
        let outcome = match guarded(|| (self.body)(fixture)) {
            Ok(text) => Outcome::Passed(text),
            Err(error) => Outcome::of(&error),
        };
        CheckResult { name: self.name.to_owned(), outcome, seconds_s: begin.elapsed().as_secs_f64() }
    }
}

impl Figure {
    pub fn run(&self, fixture: &Fixture) -> FigureResult {
        let begin = Instant::now();
        let (outcome, rows) = match guarded(|| (self.body)(fixture)) {
            Ok(rows) => (Outcome::Passed(String::new()), rows),
            Err(error) => (Outcome::of(&error), Vec::new()),
        };
        FigureResult { name: self.name.to_owned(), outcome, seconds_s: begin.elapsed().as_secs_f64(), rows }
    }
}

/// The parts that are shared with other tiers' tests panic where something does not hold.
fn guarded<T>(body: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(anyhow::anyhow!(text.unwrap_or_else(|| "panicked".to_owned())))
    })
}
