//! Why a function is not bound or not unbound: for safety, or because something is missing.

use super::{Mate, Use};

/// A reason of safety.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is no NVMe controller.
    #[error("class 0x{class:06x} is not that of an NVMe controller (0x0108xx)")]
    NotNvme {
        /// Its class code.
        class: u32,
    },
    /// It is in use.
    #[error("{0}")]
    InUse(Use),
    /// Another function of its IOMMU group is owned by a driver that VFIO does not lend with it.
    #[error(
        "IOMMU group {group} also holds {}, which driver {} owns: VFIO lends whole groups; bind it as well, or unbind it",
        mate.bdf, mate.driver.as_deref().unwrap_or("-")
    )]
    GroupMate {
        /// The group.
        group: u32,
        /// The other function.
        mate: Mate,
    },
    /// A program drives it.
    #[error("{node} is open in process {pid} ({command}); end that process first")]
    Driven {
        /// The VFIO node.
        node: String,
        /// Process ID.
        pid: u32,
        /// The process's name.
        command: String,
    },
    /// A program drives it, and this user may not see which.
    #[error("{node} cannot be opened ({reason}), so a process may be using it")]
    Undecided {
        /// The VFIO node.
        node: String,
        /// Why it cannot be opened.
        reason: String,
    },
}

impl Refusal {
    /// Whether the user may lift it, by naming the device.
    pub fn may_be_lifted(&self) -> bool {
        matches!(self, Refusal::InUse(Use::Signed { .. }))
    }
}

/// Something that this machine lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The IOMMU is off or absent.
    #[error("it has no IOMMU group: {remedy}")]
    Group {
        /// What switches it on, on processors of this make.
        remedy: &'static str,
    },
    /// The driver is not loaded.
    #[error("driver {driver} is not loaded: run modprobe {driver}")]
    Driver {
        /// Its name.
        driver: String,
    },
    /// Nobody noted the driver that it had.
    #[error(
        "there is no note of the driver that it had ({path}; warpbell bind writes it, and a boot removes it): leave \
         --restore out, and the kernel chooses"
    )]
    Note {
        /// Where the note would be.
        path: String,
    },
    /// The serial number that a persistent rule goes by is unknown or cannot be written in one.
    #[error("--persist needs a serial number of plain characters, and that of this function is {}", serial.as_deref().unwrap_or("not known"))]
    Serial {
        /// The serial number.
        serial: Option<String>,
    },
}
