//! `bench calibrate`: constants of this machine.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use warpbell_workload::calibrate::{DEFAULT_ROUNDS, MIN_ROUNDS};

use super::{DeviceArgs, ExperimentArgs};

/// What else `bench` measures.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure constants of this machine, for `warpbell plan --calib`
    Calibrate(CalibrateArgs),
    /// How data comes to a kernel: by its own commands, a bounce buffer of the host's, or the operating system's reads
    Path(ExperimentArgs),
    /// When memory is made reachable for the SSD: once, for each I/O, or kept for later ones
    Registration(ExperimentArgs),
    /// How many commands share a doorbell, and how many warps a queue
    Batching(ExperimentArgs),
    /// Several SSDs as one volume: 1, 2, 4 and 8 of them as a stripe, all in the other layouts
    Stripe(ExperimentArgs),
    /// How the host learns of completions: polls, interrupts, gathered interrupts
    Notice(ExperimentArgs),
    /// Latencies while other threads want the processors
    Tail(ExperimentArgs),
    /// The first I/Os after nothing was there
    Cold(ExperimentArgs),
    /// Workload: keys and values of attention, got and put by token and layer, in the mixes of YCSB (writes)
    Kv(ExperimentArgs),
    /// Workload: a state saved and restored, sharded over 1, 2, 4 and 8 SSDs (writes)
    Checkpoint(ExperimentArgs),
    /// Workload: samples for training, shuffled more and more, and how long the trainer waits for them
    Loader(ExperimentArgs),
    /// Workload: a breadth-first search over edges on the SSD, by rows and by pages
    Graph(ExperimentArgs),
    /// Workload: nearest neighbours, by rows and by clusters
    Vectors(ExperimentArgs),
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
