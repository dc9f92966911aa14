//! Why a file is not replayed.

use super::block::FIO;
use super::chrome::CHROME_SCHEMA;
use super::file::TRACE_SCHEMA;

/// A file that is no trace of ours, and no block trace.
#[derive(Debug, thiserror::Error)]
#[error("--replay {file}: {reason}")]
pub struct ReplayError {
    file: String,
    reason: Reason,
}

impl ReplayError {
    pub(super) fn new(file: &str, reason: impl Into<Reason>) -> ReplayError {
        ReplayError { file: file.to_owned(), reason: reason.into() }
    }
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub(super) enum Reason {
    #[error("{0}")]
    File(#[from] std::io::Error),
    #[error("no trace of warpbell bench: {0}")]
    Json(serde_json::Error),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Line(#[from] LineError),
    #[error("it has no I/O{}", only.as_ref().map_or(String::new(), |only| format!(" of {only}")))]
    NoIo { only: Option<String> },
}

/// What is wrong with a trace of kernels.
#[derive(Debug, thiserror::Error)]
pub(super) enum TraceError {
    #[error("expected schema {TRACE_SCHEMA} or {CHROME_SCHEMA}, as --trace writes them")]
    NoSchemaOfOurs,
    #[error("schema {schema}: {}", TraceError::NoSchemaOfOurs)]
    Schema { schema: String },
    #[error("it names no schema: {}", TraceError::NoSchemaOfOurs)]
    NoSchema,
    #[error("process {pid} is no SSD of this trace")]
    Process { pid: u64 },
    #[error("a span at {at_us} us does not say its command: {error}")]
    Span { at_us: f64, error: serde_json::Error },
    #[error("{warps} warps on {ssd}: there can be at most {most}")]
    Warps { warps: u32, ssd: String, most: u32 },
    #[error("a command of warp {warp}, on {ssd} with {warps}")]
    Warp { warp: u32, ssd: String, warps: u32 },
}

/// What is wrong with a line of a block trace.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {wrong}")]
pub(super) struct LineError {
    pub(super) line: u64,
    pub(super) wrong: Wrong,
}

/// What is wrong there.
#[derive(Debug, thiserror::Error)]
pub(super) enum Wrong {
    #[error("'{first}': expected '{}' or '{}'", FIO[0], FIO[1])]
    Version { first: String },
    #[error("'{name}': before it is '{known}'; choose one by --replay-only")]
    OtherFile { name: String, known: String },
    #[error("{what} '{text}': expected a whole number below 2^64")]
    Number { what: &'static str, text: String },
    #[error("action '{action}': expected read, write, trim, sync, datasync, add, open or close")]
    Action { action: String },
    #[error("{fields} fields: expected 7, Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime")]
    Fields { fields: usize },
    #[error("type '{kind}': expected Read or Write")]
    Type { kind: String },
}

impl Wrong {
    pub(super) fn at(self, line: u64) -> LineError {
        LineError { line, wrong: self }
    }
}
