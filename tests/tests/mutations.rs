//! Tier S: every rule of the protocol that can be switched off at compile time, and whether the simulation notices.
//! A mutation that no seed shows is a hole in the simulation.

use std::collections::BTreeSet;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use warpbell::recovery_mutation as recovery;
use warpbell_driver::mutation::Mutation;
use warpbell_kernels::HEADERS;
use warpbell_kernels::cpu::Module;
use warpbell_sim::sim::{self, Plan, kernel};
use warpbell_softctl::test_hooks::Defect;

/// Seeds that a mutation has to show itself.
const MOST_SEEDS: u64 = 10_000;

/// What catches each rule that is off: of these checks one must, and nothing else counts. A crash, a panic of the
/// harness and a failed call of the host are no checks.
const CAUGHT_BY: &[(&str, &[&str])] = &[
    ("NO_TURN", &["monitor: ", "violation StaleEntry"]),
    ("RING_AFTER_TURN", &["monitor: two writers"]),
    ("RING_IF_FIRST", &["no progress"]),
    ("NO_FENCE_DOORBELL", &["monitor: entry not written", "violation StaleEntry"]),
    ("NO_FENCE_TURN", &["monitor: entry not written", "violation StaleEntry"]),
    ("NO_FENCE_AFTER_DOORBELL", &["monitor: "]),
    ("NO_ROOM_CHECK", &["monitor: entry overwritten", "monitor: outstanding", "monitor: doorbell value"]),
    ("ROOM_OFF_BY_ONE", &["monitor: outstanding", "monitor: doorbell value"]),
    ("NO_LOCK", &["monitor: answer without the lock", "monitor: two writers"]),
    ("NO_FENCE_UNLOCK", &["monitor: entry overwritten", "monitor: head beyond tail", "spurious completion"]),
    ("REPORTED_EARLY", &["monitor: entry overwritten", "monitor: outstanding"]),
    ("TRY_ONCE", &["deadline", "no progress"]),
    ("NO_REAP_IN_SUBMIT", &["deadline", "no progress"]),
    ("FREE_BY_OTHER", &["monitor: identifier in flight", "record: status", "spurious completion"]),
    (
        "REUSE_AT_TIMEOUT",
        &["monitor: identifier in flight", "violation CidInFlight", "monitor: answer without"],
    ),
    ("PHASE_FROM_WRAPPED_HEAD", &["spurious completion", "monitor: ", "no progress"]),
    ("STATUS_TWICE", &["record: answered twice"]),
    ("NO_DEADLINE", &["deadline"]),
    ("LAZY_CQ_TOO_LATE", &["no progress"]),
    ("SQE_UNDEFINED_DWORD", &["violation "]),
    ("STALE_TOKEN_ACCEPTED", &["record: answered twice"]),
    ("DBBUF_ACQ_REL", &["no progress"]),
    ("DBBUF_EVENT_FIRST", &["no progress"]),
    ("BUFFER_FREE_AT_TIMEOUT", &["contents", "durability"]),
    ("BUFFER_FREE_AT_LOSS", &["contents", "durability"]),
    ("ID_LIVES_ON_AFTER_LOSS", &["record: answered twice"]),
    ("WORD_BEFORE_PAYLOAD", &["monitor: answer before a fence"]),
    ("TOKEN_OF_RECYCLED_ID", &["record: answered twice", "record: status"]),
    ("DEADLINE_IGNORED_IN_SUBMIT", &["deadline"]),
    (
        "QUARANTINE_LEFT_EARLY",
        &["monitor: identifier in flight", "violation CidInFlight", "monitor: answer without"],
    ),
    (
        "ATTACH_FREES_PENDING",
        &["monitor: identifier in flight", "violation CidInFlight", "monitor: answer without"],
    ),
    ("MASK_OF_BEFORE", &["recovery"]),
    ("ALARM_BEFORE_QUARANTINE", &["unexplained"]),
    ("GENERATION_STUCK", &["record: answered twice", "record: status"]),
    ("SURPLUS_GIVES_ROOM", &["monitor: ", "violation DoorbellOverrun", "no progress"]),
    ("REPEATED_IN_ONE_POLL", &["monitor: ", "violation DoorbellOverrun", "no progress"]),
    ("HAZARD_NOT_TAKEN", &["monitor: queue not held"]),
    ("NO_FENCE_HAZARD", &["monitor: queue not held"]),
    ("HAZARD_LEFT_EARLY", &["monitor: queue not held", "monitor: foreign doorbell"]),
    ("HAZARD_KEPT", &["leak", "recovery"]),
    ("OLD_HAZARD_LEFT_FIRST", &["monitor: queue not held"]),
    ("DEAD_IGNORED", &["recovery"]),
    ("OLD_EPOCH_ACCEPTED", &["record: answered twice", "record: status"]),
    ("RETRY_DESPITE_DNR", &["recovery"]),
    ("RETRY_UNBOUNDED", &["recovery"]),
    ("LEASE_UNCHECKED", &["unexplained"]),
    ("SuccessorBeforeDeletion", &["recovery"]),
    ("StateAfterDeletion", &["recovery"]),
    ("IdFreeWhileHeld", &["recovery", "monitor: foreign doorbell"]),
    ("WordsKept", &["recovery"]),
    ("EpochKept", &["recovery"]),
    ("SettleForEver", &["recovery"]),
    ("AbortUnchecked", &["recovery"]),
    ("ResetWithoutLoss", &["recovery"]),
    ("ResetWithoutBound", &["recovery"]),
    ("IdleFlush", &["durability"]),
    ("LostWrites", &["contents"]),
];
/// Rules that only plans with recovery can show.
const OF_RECOVERY: &[&str] = &[
    "MASK_OF_BEFORE",
    "HAZARD_NOT_TAKEN",
    "NO_FENCE_HAZARD",
    "HAZARD_LEFT_EARLY",
    "HAZARD_KEPT",
    "OLD_HAZARD_LEFT_FIRST",
    "DEAD_IGNORED",
    "OLD_EPOCH_ACCEPTED",
    "RETRY_DESPITE_DNR",
    "RETRY_UNBOUNDED",
    "LEASE_UNCHECKED",
];

/// Tests of layers that the simulation's kernel does not use. They list the rules that they catch.
const OTHER_TESTS: &[&str] = &[
    include_str!("agent/rules.rs"),
    include_str!("files.rs"),
    include_str!("laboratory.rs"),
    include_str!("order.rs"),
    include_str!("requests/rules.rs"),
    include_str!("requests/io_rules.rs"),
    include_str!("volume/rules.rs"),
    include_str!("volume/command_rules.rs"),
    include_str!("stream/rules.rs"),
    include_str!("cache/rules.rs"),
    include_str!("../../kernels/tests/cache/run.sh"),
];

/// Rules that `exhaustive` alone catches: off, they cost a wait that ends by its deadline at the latest, with the answer.
const OF_EXHAUSTIVE: &[&str] = &["WORDS_NOT_READ_AGAIN"];

/// Whether another test switches this rule off, and fails unless that is noticed.
fn is_caught_elsewhere(rule: &str) -> bool {
    if OF_EXHAUSTIVE.contains(&rule) {
        return true;
    }
    let ways = [format!("(\"{rule}\", "), format!(" {rule}:")];
    OTHER_TESTS.iter().any(|text| ways.iter().any(|way| text.contains(way)))
}

/// The rule of the library's recovery that has this name.
fn of_recovery(rule: &str) -> Option<&'static recovery::Mutation> {
    recovery::Mutation::ALL.iter().find(|mutation| format!("{mutation:?}") == rule)
}

/// The plan of a seed that may show a rule to be off.
fn plan_for(rule: &str, seed: u64) -> Plan {
    if OF_RECOVERY.contains(&rule) || of_recovery(rule).is_some() {
        Plan::draw_recovery(seed)
    } else {
        Plan::draw(seed)
    }
}

/// What counts for a rule that is not listed.
const ANY_CHECK: &[&str] = &[
    "monitor: ",
    "violation ",
    "record: ",
    "no progress",
    "deadline",
    "contents",
    "durability",
    "unexplained",
    "spurious",
    "recovery",
    "leak",
];

/// Whether one of the checks that must catch a rule did.
fn is_caught(rule: &str, checks: &[String]) -> bool {
    let listed = CAUGHT_BY.iter().find(|(name, _)| *name == rule).map(|(_, checks)| *checks);
    let accepted = listed.unwrap_or(ANY_CHECK);
    checks.iter().any(|check| accepted.iter().any(|accepted| check.starts_with(accepted)))
}

/// Before a rule: not only that it is caught, but that its failure replays and shrinks.
const PLANTED: &str = "planted::";
/// What `--hunt RULE` prints before what it found: seeds, checks, an example, seconds.
const FOUND: &str = "found\t";

/// One mutation and what became of it.
struct Tried {
    rule: String,
    /// Seeds, checks and an example; or why there are none.
    caught: Result<Vec<String>, String>,
    took: Duration,
}

/// The switches of the device library, from the header that has them, and those of the driver.
fn rules() -> Vec<String> {
    let (_, header) = HEADERS.iter().find(|(name, _)| *name == "warpbell/mutation.cuh").expect("the header");
    let row = |line: &'static str| {
        line.strip_prefix("WARPBELL_SWITCH(").or_else(|| line.strip_prefix("WARPBELL_CONSTANT("))
    };
    let rows = header.lines().filter_map(row);
    let device = rows.filter_map(|row| row.split(',').next().map(str::to_owned));
    let device = device.filter(|rule| !is_caught_elsewhere(rule));
    let host = Mutation::ALL.iter().map(|mutation| format!("{mutation:?}"));
    let recovery = recovery::Mutation::ALL.iter().map(|mutation| format!("{mutation:?}"));
    let planted = ["RING_IF_FIRST"].map(|rule| format!("{PLANTED}{rule}"));
    let controller = DEFECTS.iter().map(|defect| format!("{defect:?}"));
    device.chain(host).chain(recovery).chain(controller).chain(planted).collect()
}

/// Mistakes of the controller itself.
const DEFECTS: [Defect; 2] = [Defect::IdleFlush, Defect::LostWrites];

fn defect_number(defect: Option<Defect>) -> u64 {
    DEFECTS.iter().position(|known| Some(*known) == defect).map_or(0, |at| at as u64 + 1)
}

/// Whether the same plan has no finding with every rule on, the kernel built in the same way.
fn is_right_without(plan: &Plan) -> bool {
    let plan = Plan { defect: 0, ..plan.clone() };
    kernel::plain().is_ok_and(|module| sim::run(&plan, &module, false).findings.is_empty())
}

/// Looks for a seed that shows the rule to be off. In a process of its own: nobody knows what kernels do without it.
fn hunt(rule: &str) -> ExitCode {
    let of_host = Mutation::ALL.iter().find(|mutation| format!("{mutation:?}") == rule);
    let defect = DEFECTS.iter().copied().find(|defect| format!("{defect:?}") == rule);
    let module = match (of_host, of_recovery(rule)) {
        (Some(mutation), _) => {
            mutation.apply();
            kernel::module()
        }
        (None, Some(mutation)) => {
            mutation.apply();
            kernel::module()
        }
        _ if defect.is_some() => kernel::module(),
        _ => kernel::mutant(rule),
    };
    let module = match module {
        Ok(module) => module,
        Err(error) => {
            println!("{error:#}");
            return ExitCode::FAILURE;
        }
    };
    for seed in 1..=MOST_SEEDS {
        let plan = Plan { defect: defect_number(defect), ..plan_for(rule, seed) };
        let verdict = sim::run(&plan, &module, false);
        if let (Some(first), true) = (verdict.findings.first(), is_caught(rule, &verdict.checks())) {
            if of_host.is_none() && of_recovery(rule).is_none() && !is_right_without(&plan) {
                println!("seed {seed} fails with every rule on, too");
                return ExitCode::FAILURE;
            }
            println!("{FOUND}{seed}\t{}\t{first}", verdict.checks().join(", "));
            return ExitCode::SUCCESS;
        }
    }
    println!("not caught in {MOST_SEEDS} seeds");
    ExitCode::FAILURE
}

/// Whether a failure replays exactly, and shrinks to something smaller that replays too, from what is printed for it.
fn replay_and_shrink(plan: &Plan, module: &Module) -> Result<String, String> {
    let (first, second) = (sim::run(plan, module, true), sim::run(plan, module, true));
    if first.findings != second.findings || first.story != second.story {
        return Err(format!("seed {} does not replay", plan.seed));
    }
    let smallest = sim::shrink(plan, module);
    if smallest.plan.total() >= plan.total() {
        return Err(format!("{} commands were not shrunk: {}", plan.total(), smallest.plan));
    }
    let mut typed = Plan::draw(plan.seed);
    for setting in sim::command_line(&smallest.plan).split(" --with ").skip(1) {
        let (name, value) = setting.split_once('=').unwrap_or_default();
        typed.set(name, value.parse().map_err(|_| format!("{setting} cannot be typed"))?);
    }
    let again = sim::run(&typed, module, true);
    if again.findings != smallest.verdict.findings || again.story != smallest.verdict.story {
        return Err(format!("what was shrunk does not replay: {}", smallest.plan));
    }
    Ok(format!("{} commands shrunk to {} in {} runs", plan.total(), smallest.plan.total(), smallest.runs))
}

/// `--planted RULE`: the same for the first seed that shows the rule to be off.
fn planted(rule: &str) -> ExitCode {
    let module = kernel::mutant(rule).expect("a module");
    let plan = (1..MOST_SEEDS).map(Plan::draw).filter(|plan| plan.total() > 64);
    let plan = plan.into_iter().find(|plan| !sim::run(plan, &module, false).findings.is_empty());
    match plan.ok_or("no seed fails".to_owned()).and_then(|plan| {
        let told = replay_and_shrink(&plan, &module)?;
        Ok(format!("{FOUND}{}\treplayed, shrunk and replayed\t{told}", plan.seed))
    }) {
        Ok(text) => println!("{text}"),
        Err(text) => println!("{text}"),
    }
    ExitCode::SUCCESS
}

/// What a process of this program is to do about a rule.
fn arguments_for(rule: &str) -> [&str; 2] {
    match rule.strip_prefix(PLANTED) {
        Some(rule) => ["--planted", rule],
        None => ["--hunt", rule],
    }
}

fn try_one(rule: String) -> Tried {
    let begin = Instant::now();
    let caught =
        std::env::current_exe().and_then(|exe| Command::new(exe).args(arguments_for(&rule)).output());
    let caught = caught.map_err(|error| error.to_string()).and_then(|output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = text.lines().find_map(|line| line.strip_prefix(FOUND)).map(str::to_owned);
        // A crash is noticed too, but names no check.
        let why = || format!("{} {}", text.trim(), output.status);
        found.map(|found| found.split('\t').map(str::to_owned).collect()).ok_or_else(why)
    });
    Tried { rule, caught, took: begin.elapsed() }
}

/// Whether a word of the command line is an option, or the value of one.
fn is_option(word: &str, before: Option<&String>) -> bool {
    word.starts_with('-') || before.is_some_and(|before| before == "--format" || before == "--test-threads")
}

/// The names on the command line, as every harness has them.
fn chosen(words: &[String]) -> BTreeSet<String> {
    let names = words.iter().enumerate().filter(|(at, word)| !is_option(word, words[..*at].last()));
    names.map(|(_, word)| word.clone()).collect()
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("--hunt"), Some(rule)) => return hunt(&rule),
        (Some("--planted"), Some(rule)) => return planted(&rule),
        _ => {}
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let chosen = chosen(&words);
    let mut rules = rules();
    rules.retain(|rule| chosen.is_empty() || chosen.contains(rule));
    // None is ignored.
    rules.retain(|_| !words.iter().any(|word| word == "--ignored"));
    if words.iter().any(|word| word == "--list") {
        rules.iter().for_each(|rule| println!("{rule}: test"));
        return ExitCode::SUCCESS;
    }
    let begin = Instant::now();
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(rule) = rules.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = try_one(rule.clone());
                    results.lock().unwrap_or_else(|error| error.into_inner()).push(result);
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|error| error.into_inner());
    results.sort_by_key(|result| rules.iter().position(|rule| *rule == result.rule));
    let failed = results.iter().filter(|result| result.caught.is_err()).count();
    println!("| mutation | seeds | caught by | for example | seconds |\n| --- | --- | --- | --- | --- |");
    for Tried { rule, caught, took } in &results {
        let cells = match caught {
            Ok(found) => found.join(" | "),
            Err(why) => format!("- | **{why}** | "),
        };
        println!("| {rule} | {cells} | {:.1} |", took.as_secs_f64());
    }
    let word = if failed == 0 && !results.is_empty() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out; finished in {:.2}s\n",
        results.len() - failed,
        begin.elapsed().as_secs_f64()
    );
    if word == "ok" { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
