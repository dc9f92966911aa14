//! Why a PCI function could not be used, and what to do about it.

use std::io;
use std::path::PathBuf;

use warpbell_hw::DmaError;

use crate::info::Malformed;
use crate::sys::SysError;
use crate::{Bdf, Refusal};

/// Why a function could not be opened or mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VfioError {
    /// No such function.
    #[error("{bdf}: no such PCI function; `warpbell list` shows those that there are")]
    NoFunction {
        /// The function.
        bdf: Bdf,
    },
    /// Not an NVMe controller.
    #[error("{bdf}: class {class:#08x} is not an NVMe controller (0x0108xx)")]
    NotNvme {
        /// The function.
        bdf: Bdf,
        /// Its class code.
        class: u32,
    },
    /// The function belongs to another driver, or to none.
    #[error("{bdf}: bound to {}, not to vfio-pci; run `warpbell bind {bdf}` first", driver.as_deref().unwrap_or("no driver"))]
    NotBound {
        /// The function.
        bdf: Bdf,
        /// Its driver.
        driver: Option<String>,
    },
    /// No IOMMU translates for the function.
    #[error(
        "{bdf}: no IOMMU group: turn the IOMMU on in the firmware (VT-d, AMD-Vi); Intel machines may also need \
         intel_iommu=on at boot, AMD machines need nothing more"
    )]
    NoGroup {
        /// The function.
        bdf: Bdf,
    },
    /// A file of the VFIO interface could not be opened.
    #[error("{bdf}: cannot open {}: {source}; {remedy}", path.display())]
    Open {
        /// The function.
        bdf: Bdf,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// What to do.
        remedy: String,
    },
    /// The system lacks something that a backend needs.
    #[error("{bdf}: {what}; {remedy}")]
    Missing {
        /// The function.
        bdf: Bdf,
        /// What is missing.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// Functions of the same IOMMU group belong to other drivers.
    #[error(
        "{bdf}: IOMMU group {group} is not viable: {} must be on vfio-pci or on no driver too, because the IOMMU cannot \
         keep them apart; bind or unbind them, or move the SSD to a slot of its own group", mates.join(", ")
    )]
    NotViable {
        /// The function.
        bdf: Bdf,
        /// The group.
        group: u32,
        /// The functions in the way, with their drivers.
        mates: Vec<String>,
    },
    /// This process has it open.
    #[error("{bdf}: this process has it open already; share that one, or drop it first")]
    InUse {
        /// The function.
        bdf: Bdf,
    },
    /// A call failed.
    #[error("{bdf}: {source}{remedy}")]
    Call {
        /// The function.
        bdf: Bdf,
        /// The call, and what the system said.
        source: SysError,
        /// What to do, after a colon; empty where nothing is known.
        remedy: String,
    },
    /// The kernel's reply makes no sense.
    #[error("{bdf}: {source}")]
    Malformed {
        /// The function.
        bdf: Bdf,
        /// Which reply.
        source: Malformed,
    },
    /// A BAR cannot be used.
    #[error("{bdf}: BAR {bar}: {reason}")]
    Bar {
        /// The function.
        bdf: Bdf,
        /// The BAR.
        bar: u8,
        /// Why not.
        reason: String,
    },
    /// A BAR that would be overwritten, to somebody's harm.
    #[error(
        "{bdf}: BAR {bar} belongs to {owner}: rings and data there would overwrite what it keeps; take a function that is \
         on vfio-pci or on no driver"
    )]
    Owned {
        /// The function.
        bdf: Bdf,
        /// The BAR.
        bar: u8,
        /// Whose it is.
        owner: String,
    },
    /// Configuration space could not be read or written.
    #[error("{bdf}: configuration space at {offset:#x}: {source}")]
    Config {
        /// The function.
        bdf: Bdf,
        /// The register.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The function does not answer.
    #[error("{bdf}: registers read as all ones: the function is gone or has no power")]
    Gone {
        /// The function.
        bdf: Bdf,
    },
    /// The DMA space of a new device and what is mapped already do not go together.
    #[error(transparent)]
    Dma(#[from] DmaError),
    /// No backend can be used.
    #[error("{bdf}: no way to it: {}", refused.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    NoRoute {
        /// The function.
        bdf: Bdf,
        /// What was tried, and why it was refused.
        refused: Vec<Refusal>,
    },
}

impl VfioError {
    /// A failed call without more to say.
    pub(crate) fn call(bdf: Bdf) -> impl Fn(SysError) -> VfioError {
        move |source| VfioError::Call { bdf, source, remedy: String::new() }
    }

    /// Whether the machine lacks something, so that another backend may still work.
    pub fn is_missing_requirement(&self) -> bool {
        match self {
            VfioError::Missing { .. } | VfioError::NoGroup { .. } | VfioError::NoRoute { .. } => true,
            VfioError::Open { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}
