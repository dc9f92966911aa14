//! Each rule of agents, as built and switched off.

use std::sync::atomic::Ordering;
use std::time::Duration;

use warpbell::Sharing;
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_sim::{TestVariant, seeds};
use warpbell_softctl::{Fault, FaultAction, FaultPlan, Selector};
use warpbell_tests::each_apart;

use crate::fixture::*;
use crate::work::{jammed, slow_setting};

/// Seeds that a broken rule has to show itself.
const MOST_SEEDS: u64 = 60;

type Check = fn(&Module) -> Result<(), String>;

/// Switch, check, and what the check says then.
const RULES: [(&str, Check, &str); 16] = [
    ("MAIL_NO_FENCE_POST", blocks_go_there_and_back, "first bad block Some"),
    ("MAIL_NO_FENCE_TAKE", blocks_go_there_and_back, "P2: "),
    ("MAIL_NO_FENCE_ANSWER", blocks_go_there_and_back, "P3: "),
    ("MAIL_NO_FENCE_DONE", blocks_go_there_and_back, "P4: "),
    ("MAIL_SLOT_REUSED", an_answer_is_to_its_request, "seed "),
    ("REQUEST_TAKEN_TWICE", each_request_is_one_command, "seed "),
    ("EVERY_REQUEST_QUEUE_SERVED", each_request_is_one_command, "seed "),
    ("AGENT_LEAVES_EARLY", what_was_posted_is_answered, "seed "),
    ("MAIL_ANY_BUFFER", what_agents_have_no_command_for_is_refused, "seed "),
    ("MAIL_OPCODE_UNCHECKED", what_agents_have_no_command_for_is_refused, "seed "),
    ("MAIL_SLOT_LOST", blocks_go_there_and_back, "first bad block Some"),
    ("LATE_SLOT_LOST", late_slots_come_back, "had no room"),
    ("PUT_OFF_REFUSED", what_has_no_room_waits_for_it, "status 0x"),
    ("PUT_OFF_FOR_EVER", what_has_no_room_waits_for_it, "not submitted"),
    ("STOP_IGNORED", a_stop_aborts, "seed "),
    ("LOST_QUEUE_KEPT", agents_go_over_to_the_next_queue, "not back at work"),
];

/// The same fences where request_queues are in the shared memory of a block.
const RULES_IN_BLOCK: [(&str, &str); 4] = [
    ("MAIL_NO_FENCE_POST", "P1: "),
    ("MAIL_NO_FENCE_TAKE", "P2: "),
    ("MAIL_NO_FENCE_ANSWER", "P3: "),
    ("MAIL_NO_FENCE_DONE", "P4: "),
];

#[test]
fn each_rule_holds() {
    assert_eq!(blocks_go_by_shared_memory(&MODULE), Ok(()), "as built");
    RULES.iter().for_each(|(switch, check, _)| assert_eq!(check(&MODULE), Ok(()), "as built, {switch}"));
}

#[test]
fn each_rule_is_missed_when_it_is_off() {
    each_apart("rules::each_rule_is_missed_when_it_is_off", RULES.map(|(switch, ..)| switch), |rule| {
        let (switch, check, says) = RULES.into_iter().find(|(switch, ..)| *switch == rule).expect("a rule");
        let noticed = check(&source().mutate(switch).loaded().expect("compiles")).err().unwrap_or_default();
        println!("{switch}: {noticed}");
        assert!(noticed.contains(says) && !noticed.is_empty(), "{switch} is not noticed: {noticed:?}");
    });
}

#[test]
fn each_fence_of_request_queues_in_shared_memory_is_missed_when_it_is_off() {
    let name = "rules::each_fence_of_request_queues_in_shared_memory_is_missed_when_it_is_off";
    each_apart(name, RULES_IN_BLOCK.map(|(switch, _)| switch), |rule| {
        let (switch, says) = RULES_IN_BLOCK.into_iter().find(|(switch, _)| *switch == rule).expect("a rule");
        let module = source().mutate(switch).loaded().expect("compiles");
        let noticed = blocks_go_by_shared_memory(&module).err().unwrap_or_default();
        println!("{switch}: {noticed}");
        assert!(noticed.contains(says), "{switch} is not noticed: {noticed:?}");
    });
}

fn each_run(
    module: &Module,
    setting: &Setting,
    most: u64,
    judge: impl Fn(&Fixture, &Ran) -> bool,
) -> Result<(), String> {
    for seed in seeds(most) {
        let fixture = Fixture::new(setting);
        let ran = fixture.run(module, seed, |_| ()).map_err(|error| format!("{error:#}"))?;
        if !judge(&fixture, &ran) {
            return Err(format!("seed {seed}: {}", ran.story()));
        }
    }
    Ok(())
}

fn blocks_go_there_and_back(module: &Module) -> Result<(), String> {
    each_run(module, &Setting::new(Sharing::Exclusive, 2, 2), SEEDS, |_, ran| ran.is_good())
}

fn blocks_go_by_shared_memory(module: &Module) -> Result<(), String> {
    let setting = Setting { in_block: true, ..Setting::new(Sharing::Exclusive, 2, 2) };
    each_run(module, &setting, SEEDS, |_, ran| ran.is_good())
}

fn an_answer_is_to_its_request(module: &Module) -> Result<(), String> {
    each_run(module, &slow_setting(Sharing::Exclusive), MOST_SEEDS, |fixture, ran| {
        fixture.has_what_was_written(ran) && ran.records.iter().all(|record| record.wrong == 0)
    })
}

fn each_request_is_one_command(module: &Module) -> Result<(), String> {
    let setting = Setting::new(Sharing::Exclusive, 2, 3);
    each_run(module, &setting, SEEDS, |_, ran| ran.is_good() && ran.requests() == 2 * setting.blocks() + 3)
}

/// Commands take so long that agents look in vain for what came of them.
fn what_was_posted_is_answered(module: &Module) -> Result<(), String> {
    let action = FaultAction::Delay { by: Duration::from_millis(1) };
    let faults = vec![Fault::new(action, Selector::default())];
    let setting = Setting {
        flags: TWO_AT_ONCE | GOES_AT_ONCE,
        faults: FaultPlan::new().faults(faults),
        ..Setting::new(Sharing::Exclusive, 2, 3)
    };
    each_run(module, &setting, MOST_SEEDS, |_, ran| ran.words.iter().all(|word| *word == ANSWERED))
}

fn what_agents_have_no_command_for_is_refused(module: &Module) -> Result<(), String> {
    let setting = Setting { flags: BY_OPCODE, ..Setting::new(Sharing::Exclusive, 1, 1) };
    let refused =
        [abi::STATUS_INVALID_FIELD, abi::STATUS_OUT_OF_BUFFER].map(|code| abi::STATUS_LIBRARY | code);
    each_run(module, &setting, 1, |_, ran| {
        ran.records.chunks(2).all(|lane| [lane[1].wrote, lane[1].read] == refused)
    })
}

/// Some requests are late, and answered before the next round begins: their slots are free again.
fn late_slots_come_back(module: &Module) -> Result<(), String> {
    let setting = Setting { rounds: 12, flags: PAUSES, ..slow_setting(Sharing::Exclusive) };
    let no_room = abi::STATUS_LIBRARY | abi::STATUS_NO_ROOM;
    for seed in seeds(4) {
        let ran = Fixture::new(&setting).run(module, seed, |_| ()).map_err(|error| format!("{error:#}"))?;
        let without = ran.records.iter().filter(|record| record.wrote == no_room).count();
        if without != 0 {
            return Err(format!("seed {seed}: {without} of {} had no room", ran.records.len()));
        }
    }
    Ok(())
}

/// Whether the last round of each lane went well.
fn back_at_work(ran: &Ran, rounds: usize) -> Result<(), String> {
    let mut last = ran.records.chunks(rounds).map(|each| each[rounds - 1]);
    match last.all(|record| (record.wrote, record.read) == (0, 0)) {
        true => Ok(()),
        false => Err("not back at work".to_owned()),
    }
}

/// Late commands have all the room for a while: what is posted then waits, but not for ever.
fn what_has_no_room_waits_for_it(module: &Module) -> Result<(), String> {
    let timeout = Duration::from_millis(300);
    let setting = jammed(Setting { rounds: 12, timeout, ..Setting::new(Sharing::Exclusive, 1, 1) });
    let [timed_out, unsent] =
        [abi::STATUS_TIMED_OUT, abi::STATUS_NOT_SUBMITTED].map(|code| abi::STATUS_LIBRARY | code);
    for seed in seeds(4) {
        let ran = Fixture::new(&setting).run(module, seed, |_| ()).map_err(|error| format!("{error:#}"))?;
        let told = || ran.records.iter().flat_map(|record| [record.wrote, record.read]);
        if let Some(status) = told().find(|status| ![0, timed_out, unsent].contains(status)) {
            return Err(format!("seed {seed}: status {status:#x}"));
        }
        if !told().any(|status| status == unsent) {
            return Err(format!("seed {seed}: nobody was told that nothing was sent: not submitted"));
        }
        back_at_work(&ran, 12)?;
    }
    Ok(())
}

fn a_stop_aborts(module: &Module) -> Result<(), String> {
    let aborted = abi::STATUS_LIBRARY | abi::STATUS_ABORTED;
    for seed in seeds(SEEDS) {
        let fixture = Fixture::new(&Setting { rounds: 60, ..Setting::new(Sharing::Exclusive, 2, 2) });
        let stop = |round| {
            if round == 300 + 40 * seed {
                fixture.stop.window().store_u32(0, 1, Ordering::Relaxed);
            }
        };
        let ran = fixture.run(module, seed, stop).map_err(|error| format!("{error:#}"))?;
        if !ran.records.iter().any(|record| record.read == aborted) {
            return Err(format!("seed {seed}: nothing was aborted"));
        }
    }
    Ok(())
}

fn agents_go_over_to_the_next_queue(module: &Module) -> Result<(), String> {
    for seed in seeds(SEEDS) {
        let fixture = Fixture::new(&Setting { rounds: 12, ..Setting::new(Sharing::Exclusive, 1, 2) });
        let give_up = |round: u64| {
            if round == 100 + 20 * seed {
                fixture.several.queues[0].declare_lost(0);
            }
            if round > 100 && round.is_multiple_of(50) {
                fixture.several.ssds[0].recovery().poll();
            }
        };
        let ran = fixture.run(module, seed, give_up).map_err(|error| format!("{error:#}"))?;
        back_at_work(&ran, 12)?;
    }
    Ok(())
}
