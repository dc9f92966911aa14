//! Replicas that fail while kernels run.

use warpbell::{Sharing, VolumeLayout};
use warpbell_kernels::{abi, cpu};
use warpbell_nvme::{NvmOpcode, Status, status::StatusCodeType};
use warpbell_sim::seeds;
use warpbell_softctl::{FaultAction, Selector};

use crate::fixture::*;

pub const BROKEN: Status = Status::new(StatusCodeType::GENERIC, 0x06).with_dnr(true);

pub fn only(opcode: NvmOpcode, after: u64) -> Selector {
    Selector::new().opcodes(vec![opcode]).after(after)
}

pub fn replicas(sharing: Sharing, bad: impl Fn(Disk) -> Disk) -> Fixture {
    let disk = Disk { queues: 2, ..Disk::new(256 << 10, 512) };
    let disks = vec![disk.clone(), bad(disk.clone()), disk];
    Fixture { most_units: 96, ..Fixture::new(disks, sharing, VolumeLayout::Replicate) }
}

/// The digest of all units, and what is wrong.
pub fn digest_of(module: &cpu::Module, fixture: &Fixture, seed: u64) -> Result<u64, String> {
    let made = fixture.open();
    for writes in [true, false] {
        let records = made.run(module, seed, writes, |_| ());
        if let Some(unit) = records.iter().position(|record| !good(&[*record])) {
            let (what, UnitRecord { status, wrong, .. }) =
                (if writes { "write" } else { "read" }, records[unit]);
            return Err(format!(
                "seed {seed}: {what} of unit {unit}: status {status:#x}, {wrong} words wrong"
            ));
        }
        if !writes {
            return Ok(digest(&records));
        }
    }
    Err("no run".to_owned())
}

#[test]
fn a_replica_that_fails_mid_run_loses_nothing_and_is_named() {
    for (sharing, seed) in MODES.iter().flat_map(|sharing| seeds(SEEDS).map(move |seed| (*sharing, seed))) {
        let whole = digest_of(&MODULE, &replicas(sharing, |disk| disk), seed).expect("all right");
        for (opcode, stays) in [(NvmOpcode::WRITE, false), (NvmOpcode::READ, true)] {
            for action in [FaultAction::Fail { status: BROKEN }, FaultAction::Drop] {
                let made = replicas(sharing, |disk| disk.failing(action, only(opcode, 9 + seed))).open();
                let written = made.run(&MODULE, seed, true, |_| ());
                let read = made.run(&MODULE, seed, false, |_| ());
                assert!(good(&written) && good(&read), "seed {seed}, {action:?}: {written:?} {read:?}");
                assert_eq!(digest(&read), whole, "seed {seed}, {action:?}");
                let report = made.report();
                assert_eq!(
                    (report[1].present, report[1].errors > 0),
                    (stays, true),
                    "seed {seed}: {report:?}"
                );
                assert_eq!(
                    report[1].avoided,
                    stays && action == FaultAction::Drop,
                    "seed {seed}: {report:?}"
                );
                for other in [&report[0], &report[2]] {
                    assert_eq!((other.present, other.errors), (true, 0), "seed {seed}: {report:?}");
                }
                assert!(report[1].name.contains("S1"), "{report:?}");
            }
        }
    }
}

#[test]
fn a_replica_that_is_removed_mid_run_loses_nothing() {
    for (sharing, seed) in MODES.iter().flat_map(|sharing| seeds(SEEDS).map(move |seed| (*sharing, seed))) {
        for of_writes in [true, false] {
            // All warps read from all replicas, so that the one that goes is missed until the end.
            let made = Fixture { map: HASHED, ..replicas(sharing, |disk| disk) }.open();
            let gone = made.several.softs[1].clone();
            let removing = |now: bool| {
                let gone = gone.clone();
                move |round| {
                    if now && round == 40 + seed % 8 * 11 {
                        gone.remove();
                    }
                }
            };
            let written = made.run(&MODULE, seed, true, removing(of_writes));
            let read = made.run(&MODULE, seed, false, removing(!of_writes));
            assert!(good(&written) && good(&read), "seed {seed}: {written:?} {read:?}");
            let report = made.report();
            assert_eq!((report[1].present, report[1].errors > 0), (!of_writes, true), "{report:?}");
        }
    }
}

#[test]
fn a_warp_without_a_slot_is_refused_and_costs_no_replica() {
    let fixture = replicas(Sharing::Shared, |disk| Disk { queues: 1, warps: Some(1), ..disk });
    let refused = abi::STATUS_LIBRARY | abi::STATUS_INVALID_FIELD;
    for whole in [false, true] {
        let made = Fixture { whole, ..fixture.clone() }.open();
        for writes in [true, false] {
            let records = made.run(&MODULE, 3, writes, |_| ());
            // Warps 0 and 1 take turns.
            let turn = if whole { 1 } else { 32 };
            for (unit, record) in records.iter().enumerate() {
                let expected = if unit / turn % 2 == 0 { 0 } else { refused };
                assert_eq!((record.status, record.wrong), (expected, 0), "unit {unit}, writes {writes}");
            }
        }
        let report = made.report();
        assert!(report.iter().all(|member| member.present && member.errors == 0), "{report:?}");
    }
}

#[test]
fn a_session_with_retries_keeps_a_replica_that_failed_for_a_moment() {
    let passing = Status::new(StatusCodeType::GENERIC, 0x21);
    for seed in seeds(SEEDS) {
        let moment = only(NvmOpcode::WRITE, 5).count(Some(3));
        let fixture = replicas(Sharing::Shared, |disk| {
            disk.failing(FaultAction::Fail { status: passing }, moment.clone())
        });
        let made = Fixture { map: WITH_RETRIES, ..fixture }.open();
        let records = made.run(&MODULE, seed, true, |_| ());
        assert!(good(&records), "{records:?}");
        assert!(
            made.report().iter().all(|member| member.present && member.errors == 0),
            "{:?}",
            made.report()
        );
    }
}

#[test]
fn what_no_replica_has_is_the_volumes_failure() {
    for (sharing, layout) in MODES.iter().flat_map(|sharing| {
        [VolumeLayout::Stripe, VolumeLayout::Concatenate, VolumeLayout::Replicate]
            .map(|layout| (*sharing, layout))
    }) {
        let broken = Disk::new(64 << 10, 512).failing(
            FaultAction::Fail { status: BROKEN },
            Selector::new().opcodes(vec![NvmOpcode::READ, NvmOpcode::WRITE]),
        );
        let made = Fixture::new(vec![broken; 2], sharing, layout).open();
        for writes in [true, false] {
            let records = made.run(&MODULE, 3, writes, |_| ());
            let expected = u32::from(BROKEN.into_bits());
            assert!(records.iter().all(|record| record.status == expected), "{layout:?}: {records:?}");
        }
        assert!(
            made.report().iter().all(|member| member.present && member.errors > 0),
            "{:?}",
            made.report()
        );
        assert_eq!(made.report()[0].error_status, u32::from(BROKEN.into_bits()));
    }
}
