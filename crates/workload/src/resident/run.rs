// UNSAFETY: the kernel follows a table of queues, which `ResidentMemory` fills.
#![expect(unsafe_code, reason = "a launch is a promise about the memory that its kernel follows")]
//! One run against the GPU-resident controller.

use std::time::Duration;

use warpbell::{Launch, OpenTarget, Target, describe_status};
use warpbell_kernels::abi::{self, ResidentArgs};

use super::figures::{Multiprocessors, ResidentFigures};
use super::geometry::Geometry;
use super::memory::{BLOCK_BYTES, BLOCKS, MAX_TRANSFER, ResidentMemory};
use super::rules;
use super::spec::{ResidentSpec, Wait};
use crate::array::Array;
use crate::control::Control;
use crate::cpu::{nanoseconds, process_time};
use crate::distribution::Distribution;
use crate::error::RunError;
use crate::job::{Job, JobError, LANES, Limits, MAX_DEPTH};
use crate::launch::Launched;
use crate::options::{Access, Api, BenchOptions, Sharing};
use crate::outcome::{EXAMPLES, Outcome};
use crate::result::{DeviceReport, Failure, PathReport, Run, Traffic};
use warpbell_hw::Nsid;

/// Checks `options`; what has no meaning without data, or without an SSD, is refused by name.
pub fn resolve(spec: &ResidentSpec, options: &BenchOptions) -> Result<Job, JobError> {
    refuse_data(options)?;
    refuse_clients(spec, options)?;
    let job = Job::resolve(options, &limits())?;
    check_share(spec, job)
}

fn conflict<T>(flag: &'static str, value: impl ToString, reason: &str) -> Result<T, JobError> {
    Err(JobError::Conflict { flag, value: value.to_string(), reason: reason.to_owned() })
}

/// What has no meaning without data.
fn refuse_data(options: &BenchOptions) -> Result<(), JobError> {
    let none = "the GPU-resident controller moves no data";
    if !matches!(options.rw, Access::Read | Access::RandRead) {
        return conflict("rw", options.rw, none);
    }
    if let Some(verify) = options.verify {
        return conflict("verify", verify, none);
    }
    if options.offset.0 != 0 || options.size.is_some() {
        let (flag, value) = options.size.map_or(("offset", options.offset), |size| ("size", size));
        return conflict(flag, value, "there are no blocks to choose from; use --io-limit");
    }
    if options.random_distribution != Distribution::Random {
        let reason = "there are no blocks to choose from";
        return conflict("random-distribution", options.random_distribution, reason);
    }
    if options.nsid != Nsid(1) {
        return conflict("nsid", options.nsid.get(), "the GPU-resident controller has namespace 1");
    }
    Ok(())
}

/// What its clients are not.
fn refuse_clients(spec: &ResidentSpec, options: &BenchOptions) -> Result<(), JobError> {
    if options.api == Api::Host {
        return conflict("api", "host", "the GPU-resident controller answers kernels only");
    }
    if options.api == Api::Agent {
        let reason = "the clients of the GPU-resident controller have queues; use --api raw or io";
        return conflict("api", "agent", reason);
    }
    if options.api == Api::Batch {
        let reason = "the clients of the GPU-resident controller are single warps; use --api raw or io";
        return conflict("api", "batch", reason);
    }
    if options.api == Api::Array {
        let reason = "the GPU-resident controller has no data to cache; use --api raw or io";
        return conflict("api", "array", reason);
    }
    if options.api == Api::Raw && spec.wait != Wait::None {
        return conflict("api", "raw", "resident:wait=each and wait=thread go through io.cuh");
    }
    if let Some(protocol) = options.protocol {
        let reason = "its clients submit by the library's queues alone; without --protocol";
        return conflict("protocol", protocol, reason);
    }
    if spec.wait == Wait::Thread && options.sharing == Sharing::Exclusive {
        let reason = "resident:wait=thread makes each thread a client of its own; use --sharing shared";
        return conflict("sharing", "exclusive", reason);
    }
    Ok(())
}

fn limits() -> Limits {
    Limits {
        nsid: Nsid(1),
        blocks: BLOCKS,
        block_size: BLOCK_BYTES,
        exact_bytes: None,
        max_transfer_bytes: Some(MAX_TRANSFER),
        max_entries: MAX_DEPTH + 1,
        queues: u16::MAX,
        wide_cids: false,
        trim_blocks: None,
    }
}

/// Clients keep their tokens in registers.
fn check_share(spec: &ResidentSpec, mut job: Job) -> Result<Job, JobError> {
    let most = LANES * abi::RESIDENT_SLOTS;
    if spec.wait != Wait::None {
        job.tokens_per_lane = 1;
    } else if job.largest_share() > most {
        let limit = format!("{most} for each warp on a queue, of which there are {}", warps_per_queue(&job));
        return Err(JobError::TooLarge { flag: "iodepth", value: job.iodepth.to_string(), limit });
    }
    if job.commands_per_io > 1 {
        let (value, limit) = (job.bs_bytes.to_string(), format!("{MAX_TRANSFER}, the transfer limit"));
        return Err(JobError::TooLarge { flag: "bs", value, limit });
    }
    Ok(job)
}

fn warps_per_queue(job: &Job) -> u32 {
    job.warps / u32::from(job.queues)
}

/// What the controller says of itself.
pub fn device_report(name: &str) -> DeviceReport {
    DeviceReport {
        kind: KIND.to_owned(),
        name: name.to_owned(),
        model: "GPU-resident controller".to_owned(),
        serial: "-".to_owned(),
        nsid: 1,
        block_size_bytes: BLOCK_BYTES,
        blocks: BLOCKS,
    }
}

/// `DeviceReport::kind`.
const KIND: &str = "gpu-resident";

/// The way that commands take.
pub fn path_report() -> PathReport {
    PathReport {
        rings: "target memory".to_owned(),
        data: "none".to_owned(),
        ordering: "no data moves".to_owned(),
        route: None,
        doorbells: "target memory, polled".to_owned(),
        doorbells_refused: None,
        data_pointer: "sgl".to_owned(),
        controller: KIND.to_owned(),
        client: None,
    }
}

/// Runs `job`.
pub fn bench(target: Target, spec: &ResidentSpec, job: &Job, control: &Control) -> Result<Run, RunError> {
    let geometry = Geometry::new(target, spec, job)?;
    let open = target.open()?;
    open.prepare("resident")?;
    let memory = ResidentMemory::new(&open, spec, job, &geometry, 0)?;
    if !job.ramp.is_zero() && !control.stopped() {
        let args = ResidentArgs { runtime_ns: nanoseconds(job.ramp), ..memory.start()? };
        launch(&open, job, &geometry, &memory, &args, control)?;
    }
    let before = Fetched::of(&memory)?;
    let args = ResidentArgs {
        runtime_ns: job.runtime.map_or(0, nanoseconds),
        io_limit: job.io_limit().unwrap_or(0),
        ..memory.start()?
    };
    let cpu_before = process_time();
    let launched = launch(&open, job, &geometry, &memory, &args, control)?;
    let cpu_time_ns = nanoseconds(process_time().saturating_sub(cpu_before));
    let fetched = Fetched::of(&memory)?;
    let mut outcome = outcome(&memory, job)?;
    (outcome.costs, outcome.cpu_time_ns) = (launched.costs, launched.cpu_time_ns);
    fetched.compare(&before, spec, &memory, &mut outcome)?;
    let mut run = outcome.report(job);
    for traffic in [&mut run.total, &mut run.read] {
        // No data moves.
        *traffic = Traffic::new(traffic.ios, 0, run.runtime_ns);
    }
    run.series_missing = Some("kernels count at their end, and the controller is one of them".to_owned());
    run.cpu_time_ns = cpu_time_ns;
    run.partial = control.stopped();
    run.violations = fetched.violations;
    run.violation_examples = fetched.examples;
    let places = memory.places().all()?;
    run.resident = Some(ResidentFigures {
        multiprocessors: Multiprocessors::of(target, &places, &geometry, run.total.iops),
        ..ResidentFigures::new(spec, &geometry, fetched.commands - before.commands)
    });
    Ok(run)
}

fn launch(
    target: &OpenTarget,
    job: &Job,
    geometry: &Geometry,
    memory: &ResidentMemory,
    args: &ResidentArgs,
    control: &Control,
) -> Result<Launched, RunError> {
    // SAFETY: `ResidentMemory` has filled the table of queues with its own rings and doorbells.
    let launch = unsafe { Launch::new(target, "resident", args, memory.regions()) }?;
    // Controllers and clients wait for each other.
    let launch = launch.grid(geometry.blocks()).block(geometry.threads()).cooperative(true);
    let launch = launch.mailbox(memory.mailbox())?;
    let launch = limit(args).map_or(launch.clone(), |limit| launch.limit(limit));
    Launched::by(launch, job.threads, &job.cpus, control)
}

/// How long a launch may take, where that is known: as long as clients submit, and then for one command's deadline.
fn limit(args: &ResidentArgs) -> Option<Duration> {
    let timed = args.runtime_ns != 0;
    timed.then(|| Duration::from_nanos(args.runtime_ns.saturating_add(args.timeout_ns)) + SLACK)
}

/// Beyond that, for a machine that is busy with other things.
const SLACK: Duration = Duration::from_secs(10);

/// What the clients noted.
fn outcome(memory: &ResidentMemory, job: &Job) -> Result<Outcome, RunError> {
    let mut outcome = Outcome::default();
    let (mut start, mut end) = (u64::MAX, 0);
    for warp in memory.results().all()? {
        if warp.end_ns > 0 {
            (start, end) = (start.min(warp.start_ns), end.max(warp.end_ns));
        }
        outcome.reads += warp.reads;
        if warp.errors > 0 {
            fail(&mut outcome, warp.errors, describe_status(warp.error_status));
        }
        if warp.mismatches > 0 {
            fail(&mut outcome, warp.mismatches, "answered with another command's status".to_owned());
        }
    }
    outcome.runtime_ns = end.saturating_sub(start);
    for counts in memory.histograms().map(Array::all).transpose()?.unwrap_or_default() {
        outcome.read_latency.merge_kernel(counts);
    }
    debug_assert!(job.rwmixread == 100, "clients read");
    Ok(outcome)
}

fn fail(outcome: &mut Outcome, count: u64, status: String) {
    outcome.fail(|| Failure { op: "read".to_owned(), nsid: 1, lba: None, status });
    outcome.errors += count - 1;
}

/// What the controller noted, over all launches.
struct Fetched {
    commands: u64,
    digest: u64,
    violations: u64,
    examples: Vec<String>,
}

impl Fetched {
    fn of(memory: &ResidentMemory) -> Result<Fetched, RunError> {
        let queues = memory.queues().all()?;
        let broken = queues.iter().flat_map(rules::broken).map(|(_, count)| u64::from(count));
        Ok(Fetched {
            commands: queues.iter().map(|queue| queue.commands).sum(),
            digest: queues.iter().fold(0, |sum, queue| sum.wrapping_add(queue.digest)),
            violations: broken.sum(),
            examples: queues.iter().filter_map(rules::first).take(EXAMPLES).collect(),
        })
    }

    /// Whether the commands fetched since `before` are those that clients submitted and got answers for.
    fn compare(
        &self,
        before: &Fetched,
        spec: &ResidentSpec,
        memory: &ResidentMemory,
        outcome: &mut Outcome,
    ) -> Result<(), RunError> {
        let (fetched, answered) = (self.commands - before.commands, outcome.reads + outcome.errors);
        if outcome.errors == 0 && fetched != answered {
            fail(outcome, 1, format!("{fetched} commands fetched, but {answered} answered"));
        }
        let submitted = memory.digests().all()?.into_iter().fold(0, u64::wrapping_add);
        let digest = self.digest.wrapping_sub(before.digest);
        if spec.follow && digest != submitted {
            let status = format!("commands fetched have digest {digest:#x}, those submitted {submitted:#x}");
            fail(outcome, 1, status);
        }
        for index in 0..memory.queues().count() {
            let counters = memory.clients().counters(index)?;
            if counters.spurious > 0 {
                fail(outcome, counters.spurious, "a completion that no command waited for".to_owned());
            }
            if counters.sqhd_mismatch > 0 {
                fail(outcome, counters.sqhd_mismatch, "a completion with a wrong SQ head".to_owned());
            }
        }
        Ok(())
    }
}
