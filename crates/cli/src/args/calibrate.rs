//! `bench calibrate`: constants of this machine.

use std::path::PathBuf;

use clap::{Args, Command, Subcommand};
use warpbell::Named;
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
    /// What classes of ordering cost: delivery, completion, against none
    Order(ExperimentArgs),
    /// Tiles from the SSD to shared memory: whether the SSD, the copies or the computing bounds
    Tiles(ExperimentArgs),
    /// Kernels and the host on one SSD, each on a queue with a weight: shares and tails
    Arbitration(ExperimentArgs),
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

/// What stands where `bench` has a device. A word that is none is more often an experiment with a slip in it.
pub fn device(text: &str) -> Result<Named, String> {
    let wrong = match text.parse::<Named>() {
        Ok(named) => return Ok(named),
        Err(wrong) => wrong.to_string(),
    };
    let is_word =
        !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '-');
    if !is_word {
        return Err(wrong);
    }
    let all = BenchCommand::augment_subcommands(Command::new("bench"));
    let names: Vec<&str> = all.get_subcommands().map(Command::get_name).collect();
    let likeness = |name: &&&str| strsim::jaro_winkler(text, name);
    let nearest = names.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    let meant = nearest.filter(|name| likeness(name) >= LIKE);
    let meant = meant.map_or(String::new(), |name| format!(" (did you mean '{name}'?)"));
    Err(format!(
        "'{text}' is neither a device nor an experiment{meant}; a device is soft:size=1g or the like, and experiments \
         are {}",
        names.join(", ")
    ))
}

/// Likeness from which on a word is taken for a slip: of `pathh` and `path` 0.96, of words without a letter in common 0.
const LIKE: f64 = 0.8;

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
