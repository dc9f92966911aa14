// UNSAFETY: what a kernel does with addresses in its arguments is the caller's promise.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]
//! Kernels that run.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pause::Pause;
use crate::sys::{PATIENCE, Shape, Stream, Symbol};
use crate::{Function, GpuError};

warpbell_base::options! {
    /// How a kernel is started.
    #[derive(Clone, Default)]
    pub struct LaunchConfig {
        /// Blocks.
        pub grid: u32,
        /// Threads of a block.
        pub block: u32,
        /// Bytes of dynamic shared memory of a block.
        pub shared_bytes: u32,
        /// All blocks run at the same time, or the launch is refused.
        pub cooperative: bool,
        /// The driver's handle of the stream that it goes on; without one a stream of its own. 0, 1 and 2 are the default
        /// streams of `cuda.h`.
        pub stream: Option<u64>,
        /// What the kernel uses: alive until it has ended.
        pub keep: Vec<Arc<dyn Any + Send + Sync>>,
    } no new
}

impl LaunchConfig {
    /// So many blocks, of so many threads.
    pub fn new(grid: u32, block: u32) -> LaunchConfig {
        LaunchConfig { grid, block, ..LaunchConfig::default() }
    }
}

impl std::fmt::Debug for LaunchConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("LaunchConfig");
        text.field("grid", &self.grid).field("block", &self.block).field("shared_bytes", &self.shared_bytes);
        text.field("cooperative", &self.cooperative).field("stream", &self.stream);
        text.field("keep", &self.keep.len()).finish()
    }
}

/// A kernel that was started.
///
/// Dropped, it waits for the kernel's end, as memory that a kernel uses cannot be released. A kernel that does not end
/// within a minute cannot be killed without its context: it is told of, and all that it uses is left to the end of the
/// process.
pub struct Running {
    /// None once it has been taken.
    stream: Option<Stream>,
    keep: Vec<Arc<dyn Any + Send + Sync>>,
    name: String,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("kernel", &self.name).finish_non_exhaustive()
    }
}

impl Function {
    /// Starts the kernel with one argument: a struct, by value, of these bytes. Every argument of a kernel that has several
    /// gets them. On a stream of the caller's it begins after what is there, and what comes later begins after it.
    ///
    /// # Safety
    /// The kernel touches only memory that is valid until it has ended, as what goes into [`LaunchConfig::keep`] is.
    /// [`LaunchConfig::stream`], if there is one, is of this GPU's primary context, and is not destroyed before
    /// [`Running`] has gone.
    pub unsafe fn launch(&self, config: &LaunchConfig, args: &[u8]) -> Result<Running, GpuError> {
        self.check(config, args)?;
        // SAFETY: the contract of this function.
        unsafe { Running::start(self.symbol(), config, args) }
    }
}

impl Running {
    /// # Safety
    /// As for [`Function::launch`].
    unsafe fn start(symbol: &Symbol, config: &LaunchConfig, args: &[u8]) -> Result<Running, GpuError> {
        let shape = Shape {
            grid: config.grid,
            block: config.block,
            shared_bytes: config.shared_bytes,
            cooperative: config.cooperative,
        };
        let mut keep = config.keep.clone();
        keep.push(Arc::new(symbol.clone()));
        let mut stream = symbol.context().stream()?;
        if let Some(foreign) = config.stream {
            // SAFETY: the contract of this function.
            unsafe { stream.go_to(foreign) };
        }
        // Nothing is on it where even this fails, as where there is no such stream.
        stream.mark_start().inspect_err(|_| stream.set_idle())?;
        // SAFETY: the contract of this function; `keep` lives until the kernel has ended.
        let started = unsafe { symbol.launch(&mut stream, &shape, args) };
        match started.and_then(|()| stream.mark_end()) {
            Ok(()) => Ok(Running { stream: Some(stream), keep, name: symbol.name().to_owned() }),
            Err(error) => {
                // The kernel may run all the same.
                if !stream.drain(PATIENCE) {
                    std::mem::forget(keep);
                    stream.abandon();
                }
                Err(error)
            }
        }
    }

    fn stream(&self) -> &Stream {
        self.stream.as_ref().expect("taken in join and drop only")
    }

    /// Whether the kernel has ended. An error is one of the kernel, or of anything on this GPU before.
    pub fn is_finished(&self) -> Result<bool, GpuError> {
        self.stream().has_ended()
    }

    /// Waits for the end, up to `limit`; whether it came.
    pub fn wait(&self, limit: Duration) -> Result<bool, GpuError> {
        let started = Instant::now();
        let mut pause = Pause::default();
        loop {
            if self.is_finished()? {
                return Ok(true);
            }
            if started.elapsed() >= limit {
                return Ok(false);
            }
            pause.next();
        }
    }

    /// Waits for the end, however long it takes; how long the kernel ran, by the GPU's clock. Kernels of this project
    /// have deadlines of their own; a [`Watchdog`](crate::Watchdog) stops others.
    pub fn join(mut self) -> Result<Duration, GpuError> {
        self.wait(Duration::MAX)?;
        let mut stream = self.stream.take().expect("taken here first");
        stream.set_idle();
        let milliseconds = stream.elapsed()?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.stream.is_none() {
            return;
        }
        let ended = self.wait(PATIENCE);
        let Some(mut stream) = self.stream.take() else { return };
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                tracing::warn!(%error, kernel = self.name, "a kernel ended with an error");
                stream.drain(PATIENCE)
            }
        };
        if ended {
            return stream.set_idle();
        }
        tracing::error!(
            kernel = self.name,
            "still running after {PATIENCE:?}, and it cannot be killed without its context: what it uses stays \
             taken until the process ends"
        );
        std::mem::forget(std::mem::take(&mut self.keep));
        stream.abandon();
    }
}
