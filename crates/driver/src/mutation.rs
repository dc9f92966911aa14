//! Rules of this driver that tests can switch off, to see that they notice. Without the feature `mutations`, which only
//! tests of other packages enable, every rule holds and none of this costs anything.

/// A rule that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// A queue pair counts as deleted though nobody asked the controller to delete it.
    TeardownBeforeDelete,
    /// The completion queue is deleted before its submission queue.
    CompletionQueueFirst,
    /// The identifier of a command that timed out is used again at once.
    ReuseAtTimeout,
    /// Nobody looks whether a deadline has passed.
    DeadlineIgnored,
    /// The controller is not told of completions that were taken.
    HeadNeverReported,
    /// A queue identifier is used again while kernels may still ring its doorbells.
    IdOfLivingPair,
    /// A reset leaves the admin queue's old completions in their ring.
    RingsKeptAtReset,
}

#[cfg(feature = "mutations")]
impl Mutation {
    /// Every rule.
    pub const ALL: &'static [Mutation] = &[
        Mutation::TeardownBeforeDelete,
        Mutation::CompletionQueueFirst,
        Mutation::ReuseAtTimeout,
        Mutation::DeadlineIgnored,
        Mutation::HeadNeverReported,
        Mutation::IdOfLivingPair,
        Mutation::RingsKeptAtReset,
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
#[inline]
pub(crate) fn off(rule: Mutation) -> bool {
    OFF.get() == Some(rule)
}

/// Whether a rule is off.
#[cfg(not(feature = "mutations"))]
#[inline]
pub(crate) const fn off(_: Mutation) -> bool {
    false
}
