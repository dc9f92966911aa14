//! Arbitrary commands, doorbells, register writes and mappings, for as many steps as one asks for:
//! `cargo test --release -p warpbell-softctl --test arbitrary -- --steps 10000000`.
//!
//! Whatever a client does, the controller does not panic, touches no memory that is not mapped for it, answers every
//! command that it was given exactly once, and comes up again after a reset. A failure names its seed;
//! `--seed SEED` replays that episode alone, `--input FILE` one that the fuzzer found (docs/simulation.md).
#![expect(clippy::print_stdout, reason = "a test with its own harness reports by itself")]

mod commands;
mod episode;
mod memory;
mod queues;
mod random;
mod world;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::time::Instant;

use warpbell_softctl::Rule;

/// Steps unless `--steps` or the environment variable says otherwise: some seconds without optimisation.
const STEPS: u64 = 300_000;
/// The seed of the first episode unless `--seed` is given.
const SEED: u64 = 1;

/// What the command line asks for.
struct Options {
    steps: u64,
    /// Only the episode with this seed.
    seed: Option<u64>,
    /// Only the episode that this file describes: an input of the fuzz target `controller`.
    input: Option<PathBuf>,
    first: u64,
    run: bool,
    list: bool,
}

impl Options {
    fn read() -> Options {
        let steps = std::env::var("WARPBELL_ARBITRARY_STEPS").ok().and_then(|text| text.parse().ok());
        let steps = steps.unwrap_or(STEPS);
        let mut options = Options { steps, seed: None, input: None, first: SEED, run: true, list: false };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            if argument == "--input" {
                options.input = arguments.next().map(PathBuf::from);
                continue;
            }
            let mut number = |name: &str| {
                let text = arguments.next().unwrap_or_default();
                text.parse().unwrap_or_else(|_| panic!("{name} {text:?}: must be a number"))
            };
            match argument.as_str() {
                "--steps" => options.steps = number("--steps"),
                "--seed" => options.seed = Some(number("--seed")),
                "--first" => options.first = number("--first"),
                "--list" => options.list = true,
                // None is ignored.
                "--ignored" => options.run = false,
                // What `cargo test` hands to every test program: options for the usual harness, and a filter.
                "--test-threads" | "--skip" | "--format" | "--color" => drop(arguments.next()),
                filter if !filter.starts_with('-') => options.run &= "arbitrary".contains(filter),
                _ => {}
            }
        }
        options
    }
}

/// What all episodes together did.
#[derive(Default)]
struct Sum {
    steps: u64,
    episodes: u64,
    tally: world::Tally,
    rules: BTreeMap<Rule, u64>,
}

impl Sum {
    fn add(&mut self, outcome: episode::Outcome) {
        self.steps += outcome.steps;
        self.episodes += 1;
        let (sum, one) = (&mut self.tally, outcome.tally);
        sum.commands += one.commands;
        sum.completions += one.completions;
        sum.failed += one.failed;
        sum.refused_doorbells += one.refused_doorbells;
        sum.resets += one.resets;
        sum.fatal += one.fatal;
        sum.unmapped += one.unmapped;
        for rule in outcome.rules {
            *self.rules.entry(rule).or_default() += 1;
        }
    }

    fn print(&self, took: std::time::Duration) {
        let tally = &self.tally;
        println!("{} steps in {} episodes, {:.1} s", self.steps, self.episodes, took.as_secs_f64());
        println!(
            "{} commands, {} completions ({} with an error), {} doorbells refused, {} resets, {} fatal, {} unmapped",
            tally.commands,
            tally.completions,
            tally.failed,
            tally.refused_doorbells,
            tally.resets,
            tally.fatal,
            tally.unmapped
        );
        for (rule, count) in &self.rules {
            println!("{count:10} {rule}");
        }
        println!("{} of {} rules were broken", self.rules.len(), Rule::ALL.len());
    }
}

fn main() {
    let options = Options::read();
    if !options.run {
        return;
    }
    if options.list {
        println!("arbitrary: test");
        return;
    }
    if let Some(path) = &options.input {
        let input = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        println!("{} steps", episode::run_input(&input, true).steps);
        return;
    }
    let start = Instant::now();
    let mut sum = Sum::default();
    let mut seed = options.seed.unwrap_or(options.first);
    while sum.steps < options.steps {
        let episode =
            std::panic::catch_unwind(AssertUnwindSafe(|| episode::run(seed, options.seed.is_some())));
        match episode {
            Ok(outcome) => sum.add(outcome),
            Err(_) => {
                println!("arbitrary: seed {seed} failed; replay it with");
                println!("  cargo test -p warpbell-softctl --test arbitrary -- --seed {seed}");
                std::process::exit(101);
            }
        }
        if options.seed.is_some() {
            break;
        }
        seed += 1;
    }
    sum.print(start.elapsed());
}
