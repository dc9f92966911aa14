//! `report FILE...`: results of `bench` as one page of HTML, which needs nothing else.
//!
//! The pictures are our own (`warpbell_plan::chart`, as the plots of `plan`): no chart crate that makes plain SVG gives each
//! point its words and leaves colours to the page's style, which light, dark and print each need.

mod body;
mod data;
mod experiments;
mod files;
mod pictures;
mod tables;

use std::fmt::Write;
use std::path::Path;

use warpbell_plan::escaped;

use crate::args::{Form, Global, ReportArgs};
use crate::commands::sweep;
use crate::exit::Ending;
use crate::out;
use crate::outputs::{self, Outputs};
use body::Body;
use data::Source;
use experiments::Found;
use sweep::Kind;

const STYLE: &str = include_str!("page/style.css");

/// Runs the command.
pub fn run(args: &ReportArgs, global: &Global) -> Result<(), Ending> {
    if matches!(global.form, Form::Json | Form::FioJson) {
        return Err(Ending::usage(
            "--output json: a page is HTML, and the results are JSON already; -o report.html names its file",
        ));
    }
    if let Form::File(path) = &global.form {
        refuse_other_forms(path)?;
    }
    let (mut sources, mut found) = (Vec::new(), Vec::new());
    for path in &args.files {
        let reports = match sweep::read_any("", path)? {
            Kind::Bench(reports) => reports,
            Kind::Experiment(report) if report.rows.is_empty() => {
                return Err(Ending::usage(format!("{}: it has no row", path.display())));
            }
            Kind::Experiment(report) => {
                found.push(Found::new(sources.len() + found.len(), path, *report)?);
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
    let mut outputs = outputs(args, global)?;
    let sections = sections(&sources, &found, args);
    if let Some(folder) = &args.pictures {
        files::write(folder, &sections, &mut outputs)?;
    }
    match &global.form {
        Form::File(path) => outputs::write("--output", path, &page(&names(&sources, &found), &sections)),
        Form::Normal if args.pictures.is_some() => Ok(()),
        Form::Normal | Form::Json | Form::FioJson => out::text(&page(&names(&sources, &found), &sections)),
    }
}

/// The page's file, beside the results.
fn outputs(args: &ReportArgs, global: &Global) -> Result<Outputs, Ending> {
    let mut outputs = Outputs::new();
    args.files.iter().for_each(|path| outputs.keep("a result that is read", path));
    if let Form::File(path) = &global.form {
        outputs.claim("--output", path)?;
    }
    Ok(outputs)
}

/// Refuses a name that says that something else than a page is in the file.
fn refuse_other_forms(path: &Path) -> Result<(), Ending> {
    match path.extension().map(|extension| extension.to_ascii_lowercase()) {
        Some(extension) if extension != "html" && extension != "htm" => Err(Ending::usage(format!(
            "--output {}: a page is HTML: name it .html; --pictures FOLDER makes SVG",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// A section of the page.
struct Section {
    title: String,
    /// How files of its pictures begin; nothing where the pictures' own headings suffice.
    name: String,
    body: Body,
    /// What its letters mean, and what its figures are not: for pictures without the page.
    notes: Vec<String>,
}

/// The sections that have something to show.
fn sections(sources: &[Source], found: &[Found], args: &ReportArgs) -> Vec<Section> {
    let experiments = found.iter().map(|found| Section {
        title: found.title(),
        name: found.report.experiment.clone(),
        body: found.section(),
        notes: std::iter::once(found.title()).chain(found.banners()).collect(),
    });
    let benches = [
        ("What was measured", "", Body::from(tables::sources(sources))),
        ("I/Os per second", "", pictures::iops(sources)),
        ("Two axes", "", pictures::heat(sources)),
        ("Limits", "", pictures::roofline(sources, &args.limit)),
        ("Comparison", "", tables::comparison(sources).into()),
        ("Latency percentiles", "percentiles", pictures::percentiles(sources)),
        ("Distribution of latencies", "distribution", pictures::distribution(sources)),
        ("Work for each I/O", "", pictures::work(sources)),
        ("Over time", "time", pictures::over_time(sources)),
        ("All points", "", tables::points(sources).into()),
        ("Skipped points", "", tables::skipped(sources).into()),
    ];
    let benches = benches.into_iter().filter(|_| !sources.is_empty()).map(|(title, name, body)| Section {
        title: title.to_owned(),
        name: name.to_owned(),
        body,
        notes: sources.iter().map(Source::title).chain(tables::banners(sources)).collect(),
    });
    let compared = Section {
        title: "Comparison of experiments".to_owned(),
        name: String::new(),
        body: tables::experiments_compared(found).into(),
        notes: Vec::new(),
    };
    experiments
        .chain(std::iter::once(compared))
        .chain(benches)
        .filter(|section| !section.body.is_empty())
        .collect()
}

fn page(names: &[&str], sections: &[Section]) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>Warpbell: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>Results of warpbell bench</h1>\n",
        escaped(&names.join(", "))
    );
    for section in sections {
        let (title, body) = (escaped(&section.title), section.body.text());
        let _ = writeln!(out, "<section>\n<h2>{title}</h2>\n{body}</section>");
    }
    out + "</body>\n</html>\n"
}

/// The files.
fn names<'a>(sources: &'a [Source], found: &'a [Found]) -> Vec<&'a str> {
    let benches = sources.iter().map(|source| source.name.as_str());
    benches.chain(found.iter().map(|found| found.name.as_str())).collect()
}
