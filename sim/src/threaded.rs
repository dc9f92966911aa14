//! Controller and kernel on threads of their own, in real time: what sanitizers watch.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use warpbell_kernels::abi;
use warpbell_kernels::cpu::{Counters, Idle, Threads};
use warpbell_softctl::{SoftConfig, SoftDevice};

use crate::TestLaunch;
use crate::case::Case;
use crate::findings::{Finding, lines};
use crate::rig::{Rig, SoftRig};

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
    /// What the kernel's accesses cost; nothing is counted on a GPU.
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
pub fn open(case: &Case, config: SoftConfig) -> anyhow::Result<SoftRig> {
    SoftRig::new(case, SoftDevice::threaded(config).context("soft controller")?)
}

/// Runs the kernel of a rig once, its blocks spread over two threads.
pub fn run_on(rig: &Rig) -> anyhow::Result<Outcome> {
    run_with(rig, &rig.args())
}

/// The same with other arguments.
pub fn run_with(rig: &Rig, args: &abi::QueueTestArgs) -> anyhow::Result<Outcome> {
    let module = rig.attachment.target().module()?;
    let launch = rig.attachment.launch_bytes(&module, "queue_test", args)?;
    let threads = Threads::new().workers(2).idle(Idle::YieldAfter(8));
    let launch = launch.grid(rig.grid()).block(32 * rig.case.warps_per_block).threads(threads);
    let launch = launch.seed(rig.launch_seed()).keep(rig.kernel_memory());
    let running = launch.start()?;
    let begin = Instant::now();
    while !running.is_finished()? && begin.elapsed() < LIMIT {
        thread::sleep(Duration::from_millis(1));
    }
    if !running.is_finished()? {
        let findings = vec![Finding::Stuck(format!("not done after {LIMIT:?}"))];
        return Ok(Outcome { findings, counters: Counters::default() });
    }
    Ok(match running.join() {
        Ok(report) => {
            let counters = report.cpu.map(|report| report.counters).unwrap_or_default();
            Outcome { findings: Vec::new(), counters }
        }
        Err(error) => {
            Outcome { findings: vec![Finding::Fault(error.to_string())], counters: Counters::default() }
        }
    })
}

/// Runs a case and panics unless every command succeeded.
pub fn expect_success(case: &Case) -> Outcome {
    let outcome = run(case).unwrap_or_else(|error| panic!("{case:?}: {error:#}"));
    assert!(outcome.findings.is_empty(), "{:?} fails:\n{}\n{case:?}", case.name, lines(&outcome.findings));
    outcome
}
