//! Controller and kernel on threads of their own, in real time: what sanitizers watch.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use warpbell_kernels::cpu::{Counters, Idle, Launch, Module, Threads, spawn_threads};
use warpbell_softctl::{SoftConfig, SoftDevice};

use crate::case::Case;
use crate::findings::{Finding, lines};
use crate::rig::Rig;

/// Longer than any run takes, on any machine, under any sanitizer.
const LIMIT: Duration = Duration::from_secs(100);

/// The sanitizer that this program was built with, if any.
pub fn sanitizer() -> Option<String> {
    std::env::var("WARPBELL_SANITIZE").ok().filter(|name| !name.is_empty())
}

/// `full` commands, or a quarter of them under a sanitizer.
pub fn sized(full: u32) -> u32 {
    if sanitizer().is_some() { (full / 4).max(2) } else { full }
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was wrong; empty is right.
    pub findings: Vec<Finding>,
    /// What the kernel's accesses cost.
    pub counters: Counters,
}

impl Outcome {
    /// `count` per command.
    pub fn per_command(&self, case: &Case, count: u64) -> f64 {
        count as f64 / case.total() as f64
    }
}

/// Runs a case on a controller of its own; every command must succeed.
pub fn run(case: &Case) -> anyhow::Result<Outcome> {
    let rig = open(case, case.soft_config())?;
    let outcome = run_on(&rig)?;
    let findings = outcome.findings.into_iter().chain(rig.check_success()?).collect();
    Ok(Outcome { findings, ..outcome })
}

/// A rig whose controller has a polling thread.
pub fn open(case: &Case, config: SoftConfig) -> anyhow::Result<Rig> {
    Rig::new(case, SoftDevice::threaded(config).context("soft controller")?)
}

/// Runs the kernel of a rig once, its blocks spread over two threads.
pub fn run_on(rig: &Rig) -> anyhow::Result<Outcome> {
    let module = Module::builtin()?;
    let launch = Launch::new(&module, "queue_test", &rig.args())?;
    let launch = launch.grid(rig.grid()).block(32 * rig.case.warps_per_block).seed(rig.launch_seed());
    let threads = Threads { workers: 2, idle: Idle::YieldAfter(8), ..Threads::default() };
    let running = spawn_threads(&launch, &threads)?;
    let begin = Instant::now();
    while !running.is_finished() && begin.elapsed() < LIMIT {
        thread::sleep(Duration::from_millis(1));
    }
    let mut findings = Vec::new();
    if !running.is_finished() {
        findings.push(Finding::Stuck(format!("not done after {LIMIT:?}")));
        running.cancel();
    }
    match running.join() {
        Ok(report) => Ok(Outcome { findings, counters: report.counters }),
        Err(error) => {
            findings.push(Finding::Fault(error.to_string()));
            Ok(Outcome { findings, counters: Counters::default() })
        }
    }
}

/// Runs a case and panics unless every command succeeded.
pub fn expect_success(case: &Case) -> Outcome {
    let outcome = run(case).unwrap_or_else(|error| panic!("{case:?}: {error:#}"));
    assert!(outcome.findings.is_empty(), "{:?} fails:\n{}\n{case:?}", case.name, lines(&outcome.findings));
    outcome
}
