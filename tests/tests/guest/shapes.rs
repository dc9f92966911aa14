//! Controllers of odd shapes: few queues, small transfers, a controller memory buffer, namespaces of both block sizes, a
//! slow one, and one with a bad block.

use std::sync::Arc;

use warpbell::{DataPlacement, OpenOptions, RingPlacement, Ssd};
use warpbell_driver::DoorbellBuffer;
use warpbell_tests::suite;

use crate::fixture;

const FEW: usize = 0;
const WIDE: usize = 1;
const SLOW: usize = 2;
const BROKEN: usize = 3;

#[test]
fn limits_and_namespaces_are_what_qemu_was_told() {
    if !fixture::is("shapes") {
        return;
    }
    let few = fixture::plain(FEW);
    assert_eq!(few.identify().serial(), "FEW");
    assert_eq!((few.granted_queues(), few.max_transfer_bytes()), (4, Some(128 << 10)));
    assert_eq!(few.controller().device().interrupts().count(), 5);
    let shapes = |ssd: &Ssd| -> Vec<(u32, u32, u64)> {
        let namespaces = ssd.namespaces().iter();
        namespaces.map(|namespace| (namespace.nsid.get(), namespace.block_size, namespace.bytes())).collect()
    };
    assert_eq!(shapes(&few), [(1, 512, 32 << 20), (2, 4096, 32 << 20)]);
    let wide = fixture::plain(WIDE);
    assert_eq!((shapes(&wide), wide.max_transfer_bytes()), (vec![(7, 4096, 64 << 20)], Some(8 << 10)));
}

#[test]
fn the_suite_holds_on_every_namespace_of_a_small_controller() {
    if !fixture::is("shapes") {
        return;
    }
    let few = fixture::plain(FEW);
    for nsid in [1, 2] {
        suite::kernels(&few, nsid);
        suite::both_apis(&few, nsid);
        suite::boundaries(&few, nsid);
    }
    suite::all_queues(&few);
}

#[test]
fn the_suite_holds_with_large_blocks_and_a_high_namespace_number() {
    if !fixture::is("shapes") {
        return;
    }
    let wide = fixture::plain(WIDE);
    suite::kernels(&wide, 7);
    suite::both_apis(&wide, 7);
    suite::boundaries(&wide, 7);
}

fn in_controller_memory(data: DataPlacement, doorbell_buffer: DoorbellBuffer) -> Arc<Ssd> {
    fixture::open(
        FEW,
        &OpenOptions::new().rings(RingPlacement::Cmb).data(data).doorbell_buffer(doorbell_buffer),
    )
}

#[test]
fn submission_rings_lie_in_controller_memory() {
    if !fixture::is("shapes") {
        return;
    }
    for (data, doorbells) in [
        (DataPlacement::Host, DoorbellBuffer::Off),
        (DataPlacement::Host, DoorbellBuffer::On),
        (DataPlacement::Foreign(fixture::foreign()), DoorbellBuffer::Off),
    ] {
        let few = in_controller_memory(data, doorbells);
        suite::kernels(&few, 1);
        suite::both_apis(&few, 2);
        assert!(few.data_path().rings.contains("cmb"), "{}", few.data_path());
    }
}

#[test]
fn a_throttled_ssd_is_slow_and_right() {
    if !fixture::is("shapes") {
        return;
    }
    let slow = fixture::plain(SLOW);
    assert_eq!(slow.identify().serial(), "SLOW");
    suite::works(&slow);
}

#[test]
fn a_bad_block_fails_its_own_reads_and_no_others() {
    if !fixture::is("shapes") {
        return;
    }
    let broken = fixture::plain(BROKEN);
    suite::read_errors(&broken, 1, 1 << 20);
}
