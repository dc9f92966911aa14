//! Faults with data in remote memory: each means what it means with data that has a pointer.

use std::time::Duration;

use warpbell_hw::{Device, Lba, Nsid};
use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::{Status, queue_command};
use warpbell_softctl::{FaultKind, FaultPlan};

use crate::client::{csts, memory};
use crate::{Rig, both_with, pattern};

const LONG: Duration = Duration::from_millis(20);

fn both(plan: &str) -> [Rig; 2] {
    let faults = FaultPlan::from_toml(&format!("[[fault]]\n{}", plan.replace(';', "\n"))).unwrap();
    both_with(&memory(1 << 20, 512).faults(faults))
}

fn kinds(rig: &Rig) -> Vec<FaultKind> {
    rig.device().faults().iter().map(|fault| fault.kind).collect()
}

/// One block with its data at byte 512 times `place` of the remote memory.
fn read(rig: &Rig, lba: u64, place: usize) -> Sqe {
    rig.sgl(command::read(1, lba, 0), place * 512, 512)
}

fn write(rig: &Rig, lba: u64, place: usize) -> Sqe {
    rig.sgl(command::write(1, lba, 0), place * 512, 512)
}

#[test]
fn a_failing_command_moves_nothing() {
    for mut rig in both("kind='fail';status='Write Fault';count=1") {
        rig.remote.set(0, &[3; 512]);
        let status = rig.run(write(&rig, 0, 0));
        assert!(status.same_code(Status::WRITE_FAULT), "{status}");
        let mut stored = [1; 512];
        rig.device().peek(Nsid(1), Lba(0), &mut stored).unwrap();
        assert_eq!((stored, kinds(&rig)), ([0; 512], vec![FaultKind::Fail]));
        assert_eq!(rig.device().statistics().remote_copies, 0);
    }
}

#[test]
fn flipped_bits_arrive_and_are_recorded() {
    for mut rig in both("kind='corrupt';bits=5;count=1") {
        let data = pattern(1, 4096);
        rig.device().poke(Nsid(1), Lba(8), &data).unwrap();
        rig.run_ok(rig.sgl(command::read(1, 8, 7), 0, 4096));
        let got = rig.remote.bytes(0, 4096);
        let mut wanted = data.clone();
        for fault in rig.device().faults() {
            let at = ((fault.lba.get() - 8) * 512) as usize + fault.offset.unwrap() as usize;
            assert_eq!(fault.expected, Some(wanted[at]));
            wanted[at] = fault.actual.unwrap();
        }
        assert_eq!(rig.device().faults().len(), 5);
        assert!(got == wanted && got != data, "exactly the recorded bits differ");
        let mut stored = vec![0; 4096];
        rig.device().peek(Nsid(1), Lba(8), &mut stored).unwrap();
        assert!(stored == data, "the store is as it was");
        rig.run_ok(rig.sgl(command::read(1, 8, 7), 0, 4096));
        assert!(rig.remote.bytes(0, 4096) == data);
    }
}

/// Time passes until it is so, however busy the machine is.
fn until(rig: &mut Rig, what: impl Fn(&Rig) -> bool) {
    for _ in 0..500 {
        if what(rig) {
            return;
        }
        rig.expect_silence(LONG);
    }
    panic!("ten seconds were not enough");
}

#[test]
fn late_data_comes_after_the_completion() {
    for mut rig in both("kind='late_payload';by='300ms'") {
        rig.device().poke(Nsid(1), Lba(0), &[5; 512]).unwrap();
        rig.run_ok(read(&rig, 0, 0));
        assert_eq!(rig.remote.bytes(0, 512), [0; 512], "completed, and not there");
        until(&mut rig, |rig| rig.remote.bytes(0, 512) == [5; 512]);
        rig.remote.set(512, &[6; 512]);
        rig.run_ok(write(&rig, 1, 1));
        rig.remote.set(512, &[7; 512]);
        // It is fetched when it moves.
        until(&mut rig, |rig| {
            let mut stored = [0; 512];
            rig.device().peek(Nsid(1), Lba(1), &mut stored).unwrap();
            stored == [7; 512]
        });
        rig.client.assert_clean();
    }
}

#[test]
fn late_data_of_memory_that_was_unmapped_stays_where_it_is() {
    for mut rig in both("kind='late_payload';by='20ms'") {
        rig.device().poke(Nsid(1), Lba(0), &[5; 512]).unwrap();
        rig.run_ok(read(&rig, 0, 0));
        let remote = rig.remote.clone();
        rig.device().dma().unmap(rig.mapped.iova(), remote_len()).unwrap();
        remote.knobs().closed.store(true, std::sync::atomic::Ordering::SeqCst);
        rig.expect_silence(2 * LONG);
        assert_eq!(remote.bytes(0, 512), [0; 512]);
    }
}

fn remote_len() -> u64 {
    crate::REMOTE as u64
}

#[test]
fn a_torn_completion_and_a_repeated_one_come_after_the_data() {
    for (plan, entries) in [("kind='torn';by='1ms'", 1), ("kind='duplicate'", 2)] {
        for mut rig in both(plan) {
            rig.device().poke(Nsid(1), Lba(0), &[5; 512]).unwrap();
            let sqe = read(&rig, 0, 0);
            rig.submit(9, &[sqe]);
            for _ in 0..entries {
                assert_eq!(rig.wait().cid, 9);
                assert_eq!(rig.remote.bytes(0, 512), [5; 512]);
            }
        }
    }
}

#[test]
fn a_delayed_command_copies_when_its_time_has_come() {
    for mut rig in both("kind='delay';by='20ms';count=1") {
        let start = rig.device().clock().now();
        rig.run_ok(read(&rig, 0, 0));
        assert!(rig.device().clock().now() - start >= LONG);
    }
}

#[test]
fn a_slow_namespace_is_slow_for_remote_data() {
    for mut rig in both("kind='slow';by='20ms';lasting='10s';count=1") {
        rig.run_ok(read(&rig, 0, 0));
        let start = rig.device().clock().now();
        rig.run_ok(read(&rig, 0, 0));
        assert!(rig.device().clock().now() - start >= LONG);
    }
}

#[test]
fn a_dropped_command_copies_nothing_and_the_next_does() {
    for mut rig in both("kind='drop';count=1") {
        let commands = [read(&rig, 0, 0), read(&rig, 1, 1)];
        rig.submit(1, &commands);
        assert_eq!(rig.wait().cid, 2);
        rig.expect_silence(Duration::from_millis(1));
        assert_eq!(rig.device().statistics().remote_copies, 1);
        let status = rig.client.admin(queue_command::delete_io_sq(1)).status();
        assert!(status.is_ok());
        assert!(rig.wait().status().same_code(Status::ABORTED_SQ_DELETION));
    }
}

#[test]
fn a_reordered_command_waits_for_those_that_are_being_copied() {
    for mut rig in both("kind='reorder';by=3;count=1") {
        let commands: Vec<Sqe> = (0..5).map(|i| read(&rig, i, i as usize)).collect();
        rig.submit(1, &commands);
        let order: Vec<u16> = (0..5).map(|_| rig.wait().cid).collect();
        let place = order.iter().position(|cid| *cid == 1).unwrap();
        assert!(place >= 3, "{order:?}");
    }
}

#[test]
fn a_stuck_doorbell_holds_remote_commands_back() {
    for mut rig in both("kind='stuck_doorbell';by='20ms';count=1") {
        let start = rig.device().clock().now();
        rig.run_ok(read(&rig, 0, 0));
        rig.run_ok(read(&rig, 1, 1));
        assert!(rig.device().clock().now() - start >= LONG);
    }
}

#[test]
fn what_stops_the_controller_ends_its_copies() {
    for kind in ["fatal", "reset", "remove", "power_loss"] {
        for mut rig in both(&format!("kind='{kind}';after=4;count=1")) {
            rig.remote.hold(true);
            let commands: Vec<Sqe> = (0..4).map(|i| write(&rig, i, i as usize)).collect();
            rig.submit(1, &commands);
            rig.expect_in_flight(4);
            rig.remote.hold(false);
            let fifth = write(&rig, 4, 4);
            rig.submit(5, &[fifth]);
            let start = rig.device().clock().now();
            // It happens some time; a client that polls CSTS sees it.
            let happened = |rig: &Rig| match kind {
                "fatal" => csts(rig.device()).cfs(),
                "remove" => rig.device().registers().read32(0) == u32::MAX,
                _ => csts(rig.device()).nssro(),
            };
            while !happened(&rig) {
                assert!(
                    rig.device().clock().now() - start < Duration::from_secs(20),
                    "{kind} does not happen"
                );
                rig.device().clock().pause(Duration::from_micros(50));
            }
            if ["reset", "power_loss"].contains(&kind) {
                assert_eq!(rig.remote.in_flight(), 0, "{kind}: it is over when CSTS says so");
            }
            rig.device().dma().unmap(rig.mapped.iova(), remote_len()).unwrap();
            assert_eq!(rig.remote.in_flight(), 0, "{kind}: nothing is written afterwards");
        }
    }
}

#[test]
fn power_takes_back_what_was_written_from_remote_memory() {
    for mut rig in both_with(&memory(1 << 20, 512).volatile_cache(true)) {
        rig.remote.set(0, &[1; 512]);
        rig.run_ok(write(&rig, 0, 0));
        rig.run_ok(command::flush(1));
        rig.remote.set(0, &[2; 512]);
        rig.run_ok(write(&rig, 0, 0));
        rig.run_ok(rig.sgl(command::write(1, 1, 0).with_fua(true), 0, 512));
        rig.client.device.power_loss(0.0);
        let mut stored = [9; 1024];
        rig.device().peek(Nsid(1), Lba(0), &mut stored).unwrap();
        assert_eq!((stored[0], stored[512]), (1, 2), "flushed, and durable at once");
    }
}
