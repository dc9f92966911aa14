//! Errors of the public API, and the exit code that each deserves.

use std::borrow::Cow;
use std::sync::Arc;

use warpbell_base::Time;
use warpbell_driver::DriverError;
use warpbell_files::Error as FileError;
use warpbell_gpu::GpuError;
use warpbell_hw::{Device, DmaError, DoorbellError, Lba, MemoryError, Nsid};
use warpbell_softctl::{SoftConfigError, SoftError};
use warpbell_vfio::VfioError;
use warpbell_vfio::pci::PciError;
use warpbell_vfio::user::UserError;

use crate::{DeviceNameError, LayoutError, Target, TargetError};

/// Why an operation of the public API failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device name of no known form.
    #[error(transparent)]
    DeviceName(#[from] DeviceNameError),
    /// A target of no known form.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Options of a soft controller that make no sense.
    #[error(transparent)]
    SoftConfig(#[from] SoftConfigError),
    /// The soft controller could not start.
    #[error(transparent)]
    Soft(#[from] SoftError),
    /// A PCI function could not be opened.
    #[error(transparent)]
    Vfio(#[from] VfioError),
    /// A PCI function could not be found.
    #[error(transparent)]
    Pci(#[from] PciError),
    /// The server of a controller in another process.
    #[error(transparent)]
    User(#[from] UserError),
    /// The controller or its driver.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// Warps and queues that do not fit together.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Memory could not be mapped for the device.
    #[error(transparent)]
    Dma(#[from] DmaError),
    /// Foreign memory could not be mapped for the device.
    #[error("memory {memory}: {source}")]
    Foreign {
        /// Its name.
        memory: String,
        /// Why not.
        source: DmaError,
    },
    /// A doorbell that cannot be reached.
    #[error(transparent)]
    Doorbell(#[from] DoorbellError),
    /// A file of an SSD.
    #[error(transparent)]
    File(Box<FileError>),
    /// Doorbells that kernels cannot ring.
    #[error("doorbells of {device} for kernels: {reason}")]
    Doorbells {
        /// Whose.
        device: String,
        /// Why not.
        reason: String,
    },
    /// Memory could not be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The kernels could not be loaded or run.
    #[error(transparent)]
    Kernels(#[from] warpbell_kernels::Error),
    /// An environment variable that is wrong.
    #[error("{object}: {limit}")]
    Option {
        /// Which.
        object: &'static str,
        /// What it must be.
        limit: String,
    },
    /// A target that this machine cannot offer.
    #[error("target {target}: {source}{}", instead(source))]
    Unavailable {
        /// Which.
        target: Target,
        /// Why not, and what would run instead.
        source: GpuError,
    },
    /// The GPU or its driver.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A kernel that did not end by its limit.
    #[error(
        "kernel {kernel}: past its limit, and still running {} after its start{}",
        Time(*.after),
        if *.on_gpu { "; it cannot be killed without its context: end this process" } else { "; it is broken off" }
    )]
    Overdue {
        /// The kernel.
        kernel: String,
        /// Since its start.
        after: std::time::Duration,
        /// Whether it runs on a GPU.
        on_gpu: bool,
    },
    /// An argument outside its limits.
    #[error("{object} {value}: {limit}")]
    Argument {
        /// What was given.
        object: &'static str,
        /// The value.
        value: String,
        /// What is allowed.
        limit: String,
    },
    /// A place for rings or data that is none, or cannot be.
    #[error("{option} {reason}")]
    Placement {
        /// `rings`, `data` or `gpu`.
        option: &'static str,
        /// What was given, and what is allowed.
        reason: String,
    },
    /// An argument that names memory which its launch does not keep.
    #[error(
        "kernel {kernel}: argument {field}: {bytes} bytes at {address:#x}: must lie in memory of the launch"
    )]
    Unowned {
        /// The kernel.
        kernel: String,
        /// The argument.
        field: &'static str,
        /// The first byte that the kernel would touch.
        address: u64,
        /// Bytes that it would.
        bytes: u64,
    },
    /// A command failed, in something that needs all of them.
    #[error("{op} of {nsid}{}: {status}", lba.map_or(String::new(), |lba| format!(", {lba}")))]
    Command {
        /// `transfer`, `flush`, `read` or `write`.
        op: Cow<'static, str>,
        /// Namespace.
        nsid: Nsid,
        /// First block of the command, where known.
        lba: Option<Lba>,
        /// The status in words.
        status: String,
    },
    /// Something that this machine or this build does not have.
    #[error("{what} is not available: {remedy}")]
    Missing {
        /// What is missing.
        what: String,
        /// What would help.
        remedy: String,
    },
    /// Something that is still in use.
    #[error("{object}: {reason}; {remedy}")]
    Busy {
        /// What cannot be let go.
        object: &'static str,
        /// What uses it.
        reason: String,
        /// What ends that.
        remedy: &'static str,
    },
    /// Queues whose memory the controller may still use.
    #[error(
        "queues: {cause}; the controller may still write to their rings and buffers, which stay mapped until the SSD is closed"
    )]
    Undeleted {
        /// Why they were not deleted.
        cause: Arc<DriverError>,
    },
    /// Something that could destroy data and was not allowed by name.
    #[error("{object}: {reason}; {remedy}")]
    Refused {
        /// What would be written.
        object: String,
        /// Why it was refused.
        reason: String,
        /// How to allow it.
        remedy: String,
    },
}

impl From<FileError> for Error {
    /// What the SSD said of a command, where that is why a file cannot be read.
    fn from(error: FileError) -> Error {
        match error {
            FileError::Io { action, offset, bytes, source } => match source.downcast::<Error>() {
                Ok(own) => *own,
                Err(source) => Error::File(Box::new(FileError::Io { action, offset, bytes, source })),
            },
            other => Error::File(Box::new(other)),
        }
    }
}

/// What runs where there is no GPU.
fn instead(missing: &GpuError) -> &'static str {
    if matches!(missing, GpuError::NoLibrary { .. }) { "; target cpu runs without a GPU" } else { "" }
}

impl Error {
    pub(crate) fn doorbells(device: &dyn Device, reason: String) -> Error {
        Error::Doorbells { device: device.info().name, reason }
    }

    /// Whether the user wanted an end while kernels were compiled.
    pub fn is_interrupted(&self) -> bool {
        use warpbell_kernels::{Error as KernelError, toolchain::CompileError};
        matches!(self, Error::Kernels(KernelError::Compile(CompileError::Interrupted { .. })))
    }

    /// The exit code of a program that ends with this error: 1 failed, 2 usage, 3 refused
    /// for safety, 4 requirement missing, 130 interrupted.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::DeviceName(_) | Error::Target(_) | Error::SoftConfig(_) => 2,
            Error::Layout(_) | Error::Argument { .. } | Error::Placement { .. } => 2,
            error if error.is_interrupted() => 130,
            Error::Memory(MemoryError::Length { .. }) | Error::Gpu(GpuError::Foreign { .. }) => 2,
            Error::Dma(DmaError::Memory(MemoryError::Length { .. })) => 2,
            // A path of the command line that leads to no file of blocks.
            Error::Soft(SoftError::NotAFile { .. } | SoftError::Empty { .. }) | Error::Option { .. } => 2,
            Error::Soft(SoftError::Open { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => 2,
            Error::Soft(SoftError::Locked { .. } | SoftError::Busy { .. }) => 3,
            Error::Kernels(warpbell_kernels::Error::TooManyBlocks { .. }) => 2,
            Error::File(error) => match **error {
                FileError::Absent { .. } | FileError::Argument { .. } => 2,
                FileError::Refused { .. } => 3,
                _ => 1,
            },
            Error::Refused { .. } | Error::Vfio(VfioError::Owned { .. }) => 3,
            Error::Missing { .. } | Error::Doorbells { .. } | Error::User(UserError::Connect { .. }) => 4,
            Error::Vfio(VfioError::NotBound { .. }) => 4,
            Error::Driver(DriverError::NoInterrupts { .. } | DriverError::Unusable { .. }) => 4,
            Error::Vfio(error) if error.is_missing_requirement() => 4,
            Error::Unavailable { source, .. } if source.is_missing_requirement() => 4,
            Error::Gpu(error) if error.is_missing_requirement() => 4,
            Error::Kernels(error) if error.is_missing_requirement() => 4,
            _ => 1,
        }
    }
}

/// An error with its causes, each where the text before does not say it already.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source()).map(ToString::to_string);
    causes.fold(error.to_string(), |text, cause| {
        if text.contains(cause.trim()) { text } else { format!("{text}: {cause}") }
    })
}
