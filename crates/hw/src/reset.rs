//! Resets from outside the controller's own registers.

/// Which reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetKind {
    /// A function level reset (PCIe), or what the backend has in its place.
    Function,
}

/// Why a reset did not happen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResetError {
    /// The function has no such reset.
    #[error("{kind:?} reset is not available: {reason}")]
    Unavailable {
        /// The reset asked for.
        kind: ResetKind,
        /// Why not.
        reason: String,
    },
    /// The system refused.
    #[error("{kind:?} reset failed: {source}")]
    System {
        /// The reset asked for.
        kind: ResetKind,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Resets of the function. Mapped doorbells must be unregistered from GPUs before and registered
/// again after, since a reset may zap their mapping.
pub trait Reset: Send + Sync {
    /// Resets the function and returns when its registers can be read again.
    fn reset(&self, kind: ResetKind) -> Result<(), ResetError>;
}
