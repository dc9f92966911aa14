//! Traces as files: the whole list of events, or the form that viewers of Chrome traces read.

use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use warpbell::{LaneTrace, TraceMemory};

use super::chrome;
use super::event::Event;
use super::summary::TraceSummary;
use crate::job::Job;
use crate::options::{Sharing, TraceForm};
use crate::result::DeviceReport;

/// Name and version of the whole list's form.
pub const TRACE_SCHEMA: &str = "warpbell.trace/1";

/// The clock that events were stamped by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// `monotonic`, `virtual`, or `globaltimer`: the GPU's.
    pub source: String,
    /// The smallest step that was seen in this trace: the clock ticks at least that often.
    pub smallest_step_ns: Option<u64>,
}

/// What kernels did on one SSD.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SsdTrace {
    /// The name that it was opened by.
    pub device: String,
    /// Serial number.
    pub serial: String,
    /// Namespace.
    pub nsid: u32,
    /// Bytes of a block.
    pub block_size_bytes: u32,
    /// Blocks of the namespace.
    pub blocks: u64,
    /// Queue pairs: warp w used queue w modulo their number.
    pub queues: u32,
    /// Warps over all queues.
    pub warps: u32,
    /// Whether warps shared queues.
    pub sharing: Sharing,
    /// Outstanding commands per queue, at most.
    pub iodepth: u32,
    /// In few numbers.
    pub summary: TraceSummary,
    /// By clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
}

/// A trace of one run, of all SSDs that took part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceFile {
    /// [`TRACE_SCHEMA`], or [`CHROME_SCHEMA`](super::CHROME_SCHEMA).
    pub schema: &'static str,
    /// Version of Warpbell.
    pub warpbell: &'static str,
    /// Where kernels ran.
    pub target: String,
    /// What stamped the events.
    pub clock: Clock,
    /// The SSDs.
    pub ssds: Vec<SsdTrace>,
}

/// All events of some lanes in the order of their clocks, with how many were written.
pub(crate) fn collected(memory: &TraceMemory) -> Result<(Vec<Event>, u64), warpbell::Error> {
    let lanes: Vec<LaneTrace> = memory.read()?;
    let written = lanes.iter().map(|lane| lane.written).sum();
    let mut events: Vec<Event> = lanes.iter().flat_map(Event::of_lane).collect();
    // A lane's own events keep their order where the clock ticks slowly.
    events.sort_by_key(|event| event.clock_ns);
    Ok((events, written))
}

impl SsdTrace {
    /// The trace of a run of `job` on `device`.
    pub fn new(device: &DeviceReport, job: &Job, summary: TraceSummary, events: Vec<Event>) -> SsdTrace {
        SsdTrace {
            device: device.name.clone(),
            serial: device.serial.clone(),
            nsid: device.nsid,
            block_size_bytes: device.block_size_bytes,
            blocks: device.blocks,
            queues: job.queues.into(),
            warps: job.warps,
            sharing: job.sharing,
            iodepth: job.iodepth,
            summary,
            events,
        }
    }
}

impl TraceFile {
    /// Of a run on `target`; `virtual_time`: its clock is a stepped controller's.
    pub fn new(target: String, virtual_time: bool, ssds: Vec<SsdTrace>) -> TraceFile {
        let source = match (virtual_time, !target.starts_with("cpu")) {
            (true, _) => "virtual",
            (false, true) => "globaltimer",
            (false, false) => "monotonic",
        };
        let smallest_step_ns = ssds.iter().filter_map(|ssd| ssd.summary.smallest_clock_step_ns).min();
        let clock = Clock { source: source.to_owned(), smallest_step_ns };
        TraceFile { schema: TRACE_SCHEMA, warpbell: env!("CARGO_PKG_VERSION"), target, clock, ssds }
    }

    /// Writes it.
    pub fn write(&self, form: TraceForm, into: impl Write) -> io::Result<()> {
        let mut into = io::BufWriter::new(into);
        match form {
            TraceForm::Chrome => chrome::write(self, &mut into)?,
            TraceForm::Json => {
                serde_json::to_writer(&mut into, self)?;
                into.write_all(b"\n")?;
            }
        }
        into.flush()
    }

    /// Writes it to the file at `path`.
    pub fn save(&self, form: TraceForm, path: &Path) -> io::Result<()> {
        self.write(form, std::fs::File::create(path)?)
    }
}
