//! `bench` against the GPU-resident controller: a device that exists while a kernel runs.

use warpbell::{DeviceName, DoorbellChoice, Place, RingPlaces};
use warpbell_vfio::IommuChoice;
use warpbell_workload::resident::{ResidentSpec, bench, device_report, path_report, resolve};
use warpbell_workload::{BenchOptions, BenchReport, Control, Dbbuf, Opening, point_name};

use super::bench::refuse_outputs;
use super::points::{Point, chosen};
use super::sweep::{self, Rows};
use crate::args::BenchArgs;
use crate::exit::Ending;
use crate::progress::{Goal, watch};

/// What the command line asks of the GPU-resident controller, if that is its device.
pub fn named(args: &BenchArgs, points: &[BenchOptions]) -> Result<Option<ResidentSpec>, Ending> {
    let device = &args.device;
    if device.has_path() {
        return Ok(None);
    }
    let names = device.names()?;
    let Some(options) = names.iter().find_map(|name| match name {
        DeviceName::Resident(options) => Some(options),
        _ => None,
    }) else {
        return Ok(None);
    };
    if names.len() > 1 {
        return Err(Ending::usage(
            "resident: is measured alone, in a kernel of its own; name no other device",
        ));
    }
    let spec = options.parse().map_err(Ending::usage)?;
    refuse_what_an_ssd_has(args, points)?;
    Ok(Some(spec))
}

/// Flags about an SSD, which is not there, and axes over them.
fn refuse_what_an_ssd_has(args: &BenchArgs, points: &[BenchOptions]) -> Result<(), Ending> {
    let device = &args.device;
    let any = |wanted: fn(&BenchOptions) -> bool| points.iter().any(wanted);
    let opened = |wanted: fn(&Opening) -> bool| points.iter().any(|options| wanted(&options.opening));
    let memory = "has its rings in the target's memory, and no data";
    let doorbells = "has its doorbells in the target's memory, which its warps poll";
    let commands = "answers each command, without errors, and nothing is kept of it";
    let given = [
        ("--fault", opened(|opening| opening.fault.is_some()), commands),
        ("--dbbuf", opened(|opening| opening.dbbuf != Dbbuf::Auto), doorbells),
        ("--doorbells", opened(|opening| opening.doorbells != DoorbellChoice::Auto), doorbells),
        (
            "--iommu",
            opened(|opening| opening.iommu != IommuChoice::Auto),
            "is a kernel, and no function behind an IOMMU",
        ),
        ("--rings", opened(|opening| opening.rings != RingPlaces::default()), memory),
        ("--data", opened(|opening| opening.data != Place::Host), memory),
        ("--wide-cids", opened(|opening| opening.wide_cids), "takes identifiers of 16 bits"),
        ("--allow-write", !device.allow_write.is_empty(), "has no blocks to write"),
        ("--partition", args.part.partition.is_some(), "has no partitions"),
        ("--allow-dirty", args.part.allow_dirty, "has no file system"),
        ("--resume", args.results.resume.is_some(), commands),
        ("--journal", args.results.journal.is_some(), commands),
        ("--trace", args.trace.trace.is_some(), commands),
        ("--replay", args.trace.replay.is_some(), commands),
        ("--retries", any(|options| options.retries != 0), commands),
        (
            "--gather",
            any(|options| options.gather.is_some()),
            "is measured with I/Os that begin by themselves",
        ),
        (
            "--no-recover",
            any(|options| !options.recover),
            "lives as long as its launch, and is not recovered",
        ),
    ];
    match given.iter().find(|(_, given, _)| *given) {
        Some((flag, _, why)) => Err(Ending::usage(format!("{flag}: the GPU-resident controller {why}"))),
        None => Ok(()),
    }
}

/// What was measured, the file of `--csv`, and what broke.
type Measured = (BenchReport, Option<Rows>, Result<(), Ending>);

/// Runs all points, until one breaks.
pub fn run(
    spec: &ResidentSpec,
    args: &BenchArgs,
    points: &[BenchOptions],
    control: &Control,
) -> Result<Measured, Ending> {
    let target = args.device.target;
    let opened = target.open()?;
    let names = points.iter().map(|options| point_name(&args.axis, options)).collect();
    let found = points.iter().map(|options| Ok(resolve(spec, options)?)).collect();
    let (jobs, skipped) = chosen(names, found)?;
    let origin = sweep::origin(&args.device, [])?;
    refuse_outputs(args, &origin)?;
    let rows = sweep::rows(args.results.csv.as_ref())?;
    let (mut runs, mut broken) = (Vec::with_capacity(jobs.len()), Ok(()));
    for (order, turn) in sweep::turns(jobs.len(), args.results.repeat, args.seed).into_iter().enumerate() {
        if control.stopped() {
            break;
        }
        let Point { name, jobs: job } = &jobs[turn.point];
        let job = &turn.job(job);
        let goal = match (job.runtime, job.io_limit_bytes) {
            (Some(runtime), _) => Goal::Time(job.ramp + runtime),
            (None, bytes) => Goal::Bytes(bytes.unwrap_or(job.size_bytes)),
        };
        let done = || control.done();
        match watch(job.rw.word(), goal, &done, || bench(target, spec, job, control)) {
            Ok(mut run) => {
                turn.place(&mut run, name, order);
                runs.push((turn.point, run));
            }
            Err(error) if runs.is_empty() => return Err(error.into()),
            Err(error) => {
                broken = Err(error.into());
                break;
            }
        }
    }
    let device = args.device.name()?.to_string();
    let mut report =
        BenchReport::new(opened.to_string(), device_report(&device), path_report(), sweep::in_order(runs));
    report.origin = Some(origin);
    report.partial |= control.stopped() || broken.is_err();
    report.skipped = skipped;
    Ok((report, rows, broken))
}
