//! Why a workload did not run to its end.

use warpbell_driver::DriverError;
use warpbell_hw::{Lba, MemoryError, Nsid};

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
    /// The file that is read.
    #[error(transparent)]
    Files(#[from] warpbell_files::Error),
    /// The driver.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// Memory could not be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
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
    /// One kernel is measured by one clock.
    #[error("{device}: {reason}")]
    Clocks {
        /// The device.
        device: String,
        /// Why its clock cannot be that of the others, too.
        reason: String,
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
        warpbell::Error::Command { op: op.into(), nsid: Nsid(nsid), lba: lba.map(Lba), status }.into()
    }

    /// The exit code of a command that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::Files(warpbell_files::Error::Argument { .. })
            | RunError::Job(_)
            | RunError::Processor { .. }
            | RunError::Clocks { .. }
            | RunError::VirtualTime { .. } => 2,
            RunError::Warpbell(error) => error.exit_code(),
            RunError::Interrupted => 130,
            _ => 1,
        }
    }
}
