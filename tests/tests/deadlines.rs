//! Tier S, simulation: a controller that stops, answers late, or is given up. Nothing hangs, nothing is answered twice,
//! and no identifier is used again while its command may still complete.

use std::collections::HashSet;
use std::time::Duration;

use warpbell::Sharing;
use warpbell_kernels::abi;
use warpbell_sim::simulation::{Outcome, Simulation};
use warpbell_sim::{Case, Mode, Schedule, seeds};

const MODES: [Sharing; 2] = [Sharing::Exclusive, Sharing::Shared];
const DEADLINE: Duration = Duration::from_millis(10);

fn random() -> Schedule {
    Schedule { random: true, ..Schedule::default() }
}

fn case(name: &str, sharing: Sharing) -> Case {
    Case { sharing, timeout: DEADLINE, schedule: random(), ..Case::new(name) }
}

/// How many records have this library code; 0 is success.
fn count(simulation: &Simulation, code: u32) -> usize {
    let wanted = if code == 0 { 0 } else { abi::STATUS_LIBRARY | code };
    let records = simulation.rig.records().expect("records");
    records.iter().filter(|record| record.answers == 1 && record.status == wanted).count()
}

fn run_stalled(simulation: &mut Simulation) -> Outcome {
    simulation.run_while(|_, _| false).expect("a run")
}

/// Asserts that beside success only `codes` were answered, each command at most once.
fn expect_codes(simulation: &Simulation, outcome: &Outcome, codes: &[u32]) {
    let mut outcome = outcome.clone();
    outcome.findings.extend(simulation.rig.check_records(codes).expect("records"));
    outcome.expect_right(&simulation.rig.case);
}

fn quarantined(simulation: &Simulation) -> u32 {
    simulation.rig.quarantine(0).expect("masks").iter().map(|mask| mask.count_ones()).sum()
}

#[test]
fn every_lane_returns_by_its_deadline_from_a_dead_controller() {
    for (sharing, seed) in MODES.into_iter().flat_map(|s| seeds(5).map(move |seed| (s, seed))) {
        let case = Case { seed, entries: 64, commands: 1, ..case("dead controller", sharing) };
        let mut simulation = Simulation::new(&case).expect("a rig");
        let outcome = run_stalled(&mut simulation);
        expect_codes(&simulation, &outcome, &[abi::STATUS_TIMED_OUT]);
        assert_eq!(count(&simulation, abi::STATUS_TIMED_OUT), 32);
        assert!(outcome.elapsed >= DEADLINE, "answered {:?} after the start", outcome.elapsed);
        assert!(outcome.elapsed <= DEADLINE * 5 / 4, "answered {:?} after the start", outcome.elapsed);
        assert!(simulation.rig.attachment.take_alarm(0), "the host was not told");
        assert!(!simulation.rig.attachment.take_alarm(0), "an alarm is taken once");
        assert_eq!((quarantined(&simulation), simulation.rig.pending(0).expect("words")), (32, 32));
    }
}

#[test]
fn a_submission_without_room_is_refused_by_its_deadline_and_leaves_nothing_behind() {
    for sharing in MODES {
        let case = Case { entries: 2, commands: 1, submit_timeout: DEADLINE / 2, ..case("no room", sharing) };
        let mut simulation = Simulation::new(&case).expect("a rig");
        let outcome = run_stalled(&mut simulation);
        expect_codes(&simulation, &outcome, &[abi::STATUS_TIMED_OUT, abi::STATUS_NOT_SUBMITTED]);
        assert_eq!(
            (count(&simulation, abi::STATUS_TIMED_OUT), count(&simulation, abi::STATUS_NOT_SUBMITTED)),
            (1, 31)
        );
        assert_eq!(outcome.counters.sqes, 1, "what has no room is not written");
        assert!(outcome.elapsed <= (DEADLINE + DEADLINE / 2) * 5 / 4, "{:?}", outcome.elapsed);
        assert_eq!((quarantined(&simulation), simulation.rig.pending(0).expect("words")), (1, 1));
    }
}

#[test]
fn what_has_room_is_on_its_way_before_the_rest_waits() {
    for sharing in MODES {
        let case = Case { entries: 8, commands: 1, ..case("partial grant", sharing) };
        let mut simulation = Simulation::new(&case).expect("a rig");
        let outcome = run_stalled(&mut simulation);
        expect_codes(&simulation, &outcome, &[abi::STATUS_TIMED_OUT, abi::STATUS_NOT_SUBMITTED]);
        assert_eq!((outcome.counters.sqes, outcome.counters.sq_doorbells), (7, 1), "{:?}", outcome.counters);
        assert_eq!(simulation.outstanding(0), 7);
    }
}

#[test]
fn a_timed_out_identifier_is_not_used_again_before_its_completion() {
    for sharing in MODES {
        let case = Case { entries: 64, commands: 2, tokens: 4, ..case("two dead kernels", sharing) };
        let mut simulation = Simulation::new(&Case { commands: 1, ..case }).expect("a rig");
        let first = run_stalled(&mut simulation);
        expect_codes(&simulation, &first, &[abi::STATUS_TIMED_OUT]);
        let cids = |simulation: &Simulation| -> HashSet<u32> {
            simulation.rig.records().expect("records").iter().filter(|r| r.cid != !0).map(|r| r.cid).collect()
        };
        let old = cids(&simulation);
        assert_eq!(old.len(), 32);
        simulation.rig.clear().expect("records");
        // The second kernel rebuilds what is in flight from the completion slots alone.
        let second = run_stalled(&mut simulation);
        expect_codes(&simulation, &second, &[abi::STATUS_TIMED_OUT, abi::STATUS_NOT_SUBMITTED]);
        assert!(old.is_disjoint(&cids(&simulation)));
        assert_eq!(quarantined(&simulation), 32 + count(&simulation, abi::STATUS_TIMED_OUT) as u32);
    }
}

#[test]
fn late_completions_are_counted_and_give_their_identifiers_back() {
    for sharing in MODES {
        let case = Case { entries: 64, commands: 70, tokens: 2, mode: Mode::Flush, ..case("late", sharing) };
        let mut simulation = Simulation::new(&case).expect("a rig");
        let dead = run_stalled(&mut simulation);
        expect_codes(&simulation, &dead, &[abi::STATUS_TIMED_OUT]);
        assert_eq!((quarantined(&simulation), simulation.rig.pending(0).expect("words")), (32, 32));
        simulation.rig.clear().expect("records");
        let mut alive = simulation.run().expect("a run");
        alive.findings.extend(simulation.rig.check_success().expect("records"));
        alive.expect_right(&case);
        let counters = simulation.rig.attachment.counters(0).expect("counters");
        assert_eq!((counters.late, counters.spurious), (32, 0));
        assert_eq!((quarantined(&simulation), simulation.rig.pending(0).expect("words")), (0, 0));
        let cids: HashSet<u32> = simulation.rig.records().expect("records").iter().map(|r| r.cid).collect();
        assert_eq!(cids.len(), 64, "both identifiers of each lane are in use again");
    }
}

#[test]
fn a_controller_that_pauses_longer_than_deadlines_confuses_nobody() {
    for sharing in MODES {
        let (mut in_time, mut too_late, mut back) = (0, 0, 0);
        for seed in seeds(20) {
            let case = Case { seed, entries: 64, commands: 12, async_depth: 3, ..case("pauses", sharing) };
            let case = Case { warps: if sharing == Sharing::Shared { 2 } else { 1 }, shuffle: 5, ..case };
            let mut simulation = Simulation::new(&case).expect("a rig");
            let outcome = simulation.run_while(|_, moment| moment.now_and_then()).expect("a run");
            expect_codes(
                &simulation,
                &outcome,
                &[abi::STATUS_TIMED_OUT, abi::STATUS_NOT_SUBMITTED, abi::STATUS_NO_CID],
            );
            let late = simulation.rig.attachment.counters(0).expect("counters").late;
            let gave_up = count(&simulation, abi::STATUS_TIMED_OUT) as u64;
            assert_eq!(late + u64::from(quarantined(&simulation)), gave_up, "seed {seed}");
            (in_time, too_late, back) = (in_time + count(&simulation, 0), too_late + gave_up, back + late);
        }
        assert!(
            in_time > 0 && too_late > 0 && back > 0,
            "{in_time} in time, {too_late} not, {back} of these back"
        );
    }
}

#[test]
fn a_lost_queue_answers_everybody_long_before_their_deadline() {
    for (sharing, seed) in MODES.into_iter().flat_map(|s| seeds(6).map(move |seed| (s, seed))) {
        let case = Case {
            seed,
            wide: seed % 2 == 0,
            stale_tokens: true,
            entries: 8,
            commands: 1,
            timeout: Duration::from_secs(60),
            ..case("lost", sharing)
        };
        let case = Case { warps: if sharing == Sharing::Shared { 3 } else { 1 }, ..case };
        let mut simulation = Simulation::new(&case).expect("a rig");
        let outcome = simulation.run_while(|rig, moment| {
            if moment.idle && moment.rung > 0 {
                rig.attachment.declare_lost(0);
            }
            false
        });
        let outcome = outcome.expect("a run");
        expect_codes(&simulation, &outcome, &[abi::STATUS_QUEUE_GONE]);
        assert_eq!(count(&simulation, abi::STATUS_QUEUE_GONE) as u64, case.total());
        assert!(outcome.elapsed < Duration::from_secs(5), "{:?}", outcome.elapsed);
    }
}

#[test]
fn a_lost_shared_queue_is_closed_for_later_kernels() {
    let case = Case { entries: 8, commands: 2, ..case("closed", Sharing::Shared) };
    let mut simulation = Simulation::new(&case).expect("a rig");
    let outcome = simulation.run_while(|rig, moment| {
        if moment.rung > 0 {
            rig.attachment.declare_lost(0);
        }
        false
    });
    expect_codes(&simulation, &outcome.expect("a run"), &[abi::STATUS_QUEUE_GONE, abi::STATUS_NO_CID]);
    assert_ne!(simulation.rig.state(0).expect("a state").ticket & abi::TICKET_CLOSED, 0);
    simulation.rig.clear().expect("records");
    let after = run_stalled(&mut simulation);
    expect_codes(&simulation, &after, &[abi::STATUS_QUEUE_GONE]);
    assert_eq!((after.counters.sqes, after.counters.doorbells), (0, 0), "a lost queue takes no entry");
}

#[test]
fn warps_on_a_shared_queue_that_is_lost_in_the_middle_all_learn_it_and_take_no_more_room() {
    let mut early = 0;
    for seed in seeds(20) {
        let case = Case { seed, warps: 4, entries: 8, commands: 12, ..case("lost halfway", Sharing::Shared) };
        let case = Case { async_depth: 2, timeout: Duration::from_secs(60), ..case };
        let mut simulation = Simulation::new(&case).expect("a rig");
        let mut lost = false;
        let outcome = simulation.run_while(|rig, moment| {
            if moment.rung > 4 + seed && !lost {
                rig.attachment.declare_lost(0);
                lost = true;
            }
            !lost
        });
        let outcome = outcome.expect("a run");
        expect_codes(&simulation, &outcome, &[abi::STATUS_QUEUE_GONE, abi::STATUS_NO_CID]);
        assert!(lost && count(&simulation, abi::STATUS_QUEUE_GONE) >= 4, "seed {seed}: every warp learns it");
        assert!(outcome.elapsed < Duration::from_secs(5), "seed {seed}: {:?}", outcome.elapsed);
        assert_ne!(simulation.rig.state(0).expect("a state").ticket & abi::TICKET_CLOSED, 0);
        // What was reserved before the queue was closed was also published: nobody is left between the two.
        let state = simulation.rig.state(0).expect("a state");
        assert_eq!(state.turn, state.ticket & !abi::TICKET_CLOSED, "seed {seed}");
        early += count(&simulation, 0);
    }
    assert!(early > 0, "no command was answered before the loss");
}

#[test]
fn a_lane_without_a_free_identifier_is_refused_at_once() {
    for sharing in MODES {
        let case =
            Case { entries: 64, tokens: 1, async_depth: 2, commands: 6, ..case("no identifier", sharing) };
        let mut simulation = Simulation::new(&case).expect("a rig");
        let outcome = simulation.run().expect("a run");
        expect_codes(&simulation, &outcome, &[abi::STATUS_NO_CID]);
        assert_eq!(count(&simulation, 0) + count(&simulation, abi::STATUS_NO_CID), case.total() as usize);
        assert!(count(&simulation, abi::STATUS_NO_CID) >= 32 && count(&simulation, 0) >= 32);
        assert!(outcome.elapsed < DEADLINE, "a refusal does not wait: {:?}", outcome.elapsed);
    }
}
