//! The engine: batches, failures, back-pressure, one queue a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use warpbell_hw::{Device, DmaAccess, DmaError, Lba, Nsid, RemoteBuffer};
use warpbell_nvme::command;
use warpbell_nvme::log::{ErrorLogEntry, LogPageId};
use warpbell_nvme::{Sqe, Status};

use crate::client::remote::Double;
use crate::client::{Client, memory, parsed};
use crate::{REMOTE, Rig, both, both_with, pattern};

fn reads(rig: &Rig, count: usize) -> Vec<Sqe> {
    (0..count).map(|i| rig.sgl(command::read(1, 8 * i as u64, 7), i * 8192, 4096)).collect()
}

#[test]
fn many_commands_make_one_batch() {
    for mut rig in both() {
        let commands = reads(&rig, 32);
        rig.submit(1, &commands);
        for _ in 0..32 {
            assert!(rig.wait().status().is_ok());
        }
        let seen = rig.remote.seen();
        let (batches, copies) = (seen.batches.load(Ordering::SeqCst), seen.copies.load(Ordering::SeqCst));
        assert_eq!(copies, 32);
        assert!(seen.largest.load(Ordering::SeqCst) > 1 && batches < copies, "{batches} batches");
        let statistics = rig.device().statistics();
        assert_eq!((statistics.remote_batches, statistics.remote_copies), (batches, copies));
    }
}

#[test]
fn a_pass_of_a_poller_submits_one_batch() {
    let mut rig = Rig::new(Client::threaded(memory(1 << 20, 512)));
    // The first command wakes the poller; those behind it are found together.
    let commands = reads(&rig, 32);
    rig.submit(1, &commands);
    for _ in 0..32 {
        rig.wait();
    }
    assert_eq!(rig.remote.seen().batches.load(Ordering::SeqCst), 1, "one doorbell, one pass, one batch");
}

#[test]
fn a_copy_that_fails_fails_its_command_and_no_other() {
    for no_pins in [false, true] {
        for client in Client::both(&memory(1 << 20, 512)) {
            let remote = Double::for_device(client.device.is_stepped(), REMOTE, 5);
            remote.knobs().no_pins.store(no_pins, Ordering::SeqCst);
            let mut rig = Rig::with(client, remote);
            rig.remote.knobs().fail.store(3, Ordering::SeqCst);
            let commands = reads(&rig, 8);
            rig.submit(1, &commands);
            let statuses: Vec<Status> = (0..8).map(|_| rig.wait().status()).collect();
            let failed =
                statuses.iter().filter(|one| one.same_code(Status::DATA_TRANSFER_ERROR) && !one.dnr());
            assert_eq!(failed.count(), 3);
            assert_eq!(statuses.iter().filter(|one| one.is_ok()).count(), 5);
            rig.client.assert_clean();
            assert_eq!(rig.device().statistics().errors, 3);
            assert_eq!(rig.device().statistics().bytes_read, 5 * 4096);
            let log = rig.client.admin_data(command::get_log_page(
                LogPageId::ERROR_INFORMATION,
                u32::MAX,
                15,
                0,
                false,
            ));
            let entry: ErrorLogEntry = parsed(&log);
            assert!(entry.status.status().same_code(Status::DATA_TRANSFER_ERROR), "the error log names it");
            assert_eq!((entry.error_count, entry.sqid), (3, 1));
            let commands = reads(&rig, 8);
            rig.submit(1, &commands);
            assert!((0..8).all(|_| rig.wait().status().is_ok()), "the next succeed");
        }
    }
}

#[test]
fn a_write_whose_copy_fails_writes_nothing_that_was_staged() {
    for client in Client::both(&memory(1 << 20, 512)) {
        let remote = Double::for_device(client.device.is_stepped(), REMOTE, 5);
        remote.knobs().no_pins.store(true, Ordering::SeqCst);
        let mut rig = Rig::with(client, remote);
        rig.remote.set(0, &[8; 4096]);
        rig.remote.knobs().fail.store(1, Ordering::SeqCst);
        let status = rig.run(rig.sgl(command::write(1, 0, 7), 0, 4096));
        assert!(status.same_code(Status::DATA_TRANSFER_ERROR), "{status}");
        let mut stored = [1; 4096];
        rig.device().peek(Nsid(1), Lba(0), &mut stored).unwrap();
        assert_eq!(stored, [0; 4096]);
    }
}

#[test]
fn a_batch_that_is_refused_costs_its_commands_and_the_queue_is_opened_anew() {
    for mut rig in both() {
        rig.remote.knobs().refuse_batches.store(1, Ordering::SeqCst);
        let commands = reads(&rig, 1);
        rig.submit(1, &commands);
        assert!(rig.wait().status().same_code(Status::DATA_TRANSFER_ERROR));
        let commands = reads(&rig, 4);
        rig.submit(2, &commands);
        assert!((0..4).all(|_| rig.wait().status().is_ok()));
        assert_eq!(rig.remote.seen().queues.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn without_a_queue_commands_fail_and_nothing_else_does() {
    for mut rig in both() {
        rig.remote.knobs().no_queues.store(true, Ordering::SeqCst);
        rig.remote.knobs().refuse_batches.store(1, Ordering::SeqCst);
        // The first loses the queue, the second finds none.
        for _ in 0..2 {
            let status = rig.run(rig.sgl(command::read(1, 0, 0), 0, 512));
            assert!(status.same_code(Status::DATA_TRANSFER_ERROR), "{status}");
        }
        let host = rig.client.buffer.iova().0;
        rig.run_ok(command::read(1, 0, 0).with_prp(host, 0));
        rig.remote.knobs().no_queues.store(false, Ordering::SeqCst);
        rig.run_ok(rig.sgl(command::read(1, 0, 0), 0, 512));
    }
}

#[test]
fn memory_without_a_queue_is_not_mapped() {
    for rig in both() {
        let other = Double::for_device(rig.client.device.is_stepped(), 1 << 20, 1);
        other.knobs().no_queues.store(true, Ordering::SeqCst);
        let refused = map(&rig, &other).unwrap_err().to_string();
        assert!(refused.contains("told to have no queues"), "{refused}");
        other.stop();
    }
}

fn map(rig: &Rig, remote: &Double) -> Result<RemoteBuffer, DmaError> {
    RemoteBuffer::map(rig.client.device.dma(), Arc::new(remote.clone()), DmaAccess::READ_WRITE)
}

#[test]
fn commands_wait_for_staging_memory_and_all_complete() {
    let config = memory(1 << 20, 512).mdts(8);
    for client in Client::both(&config) {
        let remote = Double::for_device(client.device.is_stepped(), REMOTE, 9);
        remote.knobs().no_pins.store(true, Ordering::SeqCst);
        let mut rig = Rig::with(client, remote);
        let data = pattern(6, 1 << 20);
        rig.device().poke(Nsid(1), Lba(0), &data).unwrap();
        rig.remote.hold(true);
        let commands: Vec<Sqe> =
            (0..40).map(|i| rig.sgl(command::read(1, 0, 2047), (i % 7) << 20, 1 << 20)).collect();
        rig.submit(1, &commands);
        rig.expect_in_flight(16);
        rig.expect_silence(Duration::from_millis(1));
        assert_eq!(rig.remote.in_flight(), 16, "16 MiB of staging memory, and no failure beyond");
        rig.remote.hold(false);
        assert!((0..40).all(|_| rig.wait().status().is_ok()));
        assert!(rig.remote.bytes(6 << 20, 1 << 20) == data);
    }
}

#[test]
fn each_poller_has_a_queue_of_its_own() {
    let config = memory(1 << 20, 512).pollers(3);
    let mut rig = Rig::new(Client::threaded(config));
    let mut pairs: Vec<_> = (2..7).map(|qid| rig.client.pair(qid, 16)).collect();
    for (at, pair) in pairs.iter_mut().enumerate() {
        let sqe = rig.sgl(command::write(1, at as u64, 0), at * 512, 512).with_cid(1);
        assert!(pair.run(&rig.client.device, &sqe).status().is_ok());
    }
    let seen = rig.remote.seen();
    let threads = seen.threads.lock().unwrap().clone();
    assert_eq!(threads.len(), 3, "{threads:?}");
    assert_eq!(seen.queues.load(Ordering::SeqCst), 3);
}

/// Page-locking may wait for kernels that run, and these wait for their commands.
#[test]
fn nothing_is_set_up_under_commands() {
    for mut rig in both_with(&memory(1 << 20, 512).pollers(2)) {
        let set_up = |rig: &Rig| {
            let seen = rig.remote.seen();
            (seen.queues.load(Ordering::SeqCst), seen.pins.load(Ordering::SeqCst))
        };
        let before = set_up(&rig);
        let poll_groups = before.0;
        assert!(
            poll_groups > 0 && before.1 == 1 + poll_groups,
            "the store, and the staging memory of each poll_group: {before:?}"
        );
        rig.run_ok(rig.sgl(command::read(1, 0, 7), 0, 4096));
        // What is compared is staged.
        rig.run_ok(rig.sgl(command::compare(1, 0, 7), 0, 4096));
        assert_eq!(rig.device().statistics().staged_bytes, 4096);
        assert_eq!(set_up(&rig), before);
    }
}

#[test]
fn memory_that_finds_no_room_leaves_nothing_behind() {
    for rig in both() {
        let other = Double::for_device(rig.client.device.is_stepped(), 1 << 20, 1);
        other.knobs().claims.store(1 << 62, Ordering::SeqCst);
        let refused = map(&rig, &other);
        assert!(matches!(refused, Err(DmaError::NoSpace { .. })), "{refused:?}");
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        assert_eq!(count(&other.seen().queues_dropped), count(&other.seen().queues));
        other.stop();
    }
}

#[test]
fn a_stepped_controller_repeats_a_run() {
    let run = || {
        let mut rig = Rig::new(Client::stepped(memory(1 << 20, 512).seed(42)));
        let commands = reads(&rig, 24);
        rig.submit(1, &commands);
        let order: Vec<u16> = (0..24).map(|_| rig.wait().cid).collect();
        (order, rig.device().clock().now(), rig.remote.seen().batches.load(Ordering::SeqCst))
    };
    let (first, second) = (run(), run());
    assert_eq!(first, second);
    assert!(!first.0.is_sorted(), "copies end in any order");
}

#[test]
fn several_remote_memories_take_part_in_one_command_stream() {
    for mut rig in both_with(&memory(1 << 20, 512).seed(3)) {
        let other = Double::for_device(rig.client.device.is_stepped(), 1 << 20, 1);
        let mapped = map(&rig, &other).unwrap();
        let data = pattern(5, 4096);
        other.set(4096, &data);
        let block = |at| warpbell_nvme::data::SglDescriptor::data_block(at, 4096);
        rig.run_ok(command::write(1, 0, 7).with_sgl(block(mapped.iova().0 + 4096)));
        rig.run_ok(command::read(1, 0, 7).with_sgl(block(rig.at(8192))));
        assert!(rig.remote.bytes(8192, 4096) == data);
        drop(mapped);
        other.stop();
        other.assert_clean();
    }
}
