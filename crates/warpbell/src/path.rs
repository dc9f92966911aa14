//! The data path in use, for reports: nothing falls back silently.

use std::fmt;

use warpbell_hw::DoorbellPath;

use crate::Descriptor;

/// Where rings and data lie, how doorbells are rung, and how commands describe data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPath {
    /// Placement of the rings.
    pub rings: &'static str,
    /// Placement of the data.
    pub data: &'static str,
    /// How a doorbell store reaches the controller.
    pub doorbells: DoorbellPath,
    /// Whether stores go to shadow doorbells first, and to the register only when the controller sleeps.
    pub shadows: bool,
    /// SGL or PRP.
    pub descriptor: Descriptor,
}

impl DataPath {
    /// The word for the doorbell path.
    pub fn doorbells_name(&self) -> &'static str {
        match (self.doorbells, self.shadows) {
            (DoorbellPath::Mapped, false) => "mapped",
            (DoorbellPath::Forwarded, false) => "forwarded",
            (DoorbellPath::Mapped, true) => "shadowed, mapped",
            (DoorbellPath::Forwarded, true) => "shadowed, forwarded",
        }
    }
}

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (doorbells, descriptor) = (self.doorbells_name(), self.descriptor.name());
        write!(f, "rings {}, data {}, doorbells {doorbells}, {descriptor}", self.rings, self.data)
    }
}
