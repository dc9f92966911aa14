//! `gpu-check`: what a GPU can show, on a machine that has one: correctness of every kernel against the soft controller,
//! then figures. `--target cpu` runs the same on the CPU target, so that the program itself is tested everywhere.
//!
//! `scripts/gpu-check` builds it into a bundle, runs it, and runs it again under compute-sanitizer. Exit codes: 0 all
//! checks passed, 1 one failed, 2 usage, 4 no such target here.

mod checks;
mod figures;
mod report;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use warpbell::Target;

use report::Report;
use run::Fixture;

/// Checks Warpbell on a GPU, and measures it.
#[derive(Debug, Parser)]
#[command(version, about = "Checks on a GPU what only a GPU can show, then measures")]
struct Options {
    /// Where kernels run: cuda:N or cpu
    #[arg(long, default_value = "cuda:0")]
    target: Target,
    /// Only checks and figures whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Small sizes and short runs, for use under a sanitizer
    #[arg(long)]
    quick: bool,
    /// No figures
    #[arg(long)]
    checks_only: bool,
    /// Seconds that each figure is measured for
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Also writes the results as JSON into this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Lists names, and runs nothing
    #[arg(long)]
    list: bool,
    /// Says which kernels are in this program, and runs nothing
    #[arg(long)]
    images: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let checks = checks::all();
    let figures = if options.checks_only { Vec::new() } else { figures::all() };
    if options.list {
        checks.iter().for_each(|check| println!("check   {}", check.name));
        figures.iter().for_each(|figure| println!("figure  {}", figure.name));
        return ExitCode::SUCCESS;
    }
    if options.images {
        println!("{}", checks::images());
        return ExitCode::SUCCESS;
    }
    match execute(&options, &checks, &figures) {
        Ok(report) if report.failed() == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            let missing = error.downcast_ref::<warpbell::Error>().map_or(1, warpbell::Error::exit_code);
            ExitCode::from(missing)
        }
    }
}

fn execute(options: &Options, checks: &[run::Check], figures: &[run::Figure]) -> anyhow::Result<Report> {
    // What a check panics with is reported with the check.
    std::panic::set_hook(Box::new(|_| {}));
    let fixture = Fixture::new(options.target, options.quick, options.seconds)?;
    let mut report = Report::new(&fixture);
    report.print_head();
    for check in checks.iter().filter(|check| check.name.contains(&options.only)) {
        report.add_check(check.run(&fixture));
    }
    for figure in figures.iter().filter(|figure| figure.name.contains(&options.only)) {
        report.add_figure(figure.run(&fixture));
    }
    report.print_end();
    anyhow::ensure!(!report.is_empty(), "nothing has '{}' in its name; --list shows the names", options.only);
    if let Some(path) = &options.json {
        report.write(path)?;
    }
    Ok(report)
}
