//! Ways for an SSD to reach GPU memory, and for kernels to reach an SSD's doorbells.
//!
//! Each way is tried by itself and says what was done, or why it does not work: nothing is demoted in silence. That a
//! way could be set up does not say that data gets through; a two-way data test over it does.

mod doorbells;
mod memory;
mod registers;

use std::sync::Arc;

use warpbell_hw::DmaError;

use crate::GpuError;

pub use doorbells::{DoorbellAccess, DoorbellRoute, doorbells, forwarded_doorbells, mapped_doorbells};
pub use memory::{FileMapping, MappedMemory, MemoryRoute, SpaceKind, map_memory, probe_memory};
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
    /// The SSD's DMA space did not map the part of the GPU's BAR.
    #[error("type1 map of the GPU's BAR: {0}")]
    Window(Arc<DmaError>),
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
