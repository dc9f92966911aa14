//! A value's write with its reads (Gibbons and Korach, "Testing shared memories", 1997).

use std::collections::BTreeMap;

use super::{Access, Kind, Moment, NEVER};

/// The accesses of one value.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) value: u64,
    pub(super) write: Option<Access>,
    pub(super) reads: Vec<Access>,
    /// The first end of any of them: from then on the value was there.
    pub(super) first_end: Moment,
    /// The last beginning: until then it was there.
    pub(super) last_begin: Moment,
}

impl Cluster {
    fn new(value: u64) -> Cluster {
        Cluster { value, write: None, reads: Vec::new(), first_end: NEVER, last_begin: 0 }
    }

    fn add(&mut self, access: Access) {
        self.first_end = self.first_end.min(access.to);
        self.last_begin = self.last_begin.max(access.from);
        match access.kind {
            Kind::Read(_) => self.reads.push(access),
            _ => self.write = Some(access),
        }
    }

    /// Whether this value was surely there at some time before the other surely was.
    pub(super) fn precedes(&self, other: &Cluster) -> bool {
        self.first_end < other.last_begin
    }

    /// Everything from `first_end` to `last_begin` belongs to it.
    pub(super) fn is_forward(&self) -> bool {
        self.first_end < self.last_begin
    }
}

/// The clusters of one block. A write that was tried, and that nobody saw, does not count: taking it for one that
/// did not happen is always right.
pub(super) fn clusters(accesses: &[Access], initial: Option<u64>) -> Vec<Cluster> {
    let mut clusters: BTreeMap<u64, Cluster> = BTreeMap::new();
    if let Some(value) = initial {
        let write = Access { kind: Kind::Write(value), from: 0, to: 0, who: usize::MAX };
        clusters.entry(value).or_insert_with(|| Cluster::new(value)).add(write);
    }
    for access in accesses {
        let value = access.value();
        clusters.entry(value).or_insert_with(|| Cluster::new(value)).add(*access);
    }
    let seen = |cluster: &Cluster| {
        !cluster.reads.is_empty() || !matches!(cluster.write, Some(Access { kind: Kind::Attempt(_), .. }))
    };
    clusters.into_values().filter(seen).collect()
}
