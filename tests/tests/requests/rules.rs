//! Each rule of requests that a group makes together, as built and switched off.

use warpbell::Sharing;
use warpbell_kernels::cpu::Module;
use warpbell_tests::seeds;

use crate::batch::Broken;
use crate::bed::*;
use crate::order;
use crate::pieces::{self, PIECES};
use crate::split;

/// Seeds that a broken rule has to show itself.
const MOST_SEEDS: u64 = 10;

type Check = fn(&Module) -> Result<(), String>;

/// Switch, check, and what the check says then.
const OF_BATCHES: [(&str, Check, &str); 6] = [
    ("BATCH_ADDED_UNSEEN", requests_are_answered, "slot "),
    ("BATCH_ANSWERED_UNSEEN", requests_are_answered, "slot "),
    ("BATCH_OF_OTHERS", each_request_is_sent_once, "commands"),
    ("BATCH_ONE_ROUND", requests_are_answered, "slot "),
    ("BATCH_FAILURE_HIDDEN", failures_are_told, "slot 39"),
    ("BATCH_BYTES_BEHIND", failures_are_told, "slot 39"),
];

const OF_REQUESTS: [(&str, Check, &str); 7] = [
    ("REQUEST_PIECE_LOST", pieces_are_all_sent, "lane "),
    ("REQUEST_DONE_EARLY", pieces_are_all_sent, "lane "),
    ("REQUEST_BYTES_BEHIND", failures_have_their_bytes, "lane "),
    ("REQUEST_GOES_ON", failures_have_their_bytes, "commands were sent"),
    ("ORDER_IGNORED", steps_wait_for_each_other, "step "),
    ("ORDER_KEPT_AFTER_FAILURE", failures_stop_a_class, "step 3"),
    ("DELIVERED_AS_DONE", answers_are_in_order, "round "),
];

#[test]
fn each_rule_of_requests_holds_and_is_missed_when_it_is_off() {
    for (switch, check, says) in OF_REQUESTS {
        assert_eq!(check(&PIECES), Ok(()), "as built, {switch}");
        let broken = pieces::source().mutate(switch).load().expect("compiles");
        let noticed = check(&broken).err().unwrap_or_default();
        assert!(noticed.contains(says), "{switch} is not noticed: {noticed:?}");
    }
}

#[test]
fn each_rule_of_batches_holds_and_is_missed_when_it_is_off() {
    for (switch, check, says) in OF_BATCHES {
        assert_eq!(check(&MODULE), Ok(()), "as built, {switch}");
        let broken = source().mutate(switch).load().expect("compiles");
        let noticed = check(&broken).err().unwrap_or_default();
        assert!(noticed.contains(says), "{switch} is not noticed: {noticed:?}");
    }
}

fn run(setting: &Setting, module: &Module, seed: u64) -> Result<Ran, String> {
    setting.run(module, seed).map_err(|error| format!("{error:#}"))
}

fn requests_are_answered(module: &Module) -> Result<(), String> {
    let setting = Setting { most: 2, ..Setting::new(Sharing::Exclusive, 1, 2) };
    seeds(MOST_SEEDS).try_for_each(|seed| run(&setting, module, seed)?.check())
}

fn each_request_is_sent_once(module: &Module) -> Result<(), String> {
    let setting = Setting::new(Sharing::Shared, 1, 3);
    let expected = 2 * setting.commands_of_group();
    seeds(MOST_SEEDS).try_for_each(|seed| match run(&setting, module, seed)?.commands() {
        sent if sent == expected => Ok(()),
        sent => Err(format!("seed {seed}: {sent} commands for {expected}")),
    })
}

fn failures_are_told(module: &Module) -> Result<(), String> {
    let broken = Broken { slot: 39, block: 3 };
    let setting = broken.setting(Sharing::Exclusive);
    seeds(MOST_SEEDS).try_for_each(|seed| broken.check(&run(&setting, module, seed)?))
}

fn pieces_are_all_sent(module: &Module) -> Result<(), String> {
    let work = split::crowded(Sharing::Exclusive);
    seeds(MOST_SEEDS).try_for_each(|seed| split::check(module, &work, seed).map(|_| ()))
}

fn failures_have_their_bytes(module: &Module) -> Result<(), String> {
    let work = split::broken(Sharing::Exclusive, true);
    seeds(MOST_SEEDS).try_for_each(|seed| split::check_broken(&work.run(module, seed)?))
}

fn steps_wait_for_each_other(module: &Module) -> Result<(), String> {
    let work = order::hung(Sharing::Exclusive);
    seeds(MOST_SEEDS).try_for_each(|seed| order::check_hung(&work.run(module, seed)?))
}

fn failures_stop_a_class(module: &Module) -> Result<(), String> {
    let work = order::broken(Sharing::Exclusive);
    seeds(MOST_SEEDS).try_for_each(|seed| order::check_broken(&work.run(module, seed)?))
}

fn answers_are_in_order(module: &Module) -> Result<(), String> {
    let work = order::slow(Sharing::Exclusive);
    seeds(MOST_SEEDS).try_for_each(|seed| order::check(&work.run(module, seed)?))
}
