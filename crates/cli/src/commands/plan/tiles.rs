//! `plan tiles --trace`: when each tile is loaded and computed on.

use std::io::{self, BufWriter, Write};

use serde_json::json;
use warpbell_plan::{Settings, TileSchedule};
use warpbell_workload::TraceForm;
use warpbell_workload::trace::{ChromeEvent, ChromeWriter};

use super::refusal;
use crate::args::{Global, Output, TraceTo};
use crate::exit::Ending;
use crate::out;
use crate::outputs;

/// Name and version of what stands under the key `warpbell` of a file for viewers.
const CHROME_SCHEMA: &str = "warpbell.plan.tiles.chrome-trace/1";

/// Writes the schedule. True where that was in place of the answer.
pub fn trace(to: &TraceTo, settings: &Settings<'_>, global: &Global) -> Result<bool, Ending> {
    let schedule = TileSchedule::of(settings).map_err(refusal)?;
    match to {
        TraceTo::Stdout => match global.output() {
            Output::Normal => out::text(&schedule.text())?,
            Output::Json => out::json(&schedule)?,
        },
        TraceTo::File(path, form) => {
            let file = BufWriter::new(outputs::create("--trace", path)?);
            write(&schedule, *form, file).map_err(|error| outputs::failed("--trace", path, &error))?;
        }
    }
    Ok(*to == TraceTo::Stdout)
}

fn write(schedule: &TileSchedule, form: TraceForm, mut into: impl Write) -> io::Result<()> {
    match form {
        TraceForm::Chrome => chrome(schedule, into),
        TraceForm::Json => {
            serde_json::to_writer(&mut into, schedule)?;
            into.write_all(b"\n")?;
            into.flush()
        }
    }
}

/// A track for the loads of each buffer, and one for the computations.
fn chrome(schedule: &TileSchedule, into: impl Write) -> io::Result<()> {
    const PROCESS: usize = 1;
    let mut writer = ChromeWriter::begin(into)?;
    writer.name("process_name", (PROCESS, 0), "plan tiles")?;
    writer.name("thread_name", (PROCESS, 1), "compute")?;
    let track = |buffer: u64| u32::try_from(buffer + 2).unwrap_or(u32::MAX);
    for buffer in 0..schedule.buffers {
        writer.name("thread_name", (PROCESS, track(buffer)), &format!("loads into buffer {buffer}"))?;
    }
    for step in &schedule.tiles {
        let mut span = |what: &str, tid, ts, end: f64| {
            let (name, args) = (format!("{what} {}", step.tile), json!({ "buffer": step.buffer }));
            let (cat, dur, pid) = (Some("tile"), Some(end - ts), PROCESS);
            let rest = ChromeEvent::default();
            writer.put(&ChromeEvent { name: &name, cat, ph: "X", ts, dur, pid, tid, args, ..rest })
        };
        span("load", track(step.buffer), step.load_start_us, step.load_end_us)?;
        span("compute", 1, step.compute_start_us, step.compute_end_us)?;
    }
    writer.end(&json!({
        "schema": CHROME_SCHEMA,
        "warpbell": schedule.warpbell,
        "buffers": schedule.buffers,
        "tile_bytes": schedule.tile_bytes,
        "end_us": schedule.end_us,
        "stall_us": schedule.stall_us,
    }))
}
