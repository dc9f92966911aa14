//! The pictures of a page.

use std::fmt::Write;
use std::ops::Range;

use warpbell_plan::chart::{Chart, ChartAxis, Figure, Heat, Line, Mark, Picture, STYLES, si, swatch};
use warpbell_plan::escaped;
use warpbell_workload::{Latency, LatencyHistogram, Run, Spread};

use super::body::{Body, Layout};
use super::data::{Point, Right, Source, axes, number, rate};
use crate::args::{Rate, Roof};

/// Parts of a list, each with so many of it at most, and all about as long.
pub(super) fn parts<T>(all: &[T], most: usize) -> std::slice::Chunks<'_, T> {
    all.chunks(all.len().div_ceil(all.len().div_ceil(most).max(1)).max(1))
}

/// The points of a source that lie on one line.
struct Group<'a> {
    source: &'a Source,
    /// What they have in common, beside the source.
    key: String,
    points: Vec<&'a Point>,
}

/// All lines: those of the same points in several results are neighbours.
fn groups<'a>(sources: &'a [Source], right: &Right) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for source in sources {
        for point in &source.points {
            let key = point.others(&right.name);
            let own = |group: &&mut Group<'_>| group.key == key && group.source.letter == source.letter;
            match groups.iter_mut().find(own) {
                Some(group) => group.points.push(point),
                None => groups.push(Group { source, key, points: vec![point] }),
            }
        }
    }
    let first: Vec<String> = groups.iter().map(|group| group.key.clone()).collect();
    groups.sort_by_key(|group| first.iter().position(|key| *key == group.key));
    for group in &mut groups {
        let place = |point: &Point| right.place(point).unwrap_or(f64::INFINITY);
        group.points.sort_by(|a, b| place(a).total_cmp(&place(b)));
    }
    groups
}

impl Group<'_> {
    /// Its name in a legend; the letter is only there where there are several.
    fn name(&self, several: bool) -> String {
        match (several, self.key.is_empty()) {
            (true, true) => format!("{}: {}", self.source.letter, self.source.name),
            (true, false) => format!("{}: {}", self.source.letter, self.key),
            (false, true) => self.source.name.clone(),
            (false, false) => self.key.clone(),
        }
    }
}

/// A picture with a heading and a legend, in which so many of the first lines have marks.
fn figure(heading: &str, picture: Picture, names: &[String], marked: usize) -> Figure {
    let sample = |(style, name): (usize, &String)| (swatch(style, style < marked), name.clone());
    let key = names.iter().enumerate().map(sample).collect();
    Figure { heading: heading.to_owned(), picture, key }
}

/// A figure's value with its interval, in words.
fn words(spread: &Spread, runs: usize, unit: &str) -> String {
    let middle = format!("{} {unit}", si(spread.median));
    if runs < 2 {
        return middle;
    }
    let interval = spread.interval;
    format!(
        "{middle}, {} to {} with {:.1} %, {runs} runs",
        si(interval.low),
        si(interval.high),
        interval.confidence * 100.0
    )
}

/// The mark of a point, where it has a place.
fn mark(right: &Right, letter: &str, point: &Point, spread: &Spread, what: &str) -> Option<Mark> {
    let range = (point.runs.len() > 1).then_some((spread.interval.low, spread.interval.high));
    let title = format!("{letter}: {}: {}", point.shown(), words(spread, point.runs.len(), what));
    Some(Mark { x: right.place(point)?, y: spread.median, range, title })
}

/// Lines of one figure over the points of several groups. Each single run of several is a small mark.
fn lines(
    right: &Right,
    groups: &[Group<'_>],
    figure: impl Fn(&Run) -> Option<f64> + Copy,
    unit: &str,
) -> Vec<Line> {
    let line = |group: &Group<'_>| {
        let letter = &group.source.letter;
        let points =
            group.points.iter().filter_map(|point| mark(right, letter, point, &point.spread(figure)?, unit));
        let several = group.points.iter().filter(|point| point.runs.len() > 1);
        let single = several.flat_map(|point| {
            point.runs.iter().filter_map(move |run| {
                let (value, repeat) = (figure(run)?, run.repeat.unwrap_or(0));
                let title = format!("{letter}: {} repeat {repeat}: {} {unit}", point.shown(), si(value));
                Some(Mark { x: right.place(point)?, y: value, range: None, title })
            })
        });
        Line { points: points.collect(), single: single.collect(), marked: true, joined: true }
    };
    groups.iter().map(line).collect()
}

/// Pictures of one figure, with as many lines in each as can be told apart.
fn over_axis(
    sources: &[Source],
    title: &str,
    label: &str,
    log: bool,
    value: impl Fn(&Run) -> Option<f64> + Copy,
) -> Vec<Figure> {
    let right = Right::of(sources);
    let groups = groups(sources, &right);
    let mut figures = Vec::new();
    for some in parts(&groups, STYLES) {
        let lines = lines(&right, some, value, label);
        if lines.iter().all(|line| line.points.is_empty()) {
            continue;
        }
        let y = ChartAxis { label: label.to_owned(), log, ticks: Vec::new() };
        let chart = Chart { title: title.to_owned(), x: right.axis(), y, lines };
        let names: Vec<String> = some.iter().map(|group| group.name(sources.len() > 1)).collect();
        let by = if right.name.is_empty() { String::new() } else { format!(" by {}", right.name) };
        figures.push(figure(&format!("{title}{by}"), chart.picture(), &names, STYLES));
    }
    figures
}

/// I/Os per second over the axis that varies most.
pub fn iops(sources: &[Source]) -> Body {
    let figures = over_axis(sources, "IOPS", "IOPS", false, rate);
    Body::default().figures(Layout::Grid, figures).html(left_out(sources))
}

/// The points that have no value of the axis that goes right, not even in their jobs.
fn left_out(sources: &[Source]) -> String {
    let right = Right::of(sources);
    let of = |source: &Source| {
        let nowhere = source.points.iter().filter(|point| right.place(point).is_none());
        nowhere.map(|point| format!("{}: {}", source.letter, point.shown())).collect::<Vec<_>>()
    };
    let points: Vec<String> = sources.iter().flat_map(of).collect();
    match points.is_empty() {
        true => String::new(),
        false => format!(
            "<p>Left out of pictures by {}, of which their jobs have none: {}.</p>\n",
            escaped(&right.name),
            escaped(&points.join(", "))
        ),
    }
}

/// The most columns of a heat map: of more, a page as wide as a screen shows figures too small to be read.
const COLUMNS: usize = 20;

/// Two axes of numbers: a cell for each pair.
pub fn heat(sources: &[Source]) -> Body {
    let right = Right::of(sources);
    let down = axes(sources).into_iter().filter(|(name, values)| {
        *name != right.name && values.len() > 1 && values.iter().all(|value| number(value).is_some())
    });
    let Some((down, mut rows)) = down.max_by_key(|(_, values)| values.len()) else { return Body::default() };
    rows.sort_by(|a, b| number(b).unwrap_or(0.0).total_cmp(&number(a).unwrap_or(0.0)));
    let map = HeatMap { columns: right.axis().ticks, right, down, rows };
    let mut figures = Vec::new();
    for source in sources {
        let mut rest: Vec<String> = Vec::new();
        for point in &source.points {
            if !rest.contains(&map.without(point)) {
                rest.push(map.without(point));
            }
        }
        figures.extend(rest.iter().flat_map(|rest| map.figures(source, rest)));
    }
    Body::default().figures(Layout::Row, figures)
}

/// What goes right and down in heat maps.
struct HeatMap {
    right: Right,
    columns: Vec<(f64, String)>,
    down: String,
    rows: Vec<String>,
}

impl HeatMap {
    /// What a point has of other axes.
    fn without(&self, point: &Point) -> String {
        let others = point.values.iter().filter(|(name, _)| *name != self.right.name && *name != self.down);
        others.map(|(name, value)| format!(" {name}={value}")).collect()
    }

    /// Where a point lies, its rate, and its words.
    fn cell(&self, source: &Source, point: &Point) -> Option<(usize, usize, f64, String)> {
        let place = self.right.place(point)?;
        let column = self.columns.iter().position(|(value, _)| *value == place)?;
        let row = self.rows.iter().position(|row| point.value(&self.down) == Some(row))?;
        let spread = point.spread(rate)?;
        let words = words(&spread, point.runs.len(), "IOPS");
        Some((column, row, spread.median, format!("{}: {}: {words}", source.letter, point.shown())))
    }

    /// The points with the same of other axes: one map, or several beside each other, each with some of the columns.
    fn figures(&self, source: &Source, rest: &str) -> Vec<Figure> {
        let points = source.points.iter().filter(|point| self.without(point) == rest);
        let mut cells: Vec<_> = points.filter_map(|point| self.cell(source, point)).collect();
        // Of values that only other files have there would be an empty row.
        let used: Vec<usize> =
            (0..self.rows.len()).filter(|row| cells.iter().any(|cell| cell.1 == *row)).collect();
        for cell in &mut cells {
            cell.1 = used.partition_point(|row| *row < cell.1);
        }
        let rows: Vec<String> = used.iter().map(|row| self.rows[*row].clone()).collect();
        let values = || cells.iter().map(|cell| cell.2);
        let range = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        let whole = Heat {
            title: format!("{}: IOPS by {} and {}{rest}", source.letter, self.right.name, self.down),
            columns: (self.right.name.clone(), self.columns.iter().map(|(_, name)| name.clone()).collect()),
            rows: (self.down.clone(), rows),
            range,
            cells,
        };
        let mut first = 0;
        let figures = parts(&self.columns, COLUMNS).map(|columns| {
            let heat = part(&whole, first..first + columns.len());
            first += columns.len();
            figure(&heat.title, heat.picture(), &[], 0)
        });
        figures.collect()
    }
}

/// Some columns of a heat map, named if they are not all.
fn part(whole: &Heat, within: Range<usize>) -> Heat {
    let names = &whole.columns.1[within.clone()];
    let title = match (names.len() < whole.columns.1.len(), names.first(), names.last()) {
        (true, Some(low), Some(high)) => format!("{}, {low} to {high}", whole.title),
        _ => whole.title.clone(),
    };
    let of_part = whole.cells.iter().filter(|cell| within.contains(&cell.0));
    let moved = |(column, row, value, says): &(usize, usize, f64, String)| {
        (column - within.start, *row, *value, says.clone())
    };
    Heat {
        title,
        columns: (whole.columns.0.clone(), names.to_vec()),
        rows: whole.rows.clone(),
        cells: of_part.map(moved).collect(),
        range: whole.range,
    }
}

/// A percentile of a run.
type Percentile = fn(&Latency) -> u64;
/// A figure of a run, where it has that.
type Value = fn(&Run) -> Option<f64>;

/// The latencies that are drawn.
const PERCENTILES: [(&str, Percentile); 5] = [
    ("p50", |latency| latency.p50),
    ("p90", |latency| latency.p90),
    ("p99", |latency| latency.p99),
    ("p99.9", |latency| latency.p99_9),
    ("p99.99", |latency| latency.p99_99),
];

/// Latencies over the same axis, on a log scale: a picture for each line of the others.
pub fn percentiles(sources: &[Source]) -> Body {
    let right = Right::of(sources);
    let mut figures = Vec::new();
    for group in groups(sources, &right) {
        let line = |(name, pick): &(&str, Percentile)| {
            let points = group.points.iter().filter_map(|point| {
                let mut spread = point.latency(pick)?;
                spread.median /= 1e3;
                (spread.interval.low, spread.interval.high) =
                    (spread.interval.low / 1e3, spread.interval.high / 1e3);
                mark(&right, &group.source.letter, point, &spread, &format!("us at {name}"))
            });
            Line { points: points.collect(), single: Vec::new(), marked: true, joined: true }
        };
        let lines: Vec<Line> = PERCENTILES.iter().map(line).collect();
        if lines.iter().all(|line| line.points.is_empty()) {
            continue;
        }
        let y = ChartAxis { label: "latency, us".to_owned(), log: true, ticks: Vec::new() };
        let title = group.name(sources.len() > 1);
        let chart = Chart { title: format!("latency percentiles of {title}"), x: right.axis(), y, lines };
        let names = PERCENTILES.map(|(name, _)| name.to_owned());
        figures.push(figure(&title, chart.picture(), &names, STYLES));
    }
    let note = "<p class=\"soft\">Of points that ran several times: medians over the runs, with their intervals.</p>\n";
    let note = if figures.is_empty() { "" } else { note };
    Body::default().html(note).figures(Layout::Grid, figures)
}

/// Shares at which a distribution is drawn: more of them in its tail.
fn shares() -> impl Iterator<Item = f64> {
    (0..=40)
        .map(|step| f64::from(step) / 50.0)
        .chain((0..=40).map(|step| 1.0 - 0.2 * 10f64.powf(-f64::from(step) / 10.0)))
}

/// How many I/Os took at most how long: as many lines in each picture as can be told apart.
pub fn cumulated(title: &str, known: &[(String, LatencyHistogram)]) -> Vec<Figure> {
    let line = |(_, histogram): &(String, LatencyHistogram)| {
        let at = |share: f64| Mark {
            x: histogram.at(share) as f64 / 1e3,
            y: share * 100.0,
            range: None,
            title: String::new(),
        };
        Line { points: shares().map(at).collect(), single: Vec::new(), marked: false, joined: true }
    };
    let of_some = |some: &[(String, LatencyHistogram)]| {
        let x = ChartAxis { label: "latency, us".to_owned(), log: true, ticks: Vec::new() };
        let y = ChartAxis { label: "I/Os that took at most as long, %".to_owned(), ..ChartAxis::default() };
        let lines = some.iter().map(line).collect();
        let chart = Chart { title: format!("distribution of latencies of {title}"), x, y, lines };
        let names: Vec<String> = some.iter().map(|(name, _)| name.clone()).collect();
        figure(title, chart.picture(), &names, 0)
    };
    parts(known, STYLES).map(of_some).collect()
}

/// The same of every point, from the histograms.
pub fn distribution(sources: &[Source]) -> Body {
    let right = Right::of(sources);
    let mut figures = Vec::new();
    for group in groups(sources, &right) {
        let known = group.points.iter().filter_map(|point| {
            let name = match point.value(&right.name) {
                Some(value) => format!("{}={value}", right.name),
                None => point.shown().to_owned(),
            };
            Some((name, point.latencies.clone()?))
        });
        figures.extend(cumulated(&group.name(sources.len() > 1), &known.collect::<Vec<_>>()));
    }
    Body::default().figures(Layout::Grid, figures)
}

/// What an I/O costs.
const WORK: [(&str, Value); 7] = [
    ("submission doorbells", |run| run.per_io.sq_doorbells_per_io),
    ("completion doorbells", |run| run.per_io.cq_doorbells_per_io),
    ("shadow doorbells", |run| run.per_io.shadow_stores_per_io),
    ("atomic read-modify-writes", |run| run.per_io.rmw_per_io),
    ("fences", |run| run.per_io.fences_per_io),
    ("polls", |run| run.per_io.polls_per_io),
    ("register reads", |run| run.per_io.register_reads_per_io),
];

/// Work for each I/O: a picture for each kind that there is.
pub fn work(sources: &[Source]) -> Body {
    let (mut figures, mut none) = (Vec::new(), Vec::new());
    let runs = || sources.iter().flat_map(|source| &source.points).flat_map(|point| &point.runs);
    for (name, value) in WORK {
        if runs().any(|run| value(run).is_some_and(|count| count > 0.0)) {
            figures.extend(over_axis(sources, name, "for each I/O", false, value));
        } else if runs().any(|run| value(run).is_some()) {
            none.push(name);
        }
    }
    let mut out = String::new();
    if !none.is_empty() {
        let _ = writeln!(out, "<p>None at all: {}.</p>", none.join(", "));
    }
    let mut reasons: Vec<&String> = runs().filter_map(|run| run.counters_missing.as_ref()).collect();
    reasons.dedup();
    for reason in reasons {
        let _ = writeln!(out, "<p class=\"soft\">Not counted: {}.</p>", escaped(reason));
    }
    Body::default().figures(Layout::Grid, figures).html(out)
}

/// I/Os per second over the time of each point's first run.
pub fn over_time(sources: &[Source]) -> Body {
    let right = Right::of(sources);
    let mut figures = Vec::new();
    for group in groups(sources, &right) {
        let known =
            group.points.iter().filter_map(|point| Some((*point, point.runs.first()?.series.as_ref()?)));
        let known: Vec<_> = known.filter(|(_, series)| series.end_ns.len() > 1).collect();
        for some in parts(&known, STYLES) {
            let lines = some.iter().map(|(_, series)| {
                let at = |(ns, rate): (u64, f64)| Mark {
                    x: ns as f64 / 1e9,
                    y: rate,
                    range: None,
                    title: String::new(),
                };
                Line {
                    points: series.iops().map(at).collect(),
                    single: Vec::new(),
                    marked: false,
                    joined: true,
                }
            });
            let x = ChartAxis { label: "time, s".to_owned(), ..ChartAxis::default() };
            let y = ChartAxis { label: "IOPS".to_owned(), ..ChartAxis::default() };
            let title = group.name(sources.len() > 1);
            let chart = Chart { title: format!("IOPS over time of {title}"), x, y, lines: lines.collect() };
            let names: Vec<String> = some.iter().map(|(point, _)| point.shown().to_owned()).collect();
            figures.push(figure(&title, chart.picture(), &names, 0));
        }
    }
    if figures.is_empty() {
        return Body::default();
    }
    Body::default()
        .html("<details>\n<summary>IOPS in each interval, of the first run of each point</summary>\n")
        .figures(Layout::Grid, figures)
        .html("</details>\n")
}

/// Figures of hardware under the limits that were named; never others, which no limit of hardware bounds.
pub fn roofline(sources: &[Source], limits: &[Roof]) -> Body {
    let (mut out, mut figures) = (String::new(), Vec::new());
    if limits.is_empty() {
        return Body::default();
    }
    for source in sources {
        let Some(why) = source.not_hardware() else {
            figures.push(under(source, limits));
            continue;
        };
        let (name, why) = (escaped(&source.name), escaped(&why));
        let _ = writeln!(out, "<p>No roofline of {} ({name}): {why}.</p>", source.letter);
    }
    Body::default().html(out).figures(Layout::Grid, figures)
}

/// The points of a result under the limits.
fn under(source: &Source, limits: &[Roof]) -> Figure {
    let point = |point: &Point| {
        let (spread, run) = (point.spread(rate)?, point.runs.first()?);
        let figure = words(&spread, point.runs.len(), "IOPS");
        let title = format!("{}: {}: {figure}", source.letter, point.shown());
        Some(Mark { x: run.job.bs_bytes as f64, y: spread.median, range: None, title })
    };
    let points: Vec<Mark> = source.points.iter().filter_map(point).collect();
    let sizes = || points.iter().map(|mark| mark.x);
    let (least, most) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
    // Of one size a roof is drawn around it.
    let (least, most) = if most > least { (least, most) } else { (least / 4.0, most * 4.0) };
    let roof = |roof: &Roof| {
        let at = |bytes: f64| {
            let y = match roof.rate {
                Rate::Ios(rate) => rate,
                Rate::Bytes(rate) => rate / bytes,
            };
            Mark { x: bytes, y, range: None, title: String::new() }
        };
        Line { points: vec![at(least), at(most)], single: Vec::new(), marked: false, joined: true }
    };
    let roofs: Vec<Line> = limits.iter().map(roof).collect();
    // A line through points of several depths would join what is no row.
    let measured = Line { points, single: Vec::new(), marked: true, joined: false };
    let lines = std::iter::once(measured).chain(roofs).collect();
    let ticks = [512.0, 4096.0, 32768.0, 262_144.0, 2_097_152.0, 16_777_216.0];
    let ticks = ticks.into_iter().filter(|size| (least..=most).contains(size));
    let ticks = ticks.map(|size| (size, warpbell_workload::ByteSize(size as u64).to_string())).collect();
    let x = ChartAxis { label: "bytes for each I/O".to_owned(), log: true, ticks };
    let y = ChartAxis { label: "IOPS".to_owned(), log: true, ticks: Vec::new() };
    let chart = Chart { title: format!("IOPS under the limits, {}", source.name), x, y, lines };
    let mut names = vec![format!("{}: {}", source.letter, source.name)];
    names.extend(limits.iter().map(|limit| limit.name.clone()));
    figure("IOPS under the limits", chart.picture(), &names, 1)
}
