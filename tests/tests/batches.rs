//! Tier S, simulation: whole batches, attempts, and commands given up, through a kernel of our own.

use std::path::Path;
use std::time::Duration;

use warpbell::Sharing;
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::cpu_launch;
use warpbell_sim::simulation::{Outcome, Simulation};
use warpbell_sim::{Case, Schedule, load_module};

const MODES: [Sharing; 2] = [Sharing::Exclusive, Sharing::Shared];
const WHOLE: u32 = 0;
const TRY: u32 = 1;
const ABANDON: u32 = 2;
const REAP: u32 = 3;
const SPLIT: u32 = 4;
const SPLIT_EACH: u32 = 5;
const PLAIN: u32 = 6;

fn module() -> Module {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/batches.cu");
    Variant::file(&source)
        .and_then(|variant| variant.quick().build())
        .map(|path| load_module(&path))
        .expect("compiles")
        .expect("loads")
}

fn case(sharing: Sharing, entries: u32, batch: u32) -> Case {
    let schedule = Schedule { random: true, ..Schedule::default() };
    let case = Case { sharing, entries, batch, commands: 1, schedule, ..Case::new("batches") };
    Case { timeout: Duration::from_millis(10), ..case }
}

fn run(module: &Module, case: &Case, mode: u32, alive: bool) -> (Simulation, Outcome) {
    let mut simulation = Simulation::with_module(case, module).expect("a rig");
    let args = abi::QueueTestArgs { mode, ..simulation.rig.args() };
    let launch = cpu_launch(module, "batch_test", &args).expect("a launch");
    let outcome = simulation.run_launch(launch, |_, _| alive).expect("a run");
    (simulation, outcome)
}

/// Statuses of the lanes that took part, in order.
fn answers(simulation: &Simulation) -> Vec<u32> {
    let records = simulation.rig.records().expect("records");
    records.iter().filter(|record| record.answers == 1).map(|record| record.status).collect()
}

#[test]
fn a_whole_batch_goes_under_one_doorbell_or_not_at_all() {
    let module = module();
    for sharing in MODES {
        for (entries, batch) in [(4, 3), (8, 7), (64, 32), (2, 1)] {
            let (simulation, outcome) = run(&module, &case(sharing, entries, batch), WHOLE, true);
            outcome.expect_right(&simulation.rig.case);
            assert_eq!(answers(&simulation), vec![0; batch as usize]);
            assert_eq!(outcome.counters.sq_doorbells, 1, "depth {entries}, batch {batch}, {sharing:?}");
        }
    }
}

#[test]
fn a_whole_batch_above_depth_minus_one_is_invalid_and_never_waits() {
    let module = module();
    for sharing in MODES {
        for (entries, batch) in [(2, 2), (4, 4), (8, 32)] {
            let (simulation, outcome) = run(&module, &case(sharing, entries, batch), WHOLE, false);
            outcome.expect_right(&simulation.rig.case);
            assert_eq!(
                answers(&simulation),
                vec![abi::STATUS_LIBRARY | abi::STATUS_INVALID_BATCH; batch as usize]
            );
            assert_eq!((outcome.counters.sqes, outcome.counters.doorbells), (0, 0));
            assert!(outcome.elapsed < Duration::from_millis(5), "{:?}", outcome.elapsed);
        }
    }
}

#[test]
fn an_attempt_takes_what_has_room_and_refuses_the_rest() {
    let module = module();
    for sharing in MODES {
        let (simulation, outcome) = run(&module, &case(sharing, 4, 32), TRY, true);
        outcome.expect_right(&simulation.rig.case);
        let (done, refused): (Vec<u32>, Vec<u32>) =
            answers(&simulation).into_iter().partition(|status| *status == 0);
        assert_eq!((done.len(), refused), (3, vec![abi::STATUS_LIBRARY | abi::STATUS_NO_ROOM; 29]));
        assert_eq!(outcome.counters.sqes, 3);
    }
}

#[test]
fn a_command_that_is_given_up_is_quarantined() {
    let module = module();
    for sharing in MODES {
        let (simulation, outcome) = run(&module, &case(sharing, 64, 32), ABANDON, false);
        outcome.expect_right(&simulation.rig.case);
        assert_eq!(answers(&simulation), vec![abi::STATUS_LIBRARY | abi::STATUS_TIMED_OUT; 32]);
        assert!(simulation.rig.quarantine(0).expect("masks").iter().all(|mask| *mask == 1));
        assert!(simulation.rig.attachment.take_alarm(0));
        assert!(outcome.elapsed < Duration::from_millis(5), "giving up does not wait: {:?}", outcome.elapsed);
    }
}

#[test]
fn a_lane_whose_every_identifier_timed_out_gets_them_back_by_reaping_and_submit_reaps_by_itself() {
    let module = module();
    for (sharing, mode) in MODES.iter().flat_map(|sharing| [(*sharing, REAP), (*sharing, PLAIN)]) {
        let case = Case { tokens: 1, ..case(sharing, 64, 32) };
        let (mut simulation, outcome) = run(&module, &case, mode, false);
        outcome.expect_right(&case);
        assert_eq!(answers(&simulation), vec![abi::STATUS_LIBRARY | abi::STATUS_TIMED_OUT; 32]);
        while simulation.rig.soft.step() {}
        simulation.rig.clear().expect("records");
        let args = abi::QueueTestArgs { mode, ..simulation.rig.args() };
        let launch = cpu_launch(&module, "batch_test", &args).expect("a launch");
        simulation.run_launch(launch, |_, _| true).expect("a run").expect_right(&case);
        assert_eq!(answers(&simulation), vec![0; 32], "{sharing:?}, mode {mode}");
        assert_eq!(simulation.rig.attachment.counters(0).expect("counters").late, 32);
        assert!(simulation.rig.quarantine(0).expect("masks").iter().all(|mask| *mask == 0));
    }
}

/// Reads two commands a lane; the controller answers the first of them after 8 of the call's 10 ms, and the second
/// after `second` ms.
fn split(module: &Module, sharing: Sharing, mode: u32, second: u64) -> (Vec<u32>, Duration) {
    let case = Case { async_depth: 2, ..case(sharing, 64, 32) };
    let mut simulation = Simulation::with_module(&case, module).expect("a rig");
    let mut args = abi::QueueTestArgs { mode, ..simulation.rig.args() };
    args.ns.max_blocks = 1;
    let launch = cpu_launch(module, "batch_test", &args).expect("a launch");
    let ms = Duration::from_millis;
    let outcome = simulation
        .run_launch(launch, |rig, moment| {
            let first_round = rig.soft.statistics().total_commands() < 32;
            moment.elapsed >= ms(if first_round { 8 } else { second })
        })
        .expect("a run");
    outcome.expect_right(&case);
    (answers(&simulation), outcome.elapsed)
}

#[test]
fn an_io_of_several_rounds_has_one_deadline() {
    let module = module();
    for (sharing, mode) in MODES.iter().flat_map(|sharing| [(*sharing, SPLIT), (*sharing, SPLIT_EACH)]) {
        let (statuses, _) = split(&module, sharing, mode, 9);
        assert_eq!(statuses, vec![0; 32], "{sharing:?}, mode {mode}: both rounds in time");
        let (statuses, elapsed) = split(&module, sharing, mode, 12);
        // A lane goes on as soon as its first is answered: some of the second are among the first 32 commands.
        let late =
            statuses.iter().filter(|status| **status == abi::STATUS_LIBRARY | abi::STATUS_TIMED_OUT).count();
        assert!(late >= 24, "{sharing:?}, mode {mode}: {statuses:?}");
        assert!(
            statuses
                .iter()
                .all(|status| *status == 0 || *status == abi::STATUS_LIBRARY | abi::STATUS_TIMED_OUT)
        );
        assert!(elapsed < Duration::from_micros(11_500), "{sharing:?}, mode {mode}: {elapsed:?}");
    }
}
