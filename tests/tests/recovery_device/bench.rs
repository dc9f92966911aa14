//! The kernel `bench` recovers by itself: I/Os that timed out, failed for now or were lost with their queue end well in
//! the end, as long as the bounds allow it, and no slot is lost for good.

use std::time::Duration;

use warpbell::{SharedMemory, Sharing};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_nvme::Status;
use warpbell_nvme::status::StatusCodeType;
use warpbell_sim::simulation::{Moment, Outcome};
use warpbell_softctl::{Fault, FaultAction, FaultPlan, Selector};
use zerocopy::IntoBytes;

use crate::harness::*;
use warpbell_sim::cpu_launch;

/// I/Os of a launch.
const IOS: u64 = 200;
/// Of them in flight.
const DEPTH: u32 = 24;

const INTERRUPTED: Status = Status::new(StatusCodeType::GENERIC, 0x21);
const ABORTED: Status = Status::new(StatusCodeType::GENERIC, 0x07);
const UNRECOVERED_READ: Status = Status::new(StatusCodeType::MEDIA, 0x81);

const BEDS: [Setting; 2] = [setting(Sharing::Exclusive, 1, 0), setting(Sharing::Shared, 2, 0)];

/// What the kernel is to do about trouble.
#[derive(Clone, Copy)]
struct Patience {
    recover: Duration,
    retries: u32,
}

const NONE: Patience = Patience { recover: Duration::ZERO, retries: 0 };
const SOME: Patience = Patience { recover: PATIENCE, retries: 5 };

fn run(
    setting: Setting,
    patience: Patience,
    faults: FaultPlan,
    host: impl FnMut(&Queues, &Moment) -> bool,
) -> (abi::WarpResult, Outcome) {
    let module = Module::builtin().expect("the CPU target is built in");
    let mut fixture = Fixture::new(&module, setting, 200, faults);
    let rig = &fixture.simulation.rig;
    let mailbox = mailbox(rig.attachment.target().shared(size_of::<abi::Mailbox>()).expect("memory"));
    let args = abi::BenchArgs {
        ns: abi::NamespaceRef { crdt: [1, 0, 0], ..fixture.namespace() },
        buffer: rig.buffer.as_ref(),
        mailbox: mailbox.address(),
        results: rig.args().results,
        units: fixture.namespace().blocks,
        seed: setting.seed,
        io_limit: IOS,
        blocks_per_io: 1,
        iodepth: DEPTH,
        units_per_warp: 32,
        read_percent: 50,
        pattern: abi::PATTERN_RANDOM,
        api: abi::API_IO,
        recover_ns: patience.recover.as_nanos() as u64,
        retries: patience.retries,
        ..abi::BenchArgs::new()
    };
    let launch = cpu_launch(&module, "bench", &args).expect("a launch");
    let outcome = fixture.run(launch, host);
    assert!(outcome.findings.is_empty(), "{setting:?}: {:?}", outcome.findings);
    assert!(fixture.queues.all_free(), "{setting:?}: hazards are taken after the end");
    (sum(&fixture.simulation.rig.results().expect("results")), outcome)
}

fn mailbox(memory: SharedMemory) -> SharedMemory {
    memory.window().write(0, abi::Mailbox::new().as_bytes()).expect("a mailbox");
    memory
}

/// All warps' results; the status of one error, if there was any.
fn sum(results: &[abi::WarpResult]) -> abi::WarpResult {
    results.iter().fold(abi::WarpResult::new(), |sum, warp| abi::WarpResult {
        reads: sum.reads + warp.reads,
        writes: sum.writes + warp.writes,
        errors: sum.errors + warp.errors,
        error_status: sum.error_status.max(warp.error_status),
        timed_out: sum.timed_out + warp.timed_out,
        not_submitted: sum.not_submitted + warp.not_submitted,
        aborted: sum.aborted + warp.aborted,
        retried: sum.retried + warp.retried,
        queue_losses: sum.queue_losses + warp.queue_losses,
        recovered: sum.recovered + warp.recovered,
        ..sum
    })
}

fn fails(status: Status, every: u64, count: u64) -> FaultPlan {
    plan(FaultAction::Fail { status }, every, count)
}

fn plan(action: FaultAction, every: u64, count: u64) -> FaultPlan {
    let selector = Selector::new().every(every).count(Some(count));
    FaultPlan::new().faults(vec![Fault::new(action, selector)])
}

fn expect_all_done(sum: &abi::WarpResult) {
    assert_eq!((sum.reads + sum.writes, sum.errors), (IOS, 0), "{sum:?}");
}

#[test]
fn what_was_lost_with_its_queue_is_done_on_the_successor() {
    for setting in BEDS {
        let (sum, _) = run(setting, SOME, FaultPlan::default(), replaced_after(Duration::from_micros(50)));
        expect_all_done(&sum);
        assert_eq!(sum.queue_losses, u64::from(setting.warps), "{sum:?}");
        // Each I/O was lost once.
        assert!(sum.recovered >= u64::from(setting.warps) && sum.recovered == sum.retried, "{sum:?}");
        assert_eq!((sum.timed_out, sum.aborted), (0, 0), "{sum:?}");
    }
}

#[test]
fn a_lost_queue_ends_a_kernel_that_is_not_to_recover() {
    for setting in BEDS {
        let (sum, _) = run(setting, NONE, FaultPlan::default(), replaced_after(Duration::from_micros(50)));
        assert_eq!(
            (sum.queue_losses, sum.retried, sum.recovered),
            (u64::from(setting.warps), 0, 0),
            "{sum:?}"
        );
        assert!(sum.errors > 0 && sum.reads + sum.writes + sum.errors < IOS, "{sum:?}");
        assert_eq!(sum.error_status, abi::STATUS_LIBRARY | abi::STATUS_QUEUE_GONE);
    }
}

#[test]
fn an_ssd_that_will_not_come_back_ends_the_kernel() {
    for setting in BEDS {
        let mut dead_at = None;
        let (sum, outcome) = run(setting, SOME, FaultPlan::default(), |queues, moment| {
            if moment.rung > 4 && dead_at.is_none() {
                queues.set_state(0, abi::QUEUE_DEAD);
                dead_at = Some(moment.elapsed);
            }
            dead_at.is_none()
        });
        assert!(sum.errors > 0 && sum.recovered == 0, "{sum:?}");
        assert_eq!(sum.error_status, abi::STATUS_LIBRARY | abi::STATUS_SSD_LOST);
        assert!(outcome.elapsed - dead_at.expect("an end") < PATIENCE / 2, "{:?}", outcome.elapsed);
    }
}

#[test]
fn commands_that_never_complete_are_done_again_once_their_queue_was_replaced() {
    for setting in BEDS {
        let mut replaced = false;
        let (sum, _) = run(setting, SOME, plan(FaultAction::Drop, 3, 5), |queues, moment| {
            if moment.elapsed > DEADLINE * 6 / 5 && !std::mem::replace(&mut replaced, true) {
                queues.set_state(0, abi::QUEUE_LOST);
                queues.set_successor(0, Some(1));
            }
            true
        });
        expect_all_done(&sum);
        assert_eq!((sum.timed_out, sum.recovered), (5, 5), "{sum:?}");
        assert_eq!((sum.retried, sum.queue_losses), (5, u64::from(setting.warps)), "{sum:?}");
    }
}

#[test]
fn the_buffer_of_a_command_that_never_completes_is_not_waited_for_for_ever() {
    for setting in BEDS {
        let (sum, outcome) = run(setting, SOME, plan(FaultAction::Drop, 3, 5), |_, _| true);
        assert_eq!((sum.timed_out, sum.errors, sum.retried), (5, 5, 0), "{sum:?}");
        assert_eq!(sum.reads + sum.writes, IOS - 5, "{sum:?}");
        assert_eq!(sum.error_status, abi::STATUS_LIBRARY | abi::STATUS_TIMED_OUT);
        assert!(outcome.elapsed < (DEADLINE + PATIENCE) * 2, "{:?}", outcome.elapsed);
    }
}

#[test]
fn slots_of_late_completions_are_of_use_again() {
    // Every command of a pause times out, and completes late: there is one at the start. With retries each is done
    // again; without, the kernel goes on to its end all the same.
    for setting in BEDS {
        for retries in [50, 0] {
            let patience = Patience { recover: DEADLINE * 40, retries };
            let (sum, _) =
                run(setting, patience, FaultPlan::default(), |_, moment| moment.round % 1024 >= 864);
            assert_eq!(sum.reads + sum.writes + sum.errors, IOS, "{sum:?}");
            assert!(sum.timed_out > 0, "{sum:?}");
            if patience.retries == 0 {
                assert_eq!((sum.errors, sum.recovered), (sum.timed_out + sum.not_submitted, 0), "{sum:?}");
            } else {
                expect_all_done(&sum);
                assert!(sum.recovered > 0 && sum.retried == sum.timed_out + sum.not_submitted, "{sum:?}");
            }
        }
    }
}

#[test]
fn statuses_of_the_moment_are_retried_and_others_are_not() {
    let count = |status, patience| run(BEDS[1], patience, fails(status, 7, 10), |_, _| true).0;
    let sum = count(INTERRUPTED, SOME);
    expect_all_done(&sum);
    // A command that is sent again may be the next seventh: it recovers once.
    let most = 8..=10;
    assert_eq!((sum.retried, sum.aborted, most.contains(&sum.recovered)), (10, 0, true), "{sum:?}");
    let sum = count(ABORTED, SOME);
    expect_all_done(&sum);
    assert_eq!((sum.retried, sum.aborted, most.contains(&sum.recovered)), (10, 10, true), "{sum:?}");
    for (status, patience) in
        [(INTERRUPTED, NONE), (INTERRUPTED.with_dnr(true), SOME), (UNRECOVERED_READ, SOME)]
    {
        let sum = count(status, patience);
        assert_eq!((sum.retried, sum.errors, sum.reads + sum.writes), (0, 10, IOS - 10), "{sum:?}");
        assert_eq!(sum.error_status, u32::from(status.into_bits()));
    }
}

#[test]
fn retries_are_bounded() {
    let (sum, _) =
        run(BEDS[0], Patience { retries: 3, ..SOME }, fails(INTERRUPTED, 1, u64::MAX), |_, _| true);
    assert_eq!((sum.errors, sum.retried, sum.recovered), (IOS, 3 * IOS, 0), "{sum:?}");
}

#[test]
fn the_delay_that_a_status_names_is_waited_out() {
    let status = INTERRUPTED.with_crd(1);
    let (sum, outcome) = run(BEDS[1], SOME, fails(status, 50, 1), |_, _| true);
    expect_all_done(&sum);
    assert_eq!((sum.retried, sum.recovered), (1, 1), "{sum:?}");
    let delay = Duration::from_millis(100);
    assert!(outcome.elapsed >= delay && outcome.elapsed < delay * 6 / 5, "{:?}", outcome.elapsed);
}
