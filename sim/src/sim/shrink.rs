//! Looks for a smaller plan that fails too.

use warpbell_kernels::cpu::Module;

use super::plan::{MOST_FAULTS, Plan};
use super::{Verdict, run};

/// Runs that the search may take.
const MOST_RUNS: u32 = 400;

/// The smallest plan that was found to fail.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The plan.
    pub plan: Plan,
    /// How it fails.
    pub verdict: Verdict,
    /// Runs that it took.
    pub runs: u32,
}

/// Settings in the order in which they are simplified, each with the values to try, simplest first.
const SIMPLER: &[(&str, &[u64])] = &[
    ("faults", &[]),
    ("kernels", &[1]),
    ("tries", &[1, 2]),
    ("ask_again", &[0]),
    ("retry", &[0]),
    ("lease", &[0]),
    ("patience", &[1]),
    ("replacement_queues", &[2]),
    ("client", &[0, 1, 2]),
    ("admin", &[0]),
    ("reset", &[0]),
    ("lose", &[0]),
    ("replace", &[0]),
    ("stall", &[0]),
    ("dbbuf", &[0]),
    ("high", &[0]),
    ("abandon", &[0]),
    ("stray", &[0]),
    ("flags", &[0]),
    ("queues", &[1]),
    ("warps", &[1, 2, 3]),
    ("lanes", &[1, 2, 4, 8, 12, 16, 24]),
    ("commands", &[1, 2, 3, 4, 6, 8, 12]),
    ("depth", &[1, 2]),
    ("tokens", &[1, 2]),
    ("most_blocks", &[1, 2]),
    ("blocks", &[1, 2]),
    ("flushes", &[0]),
    ("shuffle", &[0, 2]),
    ("store_buffer", &[0]),
    ("random", &[0]),
    ("preempt", &[32, 8]),
    ("block_warps", &[1]),
    ("start", &[0]),
    ("stride", &[0]),
    ("block_shift", &[9]),
    ("sgl", &[1]),
    ("batch", &[32]),
    ("entries", &[2, 4, 8]),
];

/// Simplifies a plan that fails, one setting after the other, for as long as it goes on failing by one of the same
/// checks.
pub fn shrink(plan: &Plan, module: &Module) -> Shrunk {
    let verdict = run(plan, module, true);
    let checks = verdict.checks();
    let mut best = Shrunk { plan: plan.clone(), verdict, runs: 1 };
    loop {
        let before = best.plan.clone();
        for (name, values) in SIMPLER {
            let now = best.plan.get(name).unwrap_or_default();
            let fewer = (0..MOST_FAULTS).map(|fault| now & !(1 << fault)).filter(|mask| *mask != now);
            let candidates: Vec<u64> = match *name {
                "faults" => std::iter::once(0).chain(fewer).filter(|mask| *mask != now).collect(),
                "lanes" | "commands" => values.iter().copied().filter(|value| *value < now).collect(),
                _ => values.iter().copied().take_while(|value| *value != now).collect(),
            };
            for value in candidates {
                if best.runs >= MOST_RUNS {
                    return best;
                }
                try_one(&mut best, name, value, module, &checks);
                if best.plan.get(name) == Some(value) {
                    break;
                }
            }
        }
        if best.plan == before {
            return best;
        }
    }
}

fn try_one(best: &mut Shrunk, name: &str, value: u64, module: &Module, checks: &[String]) {
    let mut plan = best.plan.clone();
    plan.set(name, value);
    repair(&mut plan);
    if plan == best.plan || plan.get(name) != Some(value) {
        return;
    }
    best.runs += 1;
    let verdict = run(&plan, module, true);
    if verdict.checks().iter().any(|check| checks.contains(check)) {
        best.plan = plan;
        best.verdict = verdict;
    }
}

/// Settings depend on each other.
fn repair(plan: &mut Plan) {
    plan.warps = plan.warps.max(plan.queues);
    if plan.shared == 0 {
        plan.warps = plan.queues;
    }
    if plan.random == 0 {
        plan.store_buffer = 0;
    }
    if !plan.warps.is_multiple_of(plan.block_warps) {
        plan.block_warps = 1;
    }
}

/// What to type to run this plan again: the seed, and every setting that is not the seed's own.
pub fn command_line(plan: &Plan) -> String {
    let drawn = plan.drawn();
    let mut text = format!("cargo test --release -p warpbell-tests --test sim -- --seed {}", plan.seed);
    if plan.recovery != 0 {
        text += " --recovery";
    }
    for name in Plan::SETTINGS {
        if let (Some(value), true) = (plan.get(name), plan.get(name) != drawn.get(name)) {
            text += &format!(" --with {name}={value}");
        }
    }
    text
}
