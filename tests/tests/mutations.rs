//! Bed S: every rule of the protocol that can be switched off at compile time, and whether the simulation notices.
//! A mutation that no seed shows is a hole in the simulation.

use std::collections::BTreeSet;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use warpbell_driver::mutation::Mutation;
use warpbell_kernels::HEADERS;
use warpbell_kernels::cpu::Module;
use warpbell_tests::sim::{self, Plan, kernel};

/// Seeds that a mutation has to show itself.
const MOST_SEEDS: u64 = 10_000;

/// Before a rule: not only that it is caught, but that its failure replays and shrinks.
const PLANTED: &str = "planted: ";
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
    let blocks = header.split("#if defined(WARPBELL_MUTATE_").skip(1);
    let device = blocks.filter_map(|block| block.split(')').next().map(str::to_owned));
    let host = Mutation::ALL.iter().map(|mutation| format!("{mutation:?}"));
    let planted = ["RING_IF_FIRST"].map(|rule| format!("{PLANTED}{rule}"));
    device.chain(host).chain(planted).collect()
}

/// Looks for a seed that shows the rule to be off. In a process of its own: nobody knows what kernels do without it.
fn hunt(rule: &str) -> ExitCode {
    let of_host = Mutation::ALL.iter().find(|mutation| format!("{mutation:?}") == rule);
    let module = match of_host {
        Some(mutation) => {
            mutation.apply();
            kernel::module()
        }
        None => kernel::mutant(rule),
    };
    let module = match module {
        Ok(module) => module,
        Err(error) => {
            println!("{error:#}");
            return ExitCode::FAILURE;
        }
    };
    for seed in 1..=MOST_SEEDS {
        let verdict = sim::run(&Plan::draw(seed), &module, false);
        if let Some(first) = verdict.findings.first() {
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
    let plan = (1..MOST_SEEDS).map(Plan::draw).filter(|plan| plan.total() > 8);
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

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("--hunt"), Some(rule)) => return hunt(&rule),
        (Some("--planted"), Some(rule)) => return planted(&rule),
        _ => {}
    }
    let chosen: BTreeSet<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let rules: Vec<_> =
        rules().into_iter().filter(|rule| chosen.is_empty() || chosen.contains(rule)).collect();
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
