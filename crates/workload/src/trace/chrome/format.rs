//! The trace event format itself: what an event is, and how events make a file.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

/// One event of the format. Times are microseconds from the beginning of the trace.
#[derive(Debug, Default, Serialize)]
pub struct ChromeEvent<'a> {
    /// What viewers show.
    pub name: &'a str,
    /// What kind of event it is, by which viewers select.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cat: Option<&'static str>,
    /// The phase: `b` and `e` for the ends of a span, `X` for a whole one, `i` for a mark, `C` for a counter, `M` for names.
    pub ph: &'static str,
    /// When.
    pub ts: f64,
    /// How long, of a whole span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dur: Option<f64>,
    /// The process: a group of tracks.
    pub pid: usize,
    /// The track.
    pub tid: u32,
    /// By which the two ends of a span know each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How far a mark reaches: `t` for its track.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s: Option<&'static str>,
    /// What else there is to say.
    pub args: Value,
}

/// Writes events as elements of an array, one a line.
#[derive(Debug)]
pub struct ChromeWriter<W> {
    into: W,
    first: bool,
}

impl<W: Write> ChromeWriter<W> {
    /// Begins a file.
    pub fn begin(mut into: W) -> io::Result<ChromeWriter<W>> {
        into.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(ChromeWriter { into, first: true })
    }

    /// Adds an event.
    pub fn put(&mut self, event: &ChromeEvent<'_>) -> io::Result<()> {
        self.into.write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        Ok(serde_json::to_writer(&mut self.into, event)?)
    }

    /// Names a group of tracks, or one track of it.
    pub fn name(&mut self, kind: &'static str, (pid, tid): (usize, u32), name: &str) -> io::Result<()> {
        let args = json!({ "name": name });
        self.put(&ChromeEvent { name: kind, ph: "M", pid, tid, args, ..ChromeEvent::default() })
    }

    /// Ends the file with what it is about, under the key `warpbell`.
    pub fn end(mut self, about: &Value) -> io::Result<()> {
        self.into.write_all(b"\n],\"warpbell\":")?;
        serde_json::to_writer(&mut self.into, about)?;
        self.into.write_all(b"}\n")?;
        self.into.flush()
    }
}
