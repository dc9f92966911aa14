//! The points of a sweep: what several runs of each say together, rows for tables, and two results beside each other.

use std::fmt::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use warpbell_base::Time;

use crate::axis::{cpu_list, on_off, ring_places};
use crate::experiment::ExperimentReport;
use crate::job::Job;
use crate::latency::Latency;
use crate::opening::Opening;
use crate::options::{Access, Api};
use crate::origin::{InputFile, Machine, Origin};
use crate::result::{BenchReport, DeviceReport, Run};
use crate::size::ByteSize;
use crate::statistics::{Interval, holm, median, median_interval, rank_sum};
use crate::stopwatch::ClockKind;

/// A median and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// Where the true one lies.
    #[serde(flatten)]
    pub interval: Interval,
}

impl Spread {
    /// Of these values; nothing of none.
    pub fn of(values: &[f64]) -> Option<Spread> {
        Some(Spread { median: median(values)?, interval: median_interval(values)? })
    }
}

/// All whole runs of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointSummary {
    /// The point, by what the axes vary.
    pub point: String,
    /// How many runs there are of it.
    pub runs: usize,
    /// I/Os per second.
    pub iops: Spread,
    /// Bytes per second.
    pub bytes_per_s: Spread,
    /// Median latency of single I/Os.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<Spread>,
    /// What 99 % took at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<Spread>,
    /// What 99.9 % took at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_9_ns: Option<Spread>,
}

/// What a job has of each flag, by the names of flags; nothing where the flag is not of its kind.
fn flags(job: &Job) -> Vec<(&'static str, Option<String>)> {
    let word = |value: &dyn std::fmt::Display| Some(value.to_string());
    let size = |bytes: u64| Some(ByteSize(bytes).to_string());
    let time = |time: Duration| Time(time).to_string();
    let cache = job.array.as_ref();
    let mut all = vec![
        ("rw", word(&job.rw)),
        ("rwmixread", (job.rw == Access::RandRw).then(|| job.rwmixread.to_string())),
        ("random-distribution", word(&job.random_distribution)),
        ("bs", size(job.bs_bytes)),
        ("iodepth", word(&job.iodepth)),
        ("queues", word(&job.queues)),
        ("warps", (job.api != Api::Host).then(|| job.warps.to_string())),
        ("agents", job.agents.map(|agents| agents.to_string())),
        ("block", job.block.map(|threads| threads.to_string())),
        ("cache", cache.and_then(|cache| size(cache.cache_bytes))),
        ("policy", cache.map(|cache| cache.policy.to_string())),
        ("hit-rate", cache.and_then(|cache| cache.hit_rate_percent).map(|percent| percent.to_string())),
        ("spread", cache.map(|cache| cache.spread.to_string())),
        ("sharing", word(&job.sharing)),
        ("api", word(&job.api)),
        ("protocol", job.protocol.map(|protocol| protocol.to_string())),
        ("completion", word(&job.completion)),
        ("coalescing", job.coalescing.map(|wanted| wanted.to_string())),
        ("gather", job.gather.map(|gather| gather.to_string())),
        ("offset", size(job.offset_bytes)),
        ("size", size(job.size_bytes)),
        ("io-limit", job.io_limit_bytes.and_then(size)),
        ("runtime", job.runtime.map(time)),
        ("ramp", Some(time(job.ramp))),
        ("timeout", (!job.timeout.is_zero()).then(|| time(job.timeout))),
        ("verify", job.verify.map(|verify| verify.to_string())),
        ("retries", word(&job.retries)),
        ("recover", Some(on_off(job.recover).to_owned())),
        ("threads", (job.threads > 0).then(|| job.threads.to_string())),
        ("cpus", (!job.cpus.is_empty()).then(|| cpu_list(&job.cpus))),
        ("trace-events", job.trace_events.map(|events| events.to_string())),
        (SEED, word(&job.seed)),
    ];
    all.extend(opening(job.opening.as_ref()));
    all
}

/// How the SSD was opened, by the names of flags.
fn opening(opening: Option<&Opening>) -> [(&'static str, Option<String>); 7] {
    let shown = |show: fn(&Opening) -> String| opening.map(show);
    [
        ("dbbuf", shown(|opening| opening.dbbuf.to_string())),
        ("doorbells", shown(|opening| opening.doorbells.to_string())),
        ("iommu", shown(|opening| opening.iommu.to_string())),
        ("rings", shown(|opening| ring_places(&opening.rings))),
        ("data", shown(|opening| opening.data.to_string())),
        ("wide-cids", shown(|opening| on_off(opening.wide_cids).to_owned())),
        ("fault", opening.and_then(|opening| Some(opening.fault.as_ref()?.display().to_string()))),
    ]
}

/// The flag that repeats differ in.
const SEED: &str = "seed";

/// What `job` has of the flag that this axis varies.
pub fn flag(job: &Job, axis: &str) -> Option<String> {
    flags(job).into_iter().find(|(name, _)| *name == axis)?.1
}

/// Names the points of a result that has no names, as of an older version, by what its jobs differ in.
pub fn name_points(runs: &mut [Run]) {
    if runs.iter().any(|run| !run.point.is_empty() || run.repeat.is_some()) {
        return;
    }
    let all: Vec<_> = runs.iter().map(|run| flags(&run.job)).collect();
    let Some(first) = all.first() else { return };
    let varies: Vec<bool> =
        (0..first.len()).map(|flag| all.iter().any(|other| other[flag] != first[flag])).collect();
    for (run, flags) in runs.iter_mut().zip(&all) {
        let pairs = flags.iter().zip(&varies).filter(|(_, varies)| **varies);
        let pair = |((name, value), _): (&(&str, Option<String>), _)| {
            format!("{name}={}", value.as_deref().unwrap_or("default"))
        };
        run.point = pairs.map(pair).collect::<Vec<_>>().join(" ");
    }
}

/// Runs by their points, in the order in which these come first. Runs that were interrupted are no results.
pub fn by_point(runs: &[Run]) -> Vec<(&str, Vec<&Run>)> {
    let mut points: Vec<(&str, Vec<&Run>)> = Vec::new();
    for run in runs.iter().filter(|run| !run.partial) {
        // A sweep's runs are in order: the point is most often the last one.
        match points.iter_mut().rev().find(|(point, _)| *point == run.point) {
            Some((_, runs)) => runs.push(run),
            None => points.push((&run.point, vec![run])),
        }
    }
    points
}

/// What the runs of each point say together; nothing where points were not run several times.
pub fn summaries(runs: &[Run]) -> Vec<PointSummary> {
    if runs.iter().all(|run| run.repeat.is_none()) {
        return Vec::new();
    }
    by_point(runs).into_iter().filter_map(|(point, runs)| summary(point, &runs)).collect()
}

fn summary(point: &str, runs: &[&Run]) -> Option<PointSummary> {
    let spread = |pick: fn(&Run) -> f64| Spread::of(&runs.iter().map(|run| pick(run)).collect::<Vec<_>>());
    let latency = |pick: fn(&Latency) -> u64| {
        let each = runs.iter().map(|run| Some(pick(run.lat_ns.as_ref()?) as f64));
        Spread::of(&each.collect::<Option<Vec<_>>>()?)
    };
    Some(PointSummary {
        point: point.to_owned(),
        runs: runs.len(),
        iops: spread(|run| run.total.iops)?,
        bytes_per_s: spread(|run| run.total.bytes_per_s)?,
        p50_ns: latency(|latency| latency.p50),
        p99_ns: latency(|latency| latency.p99),
        p99_9_ns: latency(|latency| latency.p99_9),
    })
}

/// A point of two results.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The point.
    pub point: String,
    /// Runs of each.
    pub runs: (usize, usize),
    /// The median of each.
    pub medians: (f64, f64),
    /// How likely so large a difference is of two results that are alike: Wilcoxon's rank sum test, two-sided, with Holm's
    /// correction for the number of points.
    pub p: f64,
    /// The least that so few runs can give, corrected likewise.
    pub least_p: f64,
}

/// The points that two results have in common.
pub fn compare(one: &[Run], other: &[Run], figure: fn(&Run) -> Option<f64>) -> Vec<Compared> {
    let values = |runs: &[&Run]| runs.iter().filter_map(|run| figure(run)).collect::<Vec<f64>>();
    let others = by_point(other);
    let both = by_point(one).into_iter().filter_map(|(point, runs)| {
        let (_, others) = others.iter().find(|(other, _)| *other == point)?;
        Some((point.to_owned(), values(&runs), values(others)))
    });
    compare_values(both)
}

/// The rows that two results of one experiment have in common.
pub fn compare_rows(one: &ExperimentReport, other: &ExperimentReport, key: &str) -> Vec<Compared> {
    let both = one.rows.iter().filter_map(|row| {
        let other = other.rows.iter().find(|other| other.name == row.name)?;
        Some((row.name.clone(), row.values(key), other.values(key)))
    });
    compare_values(both)
}

/// Points by name, with the values of each result. Those without values are left out.
fn compare_values(both: impl Iterator<Item = (String, Vec<f64>, Vec<f64>)>) -> Vec<Compared> {
    let compared = both.filter_map(|(point, one, other)| {
        let (p, least_p) = rank_sum(&one, &other)?;
        let medians = (median(&one)?, median(&other)?);
        Some(Compared { point, runs: (one.len(), other.len()), medians, p, least_p })
    });
    let mut all: Vec<Compared> = compared.collect();
    let corrected = holm(&all.iter().map(|each| each.p).collect::<Vec<_>>());
    let count = all.len() as f64;
    for (each, p) in all.iter_mut().zip(corrected) {
        (each.p, each.least_p) = (p, (each.least_p * count).min(1.0));
    }
    all
}

/// What differs between two results, each once.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn note(&mut self, name: &str, one: String, other: String) {
        let line = format!("{name} {one} and {other}");
        if one != other && !self.0.contains(&line) {
            self.0.push(line);
        }
    }

    /// By what and where they were made.
    fn made(&mut self, one: Option<&Origin>, other: Option<&Origin>) {
        for ((name, one), (_, other)) in made(one).into_iter().zip(made(other)) {
            self.note(name, one, other);
        }
    }

    fn of_devices(&mut self, one: &DeviceReport, other: &DeviceReport) {
        self.note("SSD model", one.model.clone(), other.model.clone());
        self.note("kind of SSD", one.kind.clone(), other.kind.clone());
    }
}

/// What else differs between two results, at the points that they have in common: then a ratio is of that, too. Seeds are
/// expected to differ.
pub fn unlike(one: &BenchReport, other: &BenchReport) -> Vec<String> {
    let mut all = Differences::default();
    all.note("target", one.target.clone(), other.target.clone());
    all.note("version", one.warpbell.clone(), other.warpbell.clone());
    all.made(one.origin.as_ref(), other.origin.as_ref());
    all.of_devices(&one.device, &other.device);
    let data_pointer = |report: &BenchReport| report.data_path.data_pointer.clone();
    all.note("data pointer", data_pointer(one), data_pointer(other));
    let others = by_point(&other.runs);
    for (point, runs) in by_point(&one.runs) {
        let Some((_, others)) = others.iter().find(|(other, _)| *other == point) else { continue };
        let (Some(run), Some(other)) = (runs.first(), others.first()) else { continue };
        all.note("clock", clock(run.clock), clock(other.clock));
        for ((name, one), (_, other)) in flags(&run.job).into_iter().zip(flags(&other.job)) {
            if name != SEED {
                let shown = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
                all.note(name, shown(one), shown(other));
            }
        }
    }
    all.0
}

/// The same of two results of one experiment.
pub fn unlike_experiments(one: &ExperimentReport, other: &ExperimentReport) -> Vec<String> {
    let mut all = Differences::default();
    all.note("target", one.target.clone(), other.target.clone());
    all.made(one.origin.as_ref(), other.origin.as_ref());
    all.of_devices(&one.device, &other.device);
    all.note("clock", clock(one.clock), clock(other.clock));
    all.note("iodepth", one.iodepth.to_string(), other.iodepth.to_string());
    all.0
}

/// By what program, on which machine and with which plans a result was made.
fn made(origin: Option<&Origin>) -> [(&'static str, String); 4] {
    let said = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
    let machine = |of: &Machine| format!("{} with {} cores, {}", said(of.cpu.clone()), of.cores, of.kernel);
    let plans = origin.map(|origin| origin.inputs.iter().map(InputFile::to_string).collect::<Vec<_>>());
    let plans = plans.unwrap_or_default().join(", ");
    [
        ("commit", said(origin.and_then(|origin| origin.commit.clone()))),
        ("machine", said(origin.map(|origin| machine(&origin.machine)))),
        ("governor", said(origin.and_then(|origin| origin.machine.governor.clone()))),
        ("plans", if plans.is_empty() { "none".to_owned() } else { plans }),
    ]
}

/// The name of a clock.
fn clock(kind: ClockKind) -> String {
    let word = serde_json::to_value(kind).map(|clock| clock.as_str().unwrap_or_default().to_owned());
    word.unwrap_or_default()
}

/// Columns of [`csv`].
const COLUMNS: &str = "device,target,controller,clock,point,repeat,order,rw,bs_bytes,iodepth,queues,api,protocol,\
    sharing,warps,random_distribution,retries,threads,dbbuf,doorbells,iommu,rings,data,wide_cids,runtime_ns,partial,ios,errors,iops,bytes_per_s,lat_min_ns,lat_mean_ns,lat_p50_ns,lat_p90_ns,\
    lat_p99_ns,lat_p99_9_ns,lat_p99_99_ns,lat_max_ns,sq_doorbells_per_io,cq_doorbells_per_io,shadow_stores_per_io,\
    rmw_per_io,fences_per_io,polls_per_io,register_reads_per_io,cpu_time_ns,violations";

/// One row for each run of each SSD, under a row of names. What nobody counted is empty.
pub fn csv(reports: &[BenchReport]) -> String {
    let mut text = format!("{COLUMNS}\n");
    for report in reports {
        for run in &report.runs {
            let cells: Vec<String> = [named(report, run), figures(run)].concat();
            let _ = writeln!(text, "{}", cells.iter().map(|text| cell(text)).collect::<Vec<_>>().join(","));
        }
    }
    text
}

/// What a run is of.
fn named(report: &BenchReport, run: &Run) -> Vec<String> {
    let job = &run.job;
    let mut cells = vec![
        report.device.name.clone(),
        report.target.clone(),
        report.data_path.controller.clone(),
        clock(run.clock),
        run.point.clone(),
        shown(run.repeat),
        shown(run.order),
        job.rw.to_string(),
        job.bs_bytes.to_string(),
        job.iodepth.to_string(),
        job.queues.to_string(),
        job.api.to_string(),
        shown(job.protocol),
        job.sharing.to_string(),
        shown((job.api != Api::Host).then_some(job.warps)),
        job.random_distribution.to_string(),
        job.retries.to_string(),
        shown((job.threads > 0).then_some(job.threads)),
    ];
    // All but the plan of faults.
    cells.extend(opening(job.opening.as_ref()).into_iter().take(6).map(|(_, value)| shown(value)));
    cells
}

/// What was measured in it.
fn figures(run: &Run) -> Vec<String> {
    let lat = |pick: fn(&Latency) -> f64| shown(run.lat_ns.as_ref().map(pick));
    let each = &run.per_io;
    vec![
        run.runtime_ns.to_string(),
        run.partial.to_string(),
        run.total.ios.to_string(),
        run.errors.to_string(),
        run.total.iops.to_string(),
        run.total.bytes_per_s.to_string(),
        lat(|lat| lat.min as f64),
        lat(|lat| lat.mean),
        lat(|lat| lat.p50 as f64),
        lat(|lat| lat.p90 as f64),
        lat(|lat| lat.p99 as f64),
        lat(|lat| lat.p99_9 as f64),
        lat(|lat| lat.p99_99 as f64),
        lat(|lat| lat.max as f64),
        shown(each.sq_doorbells_per_io),
        shown(each.cq_doorbells_per_io),
        shown(each.shadow_stores_per_io),
        shown(each.rmw_per_io),
        shown(each.fences_per_io),
        shown(each.polls_per_io),
        shown(each.register_reads_per_io),
        run.cpu_time_ns.to_string(),
        run.violations.to_string(),
    ]
}

fn shown<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A cell, quoted where it must be.
pub(crate) fn cell(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Dbbuf;
    use crate::result::tests::{report as report_of, run};

    #[test]
    fn points_without_names_have_those_of_their_jobs() {
        let of = |change: fn(&mut Job)| {
            let mut run = run(64, 0);
            change(&mut run.job);
            run
        };
        let mut runs = [
            of(|_| ()),
            of(|job| (job.bs_bytes, job.rw) = (131_072, Access::Read)),
            of(|job| job.rw = Access::RandRw),
        ];
        name_points(&mut runs);
        let names: Vec<&str> = by_point(&runs).into_iter().map(|(name, _)| name).collect();
        let expected = [
            "rw=randread rwmixread=default bs=4k",
            "rw=read rwmixread=default bs=128k",
            "rw=randrw rwmixread=100 bs=4k",
        ];
        assert_eq!(names, expected);
        let mut alike = [of(|_| ()), of(|_| ())];
        name_points(&mut alike);
        assert_eq!(by_point(&alike).len(), 1, "two runs of one point");
        let mut repeats = [of(|_| ()), of(|job| job.seed = 2)];
        repeats.iter_mut().zip(0..).for_each(|(run, repeat)| run.repeat = Some(repeat));
        name_points(&mut repeats);
        assert!(repeats.iter().all(|run| run.point.is_empty()), "repeats differ in their seeds");
    }

    #[test]
    fn results_of_other_openings_are_unlike() {
        let report = |opening: Option<Opening>| {
            let mut run = run(64, 0);
            run.job.opening = opening;
            report_of(vec![run])
        };
        let off = Opening { dbbuf: Dbbuf::Off, ..Opening::default() };
        let cmb = Opening { rings: "cmb".parse().unwrap(), ..off.clone() };
        let (off, cmb) = (report(Some(off)), report(Some(cmb)));
        assert_eq!(unlike(&report(Some(Opening::default())), &off), ["dbbuf auto and off"]);
        assert_eq!(unlike(&off, &cmb), ["rings host and cmb"]);
        assert_eq!(unlike(&cmb, &cmb), [""; 0]);
        assert_eq!(flag(&cmb.runs[0].job, "rings").as_deref(), Some("cmb"));
        assert_eq!(flag(&report(None).runs[0].job, "rings"), None, "as of an older version");
        let rows = csv(&[cmb]);
        let cells = |line: usize| rows.lines().nth(line).unwrap().split(',').collect::<Vec<_>>();
        let at = |name: &str| cells(1)[cells(0).iter().position(|column| *column == name).unwrap()];
        assert_eq!((at("dbbuf"), at("rings"), at("wide_cids")), ("off", "cmb", "off"));
        assert_eq!(cells(0).len(), cells(1).len());
    }

    #[test]
    fn every_axis_is_a_flag_of_a_job() {
        let job = run(64, 0).job;
        let known: Vec<&str> = flags(&job).into_iter().map(|(name, _)| name).collect();
        let unknown: Vec<&str> = crate::axis::swept().filter(|name| !known.contains(name)).collect();
        assert_eq!(unknown, [""; 0]);
    }
}
