//! Choosing IOVAs.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::PAGE;

/// First IOVA given out: nothing is ever mapped at or near zero.
const FIRST: u64 = 1 << 20;
/// Last usable IOVA, as an IOMMU with 48 bits has it.
const LAST: u64 = (1 << 48) - 1;

/// The IOVAs in use.
///
/// Addresses go upwards and are not used again before the end of the space, with an unmapped page between
/// neighbours: an address that is used after its unmapping, or past its end, does not hit another mapping.
#[derive(Debug)]
pub(crate) struct IovaAllocator {
    used: BTreeMap<u64, u64>,
    next: u64,
}

impl IovaAllocator {
    pub(crate) fn new() -> IovaAllocator {
        IovaAllocator { used: BTreeMap::new(), next: FIRST }
    }

    pub(crate) fn range() -> RangeInclusive<u64> {
        FIRST..=LAST
    }

    /// Takes `len` bytes, a multiple of the page size; `None` if there is no room.
    pub(crate) fn take(&mut self, len: u64) -> Option<u64> {
        let start = self.fit(self.next, len).or_else(|| self.fit(FIRST, len))?;
        self.used.insert(start, len);
        self.next = start + len + PAGE;
        Some(start)
    }

    /// Takes exactly `start..start + len`, also next to others; the range in the way, if there is one.
    pub(crate) fn take_at(&mut self, start: u64, len: u64) -> Result<(), (u64, u64)> {
        let last = start.saturating_add(len - 1);
        let before = self.used.range(..=last).next_back().map(|(start, len)| (*start, *len));
        if let Some((other, other_len)) = before
            && other.saturating_add(other_len - 1) >= start
        {
            return Err((other, other_len));
        }
        self.used.insert(start, len);
        Ok(())
    }

    /// The first start at or after `from` where `len` bytes and a page on either side are free.
    fn fit(&self, from: u64, len: u64) -> Option<u64> {
        let before = self.used.range(..from).next_back().map_or(from, |(start, len)| after(*start, *len));
        let mut start = from.max(before);
        for (used, used_len) in self.used.range(from..) {
            if start.checked_add(len)?.checked_add(PAGE)? <= *used {
                break;
            }
            start = start.max(after(*used, *used_len));
        }
        (start.checked_add(len)? - 1 <= LAST).then_some(start)
    }

    /// Releases a range; false if exactly this one was not taken.
    pub(crate) fn release(&mut self, start: u64, len: u64) -> bool {
        let taken = self.used.get(&start) == Some(&len);
        if taken {
            self.used.remove(&start);
        }
        taken
    }
}

/// Where the next mapping may begin after one.
fn after(start: u64, len: u64) -> u64 {
    start.saturating_add(len).saturating_add(PAGE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_not_used_again_at_once() {
        let mut allocator = IovaAllocator::new();
        let first = allocator.take(PAGE).unwrap();
        assert!(allocator.release(first, PAGE));
        let second = allocator.take(PAGE).unwrap();
        assert_ne!(first, second);
        assert!(!allocator.release(second, 2 * PAGE));
        assert!(!allocator.release(first, PAGE));
    }

    #[test]
    fn the_end_of_the_space_is_an_end_and_then_gaps_serve() {
        let mut allocator = IovaAllocator::new();
        let half = 1 << 47;
        let low = allocator.take(half - FIRST).unwrap();
        let high = allocator.take(half - PAGE).unwrap();
        assert_eq!((low, high), (FIRST, half + PAGE));
        assert_eq!(allocator.take(PAGE), None);
        assert!(allocator.release(low, half - FIRST));
        assert_eq!(allocator.take(4 * PAGE), Some(FIRST));
    }

    #[test]
    fn a_range_of_the_clients_choice_may_touch_others_and_not_overlap_them() {
        let mut allocator = IovaAllocator::new();
        assert_eq!(allocator.take_at(0, 16 * PAGE), Ok(()));
        assert_eq!(allocator.take_at(16 * PAGE, PAGE), Ok(()));
        assert_eq!(allocator.take_at(15 * PAGE, PAGE), Err((0, 16 * PAGE)));
        assert_eq!(allocator.take_at(FIRST, PAGE), Ok(()));
        assert_eq!(allocator.take_at(FIRST - PAGE, 3 * PAGE), Err((FIRST, PAGE)));
        assert_eq!(allocator.take_at(u64::MAX - PAGE + 1, PAGE), Ok(()), "up to the last byte");
        assert_eq!(allocator.take(PAGE), Some(FIRST + 2 * PAGE));
        assert!(allocator.release(u64::MAX - PAGE + 1, PAGE));
    }

    proptest! {
        #[test]
        fn ranges_never_touch(steps in prop::collection::vec((any::<bool>(), 1u64..9), 1..200)) {
            let mut allocator = IovaAllocator::new();
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (take, pages) in steps {
                if take || held.is_empty() {
                    let len = pages * PAGE;
                    let start = allocator.take(len).unwrap();
                    for (other, other_len) in &held {
                        prop_assert!(start >= other + other_len + PAGE || start + len + PAGE <= *other);
                    }
                    held.push((start, len));
                } else {
                    let (start, len) = held.swap_remove(pages as usize % held.len());
                    prop_assert!(allocator.release(start, len));
                }
            }
        }
    }
}
