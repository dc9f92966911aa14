//! Rules of recovery that tests can switch off, to see that they notice. Without the feature `mutations`, which only
//! tests of other packages enable, every rule holds and none of this costs anything.

/// A rule that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// A queue has its successor before the controller was made to forget it.
    SuccessorBeforeDeletion,
    /// A queue is declared lost only after it was deleted.
    StateAfterDeletion,
    /// An identifier is used again though lanes may still ring its doorbells.
    IdFreeWhileHeld,
    /// Completion slots of a slot that is used again are those of the queue before.
    WordsKept,
    /// A successor has the epoch of the queue before.
    EpochKept,
    /// A command that was aborted may take as long as it likes to complete.
    SettleForEver,
    /// Commands are aborted that were given up at the last pass, whatever became of them and of their identifiers.
    AbortUnchecked,
    /// The controller is reset under queues that were not declared lost.
    ResetWithoutLoss,
    /// The controller is reset as often as it takes.
    ResetWithoutBound,
}

#[cfg(feature = "mutations")]
impl Mutation {
    /// Every rule.
    pub const ALL: &'static [Mutation] = &[
        Mutation::SuccessorBeforeDeletion,
        Mutation::StateAfterDeletion,
        Mutation::IdFreeWhileHeld,
        Mutation::WordsKept,
        Mutation::EpochKept,
        Mutation::SettleForEver,
        Mutation::AbortUnchecked,
        Mutation::ResetWithoutLoss,
        Mutation::ResetWithoutBound,
    ];

    /// Switches this rule off, and every other on, for this thread.
    pub fn apply(self) {
        OFF.set(Some(self));
    }
}

#[cfg(feature = "mutations")]
thread_local! {
    static OFF: std::cell::Cell<Option<Mutation>> = const { std::cell::Cell::new(None) };
}

/// Whether a rule is off.
#[cfg(feature = "mutations")]
pub(crate) fn off(rule: Mutation) -> bool {
    OFF.get() == Some(rule)
}

/// Whether a rule is off.
#[cfg(not(feature = "mutations"))]
pub(crate) const fn off(_: Mutation) -> bool {
    false
}
