//! `bench`: runs the points of a sweep and reports them together.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use warpbell::Ssd;
use warpbell_workload::{
    Api, BenchOptions, BenchReport, Control, DeviceReport, Job, PathReport, Run, bench, progress, resolve,
    sweep,
};

use crate::args::{BenchArgs, Global, Output};
use crate::exit::{Ending, FAILED, INTERRUPTED};
use crate::open::{Access, check_target, open};
use crate::progress::{Goal, watch};
use crate::{out, render};

/// Runs the command.
pub fn run(args: &BenchArgs, global: &Global, stop: Arc<AtomicBool>) -> Result<(), Ending> {
    let points = sweep(&args.options(), &args.axis).map_err(Ending::usage)?;
    if points.iter().any(|options| options.api != Api::Host) {
        check_target(&args.device)?;
    }
    let ssd = open(&args.device, access(&points))?;
    // Every point is checked before the first one runs: a typing error must not cost an hour.
    let jobs = points.iter().map(|options| resolve(&ssd, options)).collect::<Result<Vec<Job>, _>>()?;
    let control = Control::with_stop(stop);
    let mut runs = Vec::with_capacity(jobs.len());
    for job in &jobs {
        if control.stopped() {
            break;
        }
        runs.push(point(&ssd, args, job, &control)?);
    }
    let device = DeviceReport::of(&ssd, args.nsid)?;
    let mut report = BenchReport::new(args.device.target.to_string(), device, PathReport::of(&ssd), runs);
    report.partial |= control.stopped();
    match global.output {
        Output::Normal => out::text(&render::bench(&report))?,
        Output::Json => out::json(&report)?,
    }
    ending(&report)
}

/// Checked data is written first, so verifying needs the same permission as writing.
fn access(points: &[BenchOptions]) -> Access {
    let writing = points.iter().find(|options| options.rw.writes() || options.verify.is_some());
    writing.map_or(Access::Read, |options| Access::Write { nsid: options.nsid })
}

fn point(ssd: &Ssd, args: &BenchArgs, job: &Job, control: &Control) -> Result<Run, Ending> {
    let goal = match (job.runtime, job.io_limit_bytes) {
        (Some(runtime), _) => Goal::Time(job.ramp + runtime),
        (None, bytes) => Goal::Bytes(bytes.unwrap_or(job.size_bytes)),
    };
    let done = || progress(ssd, control);
    Ok(watch(job.rw.word(), goal, &done, || bench(ssd, args.device.target, job, control))?)
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
            "{} I/Os failed; first: {} of namespace {}{lba}: {}",
            report.errors, first.op, first.nsid, first.status
        ));
    }
    if let Some(first) = report.runs.iter().find_map(|run| run.violation_examples.first()) {
        return failed(format!("{} violations of the protocol; first: {first}", report.violations));
    }
    if report.partial { Err(Ending::silent(INTERRUPTED)) } else { Ok(()) }
}
