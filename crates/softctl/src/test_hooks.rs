//! What tests alone ask of a soft controller: mistakes, which they must notice.

use crate::SoftConfig;

/// A mistake of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Flush answers, and flushes nothing.
    IdleFlush,
    /// One write in eight is acknowledged and not carried out.
    LostWrites,
    /// A shadow doorbell is not polled again after EventIdx was written, so that updates are missed now and then.
    NoRecheck,
}

impl Defect {
    /// Whether it is about what the namespaces keep.
    pub(crate) fn is_of_data(self) -> bool {
        matches!(self, Defect::IdleFlush | Defect::LostWrites)
    }
}

/// The same controller with a mistake, or without one.
#[must_use]
pub fn with_defect(config: SoftConfig, defect: Option<Defect>) -> SoftConfig {
    config.defect(defect)
}
