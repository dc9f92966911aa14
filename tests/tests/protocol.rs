//! Tier S, simulation: the queue protocol's promises, one by one, in virtual time and from seeds.
//! `WARPBELL_SEEDS` sets how many seeds each randomised test tries.

use std::time::Duration;

use warpbell::Sharing;
use warpbell_driver::QueueSpec;
use warpbell_kernels::cpu::Module;
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::simulation::{Simulation, expect_success};
use warpbell_sim::{Case, Mode, Schedule, TestVariant, seeds};

const MODES: [Sharing; 2] = [Sharing::Exclusive, Sharing::Shared];

/// Lanes in random order, pre-empted often.
fn random() -> Schedule {
    Schedule { random: true, store_buffer: 0, preempt_one_in: 8 }
}

/// The same, with stores held back until a fence orders them.
fn weak() -> Schedule {
    Schedule { store_buffer: 16, ..random() }
}

fn batches(entries: u32) -> Vec<u32> {
    let mut sizes: Vec<u32> = [1, entries - 1, entries, 32].into_iter().map(|n| n.clamp(1, 32)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn expect_counted(case: &Case) {
    expect_counted_with(case, &Module::builtin().expect("the CPU target"));
}

/// One case, and where its counters must stand afterwards.
fn expect_counted_with(case: &Case, module: &Module) {
    let simulation = Simulation::with_module(case, module);
    let mut simulation = simulation.unwrap_or_else(|error| panic!("{case:?}: {error:#}"));
    let mut outcome = simulation.run().expect("a run");
    outcome.findings.extend(simulation.rig.check_success().expect("records"));
    outcome.expect_right(case);
    let counters = simulation.rig.attachment.counters(0).expect("counters");
    let end = case.start + case.total();
    assert_eq!((counters.ticket, counters.head), (end, end), "{case:?}");
}

#[test]
fn counters_may_start_anywhere_at_any_depth_and_batch() {
    for entries in [2, 4] {
        for start in [0, u64::from(entries) - 1, (1 << 16) - 2, (1 << 32) - 2, 1 << 62] {
            for (sharing, batch) in
                MODES.into_iter().flat_map(|s| batches(entries).into_iter().map(move |n| (s, n)))
            {
                for seed in seeds(2) {
                    let name = format!("start {start:#x}, depth {entries}, batch {batch}, {sharing:?}");
                    let case =
                        Case { seed, sharing, entries, start, batch, schedule: random(), ..Case::new(name) };
                    expect_counted(&case);
                }
            }
        }
    }
}

#[test]
fn warps_that_write_whole_entries_submit_what_each_lane_asked_for() {
    let kernels = Variant::ours().only("queue_test").define("WARPBELL_COALESCED_ENTRIES=1").quick();
    let module = kernels.loaded().expect("compiles");
    for sharing in MODES {
        for entries in [4, 64] {
            for (batch, seed) in batches(entries).into_iter().flat_map(|n| seeds(3).map(move |s| (n, s))) {
                let name = format!("whole entries, depth {entries}, batch {batch}, {sharing:?}");
                let warps = if sharing == Sharing::Shared { 3 } else { 1 };
                let case = Case { seed, sharing, warps, entries, batch, schedule: weak(), ..Case::new(name) };
                expect_counted_with(&Case { commands: 12, async_depth: 2, ..case }, &module);
            }
        }
    }
}

#[test]
fn counters_may_start_anywhere_in_a_deep_ring() {
    for start in [0, 1023, (1 << 16) - 2, (1 << 32) - 2, 1 << 62] {
        for (sharing, batch) in MODES.into_iter().flat_map(|s| [1, 32].into_iter().map(move |n| (s, n))) {
            let name = format!("start {start:#x}, depth 1024, batch {batch}, {sharing:?}");
            let case =
                Case { sharing, entries: 1024, start, batch, commands: 4, async_depth: 2, ..Case::new(name) };
            expect_counted(&Case { schedule: random(), ..case });
        }
    }
}

#[test]
fn a_ring_that_is_no_power_of_two_is_refused_by_name() {
    let simulation = Simulation::new(&Case { queues: 2, warps: 2, ..Case::new("depth 3") }).expect("a rig");
    for entries in [3, 5, 1023, 0, 1] {
        let error = simulation.rig.ssd.controller().create_queue_pair(QueueSpec::new(entries));
        let text = error.expect_err("no such ring").to_string();
        assert!(text.contains(&format!("{entries}")) && text.contains("power of two"), "{text}");
    }
}

#[test]
fn the_phase_holds_over_three_laps_in_any_completion_order() {
    for (entries, commands) in [(2, 2), (4, 2), (16, 3), (64, 8)] {
        for (sharing, seed) in MODES.into_iter().flat_map(|s| seeds(10).map(move |seed| (s, seed))) {
            let case =
                Case { seed, sharing, entries, commands, async_depth: 2, shuffle: 8, ..Case::new("laps") };
            assert!(case.total() > 3 * u64::from(entries));
            expect_success(&Case { schedule: random(), ..case });
        }
    }
    // A deep ring laps three times in a few seconds only without pre-emption.
    for sharing in MODES {
        let case = Case {
            sharing,
            entries: 1024,
            commands: 97,
            async_depth: 4,
            shuffle: 64,
            ..Case::new("deep laps")
        };
        assert!(case.total() > 3 * 1024);
        expect_success(&case);
    }
}

#[test]
fn warps_that_share_a_queue_are_all_served_under_any_schedule() {
    for seed in seeds(20) {
        for (warps, entries, batch, async_depth) in
            [(2, 2, 32, 1), (3, 4, 5, 2), (4, 8, 32, 2), (2, 64, 7, 3)]
        {
            let name = format!("{warps} warps, depth {entries}");
            let case = Case { seed, entries, batch, async_depth, shuffle: 4, ..Case::shared(name, warps) };
            expect_success(&Case { schedule: random(), commands: async_depth.max(2), ..case });
        }
    }
}

#[test]
fn no_order_of_stores_that_fences_allow_does_harm() {
    for seed in seeds(20) {
        for (warps, entries) in [(1, 2), (2, 4), (3, 8), (2, 64)] {
            let name = format!("weak memory, {warps} warps, depth {entries}");
            let case = Case { seed, entries, async_depth: 2, shuffle: 4, ..Case::shared(name, warps) };
            expect_success(&Case { schedule: weak(), ..case });
        }
        let case =
            Case { seed, entries: 4, async_depth: 2, shuffle: 4, ..Case::new("weak memory, exclusive") };
        expect_success(&Case { schedule: weak(), mode: Mode::WriteRead, ..case });
    }
}

#[test]
fn several_queues_and_blocks_of_several_warps() {
    for seed in seeds(5) {
        let case =
            Case { seed, entries: 8, async_depth: 2, shuffle: 4, schedule: random(), ..Case::new("queues") };
        expect_success(&Case { queues: 3, warps: 3, ..case.clone() });
        let shared = Case { sharing: Sharing::Shared, queues: 2, warps: 4, ..case };
        expect_success(&Case { warps_per_block: 2, ..shared });
    }
}

#[test]
fn a_consumed_token_never_answers_again() {
    for (sharing, seed) in MODES.into_iter().flat_map(|s| seeds(10).map(move |seed| (s, seed))) {
        let case =
            Case { seed, sharing, stale_tokens: true, entries: 8, commands: 5, ..Case::new("stale tokens") };
        expect_success(&Case { async_depth: 2, shuffle: 4, schedule: random(), ..case });
    }
}

#[test]
fn the_state_outlives_kernels() {
    for sharing in MODES {
        let case = Case {
            sharing,
            entries: 8,
            async_depth: 2,
            commands: 3,
            shuffle: 4,
            ..Case::new("three kernels")
        };
        let case = Case { schedule: random(), ..case };
        let mut simulation = Simulation::new(&case).expect("a rig");
        for kernel in 1..=3 {
            simulation.rig.clear().expect("records");
            let mut outcome = simulation.run().expect("a run");
            outcome.findings.extend(simulation.rig.check_success().expect("records"));
            outcome.expect_right(&case);
            assert_eq!(simulation.rig.attachment.counters(0).expect("counters").head, kernel * case.total());
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let case = Case { seed: 77, entries: 8, async_depth: 2, shuffle: 4, ..Case::shared("twice", 3) };
    let case = Case { schedule: weak(), ..case };
    let (first, second) = (expect_success(&case), expect_success(&case));
    assert_eq!((first.counters, first.elapsed), (second.counters, second.elapsed));
    let other = expect_success(&case.seeded(78));
    assert_ne!(first.counters, other.counters, "the seed decides nothing");
}

#[test]
fn a_full_batch_costs_what_the_budget_says() {
    let case = Case { entries: 1024, commands: 64, schedule: Schedule::default(), ..Case::new("budget") };
    for sharing in MODES {
        let case = Case { sharing, ..case.clone() };
        let counters = expect_success(&case).counters;
        let full = case.total() / 32;
        assert_eq!(counters.sq_doorbells, full, "one SQ doorbell for 32 commands");
        assert!(counters.cq_doorbells * 100 <= full * 102, "{counters:?}");
        // Each lane's hazard slot is one, counted by lane. F1 once per batch, F5 once per 32 completions, and a little for
        // batches that were cut.
        let fences = counters.fence_sys - u64::from(case.warps) * 32;
        assert!(fences * 100 <= 2 * full * 110, "{counters:?}");
        let allowed = if sharing == Sharing::Exclusive { 0 } else { 4 * full };
        assert!(counters.rmw <= allowed, "{counters:?}");
    }
}

#[test]
fn a_kernel_takes_no_longer_than_its_controller() {
    let case =
        Case { entries: 64, commands: 8, timeout: Duration::from_secs(5), ..Case::shared("no waiting", 2) };
    for seed in seeds(5) {
        let outcome = expect_success(&Case { schedule: random(), ..case.seeded(seed) });
        assert!(
            outcome.elapsed < Duration::from_millis(100),
            "time leapt: {:?}\n{}",
            outcome.elapsed,
            outcome.history
        );
    }
}
