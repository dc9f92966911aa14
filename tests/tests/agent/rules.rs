//! Each rule of agents, as built and switched off.

use warpbell::Sharing;
use warpbell_kernels::cpu::Module;
use warpbell_tests::seeds;

use crate::bed::*;
use crate::work::slow_setting;

/// Seeds that a broken rule has to show itself.
const MOST_SEEDS: u64 = 60;

type Check = fn(&Module) -> Result<(), String>;

/// Switch, check, and what the check says then.
const RULES: [(&str, Check, &str); 8] = [
    ("MAIL_NO_FENCE_POST", blocks_go_there_and_back, "first bad block Some"),
    ("MAIL_NO_FENCE_TAKE", blocks_go_there_and_back, "P2: "),
    ("MAIL_NO_FENCE_ANSWER", blocks_go_there_and_back, "P3: "),
    ("MAIL_NO_FENCE_DONE", blocks_go_there_and_back, "P4: "),
    ("MAIL_SLOT_REUSED", an_answer_is_to_its_request, "seed "),
    ("REQUEST_TAKEN_TWICE", each_request_is_one_command, "seed "),
    ("EVERY_BOX_SERVED", each_request_is_one_command, "seed "),
    ("AGENT_LEAVES_EARLY", what_was_posted_is_answered, "seed "),
];

#[test]
fn each_rule_holds_and_is_missed_when_it_is_off() {
    for (switch, check, says) in RULES {
        assert_eq!(check(&MODULE), Ok(()), "as built, {switch}");
        let broken = source().mutate(switch).load().expect("compiles");
        let noticed = check(&broken).err().unwrap_or_default();
        assert!(noticed.contains(says) && !noticed.is_empty(), "{switch} is not noticed: {noticed:?}");
    }
}

fn each_run(
    module: &Module,
    setting: &Setting,
    most: u64,
    judge: impl Fn(&Bed, &Ran) -> bool,
) -> Result<(), String> {
    for seed in seeds(most) {
        let bed = Bed::new(setting);
        let ran = bed.run(module, seed, |_| ()).map_err(|error| format!("{error:#}"))?;
        if !judge(&bed, &ran) {
            return Err(format!("seed {seed}: {}", ran.story()));
        }
    }
    Ok(())
}

fn blocks_go_there_and_back(module: &Module) -> Result<(), String> {
    each_run(module, &Setting::new(Sharing::Exclusive, 2, 2), SEEDS, |_, ran| ran.is_good())
}

fn an_answer_is_to_its_request(module: &Module) -> Result<(), String> {
    each_run(module, &slow_setting(Sharing::Exclusive), MOST_SEEDS, |bed, ran| {
        bed.has_what_was_written(ran) && ran.records.iter().all(|record| record.wrong == 0)
    })
}

fn each_request_is_one_command(module: &Module) -> Result<(), String> {
    let setting = Setting::new(Sharing::Exclusive, 2, 3);
    each_run(module, &setting, SEEDS, |_, ran| ran.is_good() && ran.requests() == 2 * setting.blocks() + 3)
}

fn what_was_posted_is_answered(module: &Module) -> Result<(), String> {
    let setting = Setting { flags: TWO_AT_ONCE | GOES_AT_ONCE, ..Setting::new(Sharing::Exclusive, 2, 3) };
    each_run(module, &setting, MOST_SEEDS, |_, ran| ran.words.iter().all(|word| *word == ANSWERED))
}
