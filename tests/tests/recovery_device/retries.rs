//! Blocking calls with a policy: what is submitted again, when, and how often.

use std::time::Duration;

use warpbell::Sharing;
use warpbell_hw::Lba;
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_nvme::Status;
use warpbell_nvme::status::StatusCodeType;
use warpbell_sim::simulation::Moment;
use warpbell_softctl::{Fault, FaultAction, FaultPlan, Selector};

use crate::harness::*;
use warpbell_sim::cpu_launch;

const INTERRUPTED: Status = Status::new(StatusCodeType::GENERIC, 0x21);
/// The calls.
const BY_EACH: u32 = 0;
const BY_WHOLE: u32 = 1;
const BY_FLUSH: u32 = 2;
/// CRDT1, in units of 100 ms.
const CRDT1: u32 = 1;

struct Call {
    setting: Setting,
    mode: u32,
    /// Attempts beyond the first.
    most: u32,
    timeout: Duration,
}

const CALL: Call =
    Call { setting: setting(Sharing::Shared, 2, 0), mode: BY_EACH, most: 3, timeout: Duration::ZERO };

/// What a lane was told of its one call: status, attempts, when.
#[derive(Clone, Copy, Debug)]
struct Reported {
    status: u32,
    retried: u32,
    at: Duration,
}

fn run(
    module: &Module,
    call: &Call,
    faults: Vec<Fault>,
    host: impl FnMut(&Queues, &Moment) -> bool,
) -> Vec<Reported> {
    let faults = FaultPlan::new().faults(faults);
    let mut fixture = Fixture::new(module, call.setting, 100, faults);
    let args = abi::QueueTestArgs {
        ns: abi::NamespaceRef { crdt: [CRDT1, 0, 0], ..fixture.namespace() },
        mode: call.mode,
        commands: 1,
        async_depth: call.most,
        timeout_ns: call.timeout.as_nanos() as u64,
        ..fixture.simulation.rig.args()
    };
    let launch = cpu_launch(module, "retry_test", &args).expect("a launch");
    let outcome = fixture.run(launch, host);
    assert!(outcome.findings.is_empty(), "{:?}", outcome.findings);
    assert!(fixture.queues.all_free());
    let records = fixture.simulation.rig.records().expect("records");
    let told = |record: &abi::TestRecord| {
        assert_eq!(record.answers, 1);
        Reported { status: record.status, retried: record.payload, at: Duration::from_nanos(record.lba) }
    };
    records.iter().take(call.setting.warps as usize * 32).map(told).collect()
}

fn fail(status: Status, selector: Selector) -> Fault {
    Fault::new(FaultAction::Fail { status }, selector)
}

fn once(lba: u64) -> Selector {
    Selector::new().lba(Some(Lba(lba)..=Lba(lba))).count(Some(1))
}

/// What is wrong with the bounds of retries, if anything is.
pub fn bounds(module: &Module) -> Result<(), String> {
    let always = || vec![fail(INTERRUPTED, Selector::new().lba(Some(Lba(5)..=Lba(5))).count(Some(40)))];
    for most in [0, 3] {
        let told = run(module, &Call { most, ..CALL }, always(), |_, _| true);
        if (told[5].status, told[5].retried) != (u32::from(INTERRUPTED.into_bits()), most) {
            return Err(format!("at most {most}: {:?}", told[5]));
        }
        if let Some(other) = told.iter().enumerate().find(|(lane, told)| *lane != 5 && told.status != 0) {
            return Err(format!("another lane: {other:?}"));
        }
    }
    Ok(())
}

/// What is wrong with Do Not Retry, if anything is.
pub fn do_not_retry(module: &Module) -> Result<(), String> {
    let status = INTERRUPTED.with_dnr(true);
    let told = run(module, &CALL, vec![fail(status, once(5))], |_, _| true);
    let right = (told[5].status, told[5].retried) == (u32::from(status.into_bits()), 0);
    if right { Ok(()) } else { Err(format!("{:?}", told[5])) }
}

#[test]
fn attempts_are_bounded_and_do_not_retry_is_heeded() {
    let module = module();
    assert_eq!((bounds(&module), do_not_retry(&module)), (Ok(()), Ok(())));
}

#[test]
fn every_blocking_call_submits_again_what_failed_for_now() {
    let module = module();
    for mode in [BY_EACH, BY_WHOLE, BY_FLUSH] {
        for sharing in [Sharing::Exclusive, Sharing::Shared] {
            let call = Call { setting: setting(sharing, 1, 0), mode, ..CALL };
            let told =
                run(&module, &call, vec![fail(INTERRUPTED, Selector::new().count(Some(1)))], |_, _| true);
            assert!(told.iter().all(|told| told.status == 0), "{told:?}");
            assert_eq!(told.iter().map(|told| told.retried).sum::<u32>(), 1, "{mode} {sharing:?}");
        }
    }
}

#[test]
fn a_delay_is_waited_out_and_holds_nobody_else_up() {
    let module = module();
    // Lane 5 of the first warp; the second warp shares the queue, and its answers.
    let call = Call { timeout: Duration::from_millis(500), ..CALL };
    let told = run(&module, &call, vec![fail(INTERRUPTED.with_crd(1), once(5))], |_, _| true);
    assert!(told.iter().all(|told| told.status == 0), "{told:?}");
    let delay = Duration::from_millis(100) * CRDT1;
    assert!(told[5].at >= delay && told[5].at < delay * 5 / 4, "{:?}", told[5]);
    assert!(told[32..].iter().all(|told| told.at < delay / 10), "the other warp waited, too: {:?}", told[32]);
}

#[test]
fn a_delay_beyond_the_deadline_is_not_waited_for() {
    let module = module();
    let call = Call { timeout: Duration::from_millis(50), ..CALL };
    let status = INTERRUPTED.with_crd(1);
    let told = run(&module, &call, vec![fail(status, once(5))], |_, _| true);
    assert_eq!((told[5].status, told[5].retried), (u32::from(status.into_bits()), 0));
    assert!(told[5].at < DEADLINE, "{:?}", told[5]);
}

#[test]
fn a_call_whose_queue_is_lost_ends_on_the_successor() {
    let module = module();
    for sharing in [Sharing::Exclusive, Sharing::Shared] {
        let call = Call { setting: setting(sharing, 1, 0), ..CALL };
        let mut host = replaced_after(Duration::from_micros(50));
        let told = run(&module, &call, Vec::new(), |queues, moment| host(queues, moment));
        assert!(told.iter().all(|told| (told.status, told.retried) == (0, 1)), "{told:?}");
        let never = Call { most: 0, ..call };
        let mut host = replaced_after(Duration::from_micros(50));
        let told = run(&module, &never, Vec::new(), |queues, moment| host(queues, moment));
        let lost = abi::STATUS_LIBRARY | abi::STATUS_QUEUE_GONE;
        assert!(told.iter().all(|told| (told.status, told.retried) == (lost, 0)), "{told:?}");
    }
}
