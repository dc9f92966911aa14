//! What can go wrong with kernels.

use std::path::PathBuf;

use crate::abi::Mismatch;
use crate::toolchain::CompileError;

/// Why kernels could not be loaded or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// A rule that cannot be switched off.
    #[error("rule {rule}: module {module}: {reason}")]
    Switch {
        /// The rule, as in `mutation.cuh`.
        rule: String,
        /// The module.
        module: String,
        /// Why not.
        reason: &'static str,
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
    /// Two kernels of one name.
    #[error("kernel '{kernel}': module {module} has two of that name; rename one")]
    DefinedTwice {
        /// The name.
        kernel: String,
        /// The module.
        module: String,
    },
    /// A kernel that was compiled with another `abi.h`.
    #[error(
        "kernel '{kernel}' of module {module}: compiled with interface version {found}, but this program has \
         version {}: compile it with this version's headers",
        crate::abi::ABI_VERSION
    )]
    KernelVersion {
        /// The kernel.
        kernel: String,
        /// The module.
        module: String,
        /// The kernel's version.
        found: u32,
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
    /// A kernel that does not take these arguments.
    #[error("kernel {kernel}: takes no {args}; kernels that do: {known}")]
    ArgumentType {
        /// The kernel.
        kernel: String,
        /// The struct.
        args: &'static str,
        /// Kernels that take it.
        known: String,
    },
    /// The executor refused the launch.
    #[error("kernel {kernel}: {reason}")]
    Refused {
        /// The kernel.
        kernel: String,
        /// The executor's words.
        reason: String,
    },
    /// Blocks that are to run at the same time, more than there is room for.
    #[error(
        "kernel {kernel}: {blocks} blocks of {block} threads at the same time: at most {most} on target cpu"
    )]
    TooManyBlocks {
        /// The kernel.
        kernel: String,
        /// Blocks of the grid.
        blocks: u32,
        /// Threads of a block.
        block: u32,
        /// Blocks that there is room for.
        most: u32,
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
    /// An image or a module that cannot be used.
    #[error("{image}: {reason}")]
    Image {
        /// Its name.
        image: String,
        /// Why not.
        reason: String,
    },
    /// Device source could not be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

impl Error {
    /// Of an image, or a module, that was to have kernels.
    pub fn without_kernels(name: &str) -> Error {
        let reason = "it has no kernel that WARPBELL_KERNEL(name, args) defined".to_owned();
        Error::Image { image: name.to_owned(), reason }
    }

    /// Whether the machine lacks something that would make it work: exit code 4.
    pub fn is_missing_requirement(&self) -> bool {
        match self {
            Error::NoCompiler { .. } => true,
            Error::Compile(error) => error.is_missing_requirement(),
            _ => false,
        }
    }
}
