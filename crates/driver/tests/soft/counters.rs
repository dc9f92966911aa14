//! The queue rules: 64-bit counters from every start value, across ring wraps, with completions in random
//! order; doorbell budgets.

use std::collections::HashSet;

use warpbell_driver::{IoQueue, Token};
use warpbell_hw::Nsid;
use warpbell_nvme::command;
use warpbell_softctl::{CompletionOrder, SoftDevice};

use crate::fixture::*;

/// Keeps up to `batch` commands at a time in flight until `count` have completed; each exactly once.
fn run(device: &SoftDevice, queue: &mut IoQueue, count: u64, batch: u32) {
    let mut outstanding: HashSet<Token> = HashSet::new();
    let (mut pushed, mut done) = (0, 0);
    while done < count {
        while pushed < count && (outstanding.len() as u32) < batch {
            let Some(token) = queue.push(&command::flush(1)) else { break };
            assert!(outstanding.iter().all(|other| other.slot != token.slot), "slot {} twice", token.slot);
            assert!(u32::from(token.slot) < queue.depth() && token.cid.0 != u16::MAX);
            outstanding.insert(token);
            pushed += 1;
        }
        queue.ring();
        let completion = next(device, queue);
        assert!(completion.is_ok(), "{completion:?}");
        assert!(outstanding.remove(&completion.token), "{completion:?} is not outstanding");
        done += 1;
    }
    assert!(outstanding.is_empty());
}

/// The start values that the protocol's tests use.
fn starts(entries: u32) -> [u64; 5] {
    [0, u64::from(entries) - 1, (1 << 16) - 2, (1 << 32) - 2, 1 << 62]
}

#[test]
fn counters_start_anywhere_and_rings_wrap_three_times() {
    for (entries, seed) in [(2, 1), (4, 2), (1024, 3)] {
        on_both(&shuffled(seed), |device| {
            let controller = open(device);
            for start in starts(entries) {
                for batch in [1, entries - 1, 32] {
                    // Batches of one need no thousand laps of the large ring.
                    let count = u64::from(if batch == 1 { 3 * entries.min(64) } else { 3 * entries + 1 });
                    let mut queue = io_queue(&controller, entries);
                    queue.advance_to(start, Nsid(1)).unwrap();
                    run(device, &mut queue, count, batch);
                    let counters = queue.counters();
                    assert_eq!((counters.spurious, counters.sqhd_mismatches, counters.timed_out), (0, 0, 0));
                    assert_eq!(queue.outstanding(), 0);
                    let pair = queue.into_pair();
                    assert_eq!(pair.index_base(), Some(start + count), "{entries} entries from {start:#x}");
                    controller.delete_queue_pair(pair).unwrap();
                }
            }
            controller.shutdown().unwrap();
        });
    }
}

#[test]
fn a_pair_advanced_by_one_party_is_driven_on_by_another() {
    on_both(&shuffled(9), |device| {
        let controller = open(device);
        for start in starts(8) {
            let mut queue = io_queue(&controller, 8);
            queue.advance_to(start, Nsid(1)).unwrap();
            let pair = queue.into_pair();
            assert_eq!(pair.index_base(), Some(start));
            let mut queue = IoQueue::new(pair, Default::default()).unwrap();
            run(device, &mut queue, 50, 7);
            controller.delete_queue_pair(queue.into_pair()).unwrap();
        }
        controller.shutdown().unwrap();
    });
}

#[test]
fn advancing_is_possible_at_any_time_the_queue_is_idle() {
    on_both(&config(), |device| {
        let controller = open(device);
        let mut queue = io_queue(&controller, 16);
        for start in [5, 3, 1 << 40, 7, (1 << 32) - 1] {
            queue.advance_to(start, Nsid(1)).unwrap();
            run(device, &mut queue, 40, 15);
        }
        controller.delete_queue_pair(queue.into_pair()).unwrap();
        controller.shutdown().unwrap();
    });
}

#[test]
fn doorbells_stay_within_their_budget() {
    on_both(&config(), |device| {
        let controller = open(device);
        let mut queue = io_queue(&controller, 256);
        let before = device.statistics();
        let count = 32 * 100;
        // A full batch is pushed before anything is reaped.
        for _ in 0..100 {
            (0..32).for_each(|_| assert!(queue.push(&command::flush(1)).is_some()));
            queue.ring();
            (0..32).for_each(|_| assert!(next(device, &mut queue).is_ok()));
        }
        let counters = queue.counters();
        assert_eq!((counters.sqes, counters.cqes), (count, count));
        assert_eq!((counters.sq_doorbells, counters.cq_doorbells), (100, 100));
        let after = device.statistics();
        assert!(after.sq_doorbells - before.sq_doorbells <= 100);
        controller.delete_queue_pair(queue.into_pair()).unwrap();
        controller.shutdown().unwrap();
    });
}

#[test]
fn the_lazy_completion_doorbell_never_starves_the_queue() {
    for entries in [2u32, 4, 8, 16, 64, 256] {
        on_both(&shuffled(entries.into()), |device| {
            let controller = open(device);
            let mut queue = io_queue(&controller, entries);
            run(device, &mut queue, u64::from(entries) * 8, entries - 1);
            let counters = queue.counters();
            let batch = u64::from((entries / 4).clamp(1, 32));
            assert!(counters.cq_doorbells <= counters.cqes / batch + 1, "{counters:?}");
            controller.delete_queue_pair(queue.into_pair()).unwrap();
            controller.shutdown().unwrap();
        });
    }
}

#[test]
fn held_back_completions_do_not_confuse_room() {
    // The controller holds back more commands than the ring has: it may only do so as long as it fetches.
    let order = CompletionOrder::Shuffled { window: 1 << 16 };
    let config = shuffled(5).order(order);
    on_both(&config, |device| {
        let controller = open(device);
        let mut queue = io_queue(&controller, 32);
        run(device, &mut queue, 300, 31);
        controller.delete_queue_pair(queue.into_pair()).unwrap();
        controller.shutdown().unwrap();
    });
}
