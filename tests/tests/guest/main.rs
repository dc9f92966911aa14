//! Tier Q: a Linux guest with QEMU's SSDs behind an emulated IOMMU, reached through vfio-pci.
//!
//! Each module is a *scene*: a machine, described by the options for `scripts/guest run` in the file `scenes` beside it, and
//! what must hold there. `scripts/guest test` boots each once and runs the tests of its module. Elsewhere the
//! tests skip themselves.

mod backends;
mod child;
mod faults;
mod fixture;
mod four;
mod holdings;
mod iommufd;
mod kills;
mod load;
mod monitor;
mod noiommu;
mod plug;
mod recovery;
mod removal;
mod shapes;
mod stray;
mod vfio;
