//! Why a workload did not run to its end.

use warpbell::driver::DriverError;
use warpbell::hw::{Lba, MemoryError, Nsid};

use crate::job::JobError;
use crate::result::Failure;

/// Why a workload did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The options do not fit the device.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The device, its driver or the kernels.
    #[error(transparent)]
    Warpbell(#[from] warpbell::Error),
    /// The driver.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// Memory could not be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A command failed in a workload that needs all of them.
    #[error("{op} of {nsid}{}: {status}", lba.map_or(String::new(), |lba| format!(", {lba}")))]
    Command {
        /// `read` or `write`.
        op: String,
        /// Namespace.
        nsid: Nsid,
        /// First block of the command, where known.
        lba: Option<Lba>,
        /// The status in words.
        status: String,
    },
    /// The data to write is not what was announced.
    #[error("standard input: {reason}")]
    Input {
        /// How many bytes came, and how many were expected.
        reason: String,
    },
    /// The other side of a copy.
    #[error("{side}: {source}")]
    Stream {
        /// Which side.
        side: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A namespace that the device does not have.
    #[error("--nsid {}: the device has usable namespaces [{usable}]", nsid.get())]
    Namespace {
        /// What was given.
        nsid: Nsid,
        /// What there is.
        usable: String,
    },
    /// A processor that this process may not use.
    #[error("--cpus {cpu}: {reason}")]
    Processor {
        /// The processor.
        cpu: usize,
        /// Why not.
        reason: String,
    },
    /// Constants of a machine are measured in real time.
    #[error(
        "{device}: its time is virtual, and says nothing of this machine; name a device without time=virtual"
    )]
    VirtualTime {
        /// The device.
        device: String,
    },
    /// A constant of a machine that cannot be measured here.
    #[error("{0}")]
    Unmeasurable(String),
    /// Somebody asked the work to end.
    #[error("interrupted")]
    Interrupted,
}

impl RunError {
    /// A failed command as the error of the whole workload.
    pub(crate) fn failed(failure: &Failure) -> RunError {
        let Failure { op, nsid, lba, status } = failure.clone();
        RunError::Command { op, nsid: Nsid(nsid), lba: lba.map(Lba), status }
    }

    /// The exit code of a command that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::Job(_)
            | RunError::Namespace { .. }
            | RunError::Processor { .. }
            | RunError::VirtualTime { .. } => 2,
            RunError::Warpbell(error) => error.exit_code(),
            RunError::Interrupted => 130,
            _ => 1,
        }
    }
}
