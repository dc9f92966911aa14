//! What the kernels of `warpbell bench`, `replay` and `digest` share with their host: both are of one build.

mod args;
mod constants;
mod kernel_args;
mod lab;
mod replay;
mod resident;
mod results;
mod variants;

pub use args::*;
pub use constants::*;
pub use kernel_args::BENCH_REQUEST_QUEUE_BYTES;
pub use lab::*;
pub use replay::*;
pub use resident::*;
pub use results::*;
pub use variants::*;

use super::Layout;

/// Every mirrored struct of the bench ABI.
pub const BENCH_STRUCTS: &[Layout] = &[
    Layout::of::<WarpResult>(),
    Layout::of::<BenchArgs>(),
    Layout::of::<UnitHeader>(),
    Layout::of::<ChunkResult>(),
    Layout::of::<DigestArgs>(),
    Layout::of::<ResidentQueue>(),
    Layout::of::<ResidentFlight>(),
    Layout::of::<ResidentArgs>(),
    Layout::of::<GaugeResult>(),
    Layout::of::<GaugeArgs>(),
    Layout::of::<ReplayCommand>(),
    Layout::of::<ReplayResult>(),
    Layout::of::<ReplayArgs>(),
    Layout::of::<LabArgs>(),
    Layout::of::<AgentCounts>(),
    Layout::of::<BenchAgentArgs>(),
    Layout::of::<BenchBatchArgs>(),
    Layout::of::<BenchArrayArgs>(),
    Layout::of::<BenchVolumeArgs>(),
];
