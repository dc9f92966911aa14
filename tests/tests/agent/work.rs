//! What agents do for compute warps, and how they end.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warpbell::Sharing;
use warpbell_kernels::abi;
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::{TestVariant, on_cpu, seeds};
use warpbell_softctl::{Fault, FaultAction, FaultPlan, Selector};
use warpbell_tests::documented;
use zerocopy::{Immutable, IntoBytes};

use crate::fixture::*;
use warpbell_hw::{Lba, Nsid};
use warpbell_sim::TestLaunch;

const MODES: [Sharing; 2] = [Sharing::Exclusive, Sharing::Shared];

fn expect_good(setting: &Setting, seed: u64) -> (Fixture, Ran) {
    let fixture = Fixture::new(setting);
    let ran = fixture.run(&MODULE, seed, |_| ()).expect("a run");
    assert!(ran.is_good(), "seed {seed}, {setting:?}: {}", ran.story());
    assert!(fixture.stored().iter().all(|(found, expected)| found == expected), "seed {seed}, {setting:?}");
    (fixture, ran)
}

#[test]
fn compute_warps_write_and_read_through_agents_and_touch_no_queue() {
    // The monitor of `expect_good` sees each access of a compute warp.
    for (sharing, agents) in MODES.iter().flat_map(|sharing| [1, 2, 3].map(|agents| (*sharing, agents))) {
        for flags in [0, BY_HALF, TWO_AT_ONCE, TWO_AT_ONCE | BACKS_OFF, BY_HALF | BACKS_OFF] {
            for (seed, in_block) in seeds(SEEDS / 4).flat_map(|seed| [(seed, false), (seed, true)]) {
                let setting = Setting { flags, in_block, ..Setting::new(sharing, agents, 4) };
                let (_, ran) = expect_good(&setting, seed);
                // A write and a read of each block; and one flush for each group, in turns.
                let groups = if flags & BY_HALF != 0 { 8 } else { 4 };
                let flushes = if flags & TWO_AT_ONCE != 0 { 0 } else { groups };
                assert_eq!(ran.requests(), 2 * setting.blocks() + flushes, "{setting:?}");
            }
        }
    }
}

#[test]
fn requests_of_several_warps_go_under_one_doorbell() {
    for sharing in MODES {
        let (_, ran) = expect_good(&Setting { rounds: 4, ..Setting::new(sharing, 1, 6) }, 1);
        let batches: u64 = ran.reports.iter().step_by(32).map(|report| u64::from(report.batches)).sum();
        assert_eq!(ran.counters.sq_doorbells, batches, "one agent rings once for each batch");
        assert!(ran.requests() > 4 * batches, "{} requests in {batches} batches", ran.requests());
    }
}

#[test]
fn every_agent_has_work() {
    for sharing in MODES {
        let (_, ran) = expect_good(&Setting::new(sharing, 3, 5), 2);
        let by_agent: Vec<u32> =
            ran.reports.chunks(32).map(|lanes| lanes.iter().map(|lane| lane.requests).sum()).collect();
        // Request queues 0 and 3, 1 and 4, 2: a write and a read of 64 blocks for each, and a flush.
        assert_eq!(by_agent, [258, 258, 129]);
    }
}

#[test]
fn what_was_posted_before_a_warp_left_is_done() {
    for (sharing, seed) in MODES.iter().flat_map(|sharing| seeds(SEEDS).map(move |seed| (*sharing, seed))) {
        let fixture =
            Fixture::new(&Setting { flags: TWO_AT_ONCE | GOES_AT_ONCE, ..Setting::new(sharing, 2, 3) });
        let ran = fixture.run(&MODULE, seed, |_| ()).expect("a run");
        assert!(ran.words.iter().all(|word| *word == ANSWERED), "seed {seed}: {:x?}", ran.words);
        assert!(fixture.stored().iter().all(|(found, expected)| found == expected), "seed {seed}");
        assert_eq!(ran.breaches, Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn after_a_stop_what_was_not_submitted_is_aborted_and_everybody_ends() {
    let aborted = abi::STATUS_LIBRARY | abi::STATUS_ABORTED;
    for (sharing, seed) in MODES.iter().flat_map(|sharing| seeds(SEEDS).map(move |seed| (*sharing, seed))) {
        let fixture = Fixture::new(&Setting { rounds: 60, ..Setting::new(sharing, 2, 2) });
        let stop = |round| {
            if round == 300 + 40 * seed {
                fixture.stop.window().store_u32(0, 1, Ordering::Relaxed);
            }
        };
        let ran = fixture.run(&MODULE, seed, stop).expect("a run");
        let known = |status| status == 0 || status == aborted;
        assert!(ran.records.iter().all(|r| r.answers == 1 && known(r.wrote) && known(r.read)), "seed {seed}");
        let count = ran.records.iter().filter(|record| record.read == aborted).count();
        assert!(count > 0 && count < ran.records.len(), "seed {seed}: {count} aborted");
        assert!(fixture.has_what_was_written(&ran), "seed {seed}");
        assert_eq!(ran.breaches, Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn a_warp_that_never_leaves_keeps_no_agent_beyond_a_stop_and_a_deadline() {
    for sharing in MODES {
        let fixture = Fixture::new(&Setting { flags: STAYS, ..Setting::new(sharing, 2, 2) });
        let stopped = Cell::new(Duration::MAX);
        let stop = |round| {
            if round == 20_000 {
                stopped.set(fixture.now());
                fixture.stop.window().store_u32(0, 1, Ordering::Relaxed);
            }
        };
        fixture.run(&MODULE, 3, stop).expect("a run");
        let took = fixture.now() - stopped.get();
        assert!((10..30).contains(&took.as_millis()), "{took:?} after the stop, with a deadline of 10 ms");
    }
}

/// Some commands take longer than clients wait.
pub fn slow_setting(sharing: Sharing) -> Setting {
    let action = FaultAction::Delay { by: Duration::from_millis(3) };
    let selector = Selector::new().every(5);
    let faults = FaultPlan::new().faults(vec![Fault::new(action, selector)]);
    Setting { faults, rounds: 6, timeout: Duration::from_millis(1), ..Setting::new(sharing, 1, 1) }
}

#[test]
fn a_request_that_is_late_keeps_its_slot_until_its_answer() {
    let known = [abi::STATUS_TIMED_OUT, abi::STATUS_NO_ROOM].map(|code| abi::STATUS_LIBRARY | code);
    for (sharing, seed) in MODES.iter().flat_map(|sharing| seeds(SEEDS).map(move |seed| (*sharing, seed))) {
        let fixture = Fixture::new(&slow_setting(sharing));
        let ran = fixture.run(&MODULE, seed, |_| ()).expect("a run");
        let fine = |status: u32| status == 0 || known.contains(&status);
        let odd = ran.records.iter().find(|r| !fine(r.wrote) || !fine(r.read) || r.wrong != 0);
        assert_eq!(odd, None, "seed {seed}");
        assert!(ran.records.iter().any(|record| record.wrote == known[0]), "seed {seed}: nothing was late");
        assert!(fixture.has_what_was_written(&ran), "seed {seed}");
        assert!(ran.words.iter().all(|word| *word & POSTED == 0), "seed {seed}: all are answered in the end");
    }
}

/// As many commands as there is room for take ten times as long as agents wait; then all is well.
pub fn jammed(setting: Setting) -> Setting {
    let action = FaultAction::Delay { by: Duration::from_millis(100) };
    let selector = Selector::new().count(Some(128));
    Setting { faults: FaultPlan::new().faults(vec![Fault::new(action, selector)]), ..setting }
}

#[test]
fn agents_go_on_when_late_commands_give_their_room_back() {
    let known = [abi::STATUS_TIMED_OUT, abi::STATUS_NOT_SUBMITTED].map(|code| abi::STATUS_LIBRARY | code);
    for (sharing, seed) in MODES.iter().flat_map(|sharing| seeds(SEEDS).map(move |seed| (*sharing, seed))) {
        let timeout = Duration::from_millis(300);
        let fixture = Fixture::new(&jammed(Setting { rounds: 12, timeout, ..Setting::new(sharing, 1, 1) }));
        let ran = fixture.run(&MODULE, seed, |_| ()).expect("a run");
        let fine = |status: u32| status == 0 || known.contains(&status);
        let odd = ran.records.iter().find(|r| !fine(r.wrote) || !fine(r.read) || r.wrong != 0);
        assert_eq!(odd, None, "seed {seed}");
        for status in known {
            let seen = ran.records.iter().any(|record| record.wrote == status || record.read == status);
            assert!(seen, "seed {seed}: nobody was told {status:x}");
        }
        let mut last = ran.records.chunks(12).map(|rounds| rounds[11]);
        assert!(last.all(|record| (record.wrote, record.read) == (0, 0)), "seed {seed}: back at work");
        assert!(fixture.has_what_was_written(&ran), "seed {seed}");
        assert_eq!(ran.breaches, Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn what_there_is_no_room_for_is_answered_when_everybody_has_left() {
    for (sharing, seed) in MODES.iter().flat_map(|sharing| seeds(SEEDS).map(move |seed| (*sharing, seed))) {
        let flags = TWO_AT_ONCE | GOES_AT_ONCE;
        let fixture = Fixture::new(&jammed(Setting { flags, ..Setting::new(sharing, 1, 4) }));
        let ran = fixture.run(&MODULE, seed, |_| ()).expect("a run");
        let unanswered = ran.words.iter().filter(|word| **word & ANSWERED == 0).count();
        assert_eq!(unanswered, 0, "seed {seed}");
    }
}

#[test]
fn requests_are_for_blocks_or_a_flush() {
    for sharing in MODES {
        let fixture = Fixture::new(&Setting { flags: BY_OPCODE, ..Setting::new(sharing, 1, 1) });
        let ran = fixture.run(&MODULE, 1, |_| ()).expect("a run");
        for lane in ran.records.chunks(2) {
            assert_eq!(lane[0], Record { answers: 1, ..Record::default() });
            assert_eq!(lane[1].wrote, abi::STATUS_LIBRARY | abi::STATUS_INVALID_FIELD);
            assert_eq!(lane[1].read, abi::STATUS_LIBRARY | abi::STATUS_OUT_OF_BUFFER);
        }
        assert_eq!(ran.requests(), 4 * 32, "Write, Compare, Write Zeroes, Read");
        assert_eq!(ran.breaches, Vec::<String>::new());
    }
}

#[test]
fn agents_go_on_with_the_queue_in_place_of_a_lost_one() {
    let lost = abi::STATUS_LIBRARY | abi::STATUS_QUEUE_GONE;
    for (sharing, seed) in MODES.iter().flat_map(|sharing| seeds(SEEDS).map(move |seed| (*sharing, seed))) {
        let fixture = Fixture::new(&Setting { rounds: 12, ..Setting::new(sharing, 1, 2) });
        let give_up = |round: u64| {
            if round == 100 + 20 * seed {
                fixture.several.queues[0].declare_lost(0);
            }
            if round > 100 && round.is_multiple_of(50) {
                fixture.several.ssds[0].recovery().poll();
            }
        };
        let ran = fixture.run(&MODULE, seed, give_up).expect("a run");
        let fine = |status: u32| status == 0 || status == lost;
        assert!(ran.records.iter().all(|r| fine(r.wrote) && fine(r.read) && r.wrong == 0), "seed {seed}");
        let last = ran.records.chunks(12).map(|rounds| rounds[11]);
        assert!(
            last.into_iter().all(|record| (record.wrote, record.read) == (0, 0)),
            "seed {seed}: back at work"
        );
        assert_eq!(fixture.several.ssds[0].recovery_counters().queues_replaced, 1, "seed {seed}");
    }
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct ExampleArgs {
    ns: abi::NamespaceRef,
    buffer: abi::BufferRef,
    request_queues: u64,
    answers: u64,
    agents: u32,
    compute: u32,
}

#[test]
fn the_example_of_the_documentation_runs() {
    let example = documented("agent_example");
    let module = Variant::text("agent_example", &example).quick().loaded().expect("compiles");
    for agents in [1, 2] {
        let setting = Setting::new(Sharing::Exclusive, agents, 3);
        let fixture = Fixture::new(&setting);
        for block in 0..setting.blocks() {
            let mut bytes = vec![0; BLOCK as usize];
            bytes[..8].copy_from_slice(&(block * block).to_le_bytes());
            fixture.several.softs[0].poke(Nsid(1), Lba(block), &bytes).expect("a block");
        }
        let queues = &fixture.several.queues[0];
        let buffer = queues.buffer(setting.blocks() as usize * BLOCK as usize).expect("a buffer");
        let memory = |bytes: usize| queues.target().memory(bytes).expect("memory");
        let (request_queues, answers) = (memory(3 * QUEUE_BYTES as usize), memory(96 * 8));
        let args = ExampleArgs {
            ns: queues.namespace(),
            buffer: buffer.as_ref(),
            request_queues: request_queues.address(),
            answers: answers.address(),
            agents,
            compute: 3,
        };
        let launch = queues.launch_bytes(&module.clone().into(), "agent_example", args.as_bytes());
        let launch = on_cpu(&launch.expect("a launch").grid(agents + 3)).expect("the CPU target");
        fixture.several.run(launch, 3, |_| ()).expect("a run");
        let mut found = [0u64; 96];
        answers.read(0, found.as_mut_bytes()).expect("answers");
        let expected = |pair: u64| (2 * pair) * (2 * pair) + (2 * pair + 1) * (2 * pair + 1);
        assert!((0..96).all(|pair| found[pair as usize] == expected(pair)), "{agents} agents: {found:?}");
    }
}
