//! Tiles that cannot be loaded come with their status, in their turn; nothing hangs, and no slot is used that an SSD may
//! still write to.

use std::time::Duration;

use warpbell::{Sharing, Tile};
use warpbell_hw::Lba;
use warpbell_kernels::abi;
use warpbell_nvme::{NvmOpcode, Status, status::StatusCodeType};
use warpbell_sim::seeds;
use warpbell_softctl::{Fault, FaultAction, FaultPlan, Selector};

use crate::fixture::*;
use crate::orders::reused;

/// Generic, Internal Error, Do Not Retry.
const BROKEN: Status = Status::new(StatusCodeType::GENERIC, 0x06).with_dnr(true);
pub const BROKEN_BITS: u32 = 0x4006;

pub fn library(code: u32) -> u32 {
    abi::STATUS_LIBRARY | code
}

/// One block of a tile does not come.
pub fn bad(action: FaultAction, block: u64) -> FaultPlan {
    let opcodes = vec![NvmOpcode::READ];
    let selector = Selector::new().lba(Some(Lba(block)..=Lba(block))).opcodes(opcodes);
    FaultPlan::new().faults(vec![Fault::new(action, selector)])
}

pub fn broken(block: u64) -> FaultPlan {
    bad(FaultAction::Fail { status: BROKEN }, block)
}

/// The statuses of all steps of a block of threads; data of those that came was right.
pub fn statuses(ran: &Ran, block: usize) -> Result<Vec<u32>, String> {
    match ran.records[block].iter().find(|record| record.wrong != 0 || record.answers == 0) {
        Some(record) if record.wrong != 0 => {
            Err(format!("tile {}: {} wrong words", record.tile, record.wrong))
        }
        Some(record) => Err(format!("{record:?}")),
        None => Ok(ran.records[block].iter().map(|record| record.status).collect()),
    }
}

/// The steps of a tile fail, and no others.
fn expected(setting: &Setting, tile: u64, status: u32) -> Vec<u32> {
    let of = |step: &abi::TileStep| if step.tile == tile { status } else { 0 };
    setting.schedule.steps().iter().map(of).collect()
}

#[test]
fn a_tile_that_cannot_be_read_fails_alone_and_in_each_of_its_uses() {
    for seed in seeds(SEEDS) {
        for sharing in MODES {
            // Its last block, and only that lane's command.
            for most in [64, 1] {
                let faults = broken(2 * u64::from(TILE) + 5);
                let setting = Setting { most, ..Setting::new(sharing, 3, reused(3, 1)).failing(faults) };
                let ran = setting.run(&MODULE, seed).expect("a run");
                assert_eq!(statuses(&ran, 0), Ok(expected(&setting, 2, BROKEN_BITS)), "{setting:?}");
                assert_eq!(ran.notes[0].told, BROKEN_BITS);
            }
        }
    }
}

#[test]
fn a_command_that_is_never_answered_ends_at_its_deadline_and_its_slot_is_left() {
    for sharing in MODES {
        let faults = bad(FaultAction::Drop, 3 * u64::from(TILE));
        let setting = Setting::new(sharing, 3, schedule(&order(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), 3, 2));
        let setting = Setting { timeout: Duration::from_millis(2), ..setting.failing(faults) };
        let ran = setting.run(&MODULE, 1).expect("a run");
        // Tile 3 lies in slot 0, as 6 would.
        let lost = library(abi::STATUS_TIMED_OUT);
        assert_eq!(statuses(&ran, 0), Ok(vec![0, 0, 0, lost, 0, 0, lost, 0, 0]));
        // The controller does not count what it drops.
        assert_eq!((ran.notes[0].told, ran.reads), (lost, 7), "tile 6 is not asked for");
        assert!(ran.took < Duration::from_millis(10), "{:?}", ran.took);
    }
}

#[test]
fn tiles_that_do_not_fit_are_refused_as_their_answer() {
    let tile = |number: u64, first_block: u64| Tile::linear(number, Lba(first_block), TILE);
    // The last one begins within the namespace.
    let schedule = schedule(&[tile(0, 0), tile(1, BLOCKS - 2), tile(2, 6), tile(3, 1 << 40)], 2, 1);
    let setting = Setting::new(Sharing::Exclusive, 2, schedule);
    let ran = setting.run(&MODULE, 1).expect("a run");
    let outside = library(abi::STATUS_OUT_OF_RANGE);
    assert_eq!(statuses(&ran, 0), Ok(vec![0, outside, 0, outside]));
    assert_eq!(ran.several.violations(), Vec::<String>::new());
}

#[test]
fn a_load_that_nobody_waited_for_and_that_never_came_is_told_at_the_end() {
    for sharing in MODES {
        for lost in [3, 4, 5] {
            let setting = Setting::new(sharing, 3, schedule(&order(&[0, 1, 2, 3, 4, 5, 6, 7]), 3, 2));
            let setting = setting.failing(bad(FaultAction::Drop, lost * u64::from(TILE)));
            let flags = BY_VERBS | LEAVES_EARLY;
            let setting = Setting { flags, timeout: Duration::from_millis(2), ..setting };
            let ran = setting.run(&MODULE, 1).expect("a run");
            // Four are waited for, two more are on their way then.
            let left = if lost == 3 { 0 } else { library(abi::STATUS_TIMED_OUT) };
            assert_eq!((ran.notes[0].left, ran.notes[0].refused), (left, 0), "tile {lost}, {sharing:?}");
        }
    }
}

/// Schedules of the user's own are not checked by the host.
#[test]
fn steps_that_no_host_would_make_fail_alone() {
    for sharing in MODES {
        let fails = |shape, numbers: &[u64]| {
            let setting = Setting::new(sharing, shape, schedule(&order(numbers), 3, 2));
            let setting = setting.failing(bad(FaultAction::Drop, 33 * u64::from(TILE)));
            let setting = Setting { timeout: Duration::from_millis(2), ..setting };
            statuses(&setting.run(&MODULE, 1).expect("a run"), 0).expect("right data")
        };
        let (none, large) = (library(abi::STATUS_INVALID_FIELD), library(abi::STATUS_TOO_LARGE));
        let (lost, outside) = (library(abi::STATUS_TIMED_OUT), library(abi::STATUS_OUT_OF_BUFFER));
        // The first step finds nothing in its slot; the fourth is larger than what it finds.
        assert_eq!(fails(10, &[0, 1, 1, 1, 2]), [none, 0, 0, large, 0]);
        // A step that is too large in a slot that the SSD may still write to: it stays so for the next ones.
        assert_eq!(
            fails(11, &[0, 1, 2, 33, 4, 5, 6, 7, 8, 9, 10, 11])[3..],
            [lost, 0, 0, lost, 0, 0, lost, 0, 0]
        );
        // What lies behind the ring is somebody else's.
        assert_eq!(fails(12, &[0, 1, 2, 3]), [0, 0, outside, 0]);
    }
}

#[test]
fn a_lost_queue_fails_what_is_left_and_nothing_hangs() {
    for sharing in MODES {
        let setting = Setting::new(sharing, 3, schedule(&order(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), 3, 2));
        let setting = Setting { warps: 1, ..setting.failing(bad(FaultAction::Drop, 4 * u64::from(TILE))) };
        let run = |several: &warpbell_sim::several::Several, launch| {
            several.run(launch, 1, |round| several.lose(round == 4000)).map(|_| ())
        };
        let ran = setting.run_by(&MODULE, setting.config.clone(), run).expect("a run");
        let found = statuses(&ran, 0).expect("right data");
        let ends = [library(abi::QUEUE_LOST), library(abi::STATUS_TIMED_OUT)];
        assert_eq!(found[..4], [0; 4], "{found:x?}");
        assert!(found[4..].iter().all(|status| *status == 0 || ends.contains(status)), "{found:x?}");
        assert!(ends.contains(&found[4]) && ends.contains(&found[7]), "{found:x?}");
    }
}
