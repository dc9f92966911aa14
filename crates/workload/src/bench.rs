//! One run of a job, whoever submits, and what the device says about it.

use std::collections::BTreeMap;
use std::time::Duration;

use warpbell::{DataPlacement, DoorbellChoice, Ssd, Target};
use warpbell_driver::Coalescing;
use warpbell_nvme::NvmOpcode;
use warpbell_softctl::{ClientModel, FaultKind, SoftDevice, Violation};

use crate::control::Control;
use crate::cpu;
use crate::error::RunError;
use crate::host::HostRunner;
use crate::job::{Job, JobError, Limits};
use crate::kernel::KernelRunner;
use crate::options::{Api, BenchOptions, Completion};
use crate::outcome::{EXAMPLES, Outcome};
use crate::queues::SsdReport;
use crate::recovery::{RecoveryReport, Trouble, take_events};
use crate::result::{Costs, DeviceReport, PathReport, Run};
use crate::stopwatch::ClockKind;
use crate::timeline::timed;
use warpbell_hw::Nsid;

/// What submits a job's commands.
pub(crate) trait Runner {
    /// Loads what [`Runner::measure`] runs, so that it does not count.
    fn prepare(&self) -> Result<(), RunError>;
    /// Writes verifiable contents to every unit of the range.
    fn fill(&self, control: &Control) -> Result<Outcome, RunError>;
    /// Runs the job for its ramp time and forgets what it saw.
    fn warm_up(&self, control: &Control) -> Result<(), RunError>;
    /// Runs the job.
    fn measure(&self, control: &Control) -> Result<Outcome, RunError>;
    /// Reads every unit of the range and compares it.
    fn check(&self, control: &Control) -> Result<Outcome, RunError>;
}

/// What `ssd` was opened for, and only kernels have: then `--api host` would be something else than what was asked for.
fn for_kernels(ssd: &Ssd) -> Option<String> {
    let (rings, choice) = (ssd.ring_placement(), ssd.doorbell_choice());
    if matches!(ssd.data_placement(), DataPlacement::Hbm(_)) {
        let reason = "the host's queues take their data in host memory; use --api io or raw, or data host";
        Some(reason.to_owned())
    } else if rings.sq().gpu().or(rings.cq().gpu()).is_some() {
        let reason = "the host's queues have their rings in host memory; use --api io or raw, or rings host";
        Some(reason.to_owned())
    } else if choice != DoorbellChoice::Auto {
        Some(format!(
            "the host rings by itself, and --doorbells {choice} is of kernels; leave one of them out"
        ))
    } else {
        None
    }
}

/// Refuses `--api host` on an SSD that was opened for kernels.
fn refuse_host(ssd: &Ssd, api: Api) -> Result<(), JobError> {
    match for_kernels(ssd) {
        Some(reason) if api == Api::Host => {
            Err(JobError::Conflict { flag: "api", value: api.to_string(), reason })
        }
        _ => Ok(()),
    }
}

/// Runs `job` on `ssd`. With `--verify` the range is filled first, and all of it is read again at the
/// end: what a random job did not meet is checked too.
pub fn bench(ssd: &Ssd, target: Target, job: &Job, control: &Control) -> Result<Run, RunError> {
    let (violations, logged) = (violations(ssd), logged(ssd).len());
    let (before, mut events) = (ssd.recovery_counters(), take_events(ssd));
    let (trimmed, injected) = (deallocated(ssd), injected(ssd));
    let mut run = match job.api {
        Api::Host => gathered(ssd, job.coalescing, || phases(ssd, job, &HostRunner::new(ssd, job), control))?,
        Api::Raw | Api::Io | Api::Agent | Api::Batch | Api::Array => {
            let attachment = KernelRunner::attach(ssd, target, job)?;
            phases(ssd, job, &KernelRunner::new(ssd, job, &attachment)?, control)?
        }
    };
    run.clock = ClockKind::of(ssd);
    run.recovery = RecoveryReport::new(run.recovery.clients, &before, &ssd.recovery_counters());
    events.extend(take_events(ssd));
    run.events = events;
    let new = self::logged(ssd).into_iter().skip(logged);
    let (late, wrong): (Vec<_>, Vec<_>) = new.partition(|violation| run.recovery.explains(violation));
    run.recovery.late_doorbells = late.len() as u64;
    run.violations = self::violations(ssd) - violations - run.recovery.late_doorbells;
    run.violation_examples = wrong.iter().take(EXAMPLES).map(ToString::to_string).collect();
    run.partial = control.stopped();
    run.data_path = Some(PathReport::of(ssd));
    let trimmed = deallocated(ssd).zip(trimmed).filter(|_| run.trims.is_some());
    let blocks_deallocated = trimmed.map(|(after, before)| after - before);
    let faults = faults(ssd, &injected);
    run.ssds = vec![SsdReport { blocks_deallocated, faults, ..SsdReport::of(ssd, &run) }];
    Ok(run)
}

/// Does `work` while the controller gathers interrupts so; then it gathers them as before.
fn gathered<T>(
    ssd: &Ssd,
    wanted: Option<Coalescing>,
    work: impl FnOnce() -> Result<T, RunError>,
) -> Result<T, RunError> {
    let Some(wanted) = wanted else { return work() };
    let before = ssd.controller().interrupt_coalescing()?;
    ssd.controller().set_interrupt_coalescing(wanted)?;
    let done = work();
    // Of a controller that is gone `work` says why.
    let restored = ssd.controller().set_interrupt_coalescing(before);
    let done = done?;
    restored?;
    Ok(done)
}

/// Violations so far, all of them: the log with their words is bounded.
fn violations(ssd: &Ssd) -> u64 {
    ssd.soft().map_or(0, |soft| soft.statistics().violations)
}

/// Blocks that the controller has deallocated so far, where it is ours.
fn deallocated(ssd: &Ssd) -> Option<u64> {
    ssd.soft().map(|soft| soft.statistics().blocks_deallocated)
}

/// Faults of each kind that the controller has injected so far, where it is ours.
fn injected(ssd: &Ssd) -> BTreeMap<FaultKind, u64> {
    ssd.soft().map(|soft| soft.fault_counts()).unwrap_or_default()
}

/// Those that came since there were `before`, by their names.
fn faults(ssd: &Ssd, before: &BTreeMap<FaultKind, u64>) -> BTreeMap<String, u64> {
    let new = |(kind, count): (FaultKind, u64)| {
        let new = count - before.get(&kind).copied().unwrap_or_default();
        (new > 0).then(|| (kind.name().to_owned(), new))
    };
    injected(ssd).into_iter().filter_map(new).collect()
}

/// The first violations, with their words.
fn logged(ssd: &Ssd) -> Vec<Violation> {
    ssd.soft().map(|soft| soft.violations()).unwrap_or_default()
}

/// Fill, warm up, measure, check.
fn phases(ssd: &Ssd, job: &Job, runner: &impl Runner, control: &Control) -> Result<Run, RunError> {
    let mut trouble = Trouble::default();
    runner.prepare()?;
    if job.verify.is_some() {
        let filled = runner.fill(control)?;
        if let Some(failure) = filled.failures.first() {
            return Err(RunError::failed(failure));
        }
        trouble = filled.trouble;
    }
    if !job.ramp.is_zero() && !control.stopped() {
        runner.warm_up(control)?;
    }
    control.meet();
    // A range that was not filled to its end has nothing to verify, and nothing was measured.
    if control.stopped() {
        let nothing = Outcome { costs: Some(Costs::default()), cpu_time_ns: Some(0), ..Outcome::default() };
        let why = Some("the run was interrupted before it was measured".to_owned());
        return Ok(Run { series_missing: why, ..nothing.report(job) });
    }
    let before = CpuTimes::of(ssd);
    let (measured, series) = timed((ssd, job), control, |control| runner.measure(control));
    let mut outcome = measured?;
    let after = CpuTimes::of(ssd);
    if job.verify.is_some() && !control.stopped() {
        let checked = runner.check(control)?;
        outcome.errors += checked.errors;
        outcome.trouble.add(&checked.trouble);
        outcome.failures.extend(checked.failures);
        outcome.merge_verify(checked.verify);
    }
    outcome.trouble.add(&trouble);
    let mut run = outcome.report(job);
    match series {
        Ok(series) => run.series = Some(series),
        Err(why) => run.series_missing = Some(why.to_owned()),
    }
    run.cpu_time_ns = cpu::nanoseconds(after.process - before.process);
    let controller = after.controller.zip(before.controller);
    run.controller_cpu_time_ns =
        controller.map(|(after, before)| cpu::nanoseconds(after.saturating_sub(before)));
    Ok(run)
}

/// CPU time used so far.
struct CpuTimes {
    process: Duration,
    controller: Option<Duration>,
}

impl CpuTimes {
    fn of(ssd: &Ssd) -> CpuTimes {
        let threaded = ssd.soft().filter(|soft| !soft.is_stepped());
        let controller = threaded.map(|soft| soft.statistics().poller_cpu);
        CpuTimes { process: cpu::process_time(), controller }
    }
}

impl Limits {
    /// The limits of namespace `nsid` of `ssd`.
    pub fn of(ssd: &Ssd, nsid: Nsid) -> Result<Limits, RunError> {
        let namespace = ssd.namespace(Some(nsid))?;
        Ok(Limits {
            nsid,
            blocks: namespace.blocks,
            block_size: namespace.block_size,
            exact_bytes: namespace.exact_bytes,
            max_transfer_bytes: Some(ssd.max_command_bytes()),
            max_entries: ssd.controller().max_entries(),
            queues: ssd.granted_queues(),
            wide_cids: ssd.controller().wide_cids(),
            trim_blocks: ssd
                .identify()
                .oncs
                .dataset_management()
                .then(|| ssd.controller().command_limits().deallocate_blocks()),
        })
    }
}

/// Checks `options` against `ssd`.
pub fn resolve(ssd: &Ssd, options: &BenchOptions) -> Result<Job, RunError> {
    if let Some(file) = &options.file {
        file.map.check(&ssd.namespace_id(options.nsid))?;
    }
    let mut job = Job::resolve(options, &Limits::of(ssd, options.nsid)?)?;
    refuse_host(ssd, job.api)?;
    if ClockKind::of(ssd) == ClockKind::Virtual {
        if let Some(threads) = options.threads.filter(|threads| *threads > 1) {
            let reason = "a device in virtual time has one thread for everything".to_owned();
            return Err(JobError::Conflict { flag: "threads", value: threads.to_string(), reason }.into());
        }
        if job.array.is_some() && job.io_limit_bytes.is_none() {
            let reason =
                "in virtual time a page that is there takes none: end the run by --io-limit".to_owned();
            return Err(JobError::Conflict { flag: "api", value: "array".to_owned(), reason }.into());
        }
        if job.completion == Completion::Interrupt && job.queues > 1 {
            let reason = "in virtual time one thread does everything, and with --completion interrupt it sleeps for one \
                          queue"
                .to_owned();
            return Err(JobError::Conflict { flag: "queues", value: job.queues.to_string(), reason }.into());
        }
        job.threads = 1;
    }
    Ok(job)
}

/// Options of a job on each of `ssds` at the same time: threads that were left to the machine are shared out among them. In
/// virtual time each has one anyway.
pub fn shared_out(mut options: BenchOptions, ssds: &[Ssd]) -> BenchOptions {
    let real = ssds.iter().all(|ssd| ClockKind::of(ssd) == ClockKind::Monotonic);
    if real && ssds.len() > 1 && options.threads.is_none() && options.completion == Completion::Poll {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        options.threads = Some((processors.saturating_sub(1) / ssds.len()).max(1));
    }
    options
}

impl DeviceReport {
    /// What `ssd` says of itself and of its namespace `nsid`.
    pub fn of(ssd: &Ssd, nsid: Nsid) -> Result<DeviceReport, RunError> {
        let namespace = ssd.namespace(Some(nsid))?;
        Ok(DeviceReport {
            kind: kind(ssd).to_owned(),
            name: ssd.name().to_string(),
            model: ssd.identify().model().to_owned(),
            serial: ssd.identify().serial().to_owned(),
            nsid: nsid.get(),
            block_size_bytes: namespace.block_size,
            blocks: namespace.blocks,
        })
    }
}

fn kind(ssd: &Ssd) -> &'static str {
    match ssd.info().kind {
        warpbell_hw::DeviceKind::Software => "software",
        warpbell_hw::DeviceKind::VfioUser => "vfio-user",
        warpbell_hw::DeviceKind::Pcie => "pcie",
    }
}

/// Whose accesses take time, if anybody's do.
fn client(ssd: &Ssd) -> Option<String> {
    let (model, rings) = ssd.soft()?.client();
    (model != ClientModel::Free).then(|| format!("{model}, rings {rings}"))
}

impl PathReport {
    /// The way that commands and data of `ssd` take.
    pub fn of(ssd: &Ssd) -> PathReport {
        let path = ssd.data_path();
        PathReport {
            doorbells: path.doorbells_name().to_owned(),
            doorbells_refused: path.refused,
            rings: path.rings,
            data: path.data,
            route: path.route,
            ordering: path.domains.name().to_owned(),
            data_pointer: path.data_pointer.name().to_owned(),
            controller: kind(ssd).to_owned(),
            client: client(ssd),
        }
    }

    /// Of the openings of a sweep: each value that any of them has.
    pub fn together(paths: &[PathReport]) -> PathReport {
        let all = |pick: fn(&PathReport) -> Option<&str>| {
            let mut values: Vec<&str> = Vec::new();
            for value in paths.iter().filter_map(pick) {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            (!values.is_empty()).then(|| values.join(" | "))
        };
        let always = |pick| all(pick).unwrap_or_default();
        PathReport {
            rings: always(|path| Some(&path.rings)),
            data: always(|path| Some(&path.data)),
            ordering: always(|path| Some(&path.ordering)),
            route: all(|path| path.route.as_deref()),
            doorbells: always(|path| Some(&path.doorbells)),
            doorbells_refused: all(|path| path.doorbells_refused.as_deref()),
            data_pointer: always(|path| Some(&path.data_pointer)),
            controller: always(|path| Some(&path.controller)),
            client: all(|path| path.client.as_deref()),
        }
    }
}

/// I/O commands and bytes of all runs over `ssds` so far: what our controllers have completed, and what the host counted
/// of the others.
pub fn progress<'a>(ssds: impl IntoIterator<Item = &'a Ssd>, control: &Control) -> (u64, u64) {
    let own = ssds.into_iter().filter_map(Ssd::soft).map(|soft| completed(soft));
    own.fold(control.done(), |(ios, bytes), (more_ios, more_bytes)| (ios + more_ios, bytes + more_bytes))
}

/// I/O commands and their bytes that a controller of ours has completed.
pub(crate) fn completed(soft: &SoftDevice) -> (u64, u64) {
    let statistics = soft.statistics();
    let commands = statistics.commands(NvmOpcode::READ) + statistics.commands(NvmOpcode::WRITE);
    (commands, statistics.bytes_read + statistics.bytes_written)
}

#[cfg(test)]
mod tests {
    use warpbell::OpenOptions;

    use super::*;

    /// Takes a while to load and to set up, and nothing to run.
    struct Slow<'a>(&'a Ssd);

    impl Runner for Slow<'_> {
        fn prepare(&self) -> Result<(), RunError> {
            let begin = cpu::thread_time();
            while cpu::thread_time() - begin < Duration::from_millis(100) {}
            Ok(())
        }

        fn fill(&self, _: &Control) -> Result<Outcome, RunError> {
            Ok(Outcome::default())
        }

        fn warm_up(&self, _: &Control) -> Result<(), RunError> {
            Ok(())
        }

        fn measure(&self, control: &Control) -> Result<Outcome, RunError> {
            let setting_up = || std::thread::sleep(Duration::from_millis(100));
            setting_up();
            control.begin(self.0);
            control.end(self.0);
            setting_up();
            Ok(Outcome { costs: Some(Costs::default()), cpu_time_ns: Some(0), ..Outcome::default() })
        }

        fn check(&self, _: &Control) -> Result<Outcome, RunError> {
            Ok(Outcome::default())
        }
    }

    #[test]
    fn what_is_loaded_for_a_run_is_not_in_its_cpu_time() {
        // Its time is virtual: no thread polls beside the run.
        let name = "soft:size=1m,time=virtual".parse().unwrap();
        let ssd = Ssd::open(&name, &OpenOptions::default()).unwrap();
        let job = resolve(&ssd, &BenchOptions::default()).unwrap();
        let run = phases(&ssd, &job, &Slow(&ssd), &Control::new()).unwrap();
        assert!(run.cpu_time_ns < 50_000_000, "{} ns", run.cpu_time_ns);
    }

    #[test]
    fn processors_are_shared_out_where_there_are_threads() {
        let open = |name: &str| {
            let ssd = || Ssd::open(&name.parse().unwrap(), &OpenOptions::default()).unwrap();
            [ssd(), ssd()]
        };
        let threads = |ssds: &[Ssd]| shared_out(BenchOptions::default(), ssds).threads;
        let processors = std::thread::available_parallelism().unwrap().get();
        let real = open("soft:size=1m");
        assert_eq!(threads(&real), Some(((processors - 1) / 2).max(1)));
        assert_eq!((threads(&real[..1]), threads(&open("soft:size=1m,time=virtual"))), (None, None));
    }

    #[test]
    fn counts_over_time_are_of_what_is_measured() {
        let ssd = Ssd::open(&"soft:size=1m".parse().unwrap(), &OpenOptions::default()).unwrap();
        let job = resolve(&ssd, &BenchOptions::default()).unwrap();
        let series = phases(&ssd, &job, &Slow(&ssd), &Control::new()).unwrap().series.unwrap();
        assert!(series.end_ns.len() == 1 && series.end_ns[0] < 50_000_000, "{series:?}");
    }

    #[test]
    fn doorbells_of_kernels_are_no_option_of_the_hosts_queues() {
        let ssd = Ssd::open(
            &"soft:size=1m".parse().unwrap(),
            &OpenOptions::new().doorbells(DoorbellChoice::Mapped),
        );
        let options = BenchOptions { api: Api::Host, ..BenchOptions::default() };
        let error = resolve(&ssd.unwrap(), &options).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--doorbells mapped is of kernels"), "{error}");
    }
}
