//! Tier S: a controller that completes commands twice. Each completion is an entry of the ring, but only one of two is
//! room for another command, and an answer.

use std::time::Duration;

use warpbell::Sharing;
use warpbell_kernels::cpu::Module;
use warpbell_sim::simulation::{Moment, Simulation};
use warpbell_sim::{Case, Finding, Schedule, lines, seeds, threaded};
use warpbell_softctl::FaultPlan;
use warpbell_tests::queue_test_without;

/// Commands none of which has an identifier that another had: a second completion that comes when its identifier is
/// in use again cannot be told from that command's own.
fn case(sharing: Sharing, entries: u32) -> Case {
    let warps = if sharing == Sharing::Shared { 3 } else { 1 };
    let case = Case { sharing, warps, entries, commands: 4, async_depth: 4, tokens: 4, ..Case::new("twice") };
    let schedule = Schedule { random: true, ..Schedule::default() };
    Case { timeout: Duration::from_secs(1), shuffle: 4, schedule, ..case }
}

/// Each `every`th completion comes twice.
fn repeating(every: u64) -> FaultPlan {
    let plan = format!("[[fault]]\nkind = \"duplicate\"\nevery = {every}\n");
    FaultPlan::from_toml(&plan).expect("a plan")
}

/// What is wrong with a run in which the controller, when it may act, repeats each `every`th completion. That so many
/// completions were nobody's is right.
fn twice_completed(
    case: &Case,
    module: &Module,
    every: u64,
    controller: impl Fn(&Moment) -> bool,
) -> Vec<Finding> {
    let config = case.soft_config().faults(repeating(every));
    let mut simulation = Simulation::with_config(case, module, config).expect("a rig");
    let outcome = simulation.run_while(|_, moment| controller(moment)).expect("a run");
    let repeated = simulation.rig.soft.faults().len() as u64;
    assert!(repeated > 0, "no completion was repeated");
    let mut findings = outcome.findings;
    findings.extend(simulation.rig.check_success().expect("records"));
    // The last ones may be left in the ring: nobody waits any more.
    findings.retain(|finding| !matches!(finding, Finding::Spurious(count) if *count <= repeated));
    findings
}

/// Both completions of a command in one poll of the reaper: the controller acts for a while, then kernels do.
fn in_bursts(moment: &Moment) -> bool {
    moment.round % 64 < 16
}

fn expect_right(findings: &[Finding], what: &str) {
    assert!(findings.is_empty(), "{what}:\n{}", lines(findings));
}

const SHARINGS: [Sharing; 2] = [Sharing::Exclusive, Sharing::Shared];
const RINGS: [u32; 4] = [2, 4, 8, 64];

#[test]
fn a_completion_that_nobody_waits_for_gives_no_room_and_hides_none() {
    let built = Module::builtin().expect("the CPU target is built in");
    for (sharing, entries) in SHARINGS.into_iter().flat_map(|s| RINGS.map(|entries| (s, entries))) {
        let case = case(sharing, entries);
        for (seed, every) in seeds(10).flat_map(|seed| [(seed, 1), (seed, 3)]) {
            let case = case.seeded(seed);
            let at_once = twice_completed(&case, &built, every, |_| true);
            expect_right(&at_once, &format!("{sharing:?}, {entries} entries, every {every}, seed {seed}"));
            let in_bursts = twice_completed(&case, &built, every, in_bursts);
            expect_right(
                &in_bursts,
                &format!("{sharing:?}, {entries} entries, every {every}, {seed}, in bursts"),
            );
        }
    }
}

#[test]
fn on_threads_too_a_completion_that_nobody_waits_for_gives_no_room() {
    for (entries, every) in RINGS.into_iter().flat_map(|entries| [(entries, 1), (entries, 3)]) {
        // In real time, and in order, one lane of the warp collects for the others.
        let (schedule, timeout) = (Schedule::default(), Duration::from_secs(60));
        let case = Case { schedule, timeout, ..case(Sharing::Exclusive, entries) };
        let rig = threaded::open(&case, case.soft_config().faults(repeating(every))).expect("a rig");
        let mut findings = threaded::run_on(&rig).expect("a run").findings;
        findings.extend(rig.check_success().expect("records"));
        let repeated = rig.soft.faults().len() as u64;
        assert!(repeated > 0, "no completion was repeated");
        findings.retain(|finding| !matches!(finding, Finding::Spurious(count) if *count <= repeated));
        expect_right(&findings, &format!("{entries} entries, every {every}, on threads"));
    }
}

#[test]
fn a_small_group_that_polls_several_times_counts_each_command_once() {
    let built = Module::builtin().expect("the CPU target is built in");
    for (sharing, batch) in SHARINGS.into_iter().flat_map(|s| [1, 5].map(|batch| (s, batch))) {
        for seed in seeds(10) {
            let schedule = Schedule { random: true, store_buffer: 8, ..Schedule::default() };
            let case = Case { batch, schedule, ..case(sharing, 16) }.seeded(seed);
            let findings = twice_completed(&case, &built, 1, in_bursts);
            expect_right(&findings, &format!("{sharing:?}, {batch} lanes, seed {seed}"));
        }
    }
}

#[test]
fn each_rule_is_needed() {
    let caught = |switch: &str, sharing, entries| {
        let module = queue_test_without(switch);
        let case = case(sharing, entries);
        seeds(20).any(|seed| !twice_completed(&case.seeded(seed), &module, 1, in_bursts).is_empty())
    };
    for sharing in SHARINGS {
        assert!(caught("SURPLUS_GIVES_ROOM", sharing, 8), "{sharing:?}: the ring is overrun");
        assert!(caught("REPEATED_IN_ONE_POLL", sharing, 8), "{sharing:?}: one command counts twice");
    }
}
