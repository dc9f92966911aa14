//! Traces that kernels write, and replays of them.

use std::sync::Arc;

use warpbell::{OpenOptions, Ssd};
use warpbell_workload::trace::{SsdReplay, SsdTrace, TraceFile, What, read_replay};
use warpbell_workload::{
    Access, BenchOptions, ByteSize, Control, DeviceReport, ReplayTiming, Run, Sharing, TraceForm, bench,
    resolve,
};

use crate::run::Fixture;

/// Commands of the recording.
const COMMANDS: u64 = 2048;

/// A run on a shared queue is traced, written, read, and submitted again: the same commands, batched, in a trace that
/// lacks nothing.
pub fn recorded_and_replayed(fixture: &Fixture) -> anyhow::Result<String> {
    let ssd = fixture.soft("size=16m", &OpenOptions::default())?;
    let options = BenchOptions {
        rw: Access::RandRw,
        bs: ByteSize(4096),
        iodepth: 128,
        warps: Some(4),
        sharing: Sharing::Shared,
        io_limit: Some(ByteSize(COMMANDS * 4096)),
        trace_events: Some(1 << 16),
        ..BenchOptions::default()
    };
    let recorded = run(fixture, &ssd, &options)?;
    let summary = recorded.trace.unwrap_or_default();
    anyhow::ensure!(summary.overwritten_events == 0, "events are missing: {summary:?}");
    anyhow::ensure!(summary.commands_per_doorbell > 1.0, "no batches: {summary:?}");
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("trace.json");
    for form in [TraceForm::Json, TraceForm::Chrome] {
        file(fixture, &ssd, &recorded)?.save(form, &path)?;
        let mut replays = read_replay(&path, &ReplayTiming::Asap.into())?;
        let replay: SsdReplay =
            replays.pop().ok_or_else(|| anyhow::anyhow!("{form}: no SSD in the trace"))?;
        let again = run(fixture, &ssd, &BenchOptions { replay: Some(Arc::new(replay)), ..options.clone() })?;
        let same = commands(&recorded) == commands(&again);
        anyhow::ensure!(same, "{form}: a replay of other commands than were recorded");
    }
    fixture.no_violations(&ssd)?;
    let step = summary.smallest_clock_step_ns.map_or("none".to_owned(), |step| format!("{step} ns"));
    Ok(format!(
        "{} commands, {:.1} for each doorbell, smallest step of the clock {step}; both forms replayed",
        summary.commands, summary.commands_per_doorbell
    ))
}

fn run(fixture: &Fixture, ssd: &Ssd, options: &BenchOptions) -> anyhow::Result<Run> {
    let run = bench(ssd, fixture.target, &resolve(ssd, options)?, &Control::new())?;
    anyhow::ensure!(run.errors == 0, "{} errors, first: {:?}", run.errors, run.failures.first());
    Ok(run)
}

fn file(fixture: &Fixture, ssd: &Ssd, run: &Run) -> anyhow::Result<TraceFile> {
    let events = run.traced.as_ref().map(|events| events.to_vec()).unwrap_or_default();
    let device = DeviceReport::of(ssd, run.job.nsid)?;
    let trace = SsdTrace::new(&device, &run.job, run.trace.unwrap_or_default(), events);
    Ok(TraceFile::new(fixture.target.to_string(), false, vec![trace]))
}

/// Warp, opcode, first block and blocks of each command, sorted.
fn commands(run: &Run) -> Vec<(u32, u8, u64, u32)> {
    let events = run.traced.iter().flat_map(|events| events.iter());
    let mut commands: Vec<_> = events
        .filter_map(|event| match event.what {
            What::Submit { opcode, lba, blocks, .. } => Some((event.warp, opcode, lba, blocks)),
            _ => None,
        })
        .collect();
    commands.sort_unstable();
    commands
}
