//! `check`: what this machine is like, what it lacks, and what mends it.

mod kernels;
mod opened;
mod self_test;
mod ways;

use std::io::ErrorKind;
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
    let device = args.device()?;
    let opens = args.self_test || device.is_some();
    if let (Some(target), false) = (args.target, opens) {
        let what = "without --self-test and --device no GPU is opened: give one of them, or leave it out";
        return Err(Ending::usage(format!("--target {target}: {what}")));
    }
    let target = args.target()?;
    if let Some(file) = &args.capture {
        return copy(tree.sysfs(), file, args.with_serials, global);
    }
    let machine = Machine::read(tree.sysfs());
    let mut report = Report::of(&machine);
    if tree.sysfs().is_system() {
        report.asked(&machine, &[kernels::finding()]);
    }
    if args.self_test && device.is_some() && args.offset.is_none() {
        let why = "--self-test --device: 4 MiB are overwritten; --offset SIZE says from where on";
        return Err(Ending::usage(why));
    }
    // First, as what must not be written to is refused before anything is opened.
    let tested = args.self_test.then(|| self_test::run(args, device, &machine, stop)).transpose()?;
    if let Some(tested) = &tested {
        report.tested(&machine, tested.findings());
    }
    let look = opens.then(|| opened::look(device, target));
    if let Some(look) = &look {
        report.asked(&machine, &look.findings);
    }
    match global.output() {
        Output::Normal => out::text(&report.text())?,
        Output::Json => out::json(&document(&report, tested.as_ref()))?,
    }
    tested.map_or(Ok(()), Tests::ending)?;
    look.and_then(|look| look.unmet).map_or(Ok(()), Err)?;
    match report.verdict.complete {
        true => Ok(()),
        // The report has a line and a command for each.
        false => Err(Ending::silent(MISSING)),
    }
}

fn document(report: &Report, tests: Option<&Tests>) -> Value {
    json!({
        "schema": SCHEMA,
        "warpbell": env!("CARGO_PKG_VERSION"),
        "self_test": tests.map(Tests::ok),
        "tests": tests.map(Tests::json),
        "findings": report.findings,
        "paths": report.paths,
        "verdict": report.verdict,
    })
}

/// Both are of the command line: a file that would be overwritten, and a folder that is not there.
fn unwritten(file: &Path, error: &std::io::Error) -> Ending {
    let option = format!("--capture {}", file.display());
    match error.kind() {
        ErrorKind::AlreadyExists => {
            Ending::usage(format!("{option}: it exists, and is not overwritten; name a new file"))
        }
        ErrorKind::NotFound => Ending::file(format!("{option}: there is no folder for it"), error),
        _ => Ending::file(option, error),
    }
}

fn copy(sysfs: &Sysfs, file: &Path, with_serials: bool, global: &Global) -> Result<(), Ending> {
    let serials = if with_serials { Serials::Taken } else { Serials::Left };
    let capture = Capture::of(sysfs, serials);
    capture.write(file).map_err(|error| unwritten(file, &error.source))?;
    let without = if with_serials { "with" } else { "without" };
    match global.output() {
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
