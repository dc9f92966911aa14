//! Errors of the public API, and the exit code that each deserves.

use warpbell_driver::DriverError;
use warpbell_hw::{DmaError, MemoryError};
use warpbell_softctl::{SoftConfigError, SoftError};

use crate::{DeviceNameError, LayoutError, TargetError};

/// Why an operation of the public API failed.
#[derive(Debug, thiserror::Error)]
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
    /// The controller or its driver.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// Warps and queues that do not fit together.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Memory could not be mapped for the device.
    #[error(transparent)]
    Dma(#[from] DmaError),
    /// Memory could not be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The kernels could not be loaded or run.
    #[error(transparent)]
    Kernels(#[from] warpbell_kernels::Error),
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
    /// Something that this machine or this build does not have.
    #[error("{what} is not available: {remedy}")]
    Missing {
        /// What is missing.
        what: String,
        /// What would help.
        remedy: String,
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

impl Error {
    /// The exit code of a program that ends with this error: 1 failed, 2 usage, 3 refused
    /// for safety, 4 requirement missing.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::DeviceName(_) | Error::Target(_) | Error::SoftConfig(_) => 2,
            Error::Layout(_) | Error::Argument { .. } => 2,
            Error::Refused { .. } => 3,
            Error::Missing { .. } => 4,
            Error::Kernels(error) if error.is_missing_requirement() => 4,
            _ => 1,
        }
    }
}
