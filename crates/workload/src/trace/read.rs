//! Reading traces back, in either form.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use warpbell_kernels::abi::TRACE_INDEX_BITS;

use super::block;
use super::chrome::CHROME_SCHEMA;
use super::error::{Reason, ReplayError, TraceError};
use super::event::What;
use super::file::{SsdTrace, TRACE_SCHEMA};
use super::replay::{ReplayCommand, SsdReplay};
use crate::options::{ReplayFormat, ReplayTiming};
use warpbell_hw::Lba;

/// More than any SSD's queues have room for: a file that says so is not believed.
const MOST_WARPS: u32 = 1 << 21;

/// Either form: what both have, and what only one has.
#[derive(Deserialize)]
struct Document {
    schema: Option<String>,
    ssds: Option<Vec<SsdTrace>>,
    #[serde(rename = "traceEvents")]
    trace_events: Option<Vec<Entry>>,
    /// A version, or what the Chrome form says of the trace.
    warpbell: Option<Value>,
}

/// An event of the Chrome form.
#[derive(Deserialize)]
struct Entry {
    ph: String,
    pid: u64,
    #[serde(default)]
    tid: u64,
    #[serde(default)]
    ts: f64,
    cat: Option<String>,
    args: Option<Value>,
}

#[derive(Deserialize)]
struct About {
    schema: String,
    ssds: Vec<SsdTrace>,
}

/// What a `b` entry says of its command.
#[derive(Deserialize)]
struct Command {
    qid: u16,
    opcode: u8,
    lba: u64,
    blocks: u32,
    index: u32,
}

/// A submission, as both forms have it.
struct Submission {
    clock_ns: u64,
    warp: u32,
    command: Command,
}

/// How a file is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// When commands are submitted.
    pub timing: ReplayTiming,
    /// What kind of trace it is.
    pub format: ReplayFormat,
    /// Of a block trace: the only file or disk that is replayed.
    pub only: Option<String>,
    /// Warps that take its requests in turn, each on a queue of its own.
    pub warps: u32,
    /// Commands that each has in flight.
    pub depth: u32,
}

impl From<ReplayTiming> for ReplayOptions {
    /// A trace of ours, or a block trace by one warp with 32 commands in flight.
    fn from(timing: ReplayTiming) -> ReplayOptions {
        ReplayOptions { timing, format: ReplayFormat::Auto, only: None, warps: 1, depth: 32 }
    }
}

/// Reads the trace at `path`: what to submit again on each of its SSDs.
pub fn read_replay(path: &Path, options: &ReplayOptions) -> Result<Vec<SsdReplay>, ReplayError> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| ReplayError::new(&file, error))?;
    let format = match options.format {
        ReplayFormat::Auto => block::recognized(&text),
        named => named,
    };
    if format == ReplayFormat::Warpbell {
        return parse_replay(&file, &text, options.timing);
    }
    Ok(vec![parse_block_trace(&file, &text, format, options)?])
}

/// What to submit, by the text of a block trace `file`.
pub fn parse_block_trace(
    file: &str,
    text: &str,
    format: ReplayFormat,
    options: &ReplayOptions,
) -> Result<SsdReplay, ReplayError> {
    block::parse(file, text, format, options)
}

/// What to submit again, by the text of the trace `file`.
pub fn parse_replay(file: &str, text: &str, timing: ReplayTiming) -> Result<Vec<SsdReplay>, ReplayError> {
    let failed = |error: TraceError| ReplayError::new(file, error);
    let document: Document =
        serde_json::from_str(text).map_err(|error| ReplayError::new(file, Reason::Json(error)))?;
    let found = parts(document).map_err(failed)?;
    let replays = found.into_iter().map(|(ssd, submissions)| of_ssd(file, timing, ssd, submissions));
    replays.collect::<Result<_, _>>().map_err(failed)
}

fn parts(document: Document) -> Result<Vec<(SsdTrace, Vec<Submission>)>, TraceError> {
    match document {
        Document { schema: Some(schema), ssds: Some(ssds), .. } if schema == TRACE_SCHEMA => {
            let mut ssds = ssds;
            let events = ssds.iter_mut().map(|ssd| std::mem::take(&mut ssd.events)).collect::<Vec<_>>();
            let submissions = events.into_iter().map(|events| events.iter().filter_map(submission).collect());
            Ok(ssds.into_iter().zip(submissions).collect())
        }
        Document { trace_events: Some(entries), warpbell: Some(about), .. } => {
            let about: About = serde_json::from_value(about).map_err(|_| TraceError::NoSchemaOfOurs)?;
            if about.schema != CHROME_SCHEMA {
                return Err(TraceError::Schema { schema: about.schema });
            }
            let mut submissions: Vec<Vec<Submission>> = about.ssds.iter().map(|_| Vec::new()).collect();
            for entry in entries.into_iter().filter(|entry| entry.ph == "b") {
                let pid = entry.pid;
                let of_ssd =
                    usize::try_from(pid).ok().and_then(|pid| submissions.get_mut(pid.wrapping_sub(1)));
                let of_ssd = of_ssd.ok_or(TraceError::Process { pid })?;
                of_ssd.extend(span(entry)?);
            }
            Ok(about.ssds.into_iter().zip(submissions).collect())
        }
        Document { schema: Some(schema), .. } => Err(TraceError::Schema { schema }),
        Document { schema: None, .. } => Err(TraceError::NoSchema),
    }
}

fn submission(event: &super::Event) -> Option<Submission> {
    let What::Submit { index, opcode, lba, blocks, .. } = event.what else { return None };
    let command = Command { qid: event.qid, opcode, lba, blocks, index };
    Some(Submission { clock_ns: event.clock_ns, warp: event.warp, command })
}

fn span(entry: Entry) -> Result<Option<Submission>, TraceError> {
    if entry.cat.as_deref() != Some("command") {
        return Ok(None);
    }
    let command: Command = serde_json::from_value(entry.args.unwrap_or_default())
        .map_err(|error| TraceError::Span { at_us: entry.ts, error })?;
    let warp = u32::try_from(entry.tid.saturating_sub(1)).unwrap_or(u32::MAX);
    Ok(Some(Submission { clock_ns: (entry.ts * 1e3).round() as u64, warp, command }))
}

fn of_ssd(
    file: &str,
    timing: ReplayTiming,
    ssd: SsdTrace,
    submissions: Vec<Submission>,
) -> Result<SsdReplay, TraceError> {
    let (begin_ns, warps) = (submissions.iter().map(|one| one.clock_ns).min().unwrap_or(0), ssd.warps);
    if warps > MOST_WARPS {
        return Err(TraceError::Warps { warps, ssd: ssd.device, most: MOST_WARPS });
    }
    let mut of_warps: Vec<Vec<Submission>> = (0..warps).map(|_| Vec::new()).collect();
    for submission in submissions {
        let warp = submission.warp;
        let of_warp = of_warps.get_mut(warp as usize);
        of_warp.ok_or_else(|| TraceError::Warp { warp, ssd: ssd.device.clone(), warps })?.push(submission);
    }
    let warps: Vec<Vec<ReplayCommand>> =
        of_warps.into_iter().map(|of_warp| in_order(of_warp, begin_ns)).collect();
    let (commands, blocks) = warps
        .iter()
        .flatten()
        .fold((0, 0), |(commands, blocks), command| (commands + 1, blocks + u64::from(command.blocks)));
    Ok(SsdReplay {
        file: file.to_owned(),
        timing,
        recorded_on: ssd.device,
        commands,
        bytes: blocks.saturating_mul(ssd.block_size_bytes.into()),
        missing_events: ssd.summary.overwritten_events,
        block_size_bytes: ssd.block_size_bytes,
        queues: ssd.queues,
        sharing: ssd.sharing,
        iodepth: ssd.iodepth,
        warps,
        requests: Vec::new(),
    })
}

/// A warp's commands in the order of their entries: lanes of a batch share their time, or nearly.
fn in_order(mut submissions: Vec<Submission>, begin_ns: u64) -> Vec<ReplayCommand> {
    submissions.sort_by_key(|one| one.clock_ns);
    // Where a queue was replaced, the next has indices of its own.
    let mut queues: BTreeMap<u16, (usize, i64)> = BTreeMap::new();
    let mut keyed: Vec<((usize, i64), Submission)> = Vec::with_capacity(submissions.len());
    for submission in submissions {
        let next = (queues.len(), i64::from(submission.command.index));
        let (queue, last) = queues.entry(submission.command.qid).or_insert(next);
        // The low bits of an index, and where the one before it stood, say which it is.
        let shift = 64 - TRACE_INDEX_BITS;
        *last += (i64::from(submission.command.index).wrapping_sub(*last) << shift) >> shift;
        keyed.push(((*queue, *last), submission));
    }
    keyed.sort_by_key(|(key, _)| *key);
    let replayed = |(_, Submission { clock_ns, command, .. })| {
        let Command { opcode, lba, blocks, .. } = command;
        ReplayCommand { at_ns: clock_ns - begin_ns, opcode, lba: Lba(lba), blocks }
    };
    let mut commands: Vec<ReplayCommand> = keyed.into_iter().map(replayed).collect();
    // Times follow the order, so that no command waits for one that comes later.
    let mut latest = 0;
    for command in &mut commands {
        latest = latest.max(command.at_ns);
        command.at_ns = latest;
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_decide_where_clocks_tie_and_wrap() {
        let last = (1 << TRACE_INDEX_BITS) - 1;
        let one = |clock_ns, qid, index, lba| Submission {
            clock_ns,
            warp: 0,
            command: Command { qid, opcode: 2, lba, blocks: 1, index },
        };
        let submissions = vec![
            one(10, 1, last - 1, 0),
            one(10, 1, 0, 2),
            one(10, 1, last, 1),
            one(11, 1, 1, 3),
            one(20, 5, 0, 4),
            one(21, 5, 1, 5),
        ];
        let order: Vec<(u64, u64)> =
            in_order(submissions, 10).iter().map(|command| (command.lba.get(), command.at_ns)).collect();
        assert_eq!(order, [(0, 0), (1, 0), (2, 0), (3, 1), (4, 10), (5, 11)]);
    }

    #[test]
    fn what_is_no_trace_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        let said = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_replay(&path, &ReplayTiming::Asap.into()).unwrap_err().to_string()
        };
        assert!(said("{").contains("x.json: no trace of warpbell bench"));
        assert!(
            said(r#"{"schema": "other/1"}"#).contains("schema other/1: expected schema warpbell.trace/1")
        );
        assert!(said(r#"{"traceEvents": []}"#).contains("expected schema"));
        let of_warp = |warps: u32| {
            let summary = serde_json::to_string(&super::super::TraceSummary::default()).unwrap();
            format!(
                r#"{{"schema": "warpbell.trace/1", "ssds": [{{"device": "d", "serial": "s", "nsid": 1,
                "block_size_bytes": 512, "blocks": 8, "queues": 1, "warps": {warps}, "sharing": "shared",
                "iodepth": 1, "summary": {summary}, "events": [{{"clock_ns": 1, "warp": 3, "lane": 0, "qid": 1,
                "event": "submit", "cid": 0, "generation": 1, "index": 0, "opcode": 2, "lba": 0, "blocks": 1}}]}}]}}"#
            )
        };
        assert!(said(&of_warp(2)).ends_with("a command of warp 3, on d with 2"));
        assert!(said(&of_warp(u32::MAX)).contains("4294967295 warps on d: there can be at most 2097152"));
        std::fs::remove_file(&path).unwrap();
        let gone = read_replay(&path, &ReplayTiming::Asap.into()).unwrap_err().to_string();
        assert!(gone.starts_with(&format!("--replay {}: No such file", path.display())), "{gone}");
    }
}
