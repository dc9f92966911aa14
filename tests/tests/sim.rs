//! Tier S: the simulation, seed by seed. A harness of its own: `--help` says how it is used.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use warpbell_kernels::cpu::Module;
use warpbell_sim::lines;
use warpbell_sim::sim::{self, Plan, Verdict, command_line, kernel, shrink};
use warpbell_softctl::FaultKind;

const HELP: &str = "\
The simulation: controller, driver, host and kernels in virtual time, each seed another run.

Plans are plain, or such in which the library recovers queues and controller while kernels run.

  --seeds N       runs seeds 1 to N (default 1000, and 400 with recovery; WARPBELL_SEEDS)
  --recovery      with recovery only
  --plain         without recovery only
  --from N        the first of them (default 1)
  --seed S        runs this seed alone and tells what happened
  --with K=V      changes a setting of that run; may be repeated
  --threads N     runs so many seeds at a time (default: all processors)
  --mutate RULE   switches a rule of the device library off: the run must then fail
  --keep-going    goes on after a seed that fails
";

/// Seeds that are run if none are asked for.
const PLAIN_SEEDS: u64 = 1000;
const RECOVERY_SEEDS: u64 = 400;

/// What was asked for.
struct Options {
    /// None: the default number of each kind.
    seeds: Option<u64>,
    /// Only plans with recovery, or only those without.
    recovery: Option<bool>,
    from: u64,
    seed: Option<u64>,
    with: Vec<(String, u64)>,
    threads: usize,
    mutate: Option<String>,
    keep_going: bool,
    /// The names given are other tests', or only tests that are ignored are wanted.
    skip: bool,
    /// Only the names of the tests.
    list: bool,
}

impl Options {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
        let seeds = std::env::var("WARPBELL_SEEDS").ok().and_then(|text| text.parse().ok());
        let mut options = Options {
            seeds,
            recovery: None,
            from: 1,
            seed: None,
            with: Vec::new(),
            threads: thread::available_parallelism().map_or(1, usize::from),
            mutate: None,
            keep_going: false,
            skip: false,
            list: false,
        };
        let mut arguments = arguments.peekable();
        while let Some(argument) = arguments.next() {
            let mut number = || {
                let text = arguments.next().ok_or(format!("{argument} wants a number"))?;
                text.parse::<u64>().map_err(|error| format!("{argument} {text}: {error}"))
            };
            match argument.as_str() {
                "--seeds" => options.seeds = Some(number()?),
                "--recovery" => options.recovery = Some(true),
                "--plain" => options.recovery = Some(false),
                "--from" => options.from = number()?,
                "--seed" => options.seed = Some(number()?),
                "--threads" => options.threads = number()?.max(1) as usize,
                "--test-threads" => drop(number()?),
                "--list" => options.list = true,
                "--format" => drop(arguments.next()),
                "--ignored" => options.skip = true,
                "--with" => options.with.push(setting(&arguments.next().unwrap_or_default())?),
                "--mutate" => options.mutate = arguments.next(),
                "--keep-going" => options.keep_going = true,
                "--help" | "-h" => return Ok(None),
                // What cargo passes to every harness.
                "--show-output" | "--nocapture" | "--exact" | "--include-ignored" | "-q" | "--quiet" => {}
                // Cargo's filter of tests: there is one.
                name if !name.starts_with('-') => options.skip |= !"sim".contains(name),
                other => return Err(format!("unknown option {other}; --help lists what there is")),
            }
        }
        Ok(Some(options))
    }

    fn plan(&self, recovery: bool, seed: u64) -> Plan {
        let mut plan = if recovery { Plan::draw_recovery(seed) } else { Plan::draw(seed) };
        for (name, value) in &self.with {
            plan.set(name, *value);
        }
        plan
    }

    /// Whether so many seeds run as they are drawn that every kind of fault must be among them.
    fn wants_every_kind(&self) -> bool {
        self.seeds.unwrap_or(PLAIN_SEEDS) >= PLAIN_SEEDS
            && self.recovery.is_none()
            && self.seed.is_none()
            && self.with.is_empty()
            && self.mutate.is_none()
    }

    /// What to run: with recovery or without, and how many seeds of it.
    fn kinds(&self) -> Vec<(bool, u64)> {
        let default = |recovery| if recovery { RECOVERY_SEEDS } else { PLAIN_SEEDS };
        let kinds = [false, true].into_iter().filter(|kind| self.recovery.is_none_or(|only| only == *kind));
        kinds.map(|kind| (kind, self.seeds.unwrap_or(default(kind)))).collect()
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
    /// Virtual time.
    elapsed: Duration,
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
        for (event, count) in &verdict.events {
            *self.events.entry(event).or_default() += count;
        }
        self.elapsed += verdict.elapsed;
    }

    /// Adds what another kind of plans came to.
    fn include(&mut self, other: Totals) {
        self.failed += other.failed;
        other.faults.into_iter().for_each(|(kind, count)| *self.faults.entry(kind).or_default() += count);
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
        let (runs, failed, commands, elapsed) =
            (self.runs, self.failed, self.commands, self.elapsed.as_secs_f64());
        println!(
            "{runs} runs, {failed} failed, {commands} commands, {seconds:.1} s; {elapsed:.0} s of virtual time"
        );
        println!("faults injected and survived: {}", of(self.faults.clone().into_iter().collect()));
        println!("statuses: {}", of(self.statuses.clone().into_iter().collect()));
        println!("on the way: {}", of(self.events.iter().map(|(n, c)| ((*n).to_owned(), *c)).collect()));
    }
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) if options.list => {
            if !options.skip {
                println!("sim: test");
            }
            return ExitCode::SUCCESS;
        }
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
    let mut totals = Totals::default();
    for (recovery, seeds) in options.kinds() {
        let begin = Instant::now();
        let kind = match options.seed {
            Some(seed) if options.recovery.is_some() || !recovery => {
                replay(&options, recovery, seed, &module)
            }
            Some(_) => continue,
            None => many(&options, recovery, seeds, &module),
        };
        println!("{} recovery:", if recovery { "with" } else { "without" });
        kind.print(begin);
        totals.include(kind);
        if totals.failed != 0 && !options.keep_going {
            break;
        }
    }
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

fn replay(options: &Options, recovery: bool, seed: u64, module: &Module) -> Totals {
    let plan = options.plan(recovery, seed);
    let verdict = sim::run(&plan, module, true);
    println!("{plan}\n{}", verdict.story);
    if !verdict.findings.is_empty() {
        println!("wrong:\n{}", lines(&verdict.findings));
    }
    let mut totals = Totals::default();
    totals.add(&verdict);
    totals
}

fn many(options: &Options, recovery: bool, seeds: u64, module: &Module) -> Totals {
    let next = AtomicU64::new(options.from);
    let stop = AtomicBool::new(false);
    let totals = Mutex::new(Totals::default());
    thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= options.from + seeds {
                        return;
                    }
                    let plan = options.plan(recovery, seed);
                    let verdict = sim::run(&plan, module, false);
                    let mut totals = totals.lock().unwrap_or_else(|error| error.into_inner());
                    totals.add(&verdict);
                    if verdict.findings.is_empty() {
                        continue;
                    }
                    if !options.keep_going {
                        stop.store(true, Ordering::Relaxed);
                    }
                    report(options, &plan, &verdict, module);
                }
            });
        }
    });
    totals.into_inner().unwrap_or_else(|error| error.into_inner())
}

/// Says how a seed fails, and by which smallest plan.
fn report(options: &Options, plan: &Plan, verdict: &Verdict, module: &Module) {
    println!("\n{plan}\nfails:\n{}", lines(&verdict.findings));
    if options.keep_going {
        return;
    }
    let smallest = shrink(plan, module);
    println!("\nshrunk in {} runs to\n{}", smallest.runs, smallest.plan);
    println!("which fails:\n{}", lines(&smallest.verdict.findings));
    println!("what happened:\n{}", smallest.verdict.story);
    let mutate = options.mutate.as_ref().map_or(String::new(), |rule| format!(" --mutate {rule}"));
    println!("replay: {}{mutate}", command_line(&smallest.plan));
}
