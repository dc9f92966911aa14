//! Arguments of `bench` about what is kept of it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use warpbell_workload::parse_duration;

/// How often each point is measured, and where results go.
#[derive(Clone, Debug, Args)]
pub struct ResultArgs {
    /// Measure each point N times, 1 to 50, in rounds that shuffle the points, and report medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=50))]
    pub repeat: u32,
    /// Also write a row for each point and repeat
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Keep the runs of this JSON result of the same command, which was interrupted, and measure the rest
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub resume: Option<PathBuf>,
    /// Keep each run in this file as soon as it has ended; the same command goes on from there, whatever ended it
    #[arg(long, value_name = "FILE", conflicts_with = "resume", hide_short_help = true)]
    pub journal: Option<PathBuf>,
    /// Time between two counts of IOPS and bytes [default: 1s, or a tenth of the runtime]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, hide_short_help = true)]
    pub interval: Option<Duration>,
}
