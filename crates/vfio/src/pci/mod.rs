//! PCI functions as Linux shows them in sysfs: what they are, who uses them, and handing them to `vfio-pci` and back.
//!
//! [`functions`] reads, [`find_by_serial`] and [`Name`] find, [`BindPlan`] and [`UnbindPlan`] hold the exact writes of a
//! change and the reasons against it. Everything is read below the root of a [`Sysfs`], so that a captured or synthetic tree
//! serves as well as the running system.

mod bdf;
mod bind;
mod block;
mod error;
mod function;
mod name;
mod processes;
mod reason;
mod rule;
mod signature;
mod state;
mod step;
mod sysfs;
mod unbind;
mod usable;
mod usage;

#[cfg(test)]
mod fake;

pub use bdf::Bdf;
pub use bind::{BindOptions, BindPlan, User};
pub use block::Namespace;
pub use error::PciError;
pub use function::{Function, Group, Link, Mate, NvmeController, VFIO_PCI, function, functions};
pub use name::{Name, NameError, find_by_serial};
pub use reason::{Missing, Refusal};
pub use state::Binding;
pub use step::{Apply, Step};
pub use sysfs::Sysfs;
pub use unbind::UnbindPlan;
pub use usable::{Obstacle, usable};
pub use usage::{Look, Snapshot, Use, uses};
