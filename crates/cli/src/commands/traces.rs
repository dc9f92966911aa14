//! `bench --trace` and `bench --replay`: the files.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use warpbell_workload::trace::{SsdReplay, SsdTrace, TraceFile, read_replay};
use warpbell_workload::{BenchReport, ClockKind, TraceForm};

use crate::args::BenchArgs;
use crate::exit::Ending;
use crate::outputs;

/// What is to be submitted again, by SSDs of the recording; nothing without `--replay`.
pub fn recordings(args: &BenchArgs) -> Result<Vec<SsdReplay>, Ending> {
    let Some(path) = &args.trace.replay else { return Ok(Vec::new()) };
    let options = args.trace.replaying();
    let replays = read_replay(path, &options).map_err(Ending::usage)?;
    refuse_of_blocks(args, &replays)?;
    for replay in replays.iter().filter(|replay| replay.missing_events > 0) {
        eprintln!(
            "warning: --replay {}: the trace of {} lacks {} events that were overwritten; record with more \
             --trace-events",
            replay.file, replay.recorded_on, replay.missing_events
        );
    }
    Ok(replays)
}

/// Refuses what only block traces have: a trace of kernels has warps and depth of its own.
fn refuse_of_blocks(args: &BenchArgs, replays: &[SsdReplay]) -> Result<(), Ending> {
    let trace = &args.trace;
    let given = [
        ("--replay-only", trace.replay_only.clone()),
        ("--replay-warps", trace.replay_warps.map(|warps| warps.to_string())),
        ("--replay-depth", trace.replay_depth.map(|depth| depth.to_string())),
    ];
    let ours = replays.iter().find(|replay| replay.requests.is_empty());
    let found = given.into_iter().find_map(|(flag, value)| Some((flag, value?)));
    match ours.zip(found) {
        None => Ok(()),
        Some((replay, (flag, value))) => Err(Ending::usage(format!(
            "{flag} {value}: {} is a trace of kernels, which has its own; only block traces take it",
            replay.file
        ))),
    }
}

/// A recording for each SSD, or none for any.
pub fn one_each(replays: Vec<SsdReplay>, ssds: usize) -> Result<Vec<Option<Arc<SsdReplay>>>, Ending> {
    let Some(first) = replays.first() else { return Ok(vec![None; ssds]) };
    if replays.len() != ssds {
        return Err(Ending::usage(format!(
            "--replay {}: a trace of {} SSDs, and {ssds} were named: name as many",
            first.file,
            replays.len()
        )));
    }
    Ok(replays.into_iter().map(|replay| Some(Arc::new(replay))).collect())
}

/// Where the trace goes: opened before anything runs, so that a run is not lost to a bad path.
pub struct TraceOutput {
    file: File,
    path: PathBuf,
    form: TraceForm,
}

/// The file of `--trace`, if one is wanted. A trace is of one run.
pub fn file(args: &BenchArgs, runs: usize) -> Result<Option<TraceOutput>, Ending> {
    let Some(path) = &args.trace.trace else { return Ok(None) };
    if runs > 1 {
        let shown = path.display();
        return Err(Ending::usage(format!(
            "--trace {shown}: a trace is of one run, and --axis makes {runs}; trace one of them"
        )));
    }
    let file = outputs::open("--trace", path)?;
    Ok(Some(TraceOutput { file, path: path.clone(), form: args.trace.trace_format }))
}

impl TraceOutput {
    /// Writes what kernels did on all SSDs.
    pub fn write(&self, reports: &[BenchReport]) -> Result<(), Ending> {
        let runs = || reports.iter().filter_map(|report| Some((report, report.runs.first()?)));
        let of_run = |(report, run): (&BenchReport, &warpbell_workload::Run)| {
            let events = run.traced.as_ref().map(|events| events.to_vec()).unwrap_or_default();
            SsdTrace::new(&report.device, &run.job, run.trace.unwrap_or_default(), events)
        };
        let virtual_time = runs().any(|(_, run)| run.clock == ClockKind::Virtual);
        let target = reports.first().map(|report| report.target.clone()).unwrap_or_default();
        let trace = TraceFile::new(target, virtual_time, runs().map(of_run).collect());
        let written = outputs::empty(&self.file).and_then(|()| trace.write(self.form, &self.file));
        written.map_err(|error| outputs::failed("--trace", &self.path, &error))
    }
}
