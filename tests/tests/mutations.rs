//! Bed S: every rule of the protocol that can be switched off at compile time, and whether the simulation notices.
//! A mutation that no seed shows is a hole in the simulation.

use std::collections::BTreeSet;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use warpbell_kernels::HEADERS;
use warpbell_tests::sim::{self, Plan, kernel};

/// Seeds that a mutation has to show itself.
const MOST_SEEDS: u64 = 3000;

/// What `--hunt RULE` prints before what it found: seeds, checks, an example, seconds.
const FOUND: &str = "found\t";

/// One mutation and what became of it.
struct Tried {
    rule: &'static str,
    /// Seeds, checks and an example; or why there are none.
    caught: Result<Vec<String>, String>,
    took: Duration,
}

/// The switches of the device library, each with what it does, from the header that has them.
fn switches() -> Vec<(&'static str, &'static str)> {
    let (_, header) = HEADERS.iter().find(|(name, _)| *name == "warpbell/mutation.cuh").expect("the header");
    let mut found = Vec::new();
    let mut blocks = header.split("#if defined(WARPBELL_MUTATE_");
    blocks.next();
    for block in blocks {
        let (rule, rest) = block.split_once(')').expect("a name in parentheses");
        let why = rest.split("// ").nth(1).and_then(|text| text.split("\n#else").next()).unwrap_or_default();
        found.push((rule, why));
    }
    found
}

/// Looks for a seed that shows the rule to be off. In a process of its own: nobody knows what kernels do without it.
fn hunt(rule: &str) -> ExitCode {
    let module = match kernel::mutant(rule) {
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

fn try_one(rule: &'static str) -> Tried {
    let begin = Instant::now();
    let caught = std::env::current_exe().and_then(|exe| Command::new(exe).args(["--hunt", rule]).output());
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
    if arguments.next().as_deref() == Some("--hunt") {
        return hunt(&arguments.next().unwrap_or_default());
    }
    let chosen: BTreeSet<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let rules: Vec<_> =
        switches().into_iter().filter(|(rule, _)| chosen.is_empty() || chosen.contains(*rule)).collect();
    let begin = Instant::now();
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((rule, _)) = rules.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = try_one(rule);
                    results.lock().unwrap_or_else(|error| error.into_inner()).push(result);
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|error| error.into_inner());
    results.sort_by_key(|result| rules.iter().position(|(rule, _)| *rule == result.rule));
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
