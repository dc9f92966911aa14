//! `bench calibrate`: constants of this machine.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use warpbell_workload::calibrate::{DEFAULT_ROUNDS, MIN_ROUNDS};

use super::DeviceArgs;

/// What else `bench` measures.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure constants of this machine, for `warpbell plan --calib`
    Calibrate(CalibrateArgs),
}

/// `bench calibrate`.
#[derive(Clone, Debug, Args)]
#[command(allow_negative_numbers = true, after_help = EXAMPLES)]
pub struct CalibrateArgs {
    /// The device; without one, a software controller over memory.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Write the file that plan --calib takes
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Samples of each constant, whose median is its value
    #[arg(long, value_name = "N", default_value_t = DEFAULT_ROUNDS, value_parser = clap::value_parser!(u32).range(i64::from(MIN_ROUNDS)..=1000))]
    pub rounds: u32,
}

const EXAMPLES: &str = "\
Examples:
  warpbell bench calibrate --out machine.json && warpbell plan reg --calib machine.json
  warpbell bench calibrate 0000:41:00.0 --out machine.json
It only reads. Without a device it measures the software controller, whose speed is that of this machine's memory.
What cannot be measured is left out of the file, and said with its reason.";
