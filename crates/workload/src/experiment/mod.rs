//! Experiments by name: what papers compare, side by side in one run, with what each way costs.
//!
//! Each counts what it claims (copies, mappings, doorbells, interrupts), and where a model says what to expect, its rows
//! have that beside what was measured. docs/experiments.md has a section for each.

mod arbitration;
mod batching;
mod cold;
mod csv;
mod figures;
mod file_reads;
mod host_reads;
mod limits;
mod models;
mod notice;
mod order;
mod path;
mod proof;
mod registration;
mod repeats;
mod stripe;
mod tail;
mod tiles;
mod turns;
mod unfit;
mod workloads;

use std::path::PathBuf;
use std::time::Duration;

use warpbell::{Ssd, Target};
use warpbell_driver::Coalescing;
use warpbell_hw::Nsid;

pub use csv::experiment_csv;
pub use figures::{EXPECTED, ExperimentReport, Figures, Row};
use models::{Known, Model};
pub use repeats::repeated;
pub use stripe::StripeOptions;
use turns::Way;

use crate::control::Control;
use crate::error::RunError;
use crate::job::{Job, JobError};
use crate::kernel::KernelRunner;
use crate::latency::LatencyHistogram;
use crate::options::BenchOptions;
use crate::outcome::Outcome;
use crate::result::{DeviceReport, PathReport, Run, Skipped};
use crate::size::ByteSize;
use crate::stopwatch::ClockKind;

/// Name and version of the document's form.
pub const EXPERIMENT_SCHEMA: &str = "warpbell.experiment/1";

/// Which experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Ways of data: by the kernel's own commands, bounced by the host, by the operating system.
    Path,
    /// When memory is made reachable: once, for each I/O, or kept for later ones.
    Registration,
    /// How many commands share a doorbell, and a queue.
    Batching,
    /// Several SSDs as one volume.
    Stripe,
    /// How completions are noticed.
    Notice,
    /// Latencies while other threads want the processors.
    Tail,
    /// Classes of ordering.
    Order,
    /// Tiles from the SSD to shared memory.
    Tiles,
    /// Kernels and the host on one SSD, with weights.
    Arbitration,
    /// The first I/Os after nothing was there.
    Cold,
    /// A store of keys and values, by token and layer.
    Kv,
    /// A state saved and restored, sharded over SSDs.
    Checkpoint,
    /// Samples for training, in shuffled epochs.
    Loader,
    /// A breadth-first search over edges on the SSD.
    Graph,
    /// Nearest neighbours of vectors on the SSD.
    Vectors,
}

impl Experiment {
    /// Whether it runs the requests of a program, bounded by their number and not by time.
    pub const fn is_workload(self) -> bool {
        use Experiment::{Checkpoint, Graph, Kv, Loader, Vectors};
        matches!(self, Kv | Checkpoint | Loader | Graph | Vectors)
    }

    /// Whether it writes.
    pub const fn writes(self) -> bool {
        matches!(self, Experiment::Kv | Experiment::Checkpoint)
    }

    /// Whether the SSD is to serve queues by their priority.
    pub const fn needs_weights(self) -> bool {
        matches!(self, Experiment::Arbitration)
    }

    /// Whether it takes several SSDs.
    pub const fn takes_several(self) -> bool {
        matches!(self, Experiment::Stripe | Experiment::Checkpoint)
    }
}

impl Experiment {
    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Experiment::Path => "path",
            Experiment::Registration => "registration",
            Experiment::Batching => "batching",
            Experiment::Stripe => "stripe",
            Experiment::Notice => "notice",
            Experiment::Tail => "tail",
            Experiment::Order => "order",
            Experiment::Tiles => "tiles",
            Experiment::Arbitration => "arbitration",
            Experiment::Cold => "cold",
            Experiment::Kv => "kv",
            Experiment::Checkpoint => "checkpoint",
            Experiment::Loader => "loader",
            Experiment::Graph => "graph",
            Experiment::Vectors => "vectors",
        }
    }
}

/// I/Os in flight where nobody says how many.
const DEPTH: u32 = 16;

impl Experiment {
    /// I/Os in flight by itself, and whether others may be asked for.
    pub const fn depth(self) -> (u32, bool) {
        match self {
            Experiment::Batching => (batching::DEPTH, false),
            Experiment::Order => (order::DEPTH, false),
            Experiment::Tiles => (tiles::DEPTH, false),
            Experiment::Arbitration => (arbitration::DEPTH, true),
            Experiment::Registration | Experiment::Cold => (1, false),
            _ => (DEPTH, true),
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct ExperimentOptions {
    /// Bytes of an I/O: a row, or several, for each.
    pub sizes: Vec<ByteSize>,
    /// I/Os in flight; `None`: [`Experiment::depth`].
    pub iodepth: Option<u32>,
    /// How long each row is measured.
    pub runtime: Duration,
    /// The file or block device that the operating system reads for comparison; `None`: the one behind the device.
    pub os_path: Option<PathBuf>,
    /// Operations of each row of a workload.
    pub ops: u64,
    /// Threads that keep processors busy: a row for each.
    pub load: Vec<u32>,
    /// How the controller gathers interrupts: a row of `notice` for each.
    pub coalescing: Vec<Coalescing>,
    /// What volumes `stripe` makes, and who reads them.
    pub stripe: StripeOptions,
    /// Namespace.
    pub nsid: Nsid,
    /// Seed of addresses.
    pub seed: u64,
}

/// What one repeat of an experiment found: its report, what models say of its rows, and what broke.
struct Once {
    report: ExperimentReport,
    models: Vec<Model>,
    broken: Option<RunError>,
}

/// Runs repeat `repeat` of `repeats` on the first of `ssds`, `stripe` and `checkpoint` on all of them, with kernels on `target`.
/// There are some. What was found before something broke is in the report.
fn once(
    which: Experiment,
    ssds: &[Ssd],
    target: Target,
    (options, repeat, repeats): (&ExperimentOptions, u32, u32),
    control: &Control,
) -> Result<Once, RunError> {
    let iodepth = checked(which, options)?;
    let Some(ssd) = ssds.first() else {
        return Err(RunError::Unmeasurable("no device was named".to_owned()));
    };
    let measured = if which.takes_several() { ssds } else { &ssds[..1] };
    let devices =
        measured.iter().map(|ssd| DeviceReport::of(ssd, options.nsid)).collect::<Result<Vec<_>, _>>()?;
    let lab = Lab::new(ssds, target, (options, iodepth), control);
    let (lab, broken) = lab.measure(which, (repeat, repeats));
    let (rows, skipped, models) = lab.end();
    let report = ExperimentReport {
        schema: EXPERIMENT_SCHEMA.to_owned(),
        experiment: which.word().to_owned(),
        api: matches!(which, Experiment::Stripe).then_some(options.stripe.api),
        warpbell: env!("CARGO_PKG_VERSION").to_owned(),
        origin: None,
        target: target.open()?.to_string(),
        device: devices[0].clone(),
        devices,
        data_paths: measured.iter().map(PathReport::of).collect(),
        clock: ClockKind::of(ssd),
        iodepth,
        repeats: 1,
        rows,
        incomplete: Vec::new(),
        skipped,
        partial: control.stopped() || broken.is_some(),
    };
    Ok(Once { report, models, broken })
}

/// Refuses options that do not fit the experiment. How many I/Os are in flight.
fn checked(which: Experiment, options: &ExperimentOptions) -> Result<u32, RunError> {
    let (own, may_choose) = which.depth();
    let iodepth = options.iodepth.unwrap_or(own);
    if !may_choose && iodepth != own {
        let reason = format!("{} always has {own} in flight; leave it out", which.word());
        return Err(JobError::Conflict { flag: "iodepth", value: iodepth.to_string(), reason }.into());
    }
    if options.runtime.is_zero() {
        let reason = "each row is measured for some time".to_owned();
        return Err(JobError::Conflict { flag: "runtime", value: "0".to_owned(), reason }.into());
    }
    if let Some(none) = options.sizes.iter().find(|size| size.0 == 0) {
        let reason = "an I/O moves at least a block".to_owned();
        return Err(JobError::Conflict { flag: "bs", value: none.to_string(), reason }.into());
    }
    each_once("bs", "size", &options.sizes)?;
    each_once("load", "load", &options.load)?;
    each_once("coalescing", "value", &options.coalescing)?;
    if options.coalescing.contains(&Coalescing::OFF) {
        let (value, reason) =
            (Coalescing::OFF.to_string(), "`interrupt` is that row; leave it out".to_owned());
        return Err(JobError::Conflict { flag: "coalescing", value, reason }.into());
    }
    each_once("chunk", "size", &options.stripe.chunks)?;
    each_once("policy", "policy", &options.stripe.policies)?;
    Ok(iodepth)
}

/// Rows are told apart by their names.
fn each_once<T: PartialEq + ToString>(flag: &'static str, what: &str, values: &[T]) -> Result<(), JobError> {
    let again = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value));
    again.map_or(Ok(()), |(_, value)| {
        let reason = format!("this {what} is there twice");
        Err(JobError::Conflict { flag, value: value.to_string(), reason })
    })
}

/// What experiments measure with, and what they have found.
struct Lab<'a> {
    ssd: &'a Ssd,
    ssds: &'a [Ssd],
    target: Target,
    options: &'a ExperimentOptions,
    iodepth: u32,
    control: &'a Control,
    /// Which way is measured, of the experiment's order, and when it is its turn.
    way: usize,
    turn: u32,
    /// Each with its way.
    rows: Vec<(usize, Row)>,
    skipped: Vec<(usize, Skipped)>,
    models: Vec<Model>,
}

impl<'a> Lab<'a> {
    fn new(
        ssds: &'a [Ssd],
        target: Target,
        (options, iodepth): (&'a ExperimentOptions, u32),
        control: &'a Control,
    ) -> Lab<'a> {
        let (rows, skipped, models) = (Vec::new(), Vec::new(), Vec::new());
        Lab { ssd: &ssds[0], ssds, target, options, iodepth, control, way: 0, turn: 0, rows, skipped, models }
    }

    /// What was found, way by way: rows, what was skipped, and what models say.
    fn end(mut self) -> (Vec<Row>, Vec<Skipped>, Vec<Model>) {
        self.rows.sort_by_key(|(way, _)| *way);
        self.skipped.sort_by_key(|(way, _)| *way);
        let mut rows: Vec<Row> = self.rows.into_iter().map(|(_, row)| row).collect();
        models::apply(&self.models, &mut rows);
        (rows, self.skipped.into_iter().map(|(_, skipped)| skipped).collect(), self.models)
    }
}

impl Lab<'_> {
    /// Experiments that compare with the machine itself have no use for virtual time.
    fn in_real_time(&self) -> Result<(), RunError> {
        match ClockKind::of(self.ssd) {
            ClockKind::Monotonic => Ok(()),
            ClockKind::Virtual => Err(RunError::VirtualTime { device: self.ssd.name().to_string() }),
        }
    }

    /// Whether time is that of a stepped controller.
    fn in_virtual_time(&self) -> bool {
        ClockKind::of(self.ssd) == ClockKind::Virtual
    }

    /// These figures of I/Os of the host's: in virtual time its thread also plays the controller, and its CPU time says
    /// nothing.
    fn of_clients(&self, figures: Figures) -> Figures {
        if self.in_virtual_time() { figures.without("client_cpu_ns_per_io") } else { figures }
    }

    /// How many of the SSDs to measure with: 1, 2, 4 and 8, as many as there are, and all of them.
    fn ssd_counts(&self) -> Vec<usize> {
        let all = self.ssds.len();
        [1, 2, 4, 8].into_iter().filter(|count| *count < all).chain([all]).collect()
    }

    /// Options of a run: random reads of that size.
    fn reads(&self, size: ByteSize) -> BenchOptions {
        BenchOptions {
            bs: size,
            iodepth: self.iodepth,
            runtime: Some(self.options.runtime),
            nsid: self.options.nsid,
            seed: self.options.seed,
            ..BenchOptions::default()
        }
    }

    /// What a point does. One that cannot be is skipped, with the reason.
    fn job(&mut self, name: &str, options: &BenchOptions) -> Result<Option<Job>, RunError> {
        self.job_on(self.ssd, name, options)
    }

    /// The same on one of several SSDs.
    fn job_on(&mut self, ssd: &Ssd, name: &str, options: &BenchOptions) -> Result<Option<Job>, RunError> {
        match crate::bench::resolve(ssd, options) {
            Ok(job) => Ok(Some(job)),
            Err(RunError::Job(error)) => {
                self.skip(name, error.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Runs a point.
    fn point(&mut self, name: &str, options: &BenchOptions) -> Result<Option<Run>, RunError> {
        let Some(job) = self.job(name, options)? else { return Ok(None) };
        let run = crate::bench::bench(self.ssd, self.target, &job, self.control)?;
        self.judge(name, &run)?;
        // A row that was cut short is none.
        Ok((!self.control.stopped()).then_some(run))
    }

    /// Runs a point, and counts the interrupts of each I/O where the controller is ours.
    fn with_interrupts(
        &mut self,
        name: &str,
        options: &BenchOptions,
    ) -> Result<Option<(Run, Option<f64>)>, RunError> {
        let sent = |lab: &Self| lab.ssd.soft().map(|soft| soft.statistics().interrupts);
        let before = sent(self);
        let Some(run) = self.point(name, options)? else { return Ok(None) };
        let sent = sent(self).zip(before).map(|(after, before)| (after - before) as f64);
        let ios = run.total.ios.max(1) as f64;
        Ok(Some((run, sent.map(|sent| sent / ios))))
    }

    /// Admin commands that the controller has completed, where it is ours.
    fn admin_commands(&self) -> Option<u64> {
        self.ssd.soft().map(|soft| soft.statistics().admin_commands.iter().sum())
    }

    /// Runs a point by another kernel that has the arguments of `bench`, in blocks of one warp with so many bytes of shared
    /// memory where that is given.
    fn by_kernel(
        &mut self,
        name: &str,
        options: &BenchOptions,
        kernel: &'static str,
        shared: Option<u32>,
    ) -> Result<Option<Run>, RunError> {
        let Some(job) = self.job(name, options)? else { return Ok(None) };
        let attachment = KernelRunner::attach(self.ssd, self.target, &job)?;
        let outcome =
            KernelRunner::new(self.ssd, &job, &attachment)?.measure_by(kernel, shared, self.control)?;
        let run = self.run_of(outcome, &job);
        self.judge(name, &run)?;
        Ok((!self.control.stopped()).then_some(run))
    }

    /// What was measured without [`crate::bench::bench`].
    fn run_of(&self, outcome: Outcome, job: &Job) -> Run {
        Run { clock: ClockKind::of(self.ssd), ..outcome.report(job) }
    }

    /// An error if any command failed, or the protocol was violated.
    fn judge(&self, name: &str, run: &Run) -> Result<(), RunError> {
        if let Some(failure) = run.failures.first() {
            return Err(RunError::failed(failure));
        }
        match run.violation_examples.first() {
            Some(violation) => {
                Err(RunError::Unmeasurable(format!("{name}: violation of the protocol: {violation}")))
            }
            None => Ok(()),
        }
    }

    fn row(&mut self, name: impl Into<String>, figures: Figures) {
        self.rows.push((self.way, Row { order: vec![self.turn], ..Row::new(name, figures) }));
    }

    /// What a model says of a row, given the figures of others: these may be measured later.
    fn model(
        &mut self,
        name: impl Into<String>,
        says: impl Fn(&Known<'_>) -> Option<Figures> + Send + Sync + 'static,
    ) {
        self.models.push(Model { row: name.into(), says: Box::new(says) });
    }

    fn skip(&mut self, name: &str, reason: impl ToString) {
        self.skipped.push((self.way, Skipped { point: name.to_owned(), reason: reason.to_string() }));
    }
}

/// Rate, latency and CPU time of a run of `bench`.
fn figures_of(run: &Run) -> Figures {
    let figures = Figures::default().with("iops", run.total.iops).with("bytes_per_s", run.total.bytes_per_s);
    let figures = match run.lat_ns {
        Some(latency) => percentiles(figures, &latency),
        None => figures,
    };
    // In virtual time the clients' thread also plays the controller.
    let counted = run.client_cpu_time_ns.filter(|_| run.clock == ClockKind::Monotonic);
    let per_io = |ns: u64| ns as f64 / run.total.ios.max(1) as f64;
    figures.of(&run.latencies()).with_counted("client_cpu_ns_per_io", counted.map(per_io))
}

/// Rate, latency and CPU time of I/Os that were measured one by one.
fn figures_of_ios(latencies: &LatencyHistogram, bytes: u64, elapsed: Duration, cpu: Duration) -> Figures {
    let (ios, seconds) = (latencies.count() as f64, elapsed.as_secs_f64());
    let figures =
        Figures::default().with("iops", ios / seconds).with("bytes_per_s", ios * bytes as f64 / seconds);
    let figures = match latencies.summary() {
        Some(latency) => percentiles(figures, &latency),
        None => figures,
    };
    figures.of(latencies).with("client_cpu_ns_per_io", cpu.as_nanos() as f64 / ios.max(1.0))
}

fn percentiles(figures: Figures, latency: &crate::latency::Latency) -> Figures {
    figures
        .with("p50_ns", latency.p50 as f64)
        .with("p99_ns", latency.p99 as f64)
        .with("p99_9_ns", latency.p99_9 as f64)
        .with("max_ns", latency.max as f64)
}
