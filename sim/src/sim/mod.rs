//! The simulation: controller, driver, host threads and kernels as one program on one thread, in virtual time, every
//! choice of which comes from one seed.
//!
//! [`Plan::draw`] says what a seed means, [`run`] carries it out and judges it, [`shrink`] looks for a smaller plan
//! that fails too. `docs/simulation.md` explains what is checked.

mod client;
mod contents;
mod device;
mod faults;
mod forgiven;
mod host;
mod judge;
pub mod kernel;
mod lives;
mod log;
pub mod model;
mod outcome;
mod plan;
mod reasons;
mod recovering;
mod run;
mod shrink;
mod steps;
mod wire;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use warpbell_kernels::cpu::Module;
use warpbell_softctl::InjectedFault;

pub use faults::{Fault, KINDS};
pub use plan::Plan;
pub use shrink::{Shrunk, command_line, shrink};

use crate::findings::Finding;

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// What was wrong; empty is right.
    pub findings: Vec<Finding>,
    /// Kinds of the faults that were injected, each as often as it was.
    pub faults: Vec<String>,
    /// Commands that were asked for.
    pub commands: u64,
    /// Of these, how many got each status.
    pub statuses: Vec<(String, u64)>,
    /// What happened on the way, in numbers: resets, Aborts, queues replaced and the like.
    pub events: Vec<(&'static str, u64)>,
    /// Virtual time that it took.
    pub elapsed: Duration,
    /// What happened, if it was to be told.
    pub story: String,
}

impl Verdict {
    /// Names of the checks that found something, each once.
    pub fn checks(&self) -> Vec<String> {
        let mut checks: Vec<String> = self.findings.iter().map(Finding::check).collect();
        checks.sort();
        checks.dedup();
        checks
    }
}

/// Carries a plan out with the kernel of `module`, and judges it. `told`: with the story of what happened.
pub fn run(plan: &Plan, module: &Module, told: bool) -> Verdict {
    let outcome = catch_unwind(AssertUnwindSafe(|| carry_out(plan, module, told)));
    let panicked = |panic: Box<dyn std::any::Any + Send>| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let finding = Finding::Fault(format!("panic: {}", text.unwrap_or_default()));
        Verdict { findings: vec![finding], ..Verdict::default() }
    };
    outcome.unwrap_or_else(panicked)
}

fn names(faults: &[InjectedFault]) -> Vec<String> {
    faults.iter().map(|fault| format!("{:?}", fault.kind)).collect()
}

fn carry_out(plan: &Plan, module: &Module, told: bool) -> Verdict {
    let mut run = match run::Run::start(plan, module, told) {
        Ok(run::Start::Begun(run)) => run,
        Ok(run::Start::Removed(faults)) => return Verdict { faults: names(&faults), ..Verdict::default() },
        Err(error) => {
            let findings = vec![Finding::Host(format!("{error:#}"))];
            return Verdict { findings, ..Verdict::default() };
        }
    };
    if let Err(error) = run.go() {
        run.facts.host_error(format!("{error:#}"));
    }
    let mut facts = run.end();
    judge::judge(plan, &mut facts);
    let mut verdict = Verdict {
        faults: names(&facts.faults),
        commands: facts.commands.len() as u64,
        statuses: outcome::statuses(&facts.commands),
        events: outcome::events(&facts),
        elapsed: facts.elapsed,
        story: if told { facts.told() } else { String::new() },
        ..Verdict::default()
    };
    verdict.findings = facts.findings;
    verdict
}
