//! Traces: what kernels wrote down of a run, as files, and as a workload to run again.

mod block;
mod chrome;
mod error;
mod event;
mod file;
mod read;
mod replay;
mod summary;

pub use block::BlockRequest;
pub(crate) use block::COMMANDS_MAX;
pub use chrome::{CHROME_SCHEMA, ChromeEvent, ChromeWriter};
pub use error::ReplayError;
pub use event::{Event, What};
pub(crate) use file::collected;
pub use file::{Clock, SsdTrace, TRACE_SCHEMA, TraceFile};
pub use read::{ReplayOptions, parse_block_trace, parse_replay, read_replay};
pub(crate) use replay::adapted;
pub use replay::{ReplayCommand, SsdReplay};
pub use summary::TraceSummary;

/// Events of each warp that a trace keeps unless asked otherwise.
pub const DEFAULT_TRACE_EVENTS: u32 = 1 << 16;
/// The most memory that the traces of one run may take.
pub const TRACE_LIMIT: u64 = 4 << 30;
