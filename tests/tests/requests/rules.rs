//! Each rule of requests that a group makes together, as built and switched off.

use warpbell::Sharing;
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::{TestVariant, seeds};
use warpbell_softctl::FaultAction;
use warpbell_tests::each_apart;

use crate::batch::{self, BROKEN_BITS, Broken, library};
use crate::fixture::*;
use crate::pieces::{self, PIECES};
use crate::split;
use crate::{lost, order};

/// Seeds that a broken rule has to show itself.
const MOST_SEEDS: u64 = 10;

type Check = fn(&Module) -> Result<(), String>;

/// Switch, check, and what the check says then.
const OF_BATCHES: [(&str, Check, &str); 15] = [
    ("BATCH_ADDED_UNSEEN", requests_are_answered, "slot "),
    ("BATCH_ANSWERED_UNSEEN", requests_are_answered, "slot "),
    ("BATCH_OF_OTHERS", each_request_is_sent_once, "commands"),
    ("BATCH_ONE_ROUND", requests_are_answered, "slot "),
    ("BATCH_FAILURE_HIDDEN", failures_are_told, "slot 39"),
    ("BATCH_BYTES_BEHIND", failures_are_told, "slot 39"),
    ("BATCH_BEGUN_UNSEEN", requests_are_answered, "slot "),
    ("BATCH_SLOT_TAKEN", what_is_refused_is_told, "was said of those added"),
    ("BATCH_REFUSAL_FORGOTTEN", what_is_refused_is_told, "slots were answered"),
    ("BATCH_NUMBERED_UNSEEN", requests_are_answered, "slot "),
    ("BATCH_NOTED_UNSEEN", nothing_is_sent_after_a_failure, "slot 44"),
    ("BATCH_GOES_ON", nothing_is_sent_after_a_failure, "slot 44"),
    ("BATCH_IN_USE_HIDDEN", buffers_in_use_come_first, "slot 39"),
    ("BATCH_FAILURE_OF_WARP", failures_are_told, "told of all"),
    ("BATCH_DEADLINE_OF_EACH_ROUND", all_rounds_have_one_deadline, "took"),
];

const OF_REQUESTS: [(&str, Check, &str); 18] = [
    ("REQUEST_PIECE_LOST", pieces_are_all_sent, "lane "),
    ("REQUEST_DONE_EARLY", pieces_are_all_sent, "lane "),
    ("REQUEST_BYTES_BEHIND", failures_have_their_bytes, "lane "),
    ("REQUEST_GOES_ON", failures_have_their_bytes, "commands were sent"),
    ("REQUEST_STOPS_AT_ONCE", failures_have_their_bytes, "lane "),
    ("ORDER_IGNORED", steps_wait_for_each_other, "step "),
    ("ORDER_KEPT_AFTER_FAILURE", failures_stop_a_class, "step 3"),
    ("DELIVERED_AS_DONE", answers_are_in_order, "round "),
    ("REQUEST_BEGUN_AGAIN", an_object_has_one_request, "lane "),
    ("REQUEST_LAST_FAILURE", the_first_failure_is_told, "lane 0"),
    ("REQUEST_IN_USE_HIDDEN", requests_tell_of_buffers_in_use, "lane 0"),
    ("REQUEST_ANSWER_OF_LANE", failures_have_their_bytes, "lane 0"),
    ("REQUEST_UNSENT_FORGOTTEN", what_was_not_sent_is_not_done, "nobody was told"),
    ("REQUEST_WAITS_FOR_ITSELF", lanes_without_ids_are_refused, "lane 1"),
    ("ORDER_TOO_DEEP", steps_have_places, "round "),
    ("ORDER_BROKEN_FOR_EVER", failures_stop_a_class, "after all others"),
    ("ORDER_IGNORES_LOSS", a_lost_queue_ends_a_class, "not done after"),
    ("DELIVERY_IMPATIENT", steps_wait_for_ids, "round "),
];

#[test]
fn each_rule_holds() {
    OF_REQUESTS
        .iter()
        .for_each(|(switch, check, _)| assert_eq!(check(&PIECES), Ok(()), "as built, {switch}"));
    OF_BATCHES.iter().for_each(|(switch, check, _)| assert_eq!(check(&MODULE), Ok(()), "as built, {switch}"));
}

#[test]
fn each_rule_of_requests_is_missed_when_it_is_off() {
    let test = "rules::each_rule_of_requests_is_missed_when_it_is_off";
    each_apart(test, OF_REQUESTS.map(|(switch, ..)| switch), |rule| {
        expect_missed(pieces::source(), &OF_REQUESTS, rule);
    });
}

#[test]
fn each_rule_of_batches_is_missed_when_it_is_off() {
    let test = "rules::each_rule_of_batches_is_missed_when_it_is_off";
    each_apart(test, OF_BATCHES.map(|(switch, ..)| switch), |rule| {
        expect_missed(source(), &OF_BATCHES, rule)
    });
}

fn expect_missed(source: Variant, rules: &[(&str, Check, &str)], rule: &str) {
    let (switch, check, says) = rules.iter().find(|(switch, ..)| *switch == rule).expect("a rule");
    let noticed = check(&source.mutate(switch).loaded().expect("compiles")).err().unwrap_or_default();
    println!("{switch}: {noticed}");
    assert!(noticed.contains(says), "{switch} is not noticed: {noticed:?}");
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

fn what_is_refused_is_told(module: &Module) -> Result<(), String> {
    let setting = batch::refused(Sharing::Exclusive);
    seeds(MOST_SEEDS).try_for_each(|seed| batch::check_refused(&run(&setting, module, seed)?))
}

fn nothing_is_sent_after_a_failure(module: &Module) -> Result<(), String> {
    // The request goes on in a second round.
    let broken = Broken { slot: 44, block: 1 };
    let setting = broken.setting(Sharing::Exclusive);
    seeds(300).try_for_each(|seed| broken.check(&run(&setting, module, seed)?))
}

fn buffers_in_use_come_first(module: &Module) -> Result<(), String> {
    let setting = batch::in_use(Sharing::Exclusive);
    seeds(MOST_SEEDS).try_for_each(|seed| batch::check_in_use(&run(&setting, module, seed)?))
}

fn all_rounds_have_one_deadline(module: &Module) -> Result<(), String> {
    let setting = batch::slow(Sharing::Exclusive);
    seeds(MOST_SEEDS).try_for_each(|seed| batch::check_slow(&run(&setting, module, seed)?))
}

fn an_object_has_one_request(module: &Module) -> Result<(), String> {
    let work = split::again(Sharing::Exclusive);
    seeds(MOST_SEEDS).try_for_each(|seed| split::check(module, &work, seed).map(|_| ()))
}

fn the_first_failure_is_told(module: &Module) -> Result<(), String> {
    let work = split::twice_broken(Sharing::Exclusive, FaultAction::Fail { status: split::OTHER });
    seeds(MOST_SEEDS).try_for_each(|seed| split::check_twice_broken(&work.run(module, seed)?, BROKEN_BITS))
}

fn requests_tell_of_buffers_in_use(module: &Module) -> Result<(), String> {
    let work = split::twice_broken(Sharing::Exclusive, FaultAction::Drop);
    let told = library(abi::STATUS_TIMED_OUT);
    seeds(MOST_SEEDS).try_for_each(|seed| split::check_twice_broken(&work.run(module, seed)?, told))
}

fn what_was_not_sent_is_not_done(module: &Module) -> Result<(), String> {
    let work = split::cancelled(Sharing::Exclusive);
    seeds(MOST_SEEDS).try_for_each(|seed| split::check_cancelled(&work.run(module, seed)?))
}

fn lanes_without_ids_are_refused(module: &Module) -> Result<(), String> {
    let work = split::starved(Sharing::Exclusive);
    seeds(MOST_SEEDS).try_for_each(|seed| split::check_starved(&work.run(module, seed)?))
}

fn steps_have_places(module: &Module) -> Result<(), String> {
    let work = order::steps(Sharing::Exclusive, order::IN_TURN);
    seeds(MOST_SEEDS).try_for_each(|seed| order::check(&work.run(module, seed)?))
}

fn a_lost_queue_ends_a_class(module: &Module) -> Result<(), String> {
    let one = |seed| lost::check_ended(&lost::ended(Sharing::Exclusive, seed).run(module, seed)?);
    seeds(2).try_for_each(one)
}

fn steps_wait_for_ids(module: &Module) -> Result<(), String> {
    let work = order::narrow(Sharing::Exclusive);
    seeds(MOST_SEEDS).try_for_each(|seed| order::check(&work.run(module, seed)?))
}
