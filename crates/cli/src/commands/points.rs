//! The points of a sweep, each checked before the first one runs.

use std::sync::Arc;

use warpbell::Ssd;
use warpbell_workload::trace::SsdReplay;
use warpbell_workload::{
    BenchOptions, DeviceReport, Job, JobError, Opening, PathReport, Run, RunError, Skipped, point_name,
    resolve, shared_out,
};

use super::openings::{Opened, Openings};
use super::traces;
use crate::args::BenchArgs;
use crate::exit::{Ending, INTERRUPTED, REFUSED};

/// A point of a sweep that can be.
pub struct Point<T> {
    /// What the axes vary.
    pub name: String,
    /// What runs.
    pub jobs: T,
}

/// Why a point cannot be measured.
pub enum Unfit {
    /// It is left out.
    Skip(Ending),
    /// No other point can be, either.
    End(Ending),
}

impl From<JobError> for Unfit {
    fn from(error: JobError) -> Unfit {
        Unfit::Skip(RunError::from(error).into())
    }
}

impl From<RunError> for Unfit {
    fn from(error: RunError) -> Unfit {
        match error {
            RunError::Job(error) => error.into(),
            error => Unfit::End(error.into()),
        }
    }
}

/// The points that can be, and the others.
pub type Chosen<T> = (Vec<Point<T>>, Vec<Skipped>);

/// The points that can be, and the others with their reasons, which are said at once. It is an error where none can.
pub fn chosen<T>(names: Vec<String>, found: Vec<Result<T, Unfit>>) -> Result<Chosen<T>, Ending> {
    let (mut points, mut skipped, mut first) = (Vec::new(), Vec::new(), None);
    for (name, found) in names.into_iter().zip(found) {
        match found {
            Ok(jobs) => points.push(Point { name, jobs }),
            Err(Unfit::Skip(why)) => {
                skipped.push(Skipped { point: name, reason: why.message().to_owned() });
                first.get_or_insert(why);
            }
            Err(Unfit::End(ending)) => return Err(ending),
        }
    }
    if let (true, Some(why)) = (points.is_empty(), first) {
        return Err(why);
    }
    for Skipped { point, reason } in &skipped {
        eprintln!("skipped: {point}: {reason}");
    }
    Ok((points, skipped))
}

/// What a point needs: its jobs, one for each SSD, and how these are opened for it.
pub struct Planned {
    /// Index of the opening.
    pub opening: usize,
    /// The jobs.
    pub jobs: Vec<Job>,
}

/// All that is known before the first point runs.
pub struct Plan {
    /// The points that can be.
    pub points: Vec<Point<Planned>>,
    /// The others.
    pub skipped: Vec<Skipped>,
    /// The SSDs.
    pub devices: Vec<DeviceReport>,
    /// Of each opening, the way to each SSD; nothing of one that cannot be.
    paths: Vec<Vec<PathReport>>,
}

/// Opens the SSDs in each way that the points want, and checks these.
pub fn plan(
    args: &BenchArgs,
    openings: &mut Openings<'_>,
    options: &[BenchOptions],
    recordings: &[SsdReplay],
) -> Result<Plan, Ending> {
    let count = openings.all().len();
    let wanted =
        |options: &BenchOptions| openings.all().iter().position(|opening| *opening == options.opening);
    let wanted: Vec<Option<usize>> = options.iter().map(wanted).collect();
    let mut found: Vec<Option<Result<Planned, Unfit>>> = options.iter().map(|_| None).collect();
    let (mut devices, mut paths) = (Vec::new(), vec![Vec::new(); count]);
    // The first comes last, and is still open when its points run.
    for opening in (0..count).rev() {
        let of_it = (0..options.len()).filter(|point| wanted[*point] == Some(opening));
        let opened = match openings.at(opening) {
            Ok(opened) => opened,
            Err(why) if count > 1 && ![REFUSED, INTERRUPTED].contains(&why.code()) => {
                of_it.for_each(|point| {
                    found[point] = Some(Err(Unfit::Skip(Ending::new(why.code(), why.message()))));
                });
                continue;
            }
            Err(why) => return Err(why),
        };
        let recordings = traces::one_each(recordings.to_vec(), opened.ssds.len())?;
        for point in of_it {
            let jobs = jobs(&options[point], opened, &recordings);
            found[point] = Some(jobs.map(|jobs| Planned { opening, jobs }));
        }
        let device = |ssd| DeviceReport::of(ssd, args.nsid);
        devices = opened.ssds.iter().map(device).collect::<Result<_, _>>()?;
        paths[opening] = opened.ssds.iter().map(PathReport::of).collect();
    }
    let names = options.iter().map(|options| point_name(&args.axis, options)).collect();
    let (points, skipped) = chosen(names, found.into_iter().flatten().collect())?;
    Ok(Plan { points, skipped, devices, paths })
}

/// The jobs of a point, one for each SSD.
fn jobs(
    options: &BenchOptions,
    opened: &Opened,
    recordings: &[Option<Arc<SsdReplay>>],
) -> Result<Vec<Job>, Unfit> {
    let options = BenchOptions { file: opened.file.clone(), ..shared_out(options.clone(), &opened.ssds) };
    let job = |(ssd, replay): (&Ssd, &Option<Arc<SsdReplay>>)| {
        let job = resolve(ssd, &BenchOptions { replay: replay.clone(), ..options.clone() })?;
        Ok(Job { opening: Some(options.opening.clone()), ..job })
    };
    opened.ssds.iter().zip(recordings).map(job).collect()
}

impl Plan {
    /// The way to each SSD, over all openings. How doorbells are rung is known of those that `runs` has runs of.
    pub fn paths(&self, all: &[Opening], runs: &[Vec<Run>]) -> Vec<PathReport> {
        let of_ssd = |ssd: usize| {
            let each = all.iter().zip(&self.paths).filter_map(|(opening, paths)| {
                let runs = runs.get(ssd).map(Vec::as_slice).unwrap_or_default();
                let latest = runs.iter().rev().find(|run| run.job.opening.as_ref() == Some(opening));
                let planned = paths.get(ssd)?;
                Some(latest.and_then(|run| run.data_path.clone()).unwrap_or_else(|| planned.clone()))
            });
            PathReport::together(&each.collect::<Vec<_>>())
        };
        (0..self.devices.len()).map(of_ssd).collect()
    }
}
