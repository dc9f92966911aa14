//! NVMe functions of this machine through VFIO, and controllers of other processes through vfio-user.
//!
//! - `pci`: PCI functions in sysfs: what they are, who uses them, binding them to `vfio-pci` and back.
//! - `probe`: which way to a function's DMA address space (type1, iommufd, no IOMMU), and why; `route` goes it.
//! - [`PciDevice`]: a function bound to `vfio-pci`, as a driver sees it: `device`, `bar`, `config`, `irq`, `cmb` are the
//!   same on every way; `container` and `type1` are one way; `cdev` and `iommufd` another; `noiommu` and `physical` the unsafe one.
//!   `space` is a DMA space whose addresses we choose.
//! - [`ForeignMemory`]: a BAR of another function, as memory for rings and data.
//! - `sys`: the raw calls, and the only unsafe code of the VFIO side.
//! - `user`: vfio-user: its messages, and both ends of a connection.

#![expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant as that")]

mod bar;
mod bridges;
mod cdev;
mod cmb;
mod config;
mod config_bits;
mod container;
mod device;
mod error;
mod foreign;
mod info;
mod iommufd;
mod iova;
mod irq;
mod noiommu;
pub mod pci;
mod physical;
mod probe;
mod route;
mod space;
mod sys;
mod type1;
pub mod user;

pub use bar::fault_in;
pub use bridges::bar as bar_addresses;
pub use device::{PciDevice, PciOptions};
pub use error::VfioError;
pub use foreign::ForeignMemory;
pub use info::Malformed;
pub use pci::Bdf;
pub use probe::{Backend, IommuChoice, Refusal, Route, UnknownBackend};
pub use sys::SysError;
