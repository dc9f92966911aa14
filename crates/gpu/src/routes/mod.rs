//! Ways for an SSD to reach GPU memory, and for kernels to reach an SSD's doorbells.
//!
//! Each way is tried by itself and says what was done, or why it does not work: nothing is demoted in silence. That a
//! way could be set up does not say that data gets through; a two-way data test over it does.

mod doorbells;
mod memory;
mod registers;

use std::path::PathBuf;
use std::sync::Arc;

use warpbell_hw::DmaError;

use crate::GpuError;

pub use doorbells::{DoorbellAccess, DoorbellRoute, doorbells};
pub use memory::{FileMapping, MemoryRoute, Reached, SpaceKind, probe_memory, reach};
pub use registers::registers;

/// Why a way does not work.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The SSD's DMA space is of another kind.
    #[error("the SSD was not opened through iommufd")]
    NotIommufd,
    /// The SSD's DMA space is of another kind.
    #[error("the SSD was opened neither through type1 nor through iommufd")]
    NotVfio,
    /// The GPU or its driver.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The SSD's DMA space did not map the dma-buf.
    #[error("{0}; kernels to this day take dma-bufs of vfio-pci alone, and none before 6.19")]
    File(Arc<DmaError>),
    /// The SSD's DMA space did not map the mapping of the dma-buf.
    #[error("type1 map of the dma-buf's mapping: {0}")]
    Window(Arc<DmaError>),
    /// gdrdrv is there, and not used.
    #[error(
        "not implemented: {} is there, but this version does not pin memory by it, as that could not be tried on hardware",
        .device.display()
    )]
    Unused {
        /// Its node.
        device: PathBuf,
    },
    /// There is no gdrdrv, and it would not be used.
    #[error("not implemented in this version, and no {}: the gdrdrv module (GDRCopy) is not loaded", .device.display())]
    NotLoaded {
        /// Where its node would be.
        device: PathBuf,
    },
}

/// One way that was tried.
#[derive(Clone, Debug)]
pub struct Probe<R> {
    /// Which.
    pub route: R,
    /// What was done, or why it does not work.
    pub outcome: Result<String, RouteError>,
}

impl<R: std::fmt::Display> std::fmt::Display for Probe<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.outcome {
            Ok(done) => write!(f, "{}: works: {done}", self.route),
            Err(reason) => write!(f, "{}: no: {reason}", self.route),
        }
    }
}
