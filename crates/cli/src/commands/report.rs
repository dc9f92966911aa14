//! `report`: what this machine, and this build, are like.

mod costs;
mod gpu;

use crate::args::{Global, Report, ReportArgs};
use crate::exit::Ending;

/// Runs the command.
pub fn run(args: &ReportArgs, global: &Global) -> Result<(), Ending> {
    match &args.report {
        Report::Costs(args) => costs::run(args, global),
        Report::Gpu(args) => gpu::run(args, global),
    }
}
