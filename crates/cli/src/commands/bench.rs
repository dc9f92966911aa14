//! `bench`: runs the points of a sweep and reports them together.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use warpbell::{OpenTarget, Ssd};
use warpbell_workload::resident::ResidentSpec;
use warpbell_workload::trace::SsdReplay;
use warpbell_workload::{
    Api, BenchOptions, BenchReport, Completion, Control, DeviceReport, Experiment, GroupReport, Job,
    NamedFile, Origin, PathReport, Run, RunError, Skipped, Trouble, bench_together, csv, fio, point_name,
    progress, resolve,
};

use super::journal::Journal;
use super::sweep::{self, Kept, Now};
use super::{bench_resident, calibrate, experiment, traces};
use crate::args::{BenchArgs, BenchCommand, Form, Global, Output};
use crate::events::Release;
use crate::exit::{Ending, FAILED, INTERRUPTED};
use crate::open::{Access, because, open_all, open_file};
use crate::part::{named_file, writable_file};
use crate::progress::{Goal, watch};
use crate::{date, out, render};
use warpbell_hw::Nsid;

/// Why a run ended that nobody interrupted.
const ASKED: &str = "the system asked for the device back, as for an unbind: stopped, and let go of it";

/// Runs the command.
pub fn run(args: &BenchArgs, global: &Global, stop: Arc<AtomicBool>) -> Result<(), Ending> {
    if let Some(command) = &args.command {
        return by_name(command, global, stop);
    }
    let points = warpbell_workload::sweep(&args.options(), &args.axis).map_err(Ending::usage)?;
    refuse_recovery(args, &points)?;
    if let Some(spec) = bench_resident::named(args)? {
        return resident(&spec, args, &points, (global, stop));
    }
    let recordings = traces::recordings(args)?;
    let target = target(args, &points)?;
    let (ssds, file) = opened(args, access(&points, &recordings))?;
    let over = |options| BenchOptions { file: file.clone(), ..shared_out(options, ssds.len()) };
    let points: Vec<BenchOptions> = points.into_iter().map(over).collect();
    let recordings = traces::one_each(recordings, ssds.len())?;
    let (jobs, skipped) = jobs(args, &ssds, &points, &recordings)?;
    let device = |ssd: &Ssd| Ok((DeviceReport::of(ssd, Nsid(args.nsid))?, PathReport::of(ssd)));
    let devices: Vec<_> = ssds.iter().map(device).collect::<Result<_, RunError>>()?;
    let origin = sweep::origin();
    let target = target.map_or_else(|| args.device.target.to_string(), |target| target.to_string());
    let now = Now { origin: &origin, target: &target, devices: &devices };
    let (kept, mut journal) = kept(args, &now)?;
    // Nothing that was written before is lost to a mistake in these words.
    let file = traces::file(args, jobs.len() * args.results.repeat as usize)?;
    let rows = sweep::rows(args.results.csv.as_ref())?;
    let (control, release) = (Control::with_stop(stop), Release::default());
    ssds.iter().for_each(|ssd| release.watch(ssd, &control));
    let (runs, mut broken, measured) = measure(&ssds, (&jobs, &kept, journal.as_mut()), args, &control);
    if let Some(error) = broken.take_if(|_| runs.iter().all(Vec::is_empty)) {
        return Err(error);
    }
    // Where all was kept, no kernel has rung here: how it did is known from then.
    let paths = if measured { Vec::new() } else { kept.paths };
    let mut reports = reports((&ssds, &target), (origin, kept.origins), (devices, runs, paths), &skipped);
    reports.iter_mut().for_each(|report| report.partial |= control.stopped() || broken.is_some());
    // What was measured is shown, whatever went wrong behind it.
    let written = file.map_or(Ok(()), |file| file.write(&reports));
    let listed = sweep::write_rows(rows, || csv(&reports));
    let ending = print(reports, global);
    let released = if release.asked() { Err(Ending::failed(ASKED)) } else { Ok(()) };
    let ending = ending.map_err(|ending| ssds.iter().fold(ending, |ending, ssd| because(ssd, ending)));
    all_of([released, broken.map_or(Ok(()), Err), written, listed, ending])
}

/// All devices; or the only one, and what of it is read.
fn opened(args: &BenchArgs, access: Access) -> Result<(Vec<Ssd>, Option<Arc<NamedFile>>), Ending> {
    if !args.device.has_path() && !args.part.is_given() {
        return Ok((open_all(&args.device, access)?, None));
    }
    let named = args.device.named()?;
    let ssd = open_file(&args.device, named, access)?;
    let part = (args.nsid, &args.part);
    let file = match access {
        Access::Read => named_file(&ssd, named, part)?,
        Access::Write { .. } => {
            let name = named.path.clone().unwrap_or_default();
            Some(NamedFile::of_writable(name, writable_file(&ssd, named, part)?))
        }
    };
    Ok((vec![ssd], file.map(Arc::new)))
}

/// The same of the GPU-resident controller.
fn resident(
    spec: &ResidentSpec,
    args: &BenchArgs,
    points: &[BenchOptions],
    (global, stop): (&Global, Arc<AtomicBool>),
) -> Result<(), Ending> {
    let (report, rows, broken) = bench_resident::run(spec, args, points, &Control::with_stop(stop))?;
    let listed = sweep::write_rows(rows, || csv(std::slice::from_ref(&report)));
    all_of([broken, listed, print(vec![report], global)])
}

/// The SSDs, and the way to each as far as it was known before kernels ran.
type Devices = Vec<(DeviceReport, PathReport)>;

/// A report of each SSD. How doorbells are rung is known once kernels have run.
fn reports(
    (ssds, target): (&[Ssd], &str),
    (origin, resumed_from): (Origin, Vec<Origin>),
    (devices, runs, paths): (Devices, Vec<Vec<Run>>, Vec<PathReport>),
    skipped: &[Skipped],
) -> Vec<BenchReport> {
    let known = paths.into_iter().map(Some).chain(std::iter::repeat(None));
    let report = |(((ssd, (device, _)), runs), path): (((&Ssd, _), _), Option<PathReport>)| BenchReport {
        origin: Some(origin.clone()),
        resumed_from: resumed_from.clone(),
        skipped: skipped.to_vec(),
        ..BenchReport::new(target.to_owned(), device, path.unwrap_or_else(|| PathReport::of(ssd)), runs)
    };
    ssds.iter().zip(devices).zip(runs).zip(known).map(report).collect()
}

/// What else is measured.
fn by_name(command: &BenchCommand, global: &Global, stop: Arc<AtomicBool>) -> Result<(), Ending> {
    let (which, args) = match command {
        BenchCommand::Calibrate(args) => return calibrate::run(args, global, stop),
        BenchCommand::Path(args) => (Experiment::Path, args),
        BenchCommand::Registration(args) => (Experiment::Registration, args),
        BenchCommand::Batching(args) => (Experiment::Batching, args),
        BenchCommand::Stripe(args) => (Experiment::Stripe, args),
        BenchCommand::Notice(args) => (Experiment::Notice, args),
        BenchCommand::Tail(args) => (Experiment::Tail, args),
        BenchCommand::Order(args) => (Experiment::Order, args),
        BenchCommand::Tiles(args) => (Experiment::Tiles, args),
        BenchCommand::Arbitration(args) => (Experiment::Arbitration, args),
        BenchCommand::Cold(args) => (Experiment::Cold, args),
        BenchCommand::Kv(args) => (Experiment::Kv, args),
        BenchCommand::Checkpoint(args) => (Experiment::Checkpoint, args),
        BenchCommand::Loader(args) => (Experiment::Loader, args),
        BenchCommand::Graph(args) => (Experiment::Graph, args),
        BenchCommand::Vectors(args) => (Experiment::Vectors, args),
    };
    experiment::run(which, args, global, stop)
}

/// The first that went wrong, with what the others say.
fn all_of<const N: usize>(endings: [Result<(), Ending>; N]) -> Result<(), Ending> {
    let mut wrong = endings.into_iter().filter_map(Result::err);
    let Some(first) = wrong.next() else { return Ok(()) };
    Err(wrong.filter(|more| !more.message().is_empty()).fold(first, |all, more| all.and(more.message())))
}

/// Where kernels run; what is missing is said before a device is touched, and a GPU stays open from run to run.
fn target(args: &BenchArgs, points: &[BenchOptions]) -> Result<Option<OpenTarget>, Ending> {
    if points.iter().all(|options| options.api == Api::Host) {
        args.device.refuse_kernels("--api host")?;
        return Ok(None);
    }
    Ok(Some(args.device.target.open()?))
}

/// The jobs of each point, one for each SSD, and the points of a sweep that cannot be. Every point is checked before the
/// first one runs, and what is left out is said then.
fn jobs(
    args: &BenchArgs,
    ssds: &[Ssd],
    points: &[BenchOptions],
    recordings: &[Option<Arc<SsdReplay>>],
) -> Result<Chosen<Vec<Job>>, Ending> {
    let of_point = |options: &BenchOptions| {
        let each = ssds.iter().zip(recordings);
        let replaying =
            |replay: &Option<Arc<SsdReplay>>| BenchOptions { replay: replay.clone(), ..options.clone() };
        each.map(|(ssd, replay)| resolve(ssd, &replaying(replay))).collect::<Result<Vec<Job>, RunError>>()
    };
    chosen(args, points, of_point)
}

/// A point of a sweep that can be.
pub struct Point<T> {
    /// What the axes vary.
    pub name: String,
    /// What runs.
    pub jobs: T,
}

/// The points that can be, and the others.
pub type Chosen<T> = (Vec<Point<T>>, Vec<Skipped>);

/// The points that can be, by what `of_point` makes of each, and the others with their reasons. It is an error where none
/// can.
pub fn chosen<T>(
    args: &BenchArgs,
    points: &[BenchOptions],
    of_point: impl Fn(&BenchOptions) -> Result<T, RunError>,
) -> Result<Chosen<T>, Ending> {
    let (mut jobs, mut skipped, mut first) = (Vec::new(), Vec::new(), None);
    for options in points {
        match of_point(options) {
            Ok(jobs_of) => jobs.push(Point { name: point_name(&args.axis, options), jobs: jobs_of }),
            Err(RunError::Job(error)) => {
                skipped.push(Skipped { point: point_name(&args.axis, options), reason: error.to_string() });
                first.get_or_insert(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let (true, Some(error)) = (jobs.is_empty(), first) {
        return Err(error.into());
    }
    for Skipped { point, reason } in &skipped {
        eprintln!("skipped: {point}: {reason}");
    }
    Ok((jobs, skipped))
}

/// What there is of this command from before: of `--resume`, or in the journal, which is added to.
fn kept(args: &BenchArgs, now: &Now<'_>) -> Result<(Kept, Option<Journal>), Ending> {
    let empty = |(device, path): &(DeviceReport, PathReport)| BenchReport {
        origin: Some(now.origin.clone()),
        ..BenchReport::new(now.target.to_owned(), device.clone(), path.clone(), Vec::new())
    };
    let empty: Vec<BenchReport> = now.devices.iter().map(empty).collect();
    match Journal::open(args, now, &empty)? {
        Some((kept, journal)) => Ok((kept, Some(journal))),
        None => Ok((Kept::read(args, now)?, None)),
    }
}

/// Runs all points that are not kept, until one breaks on an SSD: the runs of each SSD, what broke first, and whether any
/// was measured.
fn measure(
    ssds: &[Ssd],
    (points, kept, mut journal): (&[Point<Vec<Job>>], &Kept, Option<&mut Journal>),
    args: &BenchArgs,
    control: &Control,
) -> (Vec<Vec<Run>>, Option<Ending>, bool) {
    let mut measured = false;
    let mut runs: Vec<Vec<(usize, Run)>> = ssds.iter().map(|_| Vec::new()).collect();
    let mut broken = None;
    for (order, turn) in sweep::turns(points.len(), args.results.repeat, args.seed).into_iter().enumerate() {
        let Point { name, jobs } = &points[turn.point];
        if let Some(kept) = kept.take(turn, name) {
            runs.iter_mut().zip(kept).for_each(|(runs, run)| runs.push((turn.point, run)));
            continue;
        }
        if control.stopped() || broken.is_some() {
            continue;
        }
        let jobs: Vec<Job> = jobs.iter().map(|job| turn.job(job)).collect();
        let together: Vec<_> = ssds.iter().zip(&jobs).collect();
        measured = true;
        for (at, result) in self::point(&together, args, control).into_iter().enumerate() {
            match result {
                Ok(mut run) => {
                    turn.place(&mut run, name, order);
                    runs[at].push((turn.point, run));
                }
                Err(error) => {
                    broken.get_or_insert_with(|| because(&ssds[at], error.into()));
                }
            }
        }
        if let (Some(journal), None, false) = (&mut journal, &broken, control.stopped()) {
            let ended: Vec<Run> = runs.iter().filter_map(|runs| Some(runs.last()?.1.clone())).collect();
            broken = journal.keep(ended, ssds.iter().map(PathReport::of).collect()).err();
        }
    }
    (runs.into_iter().map(sweep::in_order).collect(), broken, measured)
}

/// What loses a command in the laboratory ends: the host knows nothing of its commands.
fn refuse_recovery(args: &BenchArgs, points: &[BenchOptions]) -> Result<(), Ending> {
    match points.iter().find_map(|options| options.protocol) {
        Some(protocol) if args.recover => Err(Ending::usage(format!(
            "--recover: --protocol {protocol} is not recovered, a lost command ends the run; without --recover"
        ))),
        _ => Ok(()),
    }
}

/// Prints one report, or several with their sums, and ends as they say.
fn print(reports: Vec<BenchReport>, global: &Global) -> Result<(), Ending> {
    if global.form == Form::FioJson {
        let (document, left_out) = fio::document(&reports, date::unix_ms());
        out::measured_json(&document)?;
        if left_out > 0 {
            eprintln!("left out: {left_out} runs that were interrupted, for which fio's form has no word");
        }
        return reports.iter().try_for_each(ending);
    }
    if let [report] = &reports[..] {
        match global.output() {
            Output::Normal => out::measured(&render::bench(report))?,
            Output::Json => out::measured_json(report)?,
        }
        return ending(report);
    }
    let group = GroupReport::new(reports);
    match global.output() {
        Output::Normal => out::measured(&render::group(&group))?,
        Output::Json => out::measured_json(&group)?,
    }
    group.devices.iter().try_for_each(ending)
}

/// Threads that were left to the machine are shared out among the SSDs.
fn shared_out(mut options: BenchOptions, ssds: usize) -> BenchOptions {
    if ssds > 1 && options.threads.is_none() && options.completion == Completion::Poll {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        options.threads = Some((processors.saturating_sub(1) / ssds).max(1));
    }
    options
}

/// Checked data is written first, so verifying needs the same permission as writing.
fn access(points: &[BenchOptions], recordings: &[SsdReplay]) -> Access {
    let replays_writes = recordings.iter().any(SsdReplay::writes);
    let writes = |options: &&BenchOptions| options.rw.writes() || options.verify.is_some() || replays_writes;
    let writing = points.iter().find(writes);
    writing.map_or(Access::Read, |options| Access::Write { nsid: options.nsid.get() })
}

/// Runs one point on all SSDs at the same time.
fn point(jobs: &[(&Ssd, &Job)], args: &BenchArgs, control: &Control) -> Vec<Result<Run, RunError>> {
    let Some((_, job)) = jobs.first() else { return Vec::new() };
    let count = jobs.len() as u64;
    let goal = match (job.runtime, job.io_limit_bytes) {
        (Some(runtime), _) => Goal::Time(job.ramp + runtime),
        (None, bytes) => Goal::Bytes(bytes.unwrap_or(job.size_bytes).saturating_mul(count)),
    };
    let done = || progress(jobs.iter().map(|(ssd, _)| *ssd), control);
    watch(job.rw.word(), goal, &done, || bench_together(jobs, args.device.target, control))
}

/// What would have helped, where the run was not allowed to help itself.
fn advice(report: &BenchReport) -> &'static str {
    let troubled =
        report.runs.iter().find(|run| run.errors > 0 && run.recovery.clients != Trouble::default());
    match troubled {
        Some(run) if run.job.protocol.is_some() => "",
        Some(run) if !run.job.recover => "; without --no-recover, queues that do not answer are replaced",
        Some(run) if run.recovery.ssds_lost > 0 => "",
        Some(run) if run.job.retries == 0 => "; --retries N submits failed commands again",
        _ => "",
    }
}

/// The exit code, with a line about what was wrong: the results have the rest.
fn ending(report: &BenchReport) -> Result<(), Ending> {
    let failed = |message: String| Err(Ending::new(FAILED, message));
    let wrong =
        report.runs.iter().filter_map(|run| run.verify.as_ref()).find_map(|verify| verify.examples.first());
    if let Some(first) = wrong {
        return failed(format!(
            "{} blocks with wrong data; first: namespace {} LBA {}: expected crc32c {}, actual {}",
            report.mismatches, first.nsid, first.lba, first.expected, first.actual
        ));
    }
    if let Some(first) = report.runs.iter().find_map(|run| run.failures.first()) {
        let lba = first.lba.map_or(String::new(), |lba| format!(" LBA {lba}"));
        return failed(format!(
            "{} I/Os failed; first: {} of namespace {}{lba}: {}{}",
            report.errors,
            first.op,
            first.nsid,
            first.status,
            advice(report)
        ));
    }
    if let Some(first) = report.runs.iter().find_map(|run| run.violation_examples.first()) {
        return failed(format!("{} violations of the protocol; first: {first}", report.violations));
    }
    if report.partial { Err(Ending::silent(INTERRUPTED)) } else { Ok(()) }
}
