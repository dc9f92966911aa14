//! What can go wrong with kernels.

use std::path::PathBuf;

use crate::abi::Mismatch;
use crate::toolchain::VariantError;

/// Why kernels could not be loaded or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This build has no CPU target.
    #[error("target cpu is not available: {reason}")]
    NoCompiler {
        /// Why, and what to install.
        reason: String,
    },
    /// A shared object could not be loaded.
    #[error("module {}: cannot be loaded", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// What the loader says.
        source: libloading::Error,
    },
    /// A module of another version of the executor.
    #[error("module {module}: executor interface {found}, but this program has {expected}")]
    Interface {
        /// The module.
        module: String,
        /// Its version and size of the module table.
        found: String,
        /// Ours.
        expected: String,
    },
    /// Host and kernels disagree about a shared struct.
    #[error("module {module}: {mismatch}")]
    Abi {
        /// The module.
        module: String,
        /// The first difference.
        mismatch: Mismatch,
    },
    /// A kernel that the module does not have.
    #[error("kernel '{name}': module {module} has {known}")]
    NoKernel {
        /// What was asked for.
        name: String,
        /// The module.
        module: String,
        /// What it has.
        known: String,
    },
    /// Arguments of another size than the kernel's.
    #[error("kernel {kernel}: arguments of {found} bytes, but it takes {expected}")]
    ArgumentSize {
        /// The kernel.
        kernel: String,
        /// Bytes given.
        found: usize,
        /// Bytes that the kernel takes.
        expected: u64,
    },
    /// Arguments of another version of the interface than the kernel's.
    #[error("kernel {kernel}: arguments of {found}, but it takes {expected}")]
    ArgumentVersion {
        /// The kernel.
        kernel: String,
        /// Version and size given.
        found: String,
        /// Version and size that the kernel takes.
        expected: String,
    },
    /// The executor refused the launch.
    #[error("kernel {kernel}: {reason}")]
    Refused {
        /// The kernel.
        kernel: String,
        /// The executor's words.
        reason: String,
    },
    /// Some lanes can never run again.
    #[error("kernel {kernel}: deadlock\n{lanes}")]
    Deadlock {
        /// The kernel.
        kernel: String,
        /// Each lane and what it waits for.
        lanes: String,
    },
    /// The kernel did what CUDA leaves undefined.
    #[error("kernel {kernel}: {fault}")]
    Fault {
        /// The kernel.
        kernel: String,
        /// What it did.
        fault: String,
    },
    /// The caller gave up before the kernel was done.
    #[error("kernel {kernel}: stopped before it was done")]
    Stopped {
        /// The kernel.
        kernel: String,
    },
    /// A thread for a worker could not be had, or not on that CPU.
    #[error("worker {worker}: {reason}")]
    Thread {
        /// Which of them.
        worker: usize,
        /// Why.
        reason: String,
    },
    /// A variant could not be compiled.
    #[error(transparent)]
    Variant(#[from] VariantError),
}

impl Error {
    /// Whether the machine lacks something that would make it work: exit code 4.
    pub fn is_missing_requirement(&self) -> bool {
        matches!(self, Error::NoCompiler { .. } | Error::Variant(VariantError::NoCompiler))
    }
}
