//! Tier S, simulation: data before its completion, where both lie in different memory. The controller moves the data of
//! every read a while after its completion (`late_payload`), as writes to two memories may be seen, and all that was
//! sent is there once a register was read, as the answer to a read pushes what was written before it.

use std::time::Duration;

use warpbell::{OrderPolicy, Sharing};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::simulation::{Outcome, Simulation};
use warpbell_sim::{Case, Finding, Places, Schedule, TestVariant, lines, seeds};
use warpbell_softctl::FaultPlan;
use warpbell_tests::each_apart;

/// Seeds that a broken rule has to show itself.
const MOST_SEEDS: u64 = 20;
/// Completions come before their data, by longer than any poll takes.
const LATE: &str = "[[fault]]\nkind = \"late_payload\"\nby = \"1ms\"\nopcode = \"read\"\n";
/// The same, and the SSD is gone with one of the commands: registers read all ones from then on.
const GONE: &str = "[[fault]]\nkind = \"remove\"\nlba = 40\n\n\
                    [[fault]]\nkind = \"late_payload\"\nby = \"1ms\"\nopcode = \"read\"\n";

type Check = fn(&Module) -> Result<(), String>;

/// Switch, check, and what the check says then.
const RULES: [(&str, Check, &str); 3] = [
    ("NO_FLUSH", data_is_there_with_its_completion, "payload: "),
    ("FLUSH_REGISTER_ALONE", the_memory_of_the_data_is_read_too, "reads for"),
    ("FLUSH_UNANSWERED", what_no_controller_answered_is_not_delivered, "payload: "),
];

fn source() -> Variant {
    Variant::ours().only("queue_test").quick()
}

fn cases(seed: u64) -> impl Iterator<Item = Case> {
    [Sharing::Exclusive, Sharing::Shared].into_iter().flat_map(move |sharing| {
        [Places::RingsApart, Places::DataApart].map(|places| {
            let warps = if sharing == Sharing::Shared { 2 } else { 1 };
            let schedule = Schedule { random: true, ..Schedule::default() };
            let case = Case { seed, sharing, warps, places, schedule, ..Case::new("order") };
            Case { entries: 16, commands: 4, async_depth: 2, ..case }
        })
    })
}

fn run(case: &Case, module: &Module, faults: &str) -> Result<(Simulation, Outcome), String> {
    let faults = FaultPlan::from_toml(faults).map_err(|error| error.to_string())?;
    let config = case.soft_config().faults(faults);
    let mut simulation =
        Simulation::with_config(case, module, config).map_err(|error| format!("{error:#}"))?;
    let outcome = simulation.run().map_err(|error| format!("{error:#}"))?;
    Ok((simulation, outcome))
}

fn right(case: &Case, findings: &[Finding]) -> Result<(), String> {
    match findings {
        [] => Ok(()),
        _ => Err(format!("seed {}, {:?}: {}", case.seed, case.places, lines(findings))),
    }
}

fn each_case(check: impl Fn(&Case) -> Result<(), String>) -> Result<(), String> {
    seeds(MOST_SEEDS).flat_map(cases).try_for_each(|case| check(&case))
}

fn data_is_there_with_its_completion(module: &Module) -> Result<(), String> {
    each_case(|case| {
        let (simulation, mut outcome) = run(case, module, LATE)?;
        outcome.findings.extend(simulation.rig.check_success().map_err(|error| format!("{error:#}"))?);
        right(case, &outcome.findings)
    })
}

/// One read for each flush where data lies in the reader's own memory, else two.
fn the_memory_of_the_data_is_read_too(module: &Module) -> Result<(), String> {
    each_case(|case| {
        let (simulation, outcome) = run(case, module, LATE)?;
        let apart = case.places == Places::DataApart;
        assert_eq!(simulation.rig.attachment.order(), OrderPolicy::Flush { data: apart });
        let (reads, state) = (outcome.counters.register_reads, simulation.rig.state(0));
        let state = state.map_err(|error| format!("{error:#}"))?;
        assert_eq!(state.flush_data != 0, apart);
        let flushes = simulation.flushes();
        match reads == flushes * if apart { 2 } else { 1 } && flushes > 0 {
            true => Ok(()),
            false => Err(format!("seed {}: {reads} reads for {flushes} flushes", case.seed)),
        }
    })
}

fn what_no_controller_answered_is_not_delivered(module: &Module) -> Result<(), String> {
    each_case(|case| {
        // A controller that is gone answers nothing: whoever waits gives up.
        let case = Case { timeout: Duration::from_millis(20), recovery: false, ..case.clone() };
        let (simulation, _) = run(&case, module, GONE)?;
        let allowed = [abi::STATUS_TIMED_OUT, abi::STATUS_NOT_SUBMITTED, abi::STATUS_NO_CID];
        let findings = simulation.rig.check_records(&allowed).map_err(|error| format!("{error:#}"))?;
        right(&case, &findings)
    })
}

/// Each rule, as built and switched off.
mod rules {
    use super::*;

    #[test]
    fn each_rule_holds() {
        let module = Module::builtin().expect("the CPU target");
        RULES.iter().for_each(|(switch, check, _)| assert_eq!(check(&module), Ok(()), "as built, {switch}"));
    }

    #[test]
    fn each_rule_is_missed_when_it_is_off() {
        each_apart("rules::each_rule_is_missed_when_it_is_off", RULES.map(|(switch, ..)| switch), |rule| {
            let (switch, check, says) =
                RULES.into_iter().find(|(switch, ..)| *switch == rule).expect("a rule");
            let noticed =
                check(&source().mutate(switch).loaded().expect("compiles")).err().unwrap_or_default();
            println!("{switch}: {noticed}");
            assert!(noticed.contains(says), "{switch} is not noticed: {noticed:?}");
        });
    }
}

#[test]
fn in_one_memory_nothing_is_read() {
    let module = Module::builtin().expect("the CPU target");
    for case in seeds(4).flat_map(cases) {
        let case = Case { places: Places::Together, ..case };
        let (simulation, outcome) = run(&case, &module, "").expect("runs");
        assert_eq!(simulation.rig.attachment.order(), OrderPolicy::OneMemory);
        assert_eq!((outcome.counters.register_reads, simulation.flushes()), (0, 0));
        outcome.expect_right(&case);
    }
}
