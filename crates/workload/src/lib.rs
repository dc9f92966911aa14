//! The workloads behind `warpbell bench`, `digest`, `read` and `write`.
//!
//! [`BenchOptions`] say what is asked for, in fio's words; [`Job::resolve`] checks them against a
//! device; a runner executes the job, from host threads or from kernels, and reports a [`Run`].
//! [`BenchReport`] collects runs and is the JSON document of the command. [`sweep`] makes the
//! combinations of several [`Axis`] values.

mod array;
mod axis;
mod bench;
pub mod calibrate;
mod control;
mod copy;
mod cpu;
mod cpus;
mod digest;
mod distribution;
mod error;
mod experiment;
pub mod fio;
mod group;
mod host;
mod job;
mod kernel;
mod latency;
mod launch;
mod opening;
mod options;
mod origin;
mod outcome;
pub mod permission;
mod points;
mod queues;
mod random;
mod recovery;
pub mod resident;
mod result;
mod schedule;
mod size;
mod statistics;
mod stopwatch;
mod timeline;
mod together;
pub mod trace;
mod unit;
pub mod units;

pub use array::Array;
pub use axis::{Axis, AxisError, MAX_RUNS, NOT_SWEPT, point_name, sweep, swept};
pub use bench::{bench, progress, resolve, shared_out};
pub use control::Control;
pub use copy::{Extent, read_blocks, read_pieces, write_blocks, write_pieces};
pub use cpus::{CpuRange, CpuRangeError};
pub use digest::{DIGEST_SCHEMA, Digest, DigestOptions, DigestedFile, digest};
pub use distribution::{Distribution, DistributionError};
pub use error::RunError;
pub use experiment::{
    EXPECTED, EXPERIMENT_SCHEMA, Experiment, ExperimentOptions, ExperimentReport, Figures, Row,
    StripeOptions, experiment_csv, repeated,
};
pub use group::{GROUP_SCHEMA, GroupReport, GroupRun};
pub use job::{
    BUFFER_LIMIT, CacheShape, DEFAULT_BLOCK, DEFAULT_CACHE, DEFAULT_RUNTIME, FileJob, HISTOGRAM_LIMIT, Job,
    JobError, LANES, Limits, MAX_DEPTH, NamedFile,
};
pub use kernel::{AccessCost, AgentReport, ArrayReport};
pub use latency::{HistogramError, Latency, LatencyHistogram};
pub use opening::{DATA_PLACES, DataPlaceError, Opening, data_place};
pub use options::{
    Access, Api, BenchOptions, Completion, Dbbuf, Policy, Protocol, ReplayFormat, ReplayTiming, Sharing,
    TraceForm, Verify, VolumeApi, VolumePolicy, WordError,
};
pub use origin::{InputFile, Machine, Origin};
pub use points::{
    Compared, PointSummary, Spread, by_point, compare, compare_rows, csv, flag, name_points, summaries,
    unlike, unlike_experiments,
};
pub use queues::{QueueReport, SsdReport};
pub use recovery::{EventReport, RecoveryReport, Trouble};
pub use result::{
    BENCH_SCHEMA, BenchReport, Costs, CostsPerIo, DeviceReport, Failure, Mismatch, PathReport, Run, Skipped,
    Traffic, VerifyReport,
};
pub use size::{ByteSize, UnitError, parse_duration};
pub use statistics::{Interval, holm, median, median_interval, rank_sum};
pub use stopwatch::ClockKind;
pub use timeline::Series;
pub use together::bench_together;
