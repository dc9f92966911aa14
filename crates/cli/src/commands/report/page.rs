//! `report FILE...`: results of `bench` as one page of HTML, which needs nothing else.
//!
//! The pictures are our own (`warpbell_plan::chart`, as the plots of `plan`): no chart crate that makes plain SVG gives each
//! point its words and leaves colours to the page's style, which light, dark and print each need.

mod data;
mod experiments;
mod pictures;
mod tables;

use std::fmt::Write;
use std::path::Path;

use warpbell_plan::escaped;

use crate::args::{Form, Global, ReportArgs};
use crate::commands::sweep;
use crate::exit::Ending;
use crate::out;
use data::Source;
use experiments::Found;
use sweep::Kind;

const STYLE: &str = include_str!("page/style.css");

/// Runs the command.
pub fn run(args: &ReportArgs, global: &Global) -> Result<(), Ending> {
    let (mut sources, mut found) = (Vec::new(), Vec::new());
    for path in &args.files {
        let reports = match sweep::read_any("", path)? {
            Kind::Bench(reports) => reports,
            Kind::Experiment(report) if report.rows.is_empty() => {
                return Err(Ending::usage(format!("{}: it has no row", path.display())));
            }
            Kind::Experiment(report) => {
                let letter = data::letter(sources.len() + found.len());
                found.push(Found { letter, name: data::name(path), report: *report });
                continue;
            }
        };
        for report in reports {
            if report.runs.iter().all(|run| run.partial) {
                return Err(Ending::usage(format!("{}: it has no whole run", path.display())));
            }
            sources.push(Source::new(sources.len() + found.len(), path, report)?);
        }
    }
    data::complete(&mut sources);
    let page = page(&sources, &found, args);
    match &global.form {
        Form::File(path) => write(path, &page),
        Form::Normal => out::text(&page),
        Form::Json | Form::FioJson => Err(Ending::usage(
            "--output json: a page is HTML, and the results are JSON already; -o report.html names its file",
        )),
    }
}

fn write(path: &Path, page: &str) -> Result<(), Ending> {
    std::fs::write(path, page).map_err(|error| Ending::file(format!("--output {}", path.display()), &error))
}

fn page(sources: &[Source], found: &[Found], args: &ReportArgs) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>Warpbell: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>Results of warpbell bench</h1>\n",
        escaped(&names(sources, found).join(", "))
    );
    let mut section = |title: &str, body: String| {
        if !body.is_empty() {
            let _ = writeln!(out, "<section>\n<h2>{title}</h2>\n{body}</section>");
        }
    };
    for found in found {
        section(&escaped(&found.title()), found.section());
    }
    if sources.is_empty() {
        return out + "</body>\n</html>\n";
    }
    section("What was measured", tables::sources(sources));
    section("I/Os per second", pictures::iops(sources));
    section("Two axes", pictures::heat(sources));
    section("Limits", pictures::roofline(sources, &args.limit));
    section("Comparison", tables::comparison(sources));
    section("Latency percentiles", pictures::percentiles(sources));
    section("Distribution of latencies", pictures::distribution(sources));
    section("Work for each I/O", pictures::work(sources));
    section("Over time", pictures::over_time(sources));
    section("All points", tables::points(sources));
    section("Skipped points", tables::skipped(sources));
    out + "</body>\n</html>\n"
}

/// The files.
fn names<'a>(sources: &'a [Source], found: &'a [Found]) -> Vec<&'a str> {
    let benches = sources.iter().map(|source| source.name.as_str());
    benches.chain(found.iter().map(|found| found.name.as_str())).collect()
}
