//! Stores that are late: a place's buffer of them, and what keeps later ones behind.

use rand::RngExt as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::real::{Real, Span};
use crate::program::Scope;

/// A store that is on its way, or what keeps later ones behind it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Late {
    Store {
        to: Real,
        value: u64,
        owner: u64,
        /// Strong, of the scope of the system: others may wait for it, and it may wait for them.
        system: bool,
        /// Its lane had released something before.
        released: bool,
    },
    /// What comes after it, of this owner, is not seen in its scope before what is ahead of it.
    Marker { scope: Scope, owner: u64 },
}

/// Late stores, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Buffer(pub(super) Vec<Late>);

/// How long a store is held back, in accesses and turns: some milliseconds, in which a device goes to sleep.
const HELD: u64 = 1 << 15;
/// Stores that are held back at a time.
const STORES: usize = 32;
/// Draws among all that is late, before those are counted that may go.
const DRAWS: usize = 4;

/// Stores to the system that are held back on the GPU, unless a fence takes them to memory.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Accesses and turns so far.
    now: u64,
    /// Until when each is, and for as long again it may not be once more: sooner or later all that is stored is seen.
    stores: Vec<(Span, u64)>,
}

impl Held {
    pub(super) fn step(&mut self) {
        self.now += 1;
    }

    pub(super) fn begin(&mut self, store: Span) {
        let now = self.now;
        self.stores.retain(|(_, until)| now < until + HELD);
        if self.stores.len() < STORES && self.stores.iter().all(|(of, _)| *of != store) {
            self.stores.push((store, now + HELD));
        }
    }

    pub(super) fn has(&self, store: Span) -> bool {
        self.stores.iter().any(|(of, until)| *of == store && self.now < *until)
    }
}

impl Late {
    /// A store is in the host's memory.
    pub(super) fn reaches_memory(self) {
        if let Late::Store { to, value, .. } = self {
            to.store(value, std::sync::atomic::Ordering::Release);
        }
    }
}

impl Buffer {
    /// A value of memory, as it is behind these stores.
    pub(super) fn over(&self, at: Real, value: u64) -> u64 {
        let stores = self.0.iter().filter_map(|late| match late {
            Late::Store { to, value, .. } => Some((*to, *value)),
            Late::Marker { .. } => None,
        });
        stores.fold(value, |seen, (to, stored)| at.span().patched(seen, to.span(), stored))
    }

    /// The last store to the system of this owner, but to `at`.
    pub(super) fn last_of(&self, owner: u64, at: Span) -> Option<Span> {
        let of_owner = |late: &Late| match late {
            Late::Store { to, owner: of, system: true, .. } if *of == owner && !to.span().overlaps(at) => {
                Some(to.span())
            }
            _ => None,
        };
        self.0.iter().rev().find_map(of_owner)
    }

    /// How many there are up to the last marker of this owner, with it.
    pub(super) fn marked(&self, owner: u64) -> usize {
        let of_owner = |late: &Late| matches!(late, Late::Marker { owner: of, .. } if *of == owner);
        self.0.iter().rposition(of_owner).map_or(0, |last| last + 1)
    }

    /// Whether the one at `index` may go before those that came earlier.
    fn goes(&self, index: usize) -> bool {
        let earlier = &self.0[..index];
        match self.0[index] {
            Late::Marker { .. } => earlier.is_empty(),
            Late::Store { to, owner, .. } => earlier.iter().all(|other| match other {
                Late::Store { to: before, .. } => !before.span().overlaps(to.span()),
                Late::Marker { owner: of, .. } => *of != owner,
            }),
        }
    }

    /// One that may go, by chance.
    pub(super) fn choose(&self, random: &mut Xoshiro256PlusPlus) -> Option<usize> {
        self.choose_but(|_| false, random)
    }

    /// The same, where some stores stay.
    pub(super) fn choose_but(
        &self,
        held: impl Fn(Span) -> bool,
        random: &mut Xoshiro256PlusPlus,
    ) -> Option<usize> {
        if self.0.is_empty() {
            return None;
        }
        let stays = |index: usize| matches!(self.0[index], Late::Store { to, .. } if held(to.span()));
        let can = |index: &usize| self.goes(*index) && !stays(*index);
        // Most may go. Drawn until one does, each of those is as likely as in a draw among them alone.
        let mut draws = (0..DRAWS).map(|_| random.random_range(0..self.0.len()));
        if let Some(drawn) = draws.find(can) {
            return Some(drawn);
        }
        let can: Vec<usize> = (0..self.0.len()).filter(can).collect();
        (!can.is_empty()).then(|| can[random.random_range(0..can.len())])
    }
}
