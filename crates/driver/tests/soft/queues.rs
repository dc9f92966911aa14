//! I/O queue pairs: grants, sizes, deletion with commands outstanding.

use std::time::Duration;

use warpbell_driver::{IoQueue, IoQueueOptions, QueueSpec, RingMemory};
use warpbell_hw::Qid;
use warpbell_nvme::command;

use crate::fixture::*;

#[test]
fn seven_of_sixty_four_and_sixty_four_of_four() {
    for (grant, asked, usable) in [(7, 64, 7), (64, 4, 4), (1, 1, 1)] {
        on_both(&config().grant(Some(grant)), |device| {
            let controller = open_with(device, asked);
            assert_eq!(controller.granted_queues(), usable);
            assert_eq!(controller.grant().submission, u32::from(grant));
            let mut queues: Vec<_> = (0..usable).map(|_| io_queue(&controller, 4)).collect();
            let error = controller.create_queue_pair(QueueSpec::new(4)).unwrap_err().to_string();
            assert!(error.contains(&format!("{usable} in use and 0 lost of {usable} granted")), "{error}");
            for (queue, number) in queues.iter_mut().zip(1..) {
                assert_eq!(queue.qid(), Qid(number));
                assert!(queue.execute(&command::flush(1)).unwrap().is_ok());
            }
            for queue in queues {
                controller.delete_queue_pair(queue.into_pair()).unwrap();
            }
            controller.shutdown().unwrap();
        });
    }
}

#[test]
fn every_size_that_is_allowed_works() {
    on_both(&config(), |device| {
        let controller = open(device);
        for entries in [2u32, 4, 1024, 65536] {
            let mut queue = io_queue(&controller, entries);
            assert_eq!(queue.depth(), entries - 1);
            let (mut pushed, mut done) = (0, 0);
            while pushed < queue.depth() {
                assert!(queue.push(&command::flush(1)).is_some(), "{pushed} of {entries}");
                pushed += 1;
            }
            assert!(queue.push(&command::flush(1)).is_none(), "one entry stays free");
            queue.ring();
            while done < pushed {
                assert!(next(device, &mut queue).is_ok());
                done += 1;
            }
            controller.delete_queue_pair(queue.into_pair()).unwrap();
        }
        for entries in [1, 3, 65535] {
            assert!(controller.create_queue_pair(QueueSpec::new(entries)).is_err());
        }
        controller.shutdown().unwrap();
    });
}

#[test]
fn a_smaller_limit_is_the_limit() {
    on_both(&config().max_entries(256), |device| {
        let controller = open(device);
        assert_eq!(controller.max_entries(), 256);
        let error = controller.create_queue_pair(QueueSpec::new(512)).unwrap_err().to_string();
        assert!(error.ends_with("queue of 512 entries: must be a power of two from 2 to 256"), "{error}");
        let pair = controller.create_queue_pair(QueueSpec::new(256)).unwrap();
        controller.delete_queue_pair(pair).unwrap();
    });
}

#[test]
fn queues_with_commands_outstanding_are_deleted_in_order() {
    on_both(&shuffled(3), |device| {
        let controller = open(device);
        for _ in 0..20 {
            let mut queue = io_queue(&controller, 64);
            for _ in 0..40 {
                queue.push(&command::flush(1)).unwrap();
            }
            queue.ring();
            let pair = queue.into_pair();
            assert_eq!(pair.index_base(), None);
            controller.delete_queue_pair(pair).unwrap();
        }
        let left: Vec<_> = (0..3).map(|_| io_queue(&controller, 64)).collect();
        controller.shutdown().unwrap();
        drop(left);
    });
}

#[test]
fn a_dropped_queue_is_deleted_before_its_memory_is_unmapped() {
    on_both(&config(), |device| {
        let controller = open(device);
        for _ in 0..5 {
            let mut queue = io_queue(&controller, 64);
            queue.submit(&command::flush(1)).unwrap();
            drop(queue);
        }
        drop(controller);
    });
}

#[test]
fn a_stride_moves_the_doorbells() {
    for stride in 0..=4 {
        on_both(&config().stride(stride), |device| {
            let controller = open(device);
            let mut queue = io_queue(&controller, 8);
            assert!(queue.execute(&command::flush(1)).unwrap().is_ok());
            controller.delete_queue_pair(queue.into_pair()).unwrap();
            controller.shutdown().unwrap();
        });
    }
}

#[test]
fn a_pair_goes_from_hand_to_hand() {
    on_both(&config(), |device| {
        let controller = open(device);
        let mut pair = controller.create_queue_pair(QueueSpec::new(64)).unwrap();
        // Each party stops one short of its first completion doorbell: unless it reports the rest when it
        // leaves, the completion queue is full after a few rounds.
        for round in 0..10u64 {
            assert_eq!(pair.index_base(), Some(round * 15));
            let mut queue = IoQueue::new(pair, IoQueueOptions::default()).unwrap();
            for _ in 0..15 {
                assert!(queue.submit(&command::flush(1)).is_some());
                assert!(next(device, &mut queue).is_ok());
            }
            pair = queue.into_pair();
        }
        controller.delete_queue_pair(pair).unwrap();
        controller.shutdown().unwrap();
    });
}

#[test]
fn a_queue_of_before_a_reset_says_so_and_its_rings_serve_the_next() {
    on_both(&config(), |device| {
        let controller = open(device);
        let sq = controller.reserve_sq(RingMemory::Host, 4).unwrap();
        let cq = controller.reserve_cq(RingMemory::Host, 4).unwrap();
        let make = || {
            let (sq_memory, cq_memory) = (RingMemory::Reserved(sq.clone()), RingMemory::Reserved(cq.clone()));
            let pair = controller
                .create_queue_pair(QueueSpec::new(4).sq_memory(sq_memory).cq_memory(cq_memory))
                .unwrap();
            assert_eq!(pair.sq_iova(), sq.iova());
            let options = IoQueueOptions::new().timeout(Duration::from_millis(50));
            IoQueue::new(pair, options).unwrap()
        };
        let mut old = make();
        assert!(old.execute(&command::flush(1)).unwrap().is_ok() && !old.is_retired());
        controller.reset().unwrap();
        let error = old.execute(&command::flush(1)).unwrap_err().to_string();
        assert!(error.contains("the controller was reset") && old.is_retired(), "{error}");
        drop(old);
        // What the old one left in the rings is no completion of the new one.
        let mut new = make();
        assert!(new.execute(&command::flush(1)).unwrap().is_ok());
        controller.delete_queue_pair(new.into_pair()).unwrap();
    });
}
