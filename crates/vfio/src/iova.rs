//! Which IOVAs are free: a range allocator.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use warpbell_hw::HUGE_PAGE;

/// Addresses end here: some controllers drive only 48 address bits, whatever the IOMMU translates.
const END: u64 = 1 << 48;

/// AMD's HyperTransport range: accesses there never reach the IOMMU.
const HYPERTRANSPORT: Range<u64> = 0xfd_0000_0000..0x100_0000_0000;

/// Hands out ranges of IOVAs, lowest first. A page stays free behind each, so that a device that runs over the end of
/// a buffer faults; page 0 is never handed out, so that an address that was never written faults too.
#[derive(Debug)]
pub(crate) struct IovaAllocator {
    page: u64,
    /// Ends by starts.
    free: BTreeMap<u64, u64>,
    /// What may be used at all, in order.
    usable: Vec<Range<u64>>,
}

impl IovaAllocator {
    /// An allocator of whole pages in `ranges`.
    pub(crate) fn new(ranges: &[RangeInclusive<u64>], page: u64) -> IovaAllocator {
        let mut allocator = IovaAllocator { page, free: BTreeMap::new(), usable: vec![page..END] };
        allocator.exclude(HYPERTRANSPORT);
        allocator.restrict(ranges);
        allocator.free = allocator.usable.iter().map(|range| (range.start, range.end)).collect();
        allocator
    }

    /// Leaves nothing but what lies in `ranges`: another device of the same space may reach less.
    pub(crate) fn restrict(&mut self, ranges: &[RangeInclusive<u64>]) {
        let mut sorted: Vec<&RangeInclusive<u64>> = ranges.iter().filter(|range| !range.is_empty()).collect();
        sorted.sort_by_key(|range| *range.start());
        let mut hole = 0;
        for range in sorted {
            let start = range.start().checked_next_multiple_of(self.page).unwrap_or(END);
            let end = range.end().checked_add(1).map_or(END, |end| end & !(self.page - 1));
            self.exclude(hole..start);
            hole = hole.max(end);
        }
        self.exclude(hole..END);
    }

    /// Never hands out `range` from now on. What was handed out there before stays with its owner, and is not used again.
    pub(crate) fn exclude(&mut self, range: Range<u64>) {
        let range = range.start & !(self.page - 1)..range.end.min(END).next_multiple_of(self.page);
        self.usable = self.usable.iter().flat_map(|usable| without(usable, &range)).collect();
        let free = std::mem::take(&mut self.free);
        for (start, end) in free {
            self.free.extend(without(&(start..end), &range).map(|rest| (rest.start, rest.end)));
        }
    }

    /// The start of a free range of `len` bytes (a multiple of the page), aligned to 2 MiB if it is as long as that.
    pub(crate) fn allocate(&mut self, len: u64) -> Option<u64> {
        let alignment = if len >= HUGE_PAGE as u64 { HUGE_PAGE as u64 } else { self.page };
        let with_guard = len.checked_add(self.page)?;
        let fit = |(start, end): (&u64, &u64)| {
            let at = start.checked_next_multiple_of(alignment)?;
            (at.checked_add(with_guard)? <= *end).then_some((*start, *end, at))
        };
        let (start, end, at) = self.free.iter().find_map(fit)?;
        self.free.remove(&start);
        if start < at {
            self.free.insert(start, at);
        }
        if at + with_guard < end {
            self.free.insert(at + with_guard, end);
        }
        Some(at)
    }

    /// Takes back what `allocate` gave.
    pub(crate) fn release(&mut self, start: u64, len: u64) {
        let given = start..start + len + self.page;
        let back: Vec<Range<u64>> = self.usable.iter().filter_map(|usable| common(usable, &given)).collect();
        for Range { mut start, mut end } in back {
            if let Some((before, before_end)) = self.free.range(..start).next_back().map(|(s, e)| (*s, *e))
                && before_end == start
            {
                self.free.remove(&before);
                start = before;
            }
            if let Some(after_end) = self.free.remove(&end) {
                end = after_end;
            }
            self.free.insert(start, end);
        }
    }

    /// What may be used at all, free or not.
    pub(crate) fn usable(&self) -> Vec<RangeInclusive<u64>> {
        self.usable.iter().map(|range| range.start..=range.end - 1).collect()
    }
}

/// `range` without `hole`: nothing, one part or two.
fn without(range: &Range<u64>, hole: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let low = range.start..range.end.min(hole.start);
    let high = range.start.max(hole.end)..range.end;
    let parts = if hole.is_empty() { [range.clone(), 0..0] } else { [low, high] };
    parts.into_iter().filter(|part| !part.is_empty())
}

fn common(one: &Range<u64>, other: &Range<u64>) -> Option<Range<u64>> {
    let both = one.start.max(other.start)..one.end.min(other.end);
    (!both.is_empty()).then_some(both)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const PAGE: u64 = 4096;
    const MIB: u64 = 1 << 20;

    /// What a VT-d unit with 39 bits offers.
    fn vtd() -> IovaAllocator {
        IovaAllocator::new(&[0..=0xfedf_ffff, 0xfef0_0000..=0x7f_ffff_ffff], PAGE)
    }

    #[test]
    fn page_0_is_skipped_and_a_page_stays_free_between() {
        let mut iovas = vtd();
        assert_eq!(iovas.allocate(PAGE), Some(PAGE));
        assert_eq!(iovas.allocate(2 * PAGE), Some(3 * PAGE));
        assert_eq!(iovas.allocate(4 * MIB), Some(2 * MIB));
        iovas.release(PAGE, PAGE);
        assert_eq!(iovas.allocate(PAGE), Some(PAGE));
    }

    #[test]
    fn ranges_are_those_of_the_iommu_below_48_bits_without_hypertransport() {
        assert_eq!(vtd().usable(), [PAGE..=0xfedf_ffff, 0xfef0_0000..=0x7f_ffff_ffff]);
        let all = IovaAllocator::new(&[0..=u64::MAX], PAGE);
        assert_eq!(all.usable(), [PAGE..=0xfc_ffff_ffff, 0x100_0000_0000..=END - 1]);
        assert!(IovaAllocator::new(&[], PAGE).usable().is_empty());
        let odd = IovaAllocator::new(&[0x1800..=0x4fff, 0x6000..=0x6ffe], PAGE);
        assert_eq!(odd.usable(), [0x2000..=0x4fff]);
    }

    #[test]
    fn what_is_excluded_while_in_use_does_not_come_back() {
        let mut iovas = IovaAllocator::new(&[0..=16 * PAGE - 1], PAGE);
        assert_eq!(iovas.allocate(4 * PAGE), Some(PAGE));
        iovas.exclude(2 * PAGE..3 * PAGE);
        iovas.release(PAGE, 4 * PAGE);
        assert_eq!(iovas.usable(), [PAGE..=2 * PAGE - 1, 3 * PAGE..=16 * PAGE - 1]);
        assert_eq!(iovas.allocate(2 * PAGE), Some(3 * PAGE));
    }

    #[test]
    fn a_full_space_says_so() {
        let mut iovas = IovaAllocator::new(&[0..=4 * PAGE - 1], PAGE);
        assert_eq!(iovas.allocate(3 * PAGE), None, "no room for the page behind it");
        assert_eq!(iovas.allocate(2 * PAGE), Some(PAGE));
        assert_eq!(iovas.allocate(PAGE), None);
        assert_eq!(vtd().allocate(!(PAGE - 1)), None);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Allocate(u64),
        Release(usize),
        Exclude(u64, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1u64..2048).prop_map(|pages| Step::Allocate(pages * PAGE)),
            3 => any::<usize>().prop_map(Step::Release),
            1 => (0u64..64 * MIB, 0u64..MIB).prop_map(|(start, len)| Step::Exclude(start, len)),
        ]
    }

    proptest! {
        /// Mappings are aligned, apart by a page at least, and within the ranges; all that was free is free again
        /// when all are released.
        #[test]
        fn allocations_keep_apart(
            ends in vec((0u64..64 * MIB, 1u64..32 * MIB), 1..5),
            steps in vec(step(), 1..80),
        ) {
            let ranges: Vec<_> = ends.iter().map(|(start, len)| *start..=start + len).collect();
            let mut iovas = IovaAllocator::new(&ranges, PAGE);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for step in steps {
                match step {
                    Step::Allocate(len) => {
                        let Some(at) = iovas.allocate(len) else { continue };
                        let alignment = if len >= 2 * MIB { 2 * MIB } else { PAGE };
                        prop_assert!(at >= PAGE && at % alignment == 0);
                        prop_assert!(iovas.usable().iter().any(|r| r.contains(&at) && r.contains(&(at + len - 1))));
                        for (start, other) in &held {
                            prop_assert!(at + len + PAGE <= *start || start + other + PAGE <= at);
                        }
                        held.push((at, len));
                    }
                    Step::Release(which) if !held.is_empty() => {
                        let (at, len) = held.swap_remove(which % held.len());
                        iovas.release(at, len);
                    }
                    Step::Release(_) => {}
                    Step::Exclude(start, len) => iovas.exclude(start..start + len),
                }
            }
            for (at, len) in held {
                iovas.release(at, len);
            }
            let free: Vec<_> = iovas.free.iter().map(|(start, end)| *start..=end - 1).collect();
            prop_assert_eq!(free, iovas.usable());
        }
    }
}
