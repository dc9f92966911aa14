//! Each rule of recovery in kernels holds as built, and is seen to be broken when it is switched off.

use std::time::Duration;

use warpbell::Sharing;
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_sim::{TestVariant, seeds};
use warpbell_softctl::FaultPlan;

use crate::harness::*;
use crate::retries;
use warpbell_sim::cpu_launch;

/// Seeds that a broken rule has to show itself.
const SEEDS: u64 = 300;

type Check = fn(&Module) -> Result<(), String>;

const RULES: [(&str, Check); 10] = [
    ("HAZARD_NOT_TAKEN", quiet_is_quiet),
    ("NO_FENCE_HAZARD", quiet_is_quiet),
    ("HAZARD_LEFT_EARLY", doorbells_before_hazards),
    ("HAZARD_KEPT", hazards_are_released),
    ("OLD_HAZARD_LEFT_FIRST", somewhere_a_hazard),
    ("DEAD_IGNORED", the_end_is_noticed),
    ("OLD_EPOCH_ACCEPTED", old_tokens_are_told_apart),
    ("LEASE_UNCHECKED", leases_are_kept),
    ("RETRY_DESPITE_DNR", retries::do_not_retry),
    ("RETRY_UNBOUNDED", retries::bounds),
];

#[test]
fn each_rule_holds_and_is_missed_when_it_is_off() {
    let built = module();
    for (switch, check) in RULES {
        assert_eq!(check(&built), Ok(()), "as built, {switch}");
        let broken = source().mutate(switch).loaded().expect("compiles");
        assert!(check(&broken).is_err(), "nobody notices {switch}");
    }
}

/// The queue is given up while lanes attach, at any moment. A lane whose hazard slot cannot be seen by then must not submit any
/// more: by then the host has perhaps given the rings to somebody else.
fn quiet_is_quiet(module: &Module) -> Result<(), String> {
    for seed in seeds(SEEDS) {
        let setting = Setting { seed, store_buffer: 8, ..setting(Sharing::Shared, 2, BY_LANE) };
        let mut hazards = Vec::new();
        let ran = run(module, setting, |queues, moment| {
            if hazards.is_empty() && moment.round >= seed % 12 {
                queues.set_state(0, abi::QUEUE_LOST);
                hazards = queues.hazards(0);
            }
            false
        });
        let lanes = ran.lanes();
        let intruder = lanes.iter().zip(&hazards).position(|(records, hazard)| {
            *hazard != abi::HAZARD_TAKEN
                && records.iter().any(|record| record.answers != 0 && record.cid != !0)
        });
        if let Some(lane) = intruder {
            return Err(format!(
                "seed {seed}: lane {lane} submits without holding its slot: {:?}",
                lanes[lane][0]
            ));
        }
    }
    Ok(())
}

/// Once no lane has a hazard slot on a lost queue, no doorbell of it arrives.
fn doorbells_before_hazards(module: &Module) -> Result<(), String> {
    for seed in seeds(SEEDS) {
        let setting = Setting { seed, store_buffer: 16, ..setting(Sharing::Exclusive, 1, BY_WARP) };
        let (mut taken, mut quiet_at) = (false, None);
        let mut after = 0;
        let ran = run(module, setting, |queues, moment| {
            taken |= !queues.is_quiet(0);
            // As soon as there are entries: their doorbell is on its way.
            if taken && moment.round >= 20 + seed % 64 {
                queues.set_state(0, abi::QUEUE_LOST);
            }
            if taken && quiet_at.is_none() && queues.is_quiet(0) {
                quiet_at = Some(moment.rung);
            }
            after = moment.rung;
            false
        });
        if let Some(rung) = quiet_at.filter(|rung| *rung != after) {
            return Err(format!("seed {seed}: {} doorbells after {rung}", after - rung));
        }
        if !ran.outcome.findings.is_empty() {
            return Err(format!("seed {seed}: {:?}", ran.outcome.findings));
        }
    }
    Ok(())
}

/// On each way out: detached or not, after a successor, without one, and after the end.
fn hazards_are_released(module: &Module) -> Result<(), String> {
    for (flags, state, successor) in [
        (0, abi::QUEUE_RUNNING, None),
        (BY_DESTRUCTOR, abi::QUEUE_RUNNING, None),
        (BY_DESTRUCTOR, abi::QUEUE_LOST, Some(1)),
        (BY_DESTRUCTOR, abi::QUEUE_LOST, None),
        (0, abi::QUEUE_LOST, None),
        (BY_DESTRUCTOR, abi::QUEUE_DEAD, None),
        (0, abi::QUEUE_DEAD, None),
    ] {
        for setting in SETTINGS {
            let setting = Setting { flags, ..setting };
            let ran = run(module, setting, |queues, moment| {
                if moment.rung > 0 && state != abi::QUEUE_RUNNING {
                    queues.set_state(0, state);
                    queues.set_successor(0, successor);
                }
                state == abi::QUEUE_RUNNING || successor.is_some()
            });
            if !ran.queues.all_free() {
                return Err(format!("{setting:?}, state {state}, successor {successor:?}"));
            }
        }
    }
    Ok(())
}

/// From attaching until it detaches, a lane has a hazard slot on one of the queues: by that the host keeps what it may read.
fn somewhere_a_hazard(module: &Module) -> Result<(), String> {
    for seed in seeds(SEEDS) {
        let setting = Setting { seed, ..setting(Sharing::Exclusive, 1, BY_WARP) };
        let (mut lost_at, mut nowhere) = (None, 0);
        run(module, setting, |queues, moment| {
            if moment.rung > 0 && lost_at.is_none() {
                queues.set_state(0, abi::QUEUE_LOST);
                lost_at = Some(moment.elapsed);
            }
            let Some(at) = lost_at else { return false };
            if moment.elapsed >= at + Duration::from_micros(60) {
                return true;
            }
            if moment.elapsed >= at + Duration::from_micros(30) {
                queues.set_successor(0, Some(1));
            }
            // No lane is done: the controller has not completed anything.
            let (old, new) = (queues.hazards(0), queues.hazards(1));
            nowhere += old.iter().zip(new).take(32).filter(|(old, new)| (**old, *new) == (0, 0)).count();
            false
        });
        if nowhere != 0 {
            return Err(format!("seed {seed}: lanes without any hazard, {nowhere} times"));
        }
    }
    Ok(())
}

fn the_end_is_noticed(module: &Module) -> Result<(), String> {
    let mut dead_at = None;
    let ran = run(module, setting(Sharing::Shared, 1, BY_WARP), |queues, moment| {
        if moment.rung > 0 && dead_at.is_none() {
            queues.set_state(0, abi::QUEUE_DEAD);
            dead_at = Some(moment.elapsed);
        }
        false
    });
    let took = ran.outcome.elapsed - dead_at.unwrap_or_default();
    if took < PATIENCE / 2 { Ok(()) } else { Err(format!("returned {took:?} after the end")) }
}

fn old_tokens_are_told_apart(module: &Module) -> Result<(), String> {
    let setting = setting(Sharing::Exclusive, 1, BY_WARP);
    let ran = run(module, setting, replaced_after(Duration::from_micros(1)));
    let lost = u64::from(abi::STATUS_LIBRARY | abi::STATUS_QUEUE_GONE);
    match ran.lanes().iter().flatten().find(|record| record.lba != 0 && record.lba != lost) {
        Some(record) => Err(format!("an old token is answered {:#x}", record.lba)),
        None => Ok(()),
    }
}

/// Lane n reads (even) or writes (odd) block n / 2, of which the lease has some, with data in part n of the buffer.
fn leases_are_kept(module: &Module) -> Result<(), String> {
    let block = |lane: usize| lane as u64 / 2;
    for read_only in [false, true] {
        let mut fixture =
            Fixture::new(module, setting(Sharing::Shared, 1, 0), COMMANDS, FaultPlan::default());
        let ns = fixture.namespace();
        let buffer = fixture.simulation.rig.buffer.as_ref();
        let flags = if read_only { ns.flags | abi::NAMESPACE_READ_ONLY } else { ns.flags };
        let unit = 1 << ns.block_shift;
        let ns = abi::NamespaceRef {
            flags,
            lease_first: 2,
            lease_end: 14,
            lease_iova: buffer.iova + 6 * unit,
            lease_iova_end: buffer.iova + 24 * unit,
            ..ns
        };
        let args = abi::QueueTestArgs { ns, ..fixture.simulation.rig.args() };
        let launch = cpu_launch(module, "lease_test", &args).expect("a launch");
        let outcome = fixture.run(launch, |_, _| true);
        if !outcome.findings.is_empty() {
            return Err(format!("{:?}", outcome.findings));
        }
        let records = fixture.simulation.rig.records().expect("records");
        for (lane, record) in records.iter().take(32).enumerate() {
            let inside = (2..14).contains(&block(lane)) && (6..24).contains(&lane);
            let expected = match inside {
                _ if read_only && lane % 2 == 1 => abi::STATUS_LIBRARY | abi::STATUS_READ_ONLY,
                false => abi::STATUS_LIBRARY | abi::STATUS_OUT_OF_LEASE,
                true => 0,
            };
            if record.status != expected {
                return Err(format!("lane {lane}: {:#x}, not {expected:#x}", record.status));
            }
        }
    }
    Ok(())
}
