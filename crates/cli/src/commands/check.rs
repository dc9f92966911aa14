//! `check`: what this machine is like, what it lacks, and what mends it.

mod kernels;
mod opened;
mod self_test;
mod ways;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use warpbell_platform::{Capture, Machine, Report, Serials};
use warpbell_vfio::pci::Sysfs;

use crate::args::{CheckArgs, Global, Output};
use crate::exit::{Ending, MISSING};
use crate::out;
use crate::tree::Tree;
use self_test::Tests;

/// Names and versions of the documents' forms.
const SCHEMA: &str = "warpbell.check/1";
const CAPTURE_SCHEMA: &str = "warpbell.capture/2";

/// Runs the command.
pub fn run(args: &CheckArgs, global: &Global, stop: Arc<AtomicBool>) -> Result<(), Ending> {
    let tree = Tree::at(&args.root)?;
    let opens = args.self_test || args.device.is_some();
    if let (Some(target), false) = (args.target, opens) {
        let what = "without --self-test and --device no GPU is opened: give one of them, or leave it out";
        return Err(Ending::usage(format!("--target {target}: {what}")));
    }
    if let Some(file) = &args.capture {
        return copy(tree.sysfs(), file, args.with_serials, global);
    }
    let machine = Machine::read(tree.sysfs());
    let mut report = Report::of(&machine);
    if tree.sysfs().is_system() {
        report.asked(&machine, &[kernels::finding()]);
    }
    if args.self_test && args.device.is_some() && args.offset.is_none() {
        let why = "--self-test --device: 4 MiB are overwritten; --offset SIZE says from where on";
        return Err(Ending::usage(why));
    }
    // First, as what must not be written to is refused before anything is opened.
    let tested = args.self_test.then(|| self_test::run(args, &machine, stop)).transpose()?;
    if let Some(tested) = &tested {
        report.tested(&machine, tested.findings());
    }
    let look = opens.then(|| opened::look(args.device.as_ref(), args.target()));
    if let Some(look) = &look {
        report.asked(&machine, &look.findings);
    }
    match global.output {
        Output::Normal => out::text(&report.text())?,
        Output::Json => out::json(&document(&report, tested.as_ref().map(Tests::ok)))?,
    }
    tested.map_or(Ok(()), Tests::ending)?;
    look.and_then(|look| look.unmet).map_or(Ok(()), Err)?;
    match report.verdict.complete {
        true => Ok(()),
        // The report has a line and a command for each.
        false => Err(Ending::silent(MISSING)),
    }
}

fn document(report: &Report, self_test: Option<bool>) -> Value {
    json!({
        "schema": SCHEMA,
        "warpbell": env!("CARGO_PKG_VERSION"),
        "self_test": self_test,
        "findings": report.findings,
        "paths": report.paths,
        "verdict": report.verdict,
    })
}

fn copy(sysfs: &Sysfs, file: &Path, with_serials: bool, global: &Global) -> Result<(), Ending> {
    let serials = if with_serials { Serials::Taken } else { Serials::Left };
    let capture = Capture::of(sysfs, serials);
    capture
        .write(file)
        .map_err(|error| Ending::file(format!("--capture {}", file.display()), &error.source))?;
    let without = if with_serials { "with" } else { "without" };
    match global.output {
        Output::Normal => out::text(&format!(
            "{} paths in {}, {without} serial numbers; look at them with: warpbell check --root {}\n",
            capture.len(),
            file.display(),
            file.display()
        )),
        Output::Json => out::json(&json!({
            "schema": CAPTURE_SCHEMA,
            "warpbell": env!("CARGO_PKG_VERSION"),
            "file": file,
            "paths": capture.len(),
            "with_serials": with_serials,
        })),
    }
}
