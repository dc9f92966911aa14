//! Tier S, simulation: each invariant of the queue protocol holds as built, and is seen to break when one of the rules
//! that it rests on is switched off at compile time. A rule whose absence nobody notices fails its test.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use warpbell_kernels::HEADERS;
use warpbell_kernels::cpu::Module;
use warpbell_sim::Scenario::{self, *};
use warpbell_sim::{lines, seeds};
use warpbell_tests::queue_test_without;

/// Seeds that a broken rule has to show itself.
const MOST_SEEDS: u64 = 200;
/// Seeds that the protocol as built must survive.
const BUILT_SEEDS: u64 = 20;

/// A rule, the situations in which it matters, and the checks of which one must catch its absence.
struct Rule {
    switch: &'static str,
    scenarios: &'static [Scenario],
    caught_by: &'static [&'static str],
}

const fn rule(
    switch: &'static str,
    scenarios: &'static [Scenario],
    caught_by: &'static [&'static str],
) -> Rule {
    Rule { switch, scenarios, caught_by }
}

const NO_ID_TWICE: &[Rule] = &[
    // Used again before its completion was collected: one of the two completions then has no owner.
    rule("FREE_BY_OTHER", &[Exclusive], &["monitor: identifier in flight", "spurious completion"]),
    rule("REUSE_AT_TIMEOUT", &[Pauses], &["monitor: identifier in flight"]),
];
const OUTSTANDING: &[Rule] = &[
    // A whole lap too much is a doorbell with the value that it has.
    rule("NO_ROOM_CHECK", &[Contended, RoomyWeak], &["monitor: outstanding", "monitor: doorbell value"]),
    rule("ROOM_OFF_BY_ONE", &[Contended, RoomyWeak], &["monitor: outstanding", "monitor: doorbell value"]),
    rule("REPORTED_EARLY", &[Contended, ContendedWeak], &["monitor: outstanding"]),
];
const DOORBELLS: &[Rule] = &[
    rule("NO_TURN", &[Contended, Crowd], &["monitor: two writers", "monitor: outstanding"]),
    rule("RING_AFTER_TURN", &[Contended, Crowd], &["monitor: two writers", "monitor: outstanding"]),
    rule("NO_FENCE_AFTER_DOORBELL", &[RoomyWeak, ContendedWeak], &["monitor: outstanding"]),
    rule("NO_LOCK", &[Contended], &["monitor: two writers"]),
    rule(
        "NO_FENCE_UNLOCK",
        &[ContendedWeak, RoomyWeak],
        &["monitor: entry overwritten", "monitor: head beyond"],
    ),
];
const ENTRIES: &[Rule] = &[
    rule("NO_FENCE_DOORBELL", &[ContendedWeak], &["violation StaleEntry"]),
    rule("NO_FENCE_TURN", &[RoomyWeak, ContendedWeak], &["violation StaleEntry"]),
    rule("SQE_UNDEFINED_DWORD", &[Contended, Exclusive], &["record: status"]),
    rule("NO_ROOM_CHECK", &[RoomyWeak], &["monitor: entry overwritten"]),
];
const ONE_STATUS: &[Rule] = &[
    rule("STATUS_TWICE", &[Contended], &["record: answered twice"]),
    rule("STALE_TOKEN_ACCEPTED", &[Contended], &["record: answered twice"]),
    rule("PHASE_FROM_WRAPPED_HEAD", &[Contended], &["spurious completion", "no progress"]),
];
const PROGRESS: &[Rule] = &[
    rule("RING_IF_FIRST", &[Contended, Crowd], &["no progress"]),
    // Without looking, a waiter does not see its deadline either.
    rule("TRY_ONCE", &[Patient], &["no progress", "deadline"]),
    rule("NO_REAP_IN_SUBMIT", &[Alone], &["no progress", "deadline"]),
    rule("LAZY_CQ_TOO_LATE", &[Contended], &["no progress"]),
];
const SHADOWS: &[Rule] = &[
    rule("DBBUF_ACQ_REL", &[Shadowed, ShadowedShared], &["no progress"]),
    rule("DBBUF_EVENT_FIRST", &[Shadowed, ShadowedShared], &["no progress"]),
];
const DEADLINES: &[Rule] = &[rule("NO_DEADLINE", &[Dead], &["deadline"])];
const ALL: [&[Rule]; 8] =
    [NO_ID_TWICE, OUTSTANDING, DOORBELLS, ENTRIES, ONE_STATUS, PROGRESS, SHADOWS, DEADLINES];

/// Who notices that a rule is off, and after how many seeds; or what else was seen.
fn first_catch(rule: &Rule) -> Result<(Scenario, u64, String), BTreeSet<String>> {
    let module = queue_test_without(rule.switch);
    let mut seen = BTreeSet::new();
    for seed in 1..=MOST_SEEDS {
        for scenario in rule.scenarios {
            let outcome = scenario.judge(seed, &module).expect("a run");
            let checks: BTreeSet<String> = outcome.findings.iter().map(|finding| finding.check()).collect();
            if checks.iter().any(|check| rule.caught_by.iter().any(|by| check.starts_with(by))) {
                return Ok((*scenario, seed, checks.into_iter().collect::<Vec<_>>().join(", ")));
            }
            seen.extend(checks);
        }
    }
    Err(seen)
}

/// The invariant holds as built, and each of its rules is needed for it.
fn expect_needed(rules: &[Rule]) {
    let built = Module::builtin().expect("the CPU target is built in");
    let mut table = String::new();
    let mut missed = Vec::new();
    for rule in rules {
        for (scenario, seed) in
            rule.scenarios.iter().flat_map(|s| seeds(BUILT_SEEDS).map(move |seed| (s, seed)))
        {
            let outcome = scenario.judge(seed, &built).expect("a run");
            outcome.expect_right(&scenario.case(seed));
        }
        match first_catch(rule) {
            Ok((scenario, seed, checks)) => {
                writeln!(table, "| {} | {scenario:?} | {seed} | {checks} |", rule.switch)
                    .expect("a string grows");
            }
            Err(seen) => missed.push(format!(
                "{}: in {MOST_SEEDS} seeds not caught by {:?}; seen: {seen:?}",
                rule.switch, rule.caught_by
            )),
        }
    }
    println!("| rule off | situation | seeds | caught by |\n{table}");
    assert!(missed.is_empty(), "{table}{}", missed.join("\n"));
}

#[test]
fn no_command_id_is_in_flight_twice() {
    expect_needed(NO_ID_TWICE);
}

#[test]
fn no_more_than_depth_less_one_are_outstanding() {
    expect_needed(OUTSTANDING);
}

#[test]
fn doorbells_only_go_forward_and_have_one_writer_at_a_time() {
    expect_needed(DOORBELLS);
}

#[test]
fn every_entry_is_whole_when_fetched_and_stays_until_then() {
    expect_needed(ENTRIES);
}

#[test]
fn every_command_yields_exactly_one_status() {
    expect_needed(ONE_STATUS);
}

#[test]
fn a_waiter_makes_progress_if_its_controller_does() {
    expect_needed(PROGRESS);
}

#[test]
fn no_shadow_doorbell_is_lost() {
    expect_needed(SHADOWS);
}

#[test]
fn a_waiter_returns_by_its_deadline_if_its_controller_does_not() {
    expect_needed(DEADLINES);
}

#[test]
fn every_rule_that_is_tried_has_its_switch() {
    let (_, header) = HEADERS.iter().find(|(name, _)| *name == "warpbell/mutation.cuh").expect("the header");
    let defined = header.lines().filter_map(|line| line.strip_prefix("WARPBELL_SWITCH(")?.split(',').next());
    let defined: BTreeSet<&str> = defined.collect();
    let tried: BTreeSet<&str> = ALL.iter().flat_map(|rules| rules.iter().map(|rule| rule.switch)).collect();
    // `mutations` tries all of them, and in the simulation as a whole.
    assert_eq!(tried.difference(&defined).collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn the_protocol_as_built_survives_every_situation() {
    let built = Module::builtin().expect("the CPU target is built in");
    let all = [
        Contended,
        ContendedWeak,
        RoomyWeak,
        Crowd,
        Exclusive,
        Alone,
        Patient,
        Pauses,
        Dead,
        Shadowed,
        ShadowedShared,
    ];
    let mut wrong = String::new();
    for (scenario, seed) in all.iter().flat_map(|s| seeds(BUILT_SEEDS).map(move |seed| (s, seed))) {
        let outcome = scenario.judge(seed, &built).expect("a run");
        if !outcome.findings.is_empty() {
            writeln!(wrong, "{scenario:?}, seed {seed}:\n{}", lines(&outcome.findings))
                .expect("a string grows");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
