//! The trace event format of Chrome's viewers: a process for each SSD, a track for each warp, a span for each
//! command, marks for doorbells and collections, and a counter of what is outstanding.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use super::event::{Event, What, opcode_word};
use super::file::{SsdTrace, TraceFile};
use crate::status::describe;

/// Name and version of what stands under the key `warpbell`.
pub const CHROME_SCHEMA: &str = "warpbell.chrome-trace/1";

/// One event of the format. Times are microseconds from the trace's first event.
#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    ph: &'static str,
    ts: f64,
    pid: usize,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    args: Value,
}

/// Writes entries as elements of an array, one a line.
struct Array<W> {
    into: W,
    first: bool,
}

impl<W: Write> Array<W> {
    fn put(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        self.into.write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        Ok(serde_json::to_writer(&mut self.into, entry)?)
    }
}

pub(super) fn write(trace: &TraceFile, mut into: impl Write) -> io::Result<()> {
    into.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let begin_ns = trace.ssds.iter().filter_map(|ssd| ssd.events.first()).map(|event| event.clock_ns).min();
    let begin_ns = begin_ns.unwrap_or(0);
    let mut array = Array { into: &mut into, first: true };
    let mut ids = 0;
    for (index, ssd) in trace.ssds.iter().enumerate() {
        let pid = index + 1;
        describe_tracks(&mut array, pid, ssd)?;
        ids = Process { pid, begin_ns, ids, open: BTreeMap::new(), outstanding: BTreeMap::new() }
            .write(&mut array, ssd)?;
    }
    into.write_all(b"\n],\"warpbell\":")?;
    serde_json::to_writer(&mut into, &about(trace, begin_ns))?;
    into.write_all(b"}\n")
}

/// All but the events themselves.
fn about(trace: &TraceFile, begin_ns: u64) -> Value {
    let without_events = |ssd: &SsdTrace| SsdTrace { events: Vec::new(), ..ssd.clone() };
    let ssds: Vec<SsdTrace> = trace.ssds.iter().map(without_events).collect();
    json!({
        "schema": CHROME_SCHEMA,
        "warpbell": trace.warpbell,
        "target": trace.target,
        "clock": trace.clock,
        "begin_ns": begin_ns,
        "ssds": ssds,
    })
}

fn describe_tracks<W: Write>(array: &mut Array<W>, pid: usize, ssd: &SsdTrace) -> io::Result<()> {
    let mut name = |name, tid, args| {
        array.put(&Entry { name, cat: None, ph: "M", ts: 0.0, pid, tid, id: None, s: None, args })
    };
    name("process_name", 0, json!({"name": format!("{} {}", ssd.device, ssd.serial)}))?;
    for warp in 0..ssd.warps {
        let queues = ssd.queues.max(1);
        let track = format!("warp {warp} (queue {}, slot {})", warp % queues, warp / queues);
        name("thread_name", track_of(warp), json!({"name": track}))?;
    }
    Ok(())
}

/// The track of a warp: 0 is the process's own.
fn track_of(warp: u32) -> u32 {
    warp + 1
}

/// A command in flight, by lane, queue, command identifier and generation.
type Command = (u32, u32, u16, u32, u32);

/// A span that has begun: its number, and the word for its opcode.
type Span = (u64, &'static str);

struct Process {
    pid: usize,
    begin_ns: u64,
    /// Spans of all processes so far.
    ids: u64,
    open: BTreeMap<Command, Span>,
    /// By queue: commands whose completions were not collected.
    outstanding: BTreeMap<u16, i64>,
}

impl Process {
    /// Returns the number of spans so far.
    fn write<W: Write>(mut self, array: &mut Array<W>, ssd: &SsdTrace) -> io::Result<u64> {
        for event in &ssd.events {
            self.event(array, event)?;
        }
        // What was in flight when the trace ended.
        let ts = ssd.events.last().map_or(0.0, |event| self.time(event));
        for ((warp, ..), span) in std::mem::take(&mut self.open) {
            self.span(array, "e", ts, warp, span, json!({"status": "not answered in this trace"}))?;
        }
        Ok(self.ids)
    }

    fn time(&self, event: &Event) -> f64 {
        (event.clock_ns - self.begin_ns) as f64 / 1e3
    }

    fn event<W: Write>(&mut self, array: &mut Array<W>, event: &Event) -> io::Result<()> {
        let (qid, lane) = (event.qid, event.lane);
        match event.what {
            What::Submit { cid, generation, index, opcode, lba, blocks } => {
                self.ids += 1;
                let span = (self.ids, opcode_word(opcode));
                let key = (event.warp, lane, qid, cid, generation);
                if let Some(lost) = self.open.insert(key, span) {
                    let status = json!({"status": "its answer is not in this trace"});
                    self.span(array, "e", self.time(event), event.warp, lost, status)?;
                }
                *self.outstanding.entry(qid).or_default() += 1;
                let args = json!({"qid": qid, "cid": cid, "lane": lane, "opcode": opcode, "lba": lba,
                    "blocks": blocks, "index": index});
                self.span(array, "b", self.time(event), event.warp, span, args)
            }
            What::Complete { cid, generation, status } => {
                let words = if status == 0 { "success".to_owned() } else { describe(status) };
                let args = json!({"status": words});
                match self.open.remove(&(event.warp, lane, qid, cid, generation)) {
                    Some(span) => self.span(array, "e", self.time(event), event.warp, span, args),
                    None => self.mark(array, event, "answer", args),
                }
            }
            What::SqDoorbell { index, value, register } => {
                let args = json!({"qid": qid, "index": index, "value": value, "register": register});
                self.mark(array, event, "sq doorbell", args)?;
                self.count(array, event, 0)
            }
            What::CqDoorbell { index, value, register } => {
                let args = json!({"qid": qid, "index": index, "value": value, "register": register});
                self.mark(array, event, "cq doorbell", args)
            }
            What::Reap { index, completions, spurious } => {
                let args =
                    json!({"qid": qid, "index": index, "completions": completions, "spurious": spurious});
                self.mark(array, event, "reap", args)?;
                self.count(array, event, i64::from(completions) - i64::from(spurious))
            }
            What::Refuse { status } => {
                self.mark(array, event, "refused", json!({"lane": lane, "status": describe(status)}))
            }
            What::Late { cid } => {
                self.mark(array, event, "late", json!({"qid": qid, "lane": lane, "cid": cid}))
            }
            What::Attach { epoch, warp_slot } => {
                let args = json!({"qid": qid, "epoch": epoch, "warp_slot": warp_slot});
                self.mark(array, event, "attach", args)
            }
        }
    }

    fn span<W: Write>(
        &self,
        array: &mut Array<W>,
        ph: &'static str,
        ts: f64,
        warp: u32,
        (id, name): Span,
        args: Value,
    ) -> io::Result<()> {
        let (tid, id) = (track_of(warp), Some(format!("{id:#x}")));
        array.put(&Entry { name, cat: Some("command"), ph, ts, pid: self.pid, tid, id, s: None, args })
    }

    fn mark<W: Write>(&self, array: &mut Array<W>, event: &Event, name: &str, args: Value) -> io::Result<()> {
        let (ts, tid) = (self.time(event), track_of(event.warp));
        let (cat, s) = (Some("queue"), Some("t"));
        array.put(&Entry { name, cat, ph: "i", ts, pid: self.pid, tid, id: None, s, args })
    }

    /// What is outstanding on the event's queue, now that so many completions were collected.
    fn count<W: Write>(&mut self, array: &mut Array<W>, event: &Event, collected: i64) -> io::Result<()> {
        let outstanding = self.outstanding.entry(event.qid).or_default();
        // Of commands whose submission was overwritten only the completion is known.
        *outstanding = (*outstanding - collected).max(0);
        let args = json!({"commands": *outstanding});
        let name = format!("outstanding on queue {}", event.qid);
        let ts = self.time(event);
        let entry =
            Entry { name: &name, cat: None, ph: "C", ts, pid: self.pid, tid: 0, id: None, s: None, args };
        array.put(&entry)
    }
}
