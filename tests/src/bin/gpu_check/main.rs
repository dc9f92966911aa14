//! `gpu-check`: what a GPU can show, on a machine that has one: correctness of every kernel against the soft controller,
//! then figures. `--target cpu` runs the same on the CPU target, so that the program itself is tested everywhere.
//!
//! Checks run in a process of their own, which is killed where one takes too long: a kernel that hangs takes its context
//! with it, and nothing else ends it. `scripts/gpu-check` builds all into a bundle, runs it, and runs it again under
//! compute-sanitizer. Exit codes: 0 all checks passed, 1 one failed, 2 usage, 4 no such target here.

mod checks;
mod figures;
mod options;
mod report;
mod run;
mod supervisor;
mod worker;

use std::process::ExitCode;

use clap::Parser;

use options::{Options, Thing};
use report::Report;
use supervisor::{NoTarget, Supervisor};

fn main() -> ExitCode {
    warpbell_gpu::widen_connections();
    let options = Options::parse();
    let things = options.chosen();
    if options.list {
        things.iter().for_each(|thing| println!("{:<7} {}", thing.kind(), thing.name()));
        return ExitCode::SUCCESS;
    }
    if options.images {
        println!("{}", checks::images());
        return ExitCode::SUCCESS;
    }
    let ended = match options.worker {
        true => worker::work(&options).map(|()| ExitCode::SUCCESS),
        false => supervise(&options, &things).map(|report| ExitCode::from(u8::from(report.failed() > 0))),
    };
    ended.unwrap_or_else(|error| {
        if let Some(NoTarget(code)) = error.downcast_ref() {
            return ExitCode::from(*code); // the worker has said why
        }
        eprintln!("error: {error:#}");
        ExitCode::from(error.downcast_ref::<warpbell::Error>().map_or(1, warpbell::Error::exit_code))
    })
}

fn supervise(options: &Options, things: &[Thing]) -> anyhow::Result<Report> {
    anyhow::ensure!(!things.is_empty(), "nothing has '{}' in its name; --list shows the names", options.only);
    let mut supervisor = Supervisor::start(options)?;
    let mut report = Report::new(options, supervisor.target());
    report.print_head();
    for thing in things {
        report.begin(thing.name())?;
        let result = supervisor.run(thing);
        report.add(result)?;
    }
    if let Some(trouble) = supervisor.end() {
        report.add(trouble)?;
    }
    report.end()?;
    Ok(report)
}
