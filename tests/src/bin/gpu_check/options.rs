//! What is run, and how.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use warpbell::Target;

use crate::run::{Check, Figure};
use crate::{checks, figures};

/// Checks Warpbell on a GPU, and measures it.
#[derive(Debug, Parser)]
#[command(version, about = "Checks on a GPU what only a GPU can show, then measures")]
pub struct Options {
    /// Where kernels run: cuda:N, cpu, or ptx
    #[arg(long, default_value = "cuda:0")]
    pub target: Target,
    /// A part, correctness or figures; or only checks and figures whose name contains this
    #[arg(long, default_value = "")]
    pub only: String,
    /// Small sizes and short runs, for use under a sanitizer
    #[arg(long)]
    pub quick: bool,
    /// No figures
    #[arg(long)]
    pub checks_only: bool,
    /// Loads each PTX of this program too, which the driver compiles for minutes: else two of them
    #[arg(long)]
    pub all: bool,
    /// Of each check of queues only the case of this number, of agents and blocks only the size of I/O; counted round: for many
    /// seeds on the PTX machine
    #[arg(long)]
    pub case: Option<u64>,
    /// Of checks of queues: so many cases, from --case on
    #[arg(long, default_value_t = 1, requires = "case", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub cases: u64,
    /// Of checks of queues: seconds after which a command has failed, where it must (10, or as the case says)
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub timeout: Option<u64>,
    /// Seconds that each figure is measured for
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// Seconds that a check may take before its process is killed; figures may take twice, compiling ten times as long
    #[arg(long, default_value_t = 60.0)]
    pub limit: f64,
    /// Seconds for all together: what no time is left for is skipped
    #[arg(long, default_value_t = 86_400.0)]
    pub within: f64,
    /// A command with options that runs the checks, such as 'compute-sanitizer --tool memcheck'
    #[arg(long, default_value = "")]
    pub under: String,
    /// Also writes the results as JSON into this file, anew after each
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Lists names, and runs nothing
    #[arg(long)]
    pub list: bool,
    /// Says which kernels are in this program, and runs nothing
    #[arg(long)]
    pub images: bool,
    /// A check that never ends, to try --limit with
    #[arg(long, hide = true)]
    pub plant_hang: Option<String>,
    /// A check that ends its process
    #[arg(long, hide = true)]
    pub plant_crash: Option<String>,
    /// Runs what standard input names, for the process that supervises
    #[arg(long, hide = true)]
    pub worker: bool,
}

/// A check or a figure.
pub enum Thing {
    Check(Check),
    Figure(Figure),
}

impl Thing {
    pub fn name(&self) -> &'static str {
        match self {
            Thing::Check(check) => check.name,
            Thing::Figure(figure) => figure.name,
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Thing::Check(_) => "check",
            Thing::Figure(_) => "figure",
        }
    }
}

/// Everything that there is.
pub fn things() -> impl Iterator<Item = Thing> {
    checks::all().into_iter().map(Thing::Check).chain(figures::all().into_iter().map(Thing::Figure))
}

impl Options {
    /// What these options name.
    pub fn chosen(&self) -> Vec<Thing> {
        let wanted = |thing: &Thing| match (self.only.as_str(), thing) {
            (_, Thing::Figure(_)) if self.checks_only => false,
            ("correctness", thing) => matches!(thing, Thing::Check(_)),
            ("figures", thing) => matches!(thing, Thing::Figure(_)),
            (text, thing) => thing.name().contains(text),
        };
        things().filter(wanted).collect()
    }

    /// How long `thing` may take.
    pub fn limit_of(&self, thing: &Thing) -> Duration {
        let times = match thing {
            Thing::Check(check) if check.name == checks::COMPILES => 10.0,
            Thing::Check(_) => 1.0,
            Thing::Figure(_) => 2.0,
        };
        seconds(times * self.limit)
    }

    pub fn check(&self) -> anyhow::Result<()> {
        for (name, value) in [("limit", self.limit), ("within", self.within)] {
            anyhow::ensure!(value > 0.0 && value <= 86_400.0, "--{name} {value}: from above 0 to 86400");
        }
        let names: Vec<&str> = things().map(|thing| thing.name()).collect();
        for planted in self.plant_hang.iter().chain(&self.plant_crash) {
            anyhow::ensure!(names.contains(&planted.as_str()), "no check is called '{planted}'");
        }
        Ok(())
    }
}

/// A time in seconds, which was checked.
pub fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or_default()
}
