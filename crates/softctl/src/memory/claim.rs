//! Which memory is a queue's: from its creation on it is nothing else.

use std::fmt;

use super::IovaSpace;

/// A range of memory that a queue uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) owner: String,
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Claim {
    fn overlaps(&self, iova: u64, len: u64) -> bool {
        iova < self.start.saturating_add(self.len) && self.start < iova.saturating_add(len)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lies at {:#x}+{:#x}", self.owner, self.start, self.len)
    }
}

/// The memory of all queues.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    held: Vec<Claim>,
    /// Queues whose memory was unmapped under them.
    lost: Vec<String>,
    /// Queues whose memory was unmapped by a client that may map it again before it needs them.
    suspended: Vec<Claim>,
}

impl Claims {
    /// The queue that uses some of `iova..iova + len`.
    pub(crate) fn overlapping(&self, iova: u64, len: u64) -> Option<&Claim> {
        self.held.iter().find(|claim| claim.overlaps(iova, len))
    }

    /// Takes the memory of the queues that use some of a range away from them.
    pub(super) fn lose(&mut self, iova: u64, len: u64) -> Vec<Claim> {
        let (lost, held) = self.held.drain(..).partition(|claim| claim.overlaps(iova, len));
        self.held = held;
        let lost: Vec<Claim> = lost;
        self.lost.extend(lost.iter().map(|claim| claim.owner.clone()));
        lost
    }

    /// As [`Claims::lose`], until the memory is mapped again.
    pub(super) fn suspend(&mut self, iova: u64, len: u64) {
        let (suspended, held) = self.held.drain(..).partition(|claim| claim.overlaps(iova, len));
        self.held = held;
        let suspended: Vec<Claim> = suspended;
        self.suspended.extend(suspended);
    }

    /// Returns the queues that have all of their memory again, and lets them use it.
    pub(super) fn resume(&mut self, mapped: impl Fn(u64, u64) -> bool) -> Vec<Claim> {
        let (back, gone) = self.suspended.drain(..).partition(|claim| mapped(claim.start, claim.len));
        self.suspended = gone;
        let back: Vec<Claim> = back;
        self.held.extend(back.iter().cloned());
        back
    }

    /// The first queue whose memory is to be mapped again.
    pub(crate) fn suspended(&self) -> Option<&Claim> {
        self.suspended.first()
    }

    /// Whether any queue has lost its memory.
    pub(crate) fn any_lost(&self) -> bool {
        !self.lost.is_empty() || !self.suspended.is_empty()
    }

    /// Whether the queue named `owner` has lost its memory.
    pub(crate) fn is_lost(&self, owner: &str) -> bool {
        self.lost.iter().any(|lost| lost == owner) || self.suspended.iter().any(|claim| claim.owner == owner)
    }
}

impl IovaSpace {
    /// Gives a range to a queue: until [`IovaSpace::release`], unmapping it is a violation, and no data may lie in
    /// it. Refused if another queue uses some of it, which is returned.
    pub(crate) fn claim(&self, owner: String, iova: u64, len: u64) -> Result<(), Claim> {
        let mut inner = self.inner.lock();
        if let Some(other) = inner.table.claims.overlapping(iova, len) {
            return Err(other.clone());
        }
        self.change(&mut inner, |table| {
            table.claims.held.push(Claim { owner, start: iova, len });
            table.mark(iova, len);
        });
        Ok(())
    }

    /// Gives ranges to owners in place of what they have: all of them, or, if somebody else uses some of one, which is
    /// returned, none.
    pub(crate) fn claim_anew(&self, wanted: &[(&str, u64, u64)]) -> Result<(), Claim> {
        let mut inner = self.inner.lock();
        let owned = |owner: &str| wanted.iter().any(|(name, ..)| *name == owner);
        let mut held = inner.table.claims.held.clone();
        held.retain(|claim| !owned(&claim.owner));
        for (owner, start, len) in wanted {
            if let Some(other) = held.iter().find(|claim| claim.overlaps(*start, *len)) {
                return Err(other.clone());
            }
            held.push(Claim { owner: (*owner).to_owned(), start: *start, len: *len });
        }
        self.change(&mut inner, |table| {
            table.claims.lost.retain(|lost| !owned(lost));
            table.claims.suspended.retain(|claim| !owned(&claim.owner));
            let before = std::mem::replace(&mut table.claims.held, held);
            before.iter().filter(|one| owned(&one.owner)).for_each(|one| table.mark(one.start, one.len));
            wanted.iter().for_each(|(_, start, len)| table.mark(*start, *len));
        });
        Ok(())
    }

    /// The queue named `owner` no longer uses memory.
    pub(crate) fn release(&self, owner: &str) {
        let mut inner = self.inner.lock();
        self.change(&mut inner, |table| {
            table.claims.lost.retain(|lost| lost != owner);
            table.claims.suspended.retain(|claim| claim.owner != owner);
            let Some(index) = table.claims.held.iter().position(|claim| claim.owner == owner) else { return };
            let claim = table.claims.held.swap_remove(index);
            table.mark(claim.start, claim.len);
        });
    }
}
