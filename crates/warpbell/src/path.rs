//! The data path in use, for reports: nothing falls back silently.

use std::fmt;

use warpbell_hw::DoorbellPath;

use crate::{DataPointerKind, Domains};

/// Where rings and data lie, how doorbells are rung, and how commands describe data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPath {
    /// Placement of the rings: what it became.
    pub rings: String,
    /// Placement of the data.
    pub data: String,
    /// Whether completions and data lie in the same memory.
    pub domains: Domains,
    /// How a doorbell store reaches the controller.
    pub doorbells: DoorbellPath,
    /// Whether doorbells are memory that a controller in software polls, and no registers.
    pub polled: bool,
    /// Why kernels do not store to the registers themselves, where they might have.
    pub refused: Option<String>,
    /// Whether stores go to shadow doorbells first, and to the register only when the controller sleeps.
    pub shadows: bool,
    /// SGL or PRP.
    pub data_pointer: DataPointerKind,
    /// How a PCI function was reached, and why not otherwise.
    pub route: Option<String>,
}

impl DataPath {
    /// The word for the doorbell path.
    pub fn doorbells_name(&self) -> &'static str {
        match (self.doorbells, self.shadows) {
            (DoorbellPath::Mapped, false) if self.polled => "mapped (polled memory)",
            (DoorbellPath::Mapped, false) => "mapped",
            (DoorbellPath::Forwarded, false) => "forwarded",
            (DoorbellPath::Mapped, true) if self.polled => "shadowed, mapped (polled memory)",
            (DoorbellPath::Mapped, true) => "shadowed, mapped",
            (DoorbellPath::Forwarded, true) => "shadowed, forwarded",
        }
    }
}

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (doorbells, data_pointer) = (self.doorbells_name(), self.data_pointer.name());
        write!(f, "rings {}, data {}, doorbells {doorbells}", self.rings, self.data)?;
        if let Some(refused) = &self.refused {
            write!(f, " ({refused})")?;
        }
        write!(f, ", {data_pointer}")?;
        if self.domains != Domains::One {
            write!(f, ", {}", self.domains.name())?;
        }
        self.route.as_ref().map_or(Ok(()), |route| write!(f, ", {route}"))
    }
}
