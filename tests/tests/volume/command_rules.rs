//! Each rule of commands to volumes, as built and switched off.

use warpbell::{Sharing, VolumeLayout};
use warpbell_kernels::{abi, cpu};
use warpbell_nvme::NvmOpcode;
use warpbell_sim::{TestVariant, seeds};
use warpbell_tests::each_apart;

use crate::commands::{COMMANDS, Command, DIFFERS, counted, run, source};
use crate::fixture::*;
use crate::layouts::unlike;
use crate::optional::{
    a_replica_that_rejects_a_command_stays, what_one_ssd_lacks_is_sent_to_none,
    zeroes_are_split_as_the_ssd_takes_them,
};
use crate::replicas::replicas;

type Check = fn(&cpu::Module) -> Result<(), String>;

/// Switch, check, and what the check says then.
const RULES: [(&str, Check, &str); 6] = [
    ("COMPARED_EVERYWHERE", one_replica_is_compared, "Compares of 12 parts"),
    ("DIFFERENCE_IS_FAILURE", a_difference_is_an_answer, "errors: [MemberReport"),
    ("COMMAND_UNCHECKED", flags_are_looked_at, "status 0x0"),
    ("MISSING_COMMAND_SENT", what_one_ssd_lacks_is_sent_to_none, "is not supported"),
    ("REJECTING_REPLICA_DROPPED", a_replica_that_rejects_a_command_stays, "status 0x0"),
    ("ZEROES_LIMIT_IGNORED", zeroes_are_split_as_the_ssd_takes_them, "WZSL is 8192"),
];

#[test]
fn each_rule_of_commands_holds() {
    RULES.iter().for_each(|(switch, check, _)| assert_eq!(check(&COMMANDS), Ok(()), "as built, {switch}"));
}

#[test]
fn each_rule_of_commands_is_missed_when_it_is_off() {
    let name = "command_rules::each_rule_of_commands_is_missed_when_it_is_off";
    each_apart(name, RULES.map(|(switch, ..)| switch), |rule| {
        let (switch, check, says) = RULES.into_iter().find(|(switch, ..)| *switch == rule).expect("a rule");
        let broken = source().mutate(switch).loaded().expect("compiles");
        let noticed = check(&broken).err().unwrap_or_default();
        println!("{switch}: {noticed:.200}");
        assert!(noticed.contains(says), "{switch} is not noticed: {noticed:?}");
    });
}

fn one_replica_is_compared(module: &cpu::Module) -> Result<(), String> {
    for seed in seeds(SEEDS) {
        let made = replicas(Sharing::Shared, |disk| disk).open();
        // Six chunks, of 24 blocks, for each warp.
        let command = Command { blocks: 6 * 24, ..Command::new(NvmOpcode::COMPARE, 0, true) };
        run(&made, module, seed, command);
        let compares: u64 = counted(&made, NvmOpcode::COMPARE).iter().sum();
        if compares != command.all_blocks() / 24 {
            return Err(format!("seed {seed}: {compares} Compares of {} parts", command.all_blocks() / 24));
        }
    }
    Ok(())
}

fn a_difference_is_an_answer(module: &cpu::Module) -> Result<(), String> {
    for (seed, layout) in seeds(SEEDS).flat_map(|seed| [(seed, None), (seed, Some(VolumeLayout::Stripe))]) {
        let striped = |layout| Fixture::new(unlike(), Sharing::Shared, layout);
        let made = layout.map_or_else(|| replicas(Sharing::Shared, |disk| disk), striped).open();
        let records = run(&made, module, seed, Command::new(NvmOpcode::COMPARE, 5, false));
        if let Some(record) = records.iter().find(|record| record.status != DIFFERS) {
            return Err(format!("seed {seed}: status {:#x}", record.status));
        }
        let report = made.report();
        if report.iter().any(|member| member.errors != 0) {
            return Err(format!("seed {seed}: errors: {report:?}"));
        }
    }
    Ok(())
}

fn flags_are_looked_at(module: &cpu::Module) -> Result<(), String> {
    let invalid = abi::STATUS_LIBRARY | abi::STATUS_INVALID_FIELD;
    let made = replicas(Sharing::Shared, |disk| disk).open();
    let command = Command { flags: 1, ..Command::new(NvmOpcode::READ, 0, false) };
    match run(&made, module, 1, command).iter().find(|record| record.status != invalid) {
        Some(record) => Err(format!("status {:#x}", record.status)),
        None => Ok(()),
    }
}
