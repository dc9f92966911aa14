//! Each rule of streams, as built and switched off.

use std::time::Duration;

use warpbell::Sharing;
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_sim::{TestVariant, seeds};
use warpbell_softctl::FaultAction;
use warpbell_tests::each_apart;

use crate::faults::{BROKEN_BITS, bad, broken, library, statuses};
use crate::fixture::*;
use crate::orders::reused;

type Check = fn(&Module) -> Result<(), String>;

/// Switch, check, and what the check says then.
const RULES: [(&str, Check, &str); 15] = [
    ("STREAM_COPY_UNAWAITED", data_is_right, " wrong words"),
    ("STREAM_COPY_UNORDERED", data_is_right, " wrong words"),
    ("STREAM_SLOT_OVERWRITTEN", data_is_right, " wrong words"),
    ("STREAM_STAGE_OVERWRITTEN", data_is_right, " wrong words"),
    ("STREAM_SLOT_OF_NEXT", data_is_right, " wrong words"),
    ("STREAM_PHASE_STUCK", data_is_right, "status: 32769,"),
    ("STREAM_RESIDENT_LOADED", data_is_right, "status: 32776,"),
    ("STREAM_FAILURE_HIDDEN", failures_are_told, " wrong words"),
    ("STREAM_FAILURE_OF_LANE", failures_are_told, " wrong words"),
    ("STREAM_WAITS_FOR_EVER", deadlines_are_kept, "not done"),
    ("STREAM_SLOT_IN_USE_TAKEN", slots_in_use_are_left, "statuses"),
    ("STREAM_TILE_UNCHECKED", tiles_fit, "statuses"),
    ("STREAM_STARVED", few_ids_are_enough, "status: 32775,"),
    ("STREAM_LEFT_UNREPORTED", what_is_left_is_told, "left: 0"),
    ("STREAM_RESIDENT_UNCHECKED", residents_fit, "statuses"),
];

#[test]
fn each_rule_holds() {
    RULES.iter().for_each(|(switch, check, _)| assert_eq!(check(&MODULE), Ok(()), "as built, {switch}"));
}

#[test]
fn each_rule_is_missed_when_it_is_off() {
    each_apart("rules::each_rule_is_missed_when_it_is_off", RULES.map(|(switch, ..)| switch), |rule| {
        let (switch, check, says) = RULES.into_iter().find(|(switch, ..)| *switch == rule).expect("a rule");
        let broken = source().define("STREAM_RULES_ONLY").mutate(switch).loaded().expect("compiles");
        let noticed = check(&broken).err().unwrap_or_default();
        println!("{switch}: {noticed:.200}");
        assert!(noticed.contains(says), "{switch} is not noticed: {noticed:?}");
    });
}

fn ran(setting: &Setting, module: &Module, seed: u64) -> Result<Ran, String> {
    setting.run(module, seed).map_err(|error| format!("{error:#}"))
}

/// More slots than stages, so that tiles wait for a stage.
fn data_is_right(module: &Module) -> Result<(), String> {
    for seed in seeds(SEEDS) {
        let setting = Setting::new(Sharing::Shared, 4, reused(4, 1));
        ran(&setting, module, seed)?.check(&setting)?;
    }
    Ok(())
}

fn failures_are_told(module: &Module) -> Result<(), String> {
    let setting = Setting::new(Sharing::Shared, 3, reused(3, 1)).failing(broken(2 * u64::from(TILE) + 5));
    let setting = Setting { most: 1, ..setting };
    let ran = ran(&setting, module, 1)?;
    let found = statuses(&ran, 0)?;
    let failed = found.iter().filter(|status| **status == BROKEN_BITS).count();
    if failed == 3 { Ok(()) } else { Err(format!("{failed} uses failed")) }
}

/// Tile 3 never comes; it lies in slot 0, as 6 would.
fn silent() -> Setting {
    let setting = Setting::new(Sharing::Shared, 3, schedule(&order(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), 3, 2));
    let setting = setting.failing(bad(FaultAction::Drop, 3 * u64::from(TILE)));
    Setting { timeout: Duration::from_millis(2), ..setting }
}

fn deadlines_are_kept(module: &Module) -> Result<(), String> {
    let setting = silent();
    let run = setting.run_by(module, setting.config.clone(), |several, launch| {
        let rounds = 20_000;
        let end = |round| assert!(round < rounds);
        let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| several.run(launch, 1, end)));
        stopped.map_or_else(|_| anyhow::bail!("not done after {rounds} rounds"), |ran| ran.map(|_| ()))
    });
    run.map(|_| ()).map_err(|error| format!("{error:#}"))
}

fn slots_in_use_are_left(module: &Module) -> Result<(), String> {
    let ran = ran(&silent(), module, 1)?;
    let (found, lost) = (statuses(&ran, 0)?, library(abi::STATUS_TIMED_OUT));
    if found == [0, 0, 0, lost, 0, 0, lost, 0, 0] { Ok(()) } else { Err(format!("statuses {found:x?}")) }
}

fn few_ids_are_enough(module: &Module) -> Result<(), String> {
    let setting = Setting { tokens: 1, ..Setting::new(Sharing::Shared, 3, reused(3, 2)) };
    ran(&setting, module, 1)?.check(&setting)
}

/// Tile 5 never comes, and the stream ends before.
fn what_is_left_is_told(module: &Module) -> Result<(), String> {
    let setting = Setting::new(Sharing::Shared, 3, schedule(&order(&[0, 1, 2, 3, 4, 5, 6, 7]), 3, 2));
    let setting = setting.failing(bad(FaultAction::Drop, 5 * u64::from(TILE)));
    let setting = Setting { flags: BY_VERBS | LEAVES_EARLY, timeout: Duration::from_millis(2), ..setting };
    let left = ran(&setting, module, 1)?.notes[0].left;
    if left == library(abi::STATUS_TIMED_OUT) { Ok(()) } else { Err(format!("left: {left:x}")) }
}

/// The fourth step is larger than the slot in which it should find its tile.
fn residents_fit(module: &Module) -> Result<(), String> {
    let setting = Setting::new(Sharing::Shared, 10, schedule(&order(&[0, 1, 1, 1, 2]), 3, 2));
    let ran = ran(&setting, module, 1)?;
    let found: Vec<_> = ran.records[0].iter().map(|record| record.status).collect();
    let expected = [library(abi::STATUS_INVALID_FIELD), 0, 0, library(abi::STATUS_TOO_LARGE), 0];
    if found == expected { Ok(()) } else { Err(format!("statuses {found:x?}")) }
}

/// Tiles that a schedule of the user's own has, and no slot has room for.
fn tiles_fit(module: &Module) -> Result<(), String> {
    let setting = Setting::new(Sharing::Shared, 9, schedule(&order(&[0, 1, 2, 3]), 2, 1));
    let ran = ran(&setting, module, 1)?;
    let found = statuses(&ran, 0)?;
    let refused = library(abi::STATUS_TOO_LARGE);
    if found == [refused; 4] { Ok(()) } else { Err(format!("statuses {found:x?}")) }
}
