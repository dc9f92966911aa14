//! `bench`: traces, and replays of them.

use std::path::PathBuf;

use clap::Args;
use warpbell_workload::trace::DEFAULT_TRACE_EVENTS;
use warpbell_workload::trace::ReplayOptions;
use warpbell_workload::{ReplayFormat, ReplayTiming, TraceForm};

/// The flags of a recording replace these.
const RECORDED: [&str; 17] = [
    "rw",
    "random_distribution",
    "bs",
    "iodepth",
    "queues",
    "warps",
    "sharing",
    "api",
    "completion",
    "runtime",
    "io_limit",
    "size",
    "offset",
    "rwmixread",
    "verify",
    "ramp",
    "axis",
];

/// Traces and replays.
#[derive(Clone, Debug, Args)]
pub struct TraceArgs {
    /// Write what kernels do to this file: each command, doorbell and completion
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Form of the trace: chrome (for viewers), or json (every event as it was written)
    #[arg(long, value_name = "FORM", default_value = "chrome", hide_short_help = true)]
    pub trace_format: TraceForm,
    /// Events of each warp that a trace keeps, the latest ones
    #[arg(long, value_name = "N", default_value_t = DEFAULT_TRACE_EVENTS, hide_short_help = true)]
    pub trace_events: u32,
    /// Submit the commands of a trace again, by as many warps over as many queues
    #[arg(long, value_name = "FILE", conflicts_with_all = RECORDED)]
    pub replay: Option<PathBuf>,
    /// When to submit them: asap, or recorded (at the times of the trace)
    #[arg(long, value_name = "WHEN", default_value = "asap", requires = "replay", hide_short_help = true)]
    pub replay_timing: ReplayTiming,
    /// What the file is: auto (as it begins), warpbell (of --trace), fio (an I/O log), or msr (CSV of MSR Cambridge)
    #[arg(long, value_name = "FORM", default_value = "auto", requires = "replay", hide_short_help = true)]
    pub replay_format: ReplayFormat,
    /// Of a block trace, only this: fio's file name, or HOST.DISK of MSR Cambridge
    #[arg(long, value_name = "NAME", requires = "replay", hide_short_help = true)]
    pub replay_only: Option<String>,
    /// Warps that take the requests of a block trace in turn, each on its own queue [default: 1]
    #[arg(long, value_name = "N", requires = "replay", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub replay_warps: Option<u32>,
    /// Commands that each of them has in flight [default: 32]
    #[arg(long, value_name = "N", requires = "replay", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub replay_depth: Option<u32>,
}

impl TraceArgs {
    /// How the file is replayed.
    pub fn replaying(&self) -> ReplayOptions {
        let own = ReplayOptions::from(self.replay_timing);
        ReplayOptions {
            format: self.replay_format,
            only: self.replay_only.clone(),
            warps: self.replay_warps.unwrap_or(own.warps),
            depth: self.replay_depth.unwrap_or(own.depth),
            ..own
        }
    }
}
