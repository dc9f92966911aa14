//! `bench`: runs the points of a sweep and reports them together.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use warpbell::{OpenTarget, Ssd};
use warpbell_workload::resident::ResidentSpec;
use warpbell_workload::trace::SsdReplay;
use warpbell_workload::{
    Api, BenchOptions, BenchReport, Control, DeviceReport, Experiment, GroupReport, Job, Origin, PathReport,
    Run, RunError, Skipped, Trouble, bench_together, csv, fio, progress,
};

use super::journal::Journal;
use super::openings::Openings;
use super::points::{self, Plan, Point};
use super::sweep::{self, Kept, Now};
use super::{bench_resident, calibrate, experiment, traces};
use crate::args::{BenchArgs, BenchCommand, Form, Global, Output};
use crate::exit::{Ending, FAILED, INTERRUPTED};
use crate::open::{Access, because};
use crate::outputs::Outputs;
use crate::progress::{Goal, watch};
use crate::{date, out, render};

/// Why a run ended that nobody interrupted.
const ASKED: &str = "the system asked for the device back, as for an unbind: stopped, and let go of it";

/// Runs the command.
pub fn run(args: &BenchArgs, global: &Global, stop: Arc<AtomicBool>) -> Result<(), Ending> {
    if let Some(command) = &args.command {
        return by_name(command, global, stop);
    }
    let points = warpbell_workload::sweep(&args.options(), &args.axis).map_err(Ending::usage)?;
    refuse_recovery(args, &points)?;
    if let Some(spec) = bench_resident::named(args, &points)? {
        return resident(&spec, args, &points, (global, stop));
    }
    let recordings = traces::recordings(args)?;
    let target = target(args, &points)?;
    let control = Control::with_stop(stop);
    let origin = sweep::origin(&args.device, points.iter().filter_map(|point| point.opening.fault.as_ref()))?;
    refuse_outputs(args, &origin)?;
    let mut openings = Openings::new(args, access(&points, &recordings), &points, &control)?;
    let plan = points::plan(args, &mut openings, &points, &recordings)?;
    let target = target.map_or_else(|| args.device.target.to_string(), |target| target.to_string());
    let devices: Vec<_> = plan.devices.iter().cloned().zip(plan.paths(openings.all(), &[])).collect();
    let now = Now { origin: &origin, target: &target, devices: &devices };
    let (kept, mut journal) = kept(args, &now)?;
    // Nothing that was written before is lost to a mistake in these words.
    let file = traces::file(args, plan.points.len() * args.results.repeat as usize)?;
    let rows = sweep::rows(args.results.csv.as_ref())?;
    let (runs, mut broken) = measure(&mut openings, (&plan, &kept, journal.as_mut()), args, &control);
    if let Some(error) = broken.take_if(|_| runs.iter().all(Vec::is_empty)) {
        return Err(error);
    }
    let paths = plan.paths(openings.all(), &runs);
    let mut reports = reports(&target, (origin, kept.origins), (plan.devices, paths, runs), &plan.skipped);
    reports.iter_mut().for_each(|report| report.partial |= control.stopped() || broken.is_some());
    // What was measured is shown, whatever went wrong behind it.
    let written = file.map_or(Ok(()), |file| file.write(&reports));
    let listed = sweep::write_rows(rows, || csv(&reports));
    let ending = print(reports, global);
    let released = if openings.asked_back() { Err(Ending::failed(ASKED)) } else { Ok(()) };
    let ending =
        ending.map_err(|ending| openings.ssds().iter().fold(ending, |ending, ssd| because(ssd, ending)));
    all_of([released, broken.map_or(Ok(()), Err), written, listed, ending])
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

/// Refuses to write what this command needs, before a device or a file is touched.
pub fn refuse_outputs(args: &BenchArgs, origin: &Origin) -> Result<(), Ending> {
    let mut outputs = Outputs::beside(&args.device, origin)?;
    let (results, trace) = (&args.results, &args.trace);
    let needed =
        [("--replay", &trace.replay), ("--resume", &results.resume), ("--manifest", &args.part.manifest)];
    for (flag, path) in needed {
        path.iter().for_each(|path| outputs.keep(format_args!("the file of {flag}"), path));
    }
    let written = [("--journal", &results.journal), ("--trace", &trace.trace), ("--csv", &results.csv)];
    for (flag, path) in written {
        path.iter().try_for_each(|path| outputs.claim(flag, path))?;
    }
    Ok(())
}

/// A report of each SSD.
fn reports(
    target: &str,
    (origin, resumed_from): (Origin, Vec<Origin>),
    (devices, paths, runs): (Vec<DeviceReport>, Vec<PathReport>, Vec<Vec<Run>>),
    skipped: &[Skipped],
) -> Vec<BenchReport> {
    let report = |((device, path), runs): ((DeviceReport, PathReport), Vec<Run>)| BenchReport {
        origin: Some(origin.clone()),
        resumed_from: resumed_from.clone(),
        skipped: skipped.to_vec(),
        ..BenchReport::new(target.to_owned(), device, path, runs)
    };
    devices.into_iter().zip(paths).zip(runs).map(report).collect()
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

/// Runs all points that are not kept, until one breaks on an SSD: the runs of each SSD, and what broke first.
fn measure(
    openings: &mut Openings<'_>,
    (plan, kept, mut journal): (&Plan, &Kept, Option<&mut Journal>),
    args: &BenchArgs,
    control: &Control,
) -> (Vec<Vec<Run>>, Option<Ending>) {
    let mut runs: Vec<Vec<(usize, Run)>> = plan.devices.iter().map(|_| Vec::new()).collect();
    let mut broken = None;
    let turns = sweep::turns(plan.points.len(), args.results.repeat, args.seed);
    kept.tell(args, &turns, |turn| plan.points[turn.point].name.clone());
    for (order, turn) in turns.into_iter().enumerate() {
        let Point { name, jobs: planned } = &plan.points[turn.point];
        if let Some(kept) = kept.take(turn, name) {
            runs.iter_mut().zip(kept).for_each(|(runs, run)| runs.push((turn.point, run)));
            continue;
        }
        if control.stopped() || broken.is_some() {
            continue;
        }
        let ssds = match openings.at(planned.opening) {
            Ok(opened) => &opened.ssds,
            Err(ending) => {
                broken = Some(ending);
                continue;
            }
        };
        let jobs: Vec<Job> = planned.jobs.iter().map(|job| turn.job(job)).collect();
        let together: Vec<_> = ssds.iter().zip(&jobs).collect();
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
            broken = journal.keep(ended).err();
        }
    }
    (runs.into_iter().map(sweep::in_order).collect(), broken)
}

/// What loses a command in the laboratory ends: the host knows nothing of its commands.
fn refuse_recovery(args: &BenchArgs, points: &[BenchOptions]) -> Result<(), Ending> {
    let asked = args.recover || args.axis.iter().any(|axis| axis.name() == "recover");
    match points.iter().find_map(|options| options.protocol) {
        Some(protocol) if asked => Err(Ending::usage(format!(
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

/// Checked data is written first, so verifying needs the same permission as writing.
fn access(points: &[BenchOptions], recordings: &[SsdReplay]) -> Access {
    let replays_writes = recordings.iter().any(SsdReplay::writes);
    let writes = |options: &&BenchOptions| options.rw.writes() || options.verify.is_some() || replays_writes;
    let writing = points.iter().find(writes);
    writing.map_or(Access::Read, |options| Access::Write { nsid: options.nsid })
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
