//! Bed S: the simulation, seed by seed. A harness of its own: `--help` says how it is used.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use warpbell_kernels::cpu::Module;
use warpbell_softctl::FaultKind;
use warpbell_tests::lines;
use warpbell_tests::sim::{self, Plan, Verdict, command_line, kernel, shrink};

const HELP: &str = "\
The simulation: controller, driver, host and kernels in virtual time, each seed another run.

  --seeds N       runs seeds 1 to N (default 1000; WARPBELL_SEEDS)
  --from N        the first of them (default 1)
  --seed S        runs this seed alone and tells what happened
  --with K=V      changes a setting of that run; may be repeated
  --threads N     runs so many seeds at a time (default: all processors)
  --mutate RULE   switches a rule of the device library off: the run must then fail
  --keep-going    goes on after a seed that fails
";

/// What was asked for.
struct Options {
    seeds: u64,
    from: u64,
    seed: Option<u64>,
    with: Vec<(String, u64)>,
    threads: usize,
    mutate: Option<String>,
    keep_going: bool,
    /// The names given are other tests'.
    skip: bool,
}

impl Options {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
        let seeds = std::env::var("WARPBELL_SEEDS").ok().and_then(|text| text.parse().ok());
        let mut options = Options {
            seeds: seeds.unwrap_or(1000),
            from: 1,
            seed: None,
            with: Vec::new(),
            threads: thread::available_parallelism().map_or(1, usize::from),
            mutate: None,
            keep_going: false,
            skip: false,
        };
        let mut arguments = arguments.peekable();
        while let Some(argument) = arguments.next() {
            let mut number = || {
                let text = arguments.next().ok_or(format!("{argument} wants a number"))?;
                text.parse::<u64>().map_err(|error| format!("{argument} {text}: {error}"))
            };
            match argument.as_str() {
                "--seeds" => options.seeds = number()?,
                "--from" => options.from = number()?,
                "--seed" => options.seed = Some(number()?),
                "--threads" => options.threads = number()?.max(1) as usize,
                "--test-threads" => drop(number()?),
                "--with" => options.with.push(setting(&arguments.next().unwrap_or_default())?),
                "--mutate" => options.mutate = arguments.next(),
                "--keep-going" => options.keep_going = true,
                "--help" | "-h" => return Ok(None),
                // What cargo passes to every harness.
                "--show-output" | "--nocapture" | "--ignored" | "--include-ignored" | "-q" | "--quiet" => {}
                // Cargo's filter of tests: there is one.
                name if !name.starts_with('-') => options.skip |= !"sim".contains(name),
                other => return Err(format!("unknown option {other}; --help lists what there is")),
            }
        }
        Ok(Some(options))
    }

    fn plan(&self, seed: u64) -> Plan {
        let mut plan = Plan::draw(seed);
        for (name, value) in &self.with {
            plan.set(name, *value);
        }
        plan
    }

    /// Whether so many seeds run as they are drawn that every kind of fault must be among them.
    fn wants_every_kind(&self) -> bool {
        self.seeds >= 1000 && self.seed.is_none() && self.with.is_empty() && self.mutate.is_none()
    }

    fn module(&self) -> anyhow::Result<Module> {
        match &self.mutate {
            Some(rule) => kernel::mutant(rule),
            None => kernel::module(),
        }
    }
}

fn setting(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or(format!("--with {text}: write NAME=NUMBER"))?;
    let value = value.parse().map_err(|error| format!("--with {text}: {error}"))?;
    if Plan::draw(1).get(name).is_none() {
        return Err(format!("--with {text}: there are {}", Plan::SETTINGS.join(", ")));
    }
    Ok((name.to_owned(), value))
}

/// Sums over all runs.
#[derive(Default)]
struct Totals {
    runs: u64,
    failed: u64,
    commands: u64,
    faults: BTreeMap<String, u64>,
    statuses: BTreeMap<String, u64>,
    events: BTreeMap<&'static str, u64>,
}

impl Totals {
    fn add(&mut self, verdict: &Verdict) {
        self.runs += 1;
        self.failed += u64::from(!verdict.findings.is_empty());
        self.commands += verdict.commands;
        for fault in &verdict.faults {
            *self.faults.entry(fault.clone()).or_default() += 1;
        }
        for (status, count) in &verdict.statuses {
            *self.statuses.entry(status.clone()).or_default() += count;
        }
        for (event, count) in verdict.events {
            *self.events.entry(event).or_default() += count;
        }
    }

    /// Kinds of faults that no run had.
    fn missing_kinds(&self) -> Vec<String> {
        let kinds = FaultKind::ALL.iter().map(|(kind, _)| format!("{kind:?}"));
        kinds.filter(|kind| !self.faults.contains_key(kind)).collect()
    }

    fn print(&self, begin: Instant) {
        let of = |map: Vec<(String, u64)>| {
            map.into_iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        let seconds = begin.elapsed().as_secs_f64();
        println!("{} runs, {} failed, {} commands, {seconds:.1} s", self.runs, self.failed, self.commands);
        println!("faults injected and survived: {}", of(self.faults.clone().into_iter().collect()));
        println!("statuses: {}", of(self.statuses.clone().into_iter().collect()));
        println!("on the way: {}", of(self.events.iter().map(|(n, c)| ((*n).to_owned(), *c)).collect()));
    }
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) if options.skip => {
            println!("\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out\n");
            return ExitCode::SUCCESS;
        }
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let module = match options.module() {
        Ok(module) => module,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::from(4);
        }
    };
    let begin = Instant::now();
    let totals = match options.seed {
        Some(seed) => replay(&options, seed, &module),
        None => many(&options, &module),
    };
    totals.print(begin);
    let missing = if options.wants_every_kind() { totals.missing_kinds() } else { Vec::new() };
    if !missing.is_empty() {
        println!("never injected: {}", missing.join(", "));
    }
    // One test, however many seeds it took.
    let failed = u64::from(totals.failed != 0 || !missing.is_empty());
    let passed = 1 - failed;
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out; \
         finished in {seconds:.2}s\n"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(options: &Options, seed: u64, module: &Module) -> Totals {
    let plan = options.plan(seed);
    let verdict = sim::run(&plan, module, true);
    println!("{plan}\n{}", verdict.story);
    if !verdict.findings.is_empty() {
        println!("wrong:\n{}", lines(&verdict.findings));
    }
    let mut totals = Totals::default();
    totals.add(&verdict);
    totals
}

fn many(options: &Options, module: &Module) -> Totals {
    let next = AtomicU64::new(options.from);
    let stop = AtomicBool::new(false);
    let totals = Mutex::new(Totals::default());
    thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= options.from + options.seeds {
                        return;
                    }
                    let verdict = sim::run(&options.plan(seed), module, false);
                    let mut totals = totals.lock().unwrap_or_else(|error| error.into_inner());
                    totals.add(&verdict);
                    if verdict.findings.is_empty() {
                        continue;
                    }
                    if !options.keep_going {
                        stop.store(true, Ordering::Relaxed);
                    }
                    report(options, seed, &verdict, module);
                }
            });
        }
    });
    totals.into_inner().unwrap_or_else(|error| error.into_inner())
}

/// Says how a seed fails, and by which smallest plan.
fn report(options: &Options, seed: u64, verdict: &Verdict, module: &Module) {
    let plan = options.plan(seed);
    println!("\n{plan}\nfails:\n{}", lines(&verdict.findings));
    if options.keep_going {
        return;
    }
    let smallest = shrink(&plan, module);
    println!("\nshrunk in {} runs to\n{}", smallest.runs, smallest.plan);
    println!("which fails:\n{}", lines(&smallest.verdict.findings));
    println!("what happened:\n{}", smallest.verdict.story);
    let mutate = options.mutate.as_ref().map_or(String::new(), |rule| format!(" --mutate {rule}"));
    println!("replay: {}{mutate}", command_line(&smallest.plan));
}
