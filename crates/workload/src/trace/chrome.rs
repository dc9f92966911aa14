//! The trace event format of Chrome's viewers: a process for each SSD, a track for each warp, a span for each
//! command, marks for doorbells and collections, and a counter of what is outstanding.

mod format;

use std::collections::BTreeMap;
use std::io::{self, Write};
use warpbell::describe_status;

use serde_json::{Value, json};

use super::event::{Event, What, opcode_word};
use super::file::{SsdTrace, TraceFile};
pub use format::{ChromeEvent, ChromeWriter};

/// Name and version of what stands under the key `warpbell`.
pub const CHROME_SCHEMA: &str = "warpbell.chrome-trace/1";

pub(super) fn write(trace: &TraceFile, into: impl Write) -> io::Result<()> {
    let begin_ns = trace.ssds.iter().filter_map(|ssd| ssd.events.first()).map(|event| event.clock_ns).min();
    let begin_ns = begin_ns.unwrap_or(0);
    let mut array = ChromeWriter::begin(into)?;
    let mut ids = 0;
    for (index, ssd) in trace.ssds.iter().enumerate() {
        let pid = index + 1;
        describe_tracks(&mut array, pid, ssd)?;
        ids = Process { pid, begin_ns, ids, open: BTreeMap::new(), outstanding: BTreeMap::new() }
            .write(&mut array, ssd)?;
    }
    array.end(&about(trace, begin_ns))
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

fn describe_tracks<W: Write>(array: &mut ChromeWriter<W>, pid: usize, ssd: &SsdTrace) -> io::Result<()> {
    array.name("process_name", (pid, 0), &format!("{} {}", ssd.device, ssd.serial))?;
    for warp in 0..ssd.warps {
        let queues = ssd.queues.max(1);
        let track = format!("warp {warp} (queue {}, slot {})", warp % queues, warp / queues);
        array.name("thread_name", (pid, track_of(warp)), &track)?;
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
    fn write<W: Write>(mut self, array: &mut ChromeWriter<W>, ssd: &SsdTrace) -> io::Result<u64> {
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

    fn event<W: Write>(&mut self, array: &mut ChromeWriter<W>, event: &Event) -> io::Result<()> {
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
                let words = if status == 0 { "success".to_owned() } else { describe_status(status) };
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
                self.mark(array, event, "refused", json!({"lane": lane, "status": describe_status(status)}))
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
        array: &mut ChromeWriter<W>,
        ph: &'static str,
        ts: f64,
        warp: u32,
        (id, name): Span,
        args: Value,
    ) -> io::Result<()> {
        let (tid, id) = (track_of(warp), Some(format!("{id:#x}")));
        array.put(&ChromeEvent {
            name,
            cat: Some("command"),
            ph,
            ts,
            pid: self.pid,
            tid,
            id,
            args,
            ..ChromeEvent::default()
        })
    }

    fn mark<W: Write>(
        &self,
        array: &mut ChromeWriter<W>,
        event: &Event,
        name: &str,
        args: Value,
    ) -> io::Result<()> {
        let (ts, tid) = (self.time(event), track_of(event.warp));
        let (cat, s, pid) = (Some("queue"), Some("t"), self.pid);
        array.put(&ChromeEvent { name, cat, ph: "i", ts, pid, tid, s, args, ..ChromeEvent::default() })
    }

    /// What is outstanding on the event's queue, now that so many completions were collected.
    fn count<W: Write>(
        &mut self,
        array: &mut ChromeWriter<W>,
        event: &Event,
        collected: i64,
    ) -> io::Result<()> {
        let outstanding = self.outstanding.entry(event.qid).or_default();
        // Of commands whose submission was overwritten only the completion is known.
        *outstanding = (*outstanding - collected).max(0);
        let args = json!({"commands": *outstanding});
        let name = format!("outstanding on queue {}", event.qid);
        let (ts, pid) = (self.time(event), self.pid);
        array.put(&ChromeEvent { name: &name, ph: "C", ts, pid, args, ..ChromeEvent::default() })
    }
}
