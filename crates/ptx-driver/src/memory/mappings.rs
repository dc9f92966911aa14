//! Which addresses a device's kernels may access.

use std::collections::BTreeMap;

use parking_lot::RwLock;

/// Ranges, by their first address.
#[derive(Default)]
pub(crate) struct Mappings(RwLock<BTreeMap<u64, Range>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Registered as I/O memory, or the soft controller's doorbells.
    pub(crate) io: bool,
    /// It began with `Region::unwritten` in each word.
    pub(crate) fresh: bool,
}

impl Mappings {
    pub(super) fn add(&self, start: u64, len: u64, io: bool) {
        self.0.write().insert(start, Range { start, end: start + len, io, fresh: false });
    }

    /// The same of memory that was allocated, and that nothing was written to.
    pub(super) fn add_fresh(&self, start: u64, len: u64) {
        self.0.write().insert(start, Range { start, end: start + len, io: false, fresh: true });
    }

    pub(super) fn remove(&self, start: u64) {
        self.0.write().remove(&start);
    }

    /// Whether a range lies inside one of them.
    pub(crate) fn has(&self, start: u64, len: u64) -> bool {
        let end = start.checked_add(len);
        self.range(start).is_some_and(|range| end.is_some_and(|end| end <= range.end))
    }

    /// The one that has this address.
    pub(crate) fn range(&self, address: u64) -> Option<Range> {
        let (_, range) = self.0.read().range(..=address).next_back().map(|(at, range)| (*at, *range))?;
        (address < range.end).then_some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_inside_one_range_is_reached() {
        let mappings = Mappings::default();
        mappings.add(0x1000, 0x100, false);
        mappings.add(0x1100, 0x100, true);
        assert!(mappings.has(0x1000, 0x100) && mappings.has(0x10ff, 1) && mappings.has(0x1100, 4));
        assert!(!mappings.has(0x10f0, 0x20), "two neighbours are two objects");
        assert!(!mappings.has(0xfff, 1) && !mappings.has(0x1200, 1) && !mappings.has(0x1000, u64::MAX));
        assert_eq!(
            mappings.range(0x11ff),
            Some(Range { start: 0x1100, end: 0x1200, io: true, fresh: false })
        );
        assert_eq!(mappings.range(0x1200), None);
        mappings.remove(0x1000);
        assert!(!mappings.has(0x1000, 1));
    }
}
