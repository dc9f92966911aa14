//! What speaks against a way between a GPU and an SSD.

use warpbell_vfio::Bdf;
use warpbell_vfio::pci::Use;

/// What speaks against a way, by what was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Obstacle {
    #[error("it is gone")]
    Gone,
    #[error("the SSD is {0}")]
    InUse(Use),
    #[error("no IOMMU group: VFIO does not lend the SSD out")]
    NoGroup,
    #[error("the SSD shares IOMMU group {group} with {mate} ({})", driver.as_deref().unwrap_or("no driver"))]
    SharedGroup { group: u32, mate: Bdf, driver: Option<String> },
    #[error("interrupts are not remapped: type1 refuses the SSD")]
    InterruptsNotRemapped,
    #[error("no NVIDIA driver: no kernel runs on the GPU")]
    NoDriver,
    #[error(
        "kernels take dma-bufs of vfio-pci alone to this day, and none before 6.19 (here: {release}); it is tried at \
         run time all the same"
    )]
    NoForeignDmaBuf { release: String },
    #[error("the closed kernel module exports no dma-buf")]
    ClosedExportsNone,
    #[error(
        "no export of a GeForce's memory as a dma-buf is known (unverified); data-centre and RTX PRO GPUs have it"
    )]
    GeForceExport,
    #[error("driver {version} refuses the mmap; 610.43.02 and newer allow it")]
    MmapRefused { version: String },
    #[error("the driver pins no memory of a GeForce for other devices, as far as is known (unverified)")]
    GeForcePin,
    #[error("gdrdrv is not loaded: GDRCopy 2.0 and newer have it")]
    NoGdrdrv,
    #[error("gdrdrv is loaded: {module}; Warpbell speaks to 2.0 and newer of major version 2")]
    OldGdrdrv { module: String },
    #[error("type1 is not loaded, and iommufd maps no BAR of another function")]
    NoType1,
    #[error("Linux 6.12 and newer need driver 570.86.15 for it (here: {version})")]
    OldForKernel { version: String },
    #[error("from Linux 6.12 on the closed kernel module cannot look up a BAR's pages")]
    ClosedLooksUpNone,
    #[error(
        "the GPU's own IOMMU domain translates ({kind}): from Linux 6.12 on NVIDIA's driver gives it the raw \
         address of the BAR, and stores vanish; iommu=pt gives it one that does not"
    )]
    Translated { kind: String },
    #[error("whether this user has CAP_SYS_ADMIN was not to be read")]
    RightsNotRead,
    #[error(
        "it needs CAP_SYS_ADMIN, or NVreg_RegistryDwords=\"PeerMappingOverride=1\" for the driver: run as root"
    )]
    NoRights,
    #[error("memory encryption (SME) is on: a BAR may be mapped with addresses that lead elsewhere")]
    Encrypted,
    #[error(transparent)]
    Unrouted(#[from] Unrouted),
}

/// Why root complexes do not forward requests between a GPU and an SSD.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unrouted {
    #[error(
        "the GPU is under root complex {of_gpu}, the SSD under {of_ssd}, of different or unknown NUMA nodes: requests \
         between them may have to cross the link between processors, which they do slowly or not at all, and \
         Linux's list does not tell; put both under one (warpbell topo)"
    )]
    System { of_gpu: String, of_ssd: String },
    #[error("GPU and SSD are under root complexes {of_gpu} and {of_ssd}: {why}")]
    Apart { of_gpu: String, of_ssd: String, why: Box<Unrouted> },
    #[error(
        "{root} begins with neither a host bridge nor a root port: whether it forwards requests is not known"
    )]
    Unknown { root: String },
    #[error("{root} ({vendor:04x}:{device:04x}) forwards requests between its own ports only (Linux's list)")]
    OwnPorts { root: String, vendor: u16, device: u16 },
    #[error(
        "the root complex ({vendor:04x}:{device:04x}) is not known to forward requests between devices (Linux's list)"
    )]
    Unlisted { vendor: u16, device: u16 },
}
