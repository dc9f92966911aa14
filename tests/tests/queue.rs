//! Tier S, on real threads: two threads of kernels against the threaded soft controller. Also run under
//! ThreadSanitizer and AddressSanitizer, with fewer commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use warpbell::Sharing;
use warpbell_sim::threaded::{expect_success, open, run_on, sized};
use warpbell_sim::{Case, Mode};
use warpbell_softctl::FaultPlan;

/// Batch sizes that matter at a depth; a batch has at most 32 lanes.
fn batches(entries: u32) -> Vec<u32> {
    let mut sizes: Vec<u32> = [1, entries - 1, entries, 32].into_iter().map(|n| n.clamp(1, 32)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Cases over depth, batch and commands in flight; `shape` sets sharing and warps.
fn for_every_depth(shape: impl Fn(Case) -> Case) {
    for entries in [2, 4, 64, 1024] {
        for batch in batches(entries) {
            for async_depth in [1, 2, 4] {
                let name = format!("depth {entries}, batch {batch}, {async_depth} in flight");
                let commands = sized(if entries < 8 { 8 } else { 40 }).max(async_depth);
                expect_success(&shape(Case { entries, batch, async_depth, commands, ..Case::new(name) }));
            }
        }
    }
}

#[test]
fn an_exclusive_queue_answers_every_command_once_at_any_depth_and_batch() {
    for_every_depth(|case| case);
}

#[test]
fn a_shared_queue_answers_every_command_once_at_any_depth_and_batch() {
    for_every_depth(|case| Case { sharing: Sharing::Shared, ..case });
}

#[test]
fn warps_that_share_a_queue_do_not_disturb_each_other() {
    for (warps, warps_per_block) in [(2, 1), (8, 1), (8, 2)] {
        for entries in [2, 4, 64] {
            for (batch, async_depth) in [(32, 1), (5, 3)] {
                let name = format!("{warps} warps, depth {entries}, batch {batch}, {async_depth} in flight");
                let commands = sized(if entries < 8 { 6 } else { 30 }).max(async_depth);
                let case = Case {
                    warps_per_block,
                    entries,
                    batch,
                    async_depth,
                    commands,
                    ..Case::shared(name, warps)
                };
                expect_success(&case);
            }
        }
    }
}

#[test]
fn lanes_in_random_order_get_their_own_answers() {
    for seed in 1..=u64::from(sized(10)) {
        let mut case =
            Case { seed, entries: 8, commands: sized(20), async_depth: 2, ..Case::shared("random order", 4) };
        case.schedule.random = true;
        expect_success(&case);
    }
}

#[test]
fn several_queues_serve_their_own_warps() {
    let case = Case { entries: 16, commands: sized(30), async_depth: 2, ..Case::new("exclusive queues") };
    expect_success(&Case { queues: 4, warps: 4, ..case.clone() });
    expect_success(&Case { queues: 3, warps: 8, sharing: Sharing::Shared, ..case });
}

#[test]
fn what_is_written_is_read_back_with_either_descriptor_and_block_size() {
    for sharing in [Sharing::Exclusive, Sharing::Shared] {
        for (block_size, sgl) in [(512, true), (512, false), (4096, true), (4096, false)] {
            for mode in [Mode::Read, Mode::Write, Mode::WriteRead] {
                let name = format!("{mode:?} of {block_size} bytes, SGL {sgl}, {sharing:?}");
                let case = Case {
                    block_size,
                    sgl,
                    mode,
                    sharing,
                    entries: 16,
                    commands: sized(12),
                    ..Case::new(name)
                };
                expect_success(&case);
            }
        }
    }
}

#[test]
fn flush_carries_no_data() {
    let case =
        Case { mode: Mode::Flush, entries: 16, commands: sized(20), async_depth: 2, ..Case::new("flush") };
    expect_success(&case);
    expect_success(&Case { sharing: Sharing::Shared, warps: 2, ..case });
}

#[test]
fn a_consumed_token_is_stale() {
    for sharing in [Sharing::Exclusive, Sharing::Shared] {
        let case = Case {
            stale_tokens: true,
            sharing,
            entries: 8,
            commands: sized(20),
            async_depth: 2,
            ..Case::new("stale")
        };
        expect_success(&case);
    }
}

#[test]
fn an_exclusive_queue_costs_no_atomic_and_one_doorbell_for_32_commands() {
    let case = Case { entries: 1024, commands: sized(200).max(32), ..Case::new("exclusive costs") };
    let outcome = expect_success(&case);
    let each = |count| outcome.per_command(&case, count);
    assert_eq!(outcome.counters.rmw, 0);
    assert_eq!(outcome.counters.sqes, case.total());
    assert_eq!(outcome.counters.cqes, case.total());
    assert!(each(outcome.counters.sq_doorbells) <= 1.02 / 32.0, "{:?}", outcome.counters);
    assert!(each(outcome.counters.cq_doorbells) <= 1.02 / 32.0, "{:?}", outcome.counters);
}

#[test]
fn a_shared_queue_costs_four_atomics_and_one_doorbell_for_32_commands() {
    let case = Case { entries: 1024, commands: sized(200).max(32), ..Case::shared("shared costs", 1) };
    let outcome = expect_success(&case);
    let each = |count| outcome.per_command(&case, count);
    assert_eq!((outcome.counters.sqes, outcome.counters.cqes), (case.total(), case.total()));
    assert!(each(outcome.counters.rmw) <= 4.08 / 32.0, "{:?}", outcome.counters);
    assert!(each(outcome.counters.sq_doorbells) <= 1.02 / 32.0, "{:?}", outcome.counters);
    assert!(each(outcome.counters.cq_doorbells) <= 1.02 / 32.0, "{:?}", outcome.counters);
}

#[test]
fn a_failed_command_answers_its_own_lane_and_no_other() {
    let plan = "[[fault]]\nkind = \"fail\"\nstatus = \"Unrecovered Read Error\"\nlba = [8, 15]\n";
    let faults = FaultPlan::from_toml(plan).expect("a plan");
    for sharing in [Sharing::Exclusive, Sharing::Shared] {
        let case = Case { sharing, entries: 16, commands: sized(20), async_depth: 2, ..Case::new("faults") };
        let config = case.soft_config().faults(faults.clone());
        let rig = open(&case, config).expect("a rig");
        let outcome = run_on(&rig).expect("a run");
        assert_eq!(outcome.findings, []);
        let mut failed = 0;
        for record in rig.records().expect("records") {
            let expected = if (8..=15).contains(&record.lba) { 0x281 } else { 0 };
            assert_eq!((record.answers, record.status & 0x7ff), (1, expected), "{record:?}");
            failed += u32::from(expected != 0);
        }
        assert!(failed > 0, "no command met the fault: choose another range");
        assert_eq!(rig.soft.violations(), []);
    }
}

/// A host thread that writes into the buffer of a running kernel, with nothing between them. ThreadSanitizer must
/// report it: `scripts/lib/expect-race` runs this test to see that it does.
#[test]
#[ignore = "a race on purpose: scripts/lib/expect-race runs it under ThreadSanitizer, which must report it"]
fn planted_race() {
    let case = Case { entries: 64, commands: 400, mode: Mode::Write, ..Case::shared("planted race", 2) };
    let rig = open(&case, case.soft_config()).expect("a rig");
    let (window, stop) =
        (rig.buffer.window().expect("host memory").clone(), Arc::new(AtomicBool::new(false)));
    let seen = stop.clone();
    let vandal = thread::spawn(move || {
        while !seen.load(Ordering::Relaxed) {
            window.write(0, &[0xff; 64]).expect("inside the buffer");
            thread::yield_now();
        }
    });
    let outcome = run_on(&rig).expect("a run");
    stop.store(true, Ordering::Relaxed);
    vandal.join().expect("the vandal ends");
    assert_eq!(outcome.findings, []);
    let answered = rig.records().expect("records").iter().all(|record| record.answers == 1);
    assert!(answered, "the race touches data alone, not the protocol");
}
