//! What is read ahead in each order of use, and what that saves.

use warpbell::{Sharing, VolumeLayout, VolumeSpec};

use crate::fixture::{DRAWN, Fixture, LOOPED, MODES, NAMED, PAGE};

const SEEDS: u64 = 4;

#[test]
fn a_scan_waits_for_its_first_pages_only() {
    for sharing in MODES {
        let with = Fixture::scan(sharing, 500);
        let (ahead, alone) = (with.timed(), with.without().timed());
        ahead.expect_right();
        alone.expect_right();
        println!("{sharing:?}: {:?} instead of {:?}, {:?}", ahead.took, alone.took, ahead.report);
        assert_eq!((alone.report.misses, alone.report.hits, alone.report.prefetched), (500, 0, 0));
        assert_eq!(ahead.report.misses, 3, "a sequence is known by its third page");
        assert!(ahead.hit_rate() > 0.99 && ahead.report.prefetched_in_vain <= 16, "{ahead:?}");
        assert!(ahead.took * 6 < alone.took, "{:?} instead of {:?}", ahead.took, alone.took);
        assert_eq!(ahead, with.timed(), "virtual time is the same each time");
    }
}

#[test]
fn strides_are_found_forwards_and_backwards() {
    for stride in [7, 0u64.wrapping_sub(5)] {
        let apart = if stride > 100 { 599 } else { 0 };
        let fixture = Fixture { stride, ..Fixture::scan(Sharing::Shared, 80) };
        // The second warp of two begins at the end.
        let fixture = Fixture { apart, warps: if apart == 0 { 1 } else { 2 }, ..fixture };
        let (ahead, alone) = (fixture.timed(), fixture.without().timed());
        ahead.expect_right();
        println!("stride {stride}: {:?} instead of {:?}, {:?}", ahead.took, alone.took, ahead.report);
        assert!(ahead.hit_rate() > 0.9, "{ahead:?}");
        // Two warps wait for each other less than one does.
        assert!(ahead.took * 2 < alone.took, "{:?} instead of {:?}", ahead.took, alone.took);
    }
}

#[test]
fn pages_in_no_order_are_left_to_the_cache() {
    let fixture = Fixture { order: DRAWN, ..Fixture::scan(Sharing::Exclusive, 600) };
    let (ahead, alone) = (fixture.timed(), fixture.without().timed());
    ahead.expect_right();
    println!("{:?} instead of {:?}, {:?}", ahead.took, alone.took, ahead.report);
    assert!(ahead.report.prefetched < 30, "{ahead:?}");
    // What was read ahead in vain cost no waits to speak of.
    assert!(ahead.took.as_micros() * 100 < alone.took.as_micros() * 105, "{ahead:?}");
}

#[test]
fn named_pages_come_at_once() {
    for sharing in MODES {
        let fixture = Fixture { order: NAMED, ..Fixture::scan(sharing, 16) };
        let (ahead, alone) = (fixture.timed(), fixture.without().timed());
        ahead.expect_right();
        println!("{sharing:?}: {:?} instead of {:?}, {:?}", ahead.took, alone.took, ahead.report);
        assert_eq!((ahead.report.misses, ahead.report.hits), (0, 16));
        assert_eq!(ahead.report.prefetched_used, 16);
        assert!(ahead.took * 2 < alone.took, "{:?} instead of {:?}", ahead.took, alone.took);
    }
}

#[test]
fn what_was_named_and_not_used_is_counted() {
    // Each warp names twice what it has room for, which is half the lines, and uses every page in turn.
    let fixture = Fixture { order: NAMED, lines: 16, stride: 2, ..Fixture::scan(Sharing::Exclusive, 8) };
    let ran = fixture.timed();
    ran.expect_right();
    // Pages 0 to 7 were named, and 0, 2, 4 and 6 used; then 8 to 14, of which the sequence has read some.
    assert_eq!(ran.report.prefetch_skipped, 0, "{ran:?}");
    assert!(ran.report.prefetched_in_vain >= 4 && ran.report.prefetched_used >= 4, "{ran:?}");
}

#[test]
fn warps_share_what_they_read_ahead() {
    for (sharing, seed) in MODES.iter().flat_map(|mode| (1..=SEEDS).map(move |seed| (*mode, seed))) {
        for (lines, apart, stores) in [(64, 0, false), (64, 5, true), (12, 3, true), (3, 1, true)] {
            let fixture = Fixture { warps: 2, lines, apart, stores, ..Fixture::scan(sharing, 40) };
            fixture.drawn(seed).expect_right();
        }
    }
}

#[test]
fn a_lane_with_one_command_id_reads_what_is_wanted() {
    let stripe = VolumeSpec::new().layout(VolumeLayout::Stripe).chunk_bytes(3 * PAGE);
    for volume in [None, Some(stripe)] {
        let fixture = Fixture { tokens: Some(1), volume, ..Fixture::scan(Sharing::Exclusive, 40) };
        let ran = fixture.drawn(1);
        ran.expect_right();
        assert_eq!((ran.report.prefetched, ran.report.misses), (0, 40));
        assert!(ran.report.prefetch_skipped > 0, "{ran:?}");
        // The pages fit, and none of them leaves for one that is not read then.
        let ran = Fixture { order: LOOPED, lines: 4, ..fixture }.drawn(1);
        ran.expect_right();
        assert_eq!((ran.report.prefetched, ran.report.misses), (0, 4), "{ran:?}");
        assert!(ran.report.prefetch_skipped > 0, "{ran:?}");
    }
}

#[test]
fn pages_of_volumes_are_read_ahead() {
    // The last: every third page lies across two chunks, and is left to the cache.
    let layouts = [
        (VolumeLayout::Stripe, 3 * PAGE, 0),
        (VolumeLayout::Replicate, 3 * PAGE, 0),
        (VolumeLayout::Stripe, PAGE * 3 / 2, 1),
    ];
    for (layout, chunk_bytes, skips) in layouts {
        let volume = Some(VolumeSpec::new().layout(layout).chunk_bytes(chunk_bytes));
        let fixture =
            Fixture { warps: 2, apart: 3, stores: skips == 0, volume, ..Fixture::scan(Sharing::Shared, 60) };
        for seed in 1..=SEEDS {
            let ran = fixture.drawn(seed);
            ran.expect_pages();
            assert!(ran.report.prefetched_used > 10, "{ran:?}");
            assert_eq!(ran.report.prefetch_skipped > 10, skips != 0, "{ran:?}");
        }
    }
}
