//! What a machine is like for GPUs and SSDs that shall reach each other, read from its files and from nothing else.
//!
//! - [`Machine`]: the facts: kernel, IOMMU, VFIO, limits, NVIDIA driver, and every PCI function with its link and its
//!   capabilities. All of them come from below the root of a [`Sysfs`](warpbell_vfio::pci::Sysfs): a running system, or
//!   a captured one. No device is opened.
//! - [`Report`]: what the facts mean, in three layers (platform, devices, path), each with the command that mends it.
//!   What was not looked at is said to be so, with the reason.
//! - [`Topology`]: the PCIe tree, how far each SSD is from each GPU, and what their links carry.
//! - [`Capture`]: the files that all of this reads, without serial numbers, as one file, and back as a folder.
//! - [`RingReads`]: reads of a file by io_uring, which experiments compare with.

mod capture;
mod check;
mod config_space;
mod finding;
mod link;
mod machine;
mod topology;
mod uring;

pub use capture::{Capture, CaptureError, Serials, Unpacked};
pub use check::{Choice, Report, Route, Verdict};
pub use config_space::{Acs, ConfigSpace, Msix, PortKind};
pub use finding::{Finding, Layer, Status};
pub use link::Link;
pub use machine::{
    Cpu, Gdrdrv, Gpu, Iommu, Kernel, Limits, Machine, Nvidia, PciNode, Remapping, Role, Ssd, Vendor, Vfio,
};
pub use topology::{Nearest, Pair, Relation, Shared, Topology};
pub use uring::RingReads;
