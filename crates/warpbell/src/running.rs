//! Kernels that run.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpbell_gpu::{Watchdog, WatchdogReport};
use warpbell_hw::Window;
use warpbell_kernels::cpu;

use crate::{Error, SharedMemory};

/// From the wish to stop to the verdict that the kernel does not: its own deadlines are shorter.
const GRACE: Duration = Duration::from_secs(30);
/// Between two checks of a kernel: short ones are not kept waiting.
const FIRST_LOOK: Duration = Duration::from_micros(50);
const LOOK: Duration = Duration::from_millis(5);

/// The word by which a kernel is asked to stop.
#[derive(Clone, Debug)]
pub(crate) struct StopFlag {
    word: Window,
}

impl StopFlag {
    /// The word at `offset`.
    pub(crate) fn new(memory: &SharedMemory, offset: usize) -> Result<StopFlag, Error> {
        Ok(StopFlag { word: memory.window().slice(offset, size_of::<u32>())? })
    }

    /// Sets it when the kernel has not ended after `limit`.
    pub(crate) fn watch(&self, kernel: &str, limit: Duration) -> Result<Watchdog, Error> {
        let name = kernel.to_owned();
        let tell = move |report: WatchdogReport| tracing::warn!(kernel = name, "{}", report.words());
        let watchdog = Watchdog::start(self.word.clone(), limit, GRACE, tell);
        watchdog.map_err(|error| Error::Missing {
            what: format!("a watchdog for kernel {kernel}"),
            remedy: format!("its thread cannot start: {error}"),
        })
    }
}

/// What a launch did.
#[derive(Clone, Debug, Default)]
pub struct LaunchReport {
    /// From the start of the first thread to the end of the last, by the target's clock.
    pub elapsed: Duration,
    /// What the CPU executor counted; a GPU counts nothing.
    pub cpu: Option<cpu::Report>,
}

/// A kernel that was started. Dropped, it is asked to stop, and its end is waited for: what it uses must not go before.
/// On the CPU target it is broken off then.
pub struct Running {
    /// None once it has been joined.
    kernel: Option<Kernel>,
    name: String,
    stop: Option<StopFlag>,
    start: Instant,
    watchdog: Option<Watchdog>,
    /// Goes after the kernel. The same is kept below for a GPU, where a kernel may outlive this value.
    _keep: Vec<Arc<dyn Any + Send + Sync>>,
}

pub(crate) enum Kernel {
    Cpu(cpu::Running),
    Cuda(warpbell_gpu::Running),
}

impl From<cpu::Running> for Kernel {
    fn from(running: cpu::Running) -> Kernel {
        Kernel::Cpu(running)
    }
}

impl From<warpbell_gpu::Running> for Kernel {
    fn from(running: warpbell_gpu::Running) -> Kernel {
        Kernel::Cuda(running)
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("kernel", &self.name).finish_non_exhaustive()
    }
}

impl Running {
    pub(crate) fn new(
        kernel: Kernel,
        name: String,
        keep: Vec<Arc<dyn Any + Send + Sync>>,
        stop: Option<StopFlag>,
        watchdog: Option<Watchdog>,
    ) -> Running {
        Running { kernel: Some(kernel), name, stop, start: Instant::now(), watchdog, _keep: keep }
    }

    /// Asks the kernel to stop, if it has a stop flag; whether it has one.
    pub fn stop(&self) -> bool {
        if let Some(stop) = &self.stop {
            stop.word.store_u32(0, 1, Ordering::Release);
        }
        self.stop.is_some()
    }

    /// Whether it has ended. An error where it has not, though its watchdog asked it to stop a while ago.
    pub fn is_finished(&self) -> Result<bool, Error> {
        let finished = match self.kernel.as_ref() {
            None => true,
            Some(Kernel::Cpu(running)) => running.is_finished(),
            Some(Kernel::Cuda(running)) => running.is_finished()?,
        };
        let ignored = |watchdog: &Watchdog| watchdog.report() == WatchdogReport::Ignored;
        if !finished && self.watchdog.as_ref().is_some_and(ignored) {
            let on_gpu = matches!(self.kernel, Some(Kernel::Cuda(_)));
            return Err(Error::Overdue { kernel: self.name.clone(), after: self.start.elapsed(), on_gpu });
        }
        Ok(finished)
    }

    /// Waits for the end, and calls `each` between polls: every few milliseconds.
    pub fn wait(&self, mut each: impl FnMut(&Running)) -> Result<(), Error> {
        let mut pause = FIRST_LOOK;
        while !self.is_finished()? {
            each(self);
            std::thread::sleep(pause);
            pause = LOOK.min(pause * 2);
        }
        Ok(())
    }

    /// Waits for the end: what the launch did.
    pub fn join(mut self) -> Result<LaunchReport, Error> {
        if self.watchdog.is_some() {
            self.wait(|_| ())?;
        }
        match self.kernel.take().expect("joined once") {
            Kernel::Cpu(running) => {
                let report = running.join()?;
                Ok(LaunchReport { elapsed: report.elapsed, cpu: Some(report) })
            }
            Kernel::Cuda(running) => Ok(LaunchReport { elapsed: running.join()?, cpu: None }),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.kernel.is_some() {
            self.stop();
        }
    }
}
