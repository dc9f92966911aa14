//! `bench`: traces, and replays of them.

use std::path::PathBuf;

use clap::Args;
use warpbell_workload::trace::DEFAULT_TRACE_EVENTS;
use warpbell_workload::{ReplayTiming, TraceForm};

/// The flags of a recording replace these.
const RECORDED: [&str; 16] = [
    "rw",
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
}
