//! The process that runs checks: what standard input names, one at a time. Results go to standard output, a line each.

use std::io::BufRead;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::options::{Options, Thing, things};
use crate::report::{CheckResult, FigureResult};
use crate::run::Fixture;

/// Begins each line to the supervisor; whatever else is said is not for it.
pub const MARK: &str = "gpu-check-result ";

/// What the checks run on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TargetInfo {
    /// What the target calls itself.
    pub name: String,
    /// Figures of the CPU target are no hardware figures.
    pub hardware: bool,
}

/// A line to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message {
    Ready(TargetInfo),
    Check(CheckResult),
    Figure(FigureResult),
}

impl Message {
    pub fn failed(&self) -> bool {
        match self {
            Message::Ready(_) => false,
            Message::Check(check) => check.outcome.failed(),
            Message::Figure(figure) => figure.outcome.failed(),
        }
    }
}

pub fn work(options: &Options) -> anyhow::Result<()> {
    // Whoever supervises may be killed: a kernel that hangs must not go on.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // What a check panics with is reported with the check.
    std::panic::set_hook(Box::new(|_| {}));
    let fixture = Fixture::new(options)?;
    let info = TargetInfo { name: fixture.target_name.clone(), hardware: fixture.is_hardware() };
    say(&Message::Ready(info))?;
    for name in std::io::stdin().lock().lines() {
        let name = name?;
        plant(options, &name);
        let thing = things().find(|thing| thing.name() == name);
        say(&match thing.ok_or_else(|| anyhow::anyhow!("no check is called '{name}'"))? {
            Thing::Check(check) => Message::Check(check.run(&fixture)),
            Thing::Figure(figure) => Message::Figure(figure.run(&fixture)),
        })?;
    }
    Ok(())
}

fn say(message: &Message) -> anyhow::Result<()> {
    println!("{MARK}{}", serde_json::to_string(message)?);
    Ok(())
}

/// Hangs, or crashes, where that is asked for.
fn plant(options: &Options, name: &str) {
    while options.plant_hang.as_deref() == Some(name) {
        std::thread::sleep(Duration::from_secs(1));
    }
    if options.plant_crash.as_deref() == Some(name) {
        std::process::abort();
    }
}
