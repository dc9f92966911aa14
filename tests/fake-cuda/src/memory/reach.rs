//! Which addresses a device's kernels may access.

use std::collections::BTreeMap;

use parking_lot::RwLock;

/// Ranges, by their first address.
#[derive(Default)]
pub(crate) struct Reach(RwLock<BTreeMap<u64, u64>>);

impl Reach {
    pub(super) fn add(&self, start: u64, len: u64) {
        self.0.write().insert(start, start + len);
    }

    pub(super) fn remove(&self, start: u64) {
        self.0.write().remove(&start);
    }

    /// Whether a range lies inside one of them.
    pub(crate) fn has(&self, start: u64, len: u64) -> bool {
        let ranges = self.0.read();
        let end = start.checked_add(len);
        ranges.range(..=start).next_back().is_some_and(|(_, of)| end.is_some_and(|end| end <= *of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_inside_one_range_is_reached() {
        let reach = Reach::default();
        reach.add(0x1000, 0x100);
        reach.add(0x1100, 0x100);
        assert!(reach.has(0x1000, 0x100) && reach.has(0x10ff, 1) && reach.has(0x1100, 4));
        assert!(!reach.has(0x10f0, 0x20), "two neighbours are two objects");
        assert!(!reach.has(0xfff, 1) && !reach.has(0x1200, 1) && !reach.has(0x1000, u64::MAX));
        reach.remove(0x1000);
        assert!(!reach.has(0x1000, 1));
    }
}
