//! `report`: results as a page; what this machine, and this build, are like.

mod costs;
mod gpu;
mod page;

use crate::args::{Global, Report, ReportArgs};
use crate::exit::Ending;

/// Runs the command.
pub fn run(args: &ReportArgs, global: &Global) -> Result<(), Ending> {
    match &args.report {
        Some(Report::Costs(args)) => costs::run(args, global),
        Some(Report::Gpu(args)) => gpu::run(args, global),
        None => page::run(args, global),
    }
}
