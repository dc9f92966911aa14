//! The tables of a page.

use std::fmt::Write;

use warpbell_plan::chart::si;
use warpbell_plan::escaped;
use warpbell_workload::{
    ClockKind, Compared, Origin, Run, Spread, compare, compare_rows, unlike, unlike_experiments,
};

use super::data::{Source, rate};
use super::experiments::Found;

/// What is called a difference.
const SIGNIFICANT: f64 = 0.05;

/// A table under these headings; cells are HTML.
pub(super) fn table(class: &str, headings: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |kind: &str, cells: &mut dyn Iterator<Item = &str>| {
        cells.map(|cell| format!("<{kind}>{cell}</{kind}>")).collect::<String>()
    };
    let mut out = format!("<div class=\"scroll\"><table class=\"{class}\">\n<thead><tr>");
    out += &cells("th", &mut headings.iter().copied());
    out += "</tr></thead>\n<tbody>\n";
    for row in rows {
        let _ = writeln!(out, "<tr>{}</tr>", cells("td", &mut row.iter().map(String::as_str)));
    }
    out + "</tbody>\n</table></div>\n"
}

/// Said of figures in virtual time.
pub(super) const VIRTUAL: &str = "clock: virtual (times are the profile's, not a machine's)";

/// What the figures of these files are not.
pub fn banners(sources: &[Source]) -> Vec<String> {
    let mut banners: Vec<(String, Vec<&str>)> = Vec::new();
    for source in sources {
        match banners.iter_mut().find(|(banner, _)| *banner == source.banner()) {
            Some((_, letters)) => letters.push(&source.letter),
            None => banners.push((source.banner(), vec![&source.letter])),
        }
    }
    let several = banners.len() > 1;
    let whose = |letters: &[&str]| if several { format!("{}: ", letters.join(", ")) } else { String::new() };
    let mut out: Vec<String> =
        banners.iter().map(|(banner, letters)| format!("{}{banner}", whose(letters))).collect();
    let mut runs = sources.iter().flat_map(|source| &source.report.runs);
    if runs.any(|run| run.clock == ClockKind::Virtual) {
        out.push(VIRTUAL.to_owned());
    }
    let partial = sources.iter().filter(|source| source.report.partial);
    out.extend(partial.map(|source| format!("{}: partial: interrupted before its end", source.letter)));
    out
}

/// The files: device, machine and command of each, under what its figures are of.
pub fn sources(sources: &[Source]) -> String {
    let mut out = String::new();
    for banner in banners(sources) {
        let _ = writeln!(out, "<p class=\"banner\">{}</p>", escaped(&banner));
    }
    let cards: String = sources.iter().map(card).collect();
    if cards.is_empty() { out } else { format!("{out}<div class=\"grid\">\n{cards}</div>\n") }
}

/// A result: its device, and how and where it was made.
fn card(source: &Source) -> String {
    let (report, device) = (&source.report, &source.report.device);
    let commit =
        report.origin.as_ref().map_or("not said", |origin| origin.commit.as_deref().unwrap_or("none"));
    let mut entries = vec![
        ("device", format!("{}, {} {}", device.name, device.model, device.serial)),
        ("program", format!("warpbell {}, commit {commit}", report.warpbell)),
    ];
    entries.extend(made(report.origin.as_ref()));
    entries.extend(report.resumed_from.iter().map(|origin| ("resumed from", origin.began.clone())));
    described(&format!("{}: {}", source.letter, source.name), &entries)
}

/// On which machine, when, and by which command a result was made.
pub(super) fn made(origin: Option<&Origin>) -> [(&'static str, String); 3] {
    let said = |pick: fn(&Origin) -> String| origin.map_or("not said".to_owned(), pick);
    let machine = said(|origin| {
        let machine = &origin.machine;
        let governor = machine.governor.as_ref().map(|name| format!(", governor {name}")).unwrap_or_default();
        let cpu = machine.cpu.as_deref().unwrap_or("CPU not named");
        format!("{cpu}, {} cores, {}{governor}", machine.cores, machine.kernel)
    });
    [
        ("machine", machine),
        ("began", said(|origin| origin.began.clone())),
        ("command", said(|origin| origin.command.join(" "))),
    ]
}

/// A card with these entries under a title.
pub(super) fn described(title: &str, entries: &[(&str, String)]) -> String {
    let entry = |(name, text): &(&str, String)| format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(text));
    format!(
        "<div class=\"card\">\n<h3>{}</h3>\n<dl>\n{}</dl>\n</div>\n",
        escaped(title),
        entries.iter().map(entry).collect::<String>()
    )
}

/// A value and the interval around it.
fn spread(spread: Option<Spread>, runs: usize, scale: f64) -> String {
    let Some(Spread { median, interval }) = spread else { return "-".to_owned() };
    let middle = si(median / scale);
    if runs < 2 {
        middle
    } else {
        format!("{middle} [{}, {}]", si(interval.low / scale), si(interval.high / scale))
    }
}

/// Every point.
pub fn points(sources: &[Source]) -> String {
    let mut rows = Vec::new();
    for source in sources {
        for point in &source.points {
            let runs = point.runs.len();
            let lat = |pick: fn(&warpbell_workload::Latency) -> u64| spread(point.latency(pick), runs, 1e3);
            let errors: u64 = point.runs.iter().map(|run| run.errors).sum();
            rows.push(vec![
                format!("{}: {}", source.letter, escaped(point.shown())),
                runs.to_string(),
                spread(point.spread(rate), runs, 1.0),
                spread(point.spread(|run| Some(run.total.bytes_per_s)), runs, f64::from(1 << 20)),
                lat(|latency| latency.p50),
                lat(|latency| latency.p99),
                lat(|latency| latency.p99_9),
                lat(|latency| latency.p99_99),
                errors.to_string(),
            ]);
        }
    }
    let headings = ["point", "runs", "IOPS", "MiB/s", "p50 us", "p99 us", "p99.9 us", "p99.99 us", "errors"];
    let surest = sources.iter().flat_map(|source| &source.points).filter(|point| point.runs.len() > 1);
    let confidence = surest
        .filter_map(|point| Some(point.spread(rate)?.interval.confidence))
        .fold(f64::INFINITY, f64::min);
    let note = match confidence.is_finite() {
        true => format!(
            "<p class=\"soft\">In brackets: what holds the median of a point with at least {:.1} %, by order statistics.</p>\n",
            confidence * 100.0
        ),
        false => String::new(),
    };
    note + &table("", &headings, &rows)
}

/// What p means.
fn meaning() -> String {
    format!(
        "<p>p: how likely so large a difference is where there is none: Wilcoxon's rank sum test over the runs, \
         two-sided, with Holm's correction for the number of points. Below {SIGNIFICANT} it is called a difference.</p>\n"
    )
}

/// A figure of two results beside each other; nothing where they have no point in common.
fn beside(figure: &str, (one, other): (&str, &str), both: &[Compared]) -> String {
    if both.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = both.iter().map(compared).collect();
    let headings = ["point", one, other, "ratio", "runs", "p", "verdict"];
    format!("<h3>{figure}: {one} to {other}</h3>\n") + &table("", &headings, &rows)
}

/// What else differs between two results.
fn differing((one, other): (&str, &str), differences: &[String]) -> String {
    if differences.is_empty() {
        return String::new();
    }
    format!("<p class=\"banner\">{one} and {other} are unlike: {}</p>\n", escaped(&differences.join("; ")))
}

/// The first result beside each other one.
pub fn comparison(sources: &[Source]) -> String {
    let Some((first, others)) = sources.split_first().filter(|(_, others)| !others.is_empty()) else {
        return String::new();
    };
    let mut out = meaning();
    let p99: fn(&Run) -> Option<f64> = |run| run.lat_ns.as_ref().map(|latency| latency.p99 as f64 / 1e3);
    for other in others {
        let letters = (first.letter.as_str(), other.letter.as_str());
        out += &differing(letters, &unlike(&first.report, &other.report));
        let both = |value| compare(&first.report.runs, &other.report.runs, value);
        let rates = both(rate);
        if rates.is_empty() {
            let _ = writeln!(out, "<p>{} and {} have no point in common.</p>", first.letter, other.letter);
        }
        out += &beside("IOPS", letters, &rates);
        out += &beside("p99 latency, us", letters, &both(p99));
    }
    out
}

/// Of each experiment the first result beside each other one.
pub fn experiments_compared(found: &[Found]) -> String {
    let mut out = String::new();
    for (index, other) in found.iter().enumerate() {
        let same = |one: &&Found| one.report.experiment == other.report.experiment;
        let Some(first) = found[..index].iter().find(same) else { continue };
        let letters = (first.letter.as_str(), other.letter.as_str());
        out += &differing(letters, &unlike_experiments(&first.report, &other.report));
        let mut any = false;
        for (figure, key, unit) in COMPARED_FIGURES {
            // Of I/Os of one size bytes are the same with a factor.
            if any && key == "bytes_per_s" {
                continue;
            }
            let mut both = compare_rows(&first.report, &other.report, key);
            both.iter_mut().for_each(|each| each.medians = (each.medians.0 / unit, each.medians.1 / unit));
            any |= !both.is_empty();
            out += &beside(&format!("{}, {figure}", escaped(&other.report.experiment)), letters, &both);
        }
        if !any {
            let _ = writeln!(out, "<p>{} and {} have no row in common.</p>", first.letter, other.letter);
        }
    }
    if out.is_empty() { out } else { meaning() + &out }
}

/// Figures of experiments that are compared: their names, keys, and units.
const COMPARED_FIGURES: [(&str, &str, f64); 3] =
    [("IOPS", "iops", 1.0), ("MiB/s", "bytes_per_s", 1_048_576.0), ("p99 latency, us", "p99_ns", 1e3)];

fn compared(each: &Compared) -> Vec<String> {
    let (one, other) = each.medians;
    let verdict = match each.p {
        p if p < SIGNIFICANT && other > one => "more".to_owned(),
        p if p < SIGNIFICANT => "less".to_owned(),
        _ if each.least_p >= SIGNIFICANT => {
            format!("too few runs to tell: p cannot be below {:.2}", each.least_p)
        }
        _ => "no difference shown".to_owned(),
    };
    let name = if each.point.is_empty() { "the only point" } else { &each.point };
    vec![
        escaped(name),
        si(one),
        si(other),
        if one == 0.0 { "-".to_owned() } else { format!("{:.3}", other / one) },
        format!("{}, {}", each.runs.0, each.runs.1),
        format!("{:.3}", each.p),
        verdict,
    ]
}

/// Points that did not run, or not to their end, with their reasons.
pub fn skipped(sources: &[Source]) -> String {
    let row = |source: &Source, point: &str, why: &str| {
        let point = if point.is_empty() { "the only point" } else { point };
        vec![format!("{}: {}", source.letter, escaped(point)), escaped(why)]
    };
    let of_source = |source: &Source| {
        let skipped =
            source.report.skipped.iter().map(|skipped| row(source, &skipped.point, &skipped.reason));
        let partial = source.report.runs.iter().filter(|run| run.partial);
        let partial = partial.map(|run| row(source, &run.point, &interrupted(run)));
        skipped.chain(partial).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = sources.iter().flat_map(of_source).collect();
    if rows.is_empty() { String::new() } else { table("left", &["point", "why not"], &rows) }
}

/// Says how far a run came that is no result.
fn interrupted(run: &Run) -> String {
    let repeat = run.repeat.map_or(String::new(), |repeat| format!("repeat {repeat}: "));
    format!("{repeat}interrupted after {} I/Os: no result", si(run.total.ios as f64))
}
