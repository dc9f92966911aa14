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
mod log;
pub mod model;
mod outcome;
mod plan;
mod reasons;
mod run;
mod shrink;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use warpbell_kernels::cpu::Module;

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
    /// Controller resets, admin commands, aborts and late completions on the way, and calls of the host that failed for a reason.
    pub events: [(&'static str, u64); 5],
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

fn carry_out(plan: &Plan, module: &Module, told: bool) -> Verdict {
    let mut run = match run::Run::new(plan, module, told) {
        Ok(run) => run,
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
        faults: facts.faults.iter().map(|fault| format!("{:?}", fault.kind)).collect(),
        commands: facts.commands.len() as u64,
        statuses: outcome::statuses(&facts.commands),
        events: [
            ("resets", facts.eras.len() as u64),
            ("admin commands", facts.admin),
            ("aborts", facts.aborts),
            ("late completions", facts.late),
            ("host calls that failed for a reason", facts.excused),
        ],
        elapsed: facts.elapsed,
        story: if told { facts.told() } else { String::new() },
        ..Verdict::default()
    };
    verdict.findings = facts.findings;
    verdict
}
