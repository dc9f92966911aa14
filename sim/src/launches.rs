// UNSAFETY: tests launch kernels of their own, over memory of their own.
#![expect(unsafe_code, reason = "launches of kernels that only tests run")]
//! Launches for tests, without a word about safety at each: a test's arguments name memory that it holds until its kernels
//! have ended. Where one does not, it is this program that crashes, and nothing of a user's.

use std::path::Path;

use warpbell::{Attachment, CompileOptions, Error, Launch, LaunchOver, Module, OpenTarget, Program};
use warpbell_kernels::abi::Plain;
use warpbell_kernels::toolchain::Variant;
use warpbell_kernels::{self as kernels, cpu};
use zerocopy::{Immutable, IntoBytes};

/// Kernels that a test compiled.
pub fn load_module(path: &Path) -> Result<cpu::Module, kernels::Error> {
    // SAFETY: code of the test's own.
    unsafe { cpu::Module::load(path) }
}

/// Kernels that a test compiles and loads.
pub trait TestVariant {
    /// For the CPU target.
    fn loaded(&self) -> Result<cpu::Module, kernels::Error>;
}

impl TestVariant for Variant {
    fn loaded(&self) -> Result<cpu::Module, kernels::Error> {
        // SAFETY: code of the test's own.
        unsafe { self.load() }
    }
}

/// Kernels of a test's own source, compiled now.
pub fn compile(
    target: &OpenTarget,
    name: &str,
    source: &str,
    options: &CompileOptions,
) -> Result<Program, Error> {
    // SAFETY: code of the test's own.
    unsafe { Program::compile(target, name, source, options) }
}

/// A launch on the CPU executor.
pub fn cpu_launch<T: Plain>(
    module: &cpu::Module,
    kernel: &str,
    args: &T,
) -> Result<cpu::Launch, kernels::Error> {
    // SAFETY: a test's memory, as above.
    unsafe { cpu::Launch::new(module, kernel, args) }
}

/// The same for an argument struct that the library does not know.
pub fn cpu_launch_bytes(
    module: &cpu::Module,
    kernel: &str,
    args: &[u8],
) -> Result<cpu::Launch, kernels::Error> {
    // SAFETY: a test's memory, as above.
    unsafe { cpu::Launch::with_bytes(module, kernel, args) }
}

/// A launch of our own kernel `kernel` without queues.
pub fn launch_alone<T: Plain>(target: &OpenTarget, kernel: &str, args: &T) -> Result<Launch, Error> {
    // SAFETY: a test's memory, as above.
    unsafe { Launch::unchecked(&target.module()?, kernel, args) }
}

/// A launch of a kernel of a user's.
pub fn launch_program<T: IntoBytes + Immutable>(
    program: &Program,
    queues: &Attachment,
    kernel: &str,
    args: &T,
) -> Result<Launch, Error> {
    // SAFETY: a test's memory, as above.
    unsafe { program.launch(queues, kernel, args) }
}

/// The launch as the CPU executor takes it; `None` on a GPU.
pub fn on_cpu(launch: &Launch) -> Option<cpu::Launch> {
    // SAFETY: a test's memory, as above.
    unsafe { launch.on_cpu() }
}

/// Launches over queues.
pub trait TestLaunch {
    /// Of kernel `kernel` of `module`, with a struct or its bytes.
    fn launch_bytes<T: IntoBytes + Immutable + ?Sized>(
        &self,
        module: &Module,
        kernel: &str,
        args: &T,
    ) -> Result<Launch, Error>;
}

impl<Q: LaunchOver> TestLaunch for Q {
    fn launch_bytes<T: IntoBytes + Immutable + ?Sized>(
        &self,
        module: &Module,
        kernel: &str,
        args: &T,
    ) -> Result<Launch, Error> {
        // SAFETY: a test's memory, as above.
        unsafe { self.launch_unchecked(module, kernel, args) }
    }
}

/// Puts a lane back to where it was when these words of it were saved.
pub(crate) fn restore(explorer: &mut cpu::Explorer, lane: usize, from: &[u64]) {
    // SAFETY: the search hands back words that it saved of this lane.
    unsafe { explorer.restore(lane, from) };
}
