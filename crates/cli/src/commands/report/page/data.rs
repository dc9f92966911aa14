//! Results, sorted for pictures: by file, line and point.

use std::path::Path;

use warpbell_plan::chart::ChartAxis;
use warpbell_workload::{
    Api, BenchReport, ByteSize, HistogramError, Latency, LatencyHistogram, Run, Spread, by_point, flag,
};

use crate::exit::Ending;
use crate::render;

/// One result: of a file, or of one SSD in it.
pub struct Source {
    /// How pictures call it: a letter.
    pub letter: String,
    /// The file's name.
    pub name: String,
    /// What is in it.
    pub report: BenchReport,
    /// Its points, in order.
    pub points: Vec<Point>,
}

/// All whole runs of a point.
pub struct Point {
    /// What the axes vary.
    pub name: String,
    /// The same, one by one.
    pub values: Vec<(String, String)>,
    /// The runs.
    pub runs: Vec<Run>,
    /// The latencies of all of them; nothing where the file has none.
    pub latencies: Option<LatencyHistogram>,
}

/// How pictures call the `index`th result: A to Z, then A1.
pub fn letter(index: usize) -> String {
    let letter = (b'A' + (index % 26) as u8) as char;
    let round = if index < 26 { String::new() } else { (index / 26).to_string() };
    format!("{letter}{round}")
}

/// A file's name, without its folders.
pub fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

impl Source {
    /// The result of this file, the `index`th.
    pub fn new(index: usize, path: &Path, report: BenchReport) -> Result<Source, Ending> {
        let wrong =
            |error: HistogramError| Ending::usage(format!("{}: a histogram: {error}", path.display()));
        let points = by_point(&report.runs).into_iter().map(|(name, runs)| Point::new(name, &runs));
        let points = points.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        Ok(Source { letter: letter(index), name: name(path), report, points })
    }

    /// Its letter, the file and the device.
    pub fn title(&self) -> String {
        format!("{}: {} ({})", self.letter, self.name, self.report.device.name)
    }

    /// What its figures are of.
    pub fn banner(&self) -> String {
        render::banner(&self.report.target, &self.report.data_path.controller, self.host_only())
    }

    fn host_only(&self) -> bool {
        self.report.runs.iter().all(|run| run.job.api == Api::Host)
    }

    /// Why its figures are not of hardware alone, which is an SSD, and a GPU or no kernels.
    pub fn not_hardware(&self) -> Option<String> {
        let submitter = self.host_only() || self.report.target.starts_with("cuda");
        let model = &self.report.device.model;
        if !submitter || self.report.data_path.controller != "pcie" {
            Some(self.banner())
        } else if render::is_emulated(model) {
            Some(render::emulated(model))
        } else {
            None
        }
    }
}

impl Point {
    fn new(name: &str, runs: &[&Run]) -> Result<Point, HistogramError> {
        let texts = runs.iter().flat_map(|run| [&run.read_histogram, &run.write_histogram]).flatten();
        let latencies = LatencyHistogram::together(texts)?;
        let values = name.split_whitespace().filter_map(|pair| pair.split_once('='));
        let values = values.map(|(axis, value)| (axis.to_owned(), value.to_owned())).collect();
        Ok(Point {
            name: name.to_owned(),
            values,
            runs: runs.iter().map(|run| (*run).clone()).collect(),
            latencies,
        })
    }

    /// How people call it.
    pub fn shown(&self) -> &str {
        if self.name.is_empty() { "the only point" } else { &self.name }
    }

    /// What an axis has here.
    pub fn value(&self, axis: &str) -> Option<&str> {
        self.values.iter().find(|(name, _)| name == axis).map(|(_, value)| value.as_str())
    }

    /// What the other axes have.
    pub fn others(&self, axis: &str) -> String {
        let others = self.values.iter().filter(|(name, _)| name != axis);
        others.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// A figure over its runs; nothing where one of them lacks it.
    pub fn spread(&self, figure: impl Fn(&Run) -> Option<f64>) -> Option<Spread> {
        Spread::of(&self.runs.iter().map(figure).collect::<Option<Vec<_>>>()?)
    }

    /// A latency over its runs, in nanoseconds.
    pub fn latency(&self, pick: impl Fn(&Latency) -> u64) -> Option<Spread> {
        self.spread(|run| run.lat_ns.as_ref().map(|latency| pick(latency) as f64))
    }
}

/// I/Os per second.
pub fn rate(run: &Run) -> Option<f64> {
    Some(run.total.iops)
}

/// The axis that goes right: its name, and the values that it has anywhere.
pub struct Right {
    /// Its name; empty where there is one point alone.
    pub name: String,
    values: Vec<String>,
    numbers: Option<Vec<f64>>,
}

/// A value as a number.
pub fn number(value: &str) -> Option<f64> {
    value.parse::<f64>().ok().or_else(|| value.parse::<ByteSize>().ok().map(|size| size.0 as f64))
}

/// The axes of all results, each with its values in the order in which they come.
pub fn axes(sources: &[Source]) -> Vec<(String, Vec<String>)> {
    let mut axes: Vec<(String, Vec<String>)> = Vec::new();
    for (name, value) in sources.iter().flat_map(|source| &source.points).flat_map(|point| &point.values) {
        match axes.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) if values.contains(value) => {}
            Some((_, values)) => values.push(value.clone()),
            None => axes.push((name.clone(), vec![value.clone()])),
        }
    }
    axes
}

/// Gives points of files without an axis of others what their jobs have of it.
pub fn complete(sources: &mut [Source]) {
    for (axis, _) in axes(sources) {
        for point in sources.iter_mut().flat_map(|source| &mut source.points) {
            let (None, Some((first, others))) = (point.value(&axis), point.runs.split_first()) else {
                continue;
            };
            let own = |run: &Run| flag(&run.job, &axis);
            if let Some(value) =
                own(first).filter(|value| others.iter().all(|run| own(run).as_ref() == Some(value)))
            {
                point.values.push((axis.clone(), value));
            }
        }
    }
}

impl Right {
    /// The depth where that varies, or else the numbers that vary most, or else words.
    pub fn of(sources: &[Source]) -> Right {
        let axes = axes(sources);
        let numbers =
            |values: &[String]| values.iter().map(|value| number(value)).collect::<Option<Vec<_>>>();
        let rank = |(name, values): &&(String, Vec<String>)| {
            let several = values.len() > 1;
            (several && name == "iodepth", several && numbers(values).is_some(), values.len())
        };
        let (name, values) = axes.iter().max_by_key(rank).cloned().unwrap_or_default();
        Right { numbers: numbers(&values).filter(|_| !values.is_empty()), name, values }
    }

    /// Where a point lies; nowhere where it has no value of the axis.
    pub fn place(&self, point: &Point) -> Option<f64> {
        if self.name.is_empty() {
            return Some(0.0);
        }
        let value = point.value(&self.name)?;
        let index = self.values.iter().position(|known| known == value)?;
        Some(self.numbers.as_ref().and_then(|numbers| numbers.get(index).copied()).unwrap_or(index as f64))
    }

    /// The axis of a picture.
    pub fn axis(&self) -> ChartAxis {
        let mut ticks: Vec<(f64, String)> = match &self.numbers {
            Some(numbers) => numbers.iter().copied().zip(self.values.iter().cloned()).collect(),
            None => {
                self.values.iter().enumerate().map(|(index, value)| (index as f64, value.clone())).collect()
            }
        };
        ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
        let least = ticks.first().map_or(0.0, |tick| tick.0);
        let most = ticks.last().map_or(0.0, |tick| tick.0);
        let log = self.numbers.is_some() && least > 0.0 && most >= 8.0 * least;
        if ticks.is_empty() {
            ticks.push((0.0, "the only point".to_owned()));
        }
        ChartAxis { label: self.name.clone(), log, ticks }
    }
}
