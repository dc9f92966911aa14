//! Pictures of experiments: a row for each way.

use std::fmt::Write;
use std::path::Path;

use warpbell_plan::chart::{ChartAxis, Figure, RowMark, Rows, STYLES, bar_swatch, si, swatch};
use warpbell_plan::escaped;
use warpbell_workload::{
    ClockKind, DeviceReport, EXPECTED, ExperimentReport, LatencyHistogram, PathReport, Row,
};

use super::body::{Body, Layout};
use super::data;
use super::pictures::{cumulated, parts};
use super::tables::{VIRTUAL, described, made, table};
use crate::commands::experiment::{banners, cell, heading};
use crate::exit::Ending;

/// What one file says of an experiment.
pub struct Found {
    /// How the page calls it: a letter.
    pub letter: String,
    /// The file's name.
    pub name: String,
    /// What is in it.
    pub report: ExperimentReport,
    /// The latencies of rows that have them, by name.
    latencies: Vec<(String, LatencyHistogram)>,
}

impl Found {
    /// The experiment of this file, the `index`th result.
    pub fn new(index: usize, path: &Path, report: ExperimentReport) -> Result<Found, Ending> {
        let decoded = |row: &Row| {
            let text = row.latency_histogram.as_deref()?;
            Some(LatencyHistogram::decoded(text).map(|latencies| (row.name.clone(), latencies)).map_err(
                |error| Ending::usage(format!("{}: row {}: a histogram: {error}", path.display(), row.name)),
            ))
        };
        let latencies = report.rows.iter().filter_map(decoded).collect::<Result<_, _>>()?;
        Ok(Found { letter: data::letter(index), name: data::name(path), report, latencies })
    }

    /// The heading of its section.
    pub fn title(&self) -> String {
        format!("{}: {} ({})", self.letter, self.report.experiment, self.name)
    }

    /// What it is of, and everything that it says.
    pub fn section(&self) -> Body {
        let mut out = String::new();
        for banner in self.banners() {
            let _ = writeln!(out, "<p class=\"banner\">{}</p>", escaped(&banner));
        }
        let (figures, none) = self.pictures();
        let tables = none + &self.table() + &self.missing();
        Body::default().html(out + &self.card()).figures(Layout::Row, figures).html(tables)
    }

    /// What its figures are not.
    pub fn banners(&self) -> Vec<String> {
        let report = &self.report;
        let clock = match report.clock {
            ClockKind::Virtual => VIRTUAL,
            ClockKind::Monotonic => "",
        };
        let partial = if report.partial { "partial: ended before its last row" } else { "" };
        let others = [clock, partial].into_iter().filter(|text| !text.is_empty()).map(str::to_owned);
        banners(report).into_iter().chain(others).collect()
    }

    fn card(&self) -> String {
        let report = &self.report;
        let device = |device: &DeviceReport| {
            ("device", format!("{}, {} {}", device.name, device.model, device.serial))
        };
        let mut entries: Vec<_> = report.devices().iter().map(device).collect();
        let commit = report.origin.as_ref().and_then(|origin| origin.commit.as_deref()).unwrap_or("not said");
        let version = if report.warpbell.is_empty() { "of a version not said" } else { &report.warpbell };
        entries.push(("program", format!("warpbell {version}, commit {commit}")));
        entries.push(("target", report.target.clone()));
        entries.extend(report.data_paths.iter().map(|path| ("data path", way(path))));
        entries.extend([("in flight", report.iodepth.to_string()), ("repeats", report.repeats.to_string())]);
        entries.extend(made(report.origin.as_ref()));
        described(&self.name, &entries)
    }

    /// The pictures, and a line on figures that need none.
    fn pictures(&self) -> (Vec<Figure>, String) {
        let rows = &self.report.rows;
        let measured: Vec<&str> =
            self.report.keys().into_iter().filter(|key| !key.starts_with(EXPECTED)).collect();
        let mut figures = Vec::new();
        // The rate; of ways with I/Os of one size the other is the same with a factor.
        let rate = ["iops", "bytes_per_s"].into_iter().find(|rate| measured.contains(rate));
        figures.extend(rate.map(|rate| self.bars(rate)));
        let times: Vec<&str> = self.report.keys().into_iter().filter(|key| key.ends_with("_ns")).collect();
        for some in parts(&times, STYLES) {
            figures.push(self.times(some));
        }
        let mut none = Vec::new();
        for key in
            measured.iter().filter(|key| !key.ends_with("_ns") && !["iops", "bytes_per_s"].contains(key))
        {
            if rows.iter().any(|row| row.figures.get(key).is_some_and(|value| value != 0.0)) {
                figures.push(self.bars(key));
            } else {
                none.push(heading(key));
            }
        }
        figures.extend(self.distributions());
        let none = match none.is_empty() {
            true => String::new(),
            false => format!("<p>None at all: {}.</p>\n", escaped(&none.join(", "))),
        };
        (figures, none)
    }

    /// How many I/Os took at most how long.
    fn distributions(&self) -> Vec<Figure> {
        cumulated(&self.report.experiment, &self.latencies)
    }

    /// The rows that have one of these figures.
    fn with(&self, keys: &[&str]) -> Vec<&Row> {
        let has = |row: &&Row| keys.iter().any(|key| finite(row, key).is_some());
        self.report.rows.iter().filter(has).collect()
    }

    /// A counted figure, or the rate, as bars; what the model says is a mark.
    fn bars(&self, key: &str) -> Figure {
        let model = format!("{EXPECTED}{key}");
        let rows = self.with(&[key]);
        let mut marks = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            let Some(value) = finite(row, key) else { continue };
            let range = row.iops_interval.filter(|_| key == "iops").map(|of| (of.low, of.high));
            marks.push(self.mark(row, (index, 0, true), (key, value), range));
            if let Some(value) = finite(row, &model) {
                marks.push(self.mark(row, (index, 1, false), (&model, value), None));
            }
        }
        let expected = marks.iter().any(|mark| !mark.bar);
        let names = if expected { vec![heading(key), heading(&model)] } else { Vec::new() };
        self.picture((&heading(key), false), &rows, marks, &names)
    }

    /// Latencies and other times, on a log scale.
    fn times(&self, keys: &[&str]) -> Figure {
        let rows = self.with(keys);
        let mut marks = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            for (style, key) in keys.iter().enumerate() {
                // A log scale has no place for what took no time.
                if let Some(value) = finite(row, key).filter(|value| *value > 0.0) {
                    marks.push(self.mark(row, (index, style, false), (key, value), None));
                }
            }
        }
        let names: Vec<String> = keys.iter().map(|key| heading(key).replace(" us", "")).collect();
        self.picture(("latency, us", true), &rows, marks, &names)
    }

    fn mark(
        &self,
        row: &Row,
        (index, style, bar): (usize, usize, bool),
        (key, value): (&str, f64),
        range: Option<(f64, f64)>,
    ) -> RowMark {
        let scale = match key {
            key if key.ends_with("_ns") || key.contains("_ns_per_io") => 1e3,
            key if key.ends_with("bytes_per_s") => f64::from(1 << 20),
            _ => 1.0,
        };
        let sure = row.iops_interval.filter(|_| range.is_some()).map_or(String::new(), |of| {
            format!(", {} to {} with {:.1} %", si(of.low), si(of.high), of.confidence * 100.0)
        });
        let title = format!("{}: {}: {} {}{sure}", self.letter, row.name, si(value / scale), heading(key));
        RowMark { row: index, style, bar, value: value / scale, range, title }
    }

    fn picture(
        &self,
        (label, log): (&str, bool),
        rows: &[&Row],
        marks: Vec<RowMark>,
        names: &[String],
    ) -> Figure {
        let title = format!("{} of {}", label, self.report.experiment);
        let bars = marks.iter().any(|mark| mark.bar);
        let sample = |style| if bars && style == 0 { bar_swatch() } else { swatch(style, true) };
        let key = names.iter().enumerate().map(|(style, name)| (sample(style), name.clone())).collect();
        let picture = Rows {
            title,
            axis: ChartAxis { label: label.to_owned(), log, ticks: Vec::new() },
            names: rows.iter().map(|row| row.name.clone()).collect(),
            marks,
        };
        Figure { heading: label.to_owned(), picture: picture.picture(), key }
    }

    /// Every figure of every row.
    fn table(&self) -> String {
        let rows = &self.report.rows;
        let keys = self.report.keys();
        let headings: Vec<String> = keys.iter().map(|key| escaped(&heading(key))).collect();
        let headings: Vec<&str> = std::iter::once("way").chain(headings.iter().map(String::as_str)).collect();
        let of_row = |row: &Row| {
            let figures =
                keys.iter().map(|key| finite(row, key).map_or("-".to_owned(), |value| cell(key, value)));
            std::iter::once(escaped(&row.name)).chain(figures).collect::<Vec<_>>()
        };
        table("", &headings, &rows.iter().map(of_row).collect::<Vec<_>>())
    }

    /// Rows that are not there, in part or at all.
    fn missing(&self) -> String {
        let all = self.report.incomplete.iter().chain(&self.report.skipped);
        let rows: Vec<Vec<String>> = all.map(|one| vec![escaped(&one.point), escaped(&one.reason)]).collect();
        if rows.is_empty() { String::new() } else { table("left", &["way", "why not"], &rows) }
    }
}

/// Where rings and data of an SSD lie, and how doorbells reach it.
fn way(path: &PathReport) -> String {
    let route = path.route.as_ref().map(|route| format!(", route {route}")).unwrap_or_default();
    format!("rings {}, data {}, {}, {}{route}", path.rings, path.data, path.ordering, path.data_pointer)
}

/// A figure that can be drawn.
fn finite(row: &Row, key: &str) -> Option<f64> {
    row.figures.get(key).filter(|value| value.is_finite())
}
