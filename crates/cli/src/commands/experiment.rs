//! `bench NAME`: runs an experiment, and shows a row for each way.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use comfy_table::{CellAlignment, Table, presets};
use warpbell::{Place, Target};
use warpbell_workload::{
    ClockKind, Control, DeviceReport, Experiment, ExperimentReport, Interval, Origin, Row, VolumeApi,
    VolumePolicy, experiment_csv, repeated, units,
};

use super::sweep;
use crate::args::{ExperimentArgs, Global, Output};
use crate::exit::{Ending, INTERRUPTED};
use crate::open::{Access, because, open, open_all, open_weighted};
use crate::outputs::Outputs;
use crate::{out, render};

/// Runs the command.
pub fn run(
    which: Experiment,
    args: &ExperimentArgs,
    global: &Global,
    stop: Arc<AtomicBool>,
) -> Result<(), Ending> {
    refuse_others(which, args)?;
    let origin = sweep::origin(&args.device, [])?;
    refuse_outputs(args, &origin)?;
    // Open from row to row: its code is loaded once.
    let _target = args.device.target.open()?;
    let access = if which.writes() { Access::Write { nsid: args.nsid } } else { Access::Read };
    let ssds = match which.takes_several() {
        true => open_all(&args.device, access)?,
        false if which.needs_weights() => vec![open_weighted(&args.device)?],
        false => vec![open(&args.device, access)?],
    };
    let rows = sweep::rows(args.csv.as_ref())?;
    let asked = (&args.options(), args.repeat);
    let found = repeated(which, &ssds, args.device.target, asked, &Control::with_stop(stop));
    let (mut report, mut broken) = found.map_err(|error| because(&ssds[0], error.into()))?;
    report.origin = Some(origin);
    if report.rows.is_empty() && !report.partial {
        let why = report.skipped.first().map_or("nothing to measure", |skipped| &skipped.reason);
        return Err(Ending::usage(format!("{}: no way could be measured; the first: {why}", which.word())));
    }
    if let Some(error) = broken.take_if(|_| report.rows.is_empty()) {
        return Err(because(&ssds[0], error.into()));
    }
    match global.output() {
        Output::Normal => out::measured(&text(&report))?,
        Output::Json => out::measured_json(&report)?,
    }
    let listed = sweep::write_rows(rows, || experiment_csv(&report));
    match broken {
        Some(error) => Err(because(&ssds[0], error.into())),
        None if report.partial => Err(Ending::silent(INTERRUPTED)),
        None => listed,
    }
}

/// Refuses to write what this command needs, before a device or a file is touched.
fn refuse_outputs(args: &ExperimentArgs, origin: &Origin) -> Result<(), Ending> {
    let mut outputs = Outputs::beside(&args.device, origin)?;
    args.os_path.iter().for_each(|path| outputs.keep("the file of --os-path", path));
    args.csv.iter().try_for_each(|path| outputs.claim("--csv", path))
}

/// Refuses options that only other experiments have.
fn refuse_others(which: Experiment, args: &ExperimentArgs) -> Result<(), Ending> {
    if args.load.is_some() && which != Experiment::Tail {
        return Err(Ending::usage(format!("--load: only tail has busy threads, not {}", which.word())));
    }
    if args.coalescing.is_some() && which != Experiment::Notice {
        return Err(Ending::usage(format!(
            "--coalescing: only notice compares ways to gather interrupts, not {}",
            which.word()
        )));
    }
    if args.os_path.is_some() && which != Experiment::Path {
        return Err(Ending::usage(format!("--os-path: only path reads it, not {}", which.word())));
    }
    if args.ops.is_some() && !which.is_workload() {
        return Err(Ending::usage(format!(
            "--ops: only workloads have it; --runtime ends rows of {}",
            which.word()
        )));
    }
    if args.runtime.is_some() && which.is_workload() {
        return Err(Ending::usage(format!("--runtime: --ops ends rows of {}", which.word())));
    }
    refuse_stripes(which, args)?;
    if host_only(which.word(), args.api) {
        let mut device = args.device.clone();
        if which == Experiment::Registration && device.data == Place::Hbm {
            // Memory of the GPU is what is registered.
            (device.data, device.target) = (Place::Host, Target::Cpu);
        }
        device.refuse_kernels(&format!("bench {}", which.word()))?;
    }
    Ok(())
}

/// Refuses what only `stripe` has, and of that what only kernels have.
fn refuse_stripes(which: Experiment, args: &ExperimentArgs) -> Result<(), Ending> {
    let given = [
        ("--api", args.api.is_some()),
        ("--chunk", args.chunk.is_some()),
        ("--policy", args.policy.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((flag, _)) if which != Experiment::Stripe => {
            return Err(Ending::usage(format!("{flag}: only stripe has volumes, not {}", which.word())));
        }
        _ => {}
    }
    if args.policy.is_some() && args.api != Some(VolumeApi::Volume) {
        let policies: Vec<_> = VolumePolicy::ALL.iter().map(|policy| policy.word()).collect();
        return Err(Ending::usage(format!(
            "--policy: {} are of the warps of kernels; add --api volume",
            policies.join(", ")
        )));
    }
    Ok(())
}

/// Whether no kernels run in the experiment of this name.
pub fn host_only(name: &str, api: Option<VolumeApi>) -> bool {
    [Experiment::Registration, Experiment::Stripe, Experiment::Notice]
        .iter()
        .any(|which| which.word() == name)
        && api != Some(VolumeApi::Volume)
}

fn text(report: &ExperimentReport) -> String {
    let mut text = format!(
        "{}\n{}: {}, {} in flight{}{}\n\n{}{}",
        banners(report).join("\n"),
        report.experiment,
        named(report),
        report.iodepth,
        if report.clock == ClockKind::Virtual { ", clock: virtual" } else { "" },
        repeats(report),
        table(report),
        if report.partial { "partial: ended before its last row\n" } else { "" },
    );
    for lacking in &report.incomplete {
        text += &format!("not in every repeat: {}: {}\n", lacking.point, lacking.reason);
    }
    for skipped in &report.skipped {
        text += &format!("skipped: {}: {}\n", skipped.point, skipped.reason);
    }
    text
}

/// Which devices were measured: those alike are one entry.
fn named(report: &ExperimentReport) -> String {
    let mut counts: Vec<(&DeviceReport, u32)> = Vec::new();
    for device in report.devices() {
        match counts
            .iter_mut()
            .find(|(known, _)| (&known.name, &known.model) == (&device.name, &device.model))
        {
            Some((_, count)) => *count += 1,
            None => counts.push((device, 1)),
        }
    }
    let entry = |(device, count): &(&DeviceReport, u32)| match count {
        1 => format!("{} on {}", device.model, device.name),
        count => format!("{} on {count} times {}", device.model, device.name),
    };
    counts.iter().map(entry).collect::<Vec<_>>().join("; ")
}

/// What the figures are not: by the device that is least of a hardware SSD.
pub fn banners(report: &ExperimentReport) -> Vec<String> {
    let weakest = report.devices().iter().min_by_key(|device| match device.kind.as_str() {
        "software" => 0,
        "vfio-user" => 1,
        _ => 2,
    });
    let kind = weakest.map_or("", |device| &device.kind);
    let mut banners = vec![render::banner(&report.target, kind, host_only(&report.experiment, report.api))];
    let emulated = report.devices().iter().find(|device| render::is_emulated(&device.model));
    banners.extend(emulated.map(|device| format!("{}: {}", device.name, render::emulated(&device.model))));
    banners
}

/// The figure whose interval the table shows: the rate, or else the first.
fn shown_interval(report: &ExperimentReport) -> Option<&str> {
    let measured =
        || report.keys().into_iter().filter(|key| report.rows.iter().any(|row| interval(row, key).is_some()));
    measured().find(|key| *key == "iops").or_else(|| measured().next())
}

/// Where the true median of a figure lies.
fn interval(row: &Row, key: &str) -> Option<Interval> {
    // Older results have that of the IOPS alone.
    row.intervals.get(key).copied().or(row.iops_interval.filter(|_| key == "iops"))
}

/// How often all was measured, and how sure the rates are.
fn repeats(report: &ExperimentReport) -> String {
    if report.repeats < 2 {
        return String::new();
    }
    let mut text = format!(", medians of {} repeats", report.repeats);
    if let Some(key) = shown_interval(report) {
        let confidences = report.rows.iter().filter_map(|row| Some(interval(row, key)?.confidence));
        let least = confidences.fold(1.0, f64::min) * 100.0;
        text += &format!("\nfrom and to hold the median of {} with {least:.1} % or more", heading(key));
    }
    text
}

/// A row for each way, with a column for each figure that some way has. The rate of several repeats has its interval.
fn table(report: &ExperimentReport) -> String {
    let (rows, keys) = (&report.rows, report.keys());
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let shown_sure = shown_interval(report);
    let sure = |key: &str| shown_sure == Some(key);
    let headings = keys.iter().flat_map(|key| {
        let ends = if sure(key) { &["from", "to"][..] } else { &[] };
        std::iter::once(heading(key)).chain(ends.iter().map(|&end| end.to_owned()))
    });
    table.set_header(std::iter::once("way".to_owned()).chain(headings));
    for row in rows {
        let shown =
            |key: &str, value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| cell(key, value));
        let cells = keys.iter().flat_map(|key| {
            let mut cells = vec![shown(key, row.figures.get(key))];
            if sure(key) {
                let interval = interval(row, key);
                cells.push(shown(key, interval.map(|interval| interval.low)));
                cells.push(shown(key, interval.map(|interval| interval.high)));
            }
            cells
        });
        table.add_row(std::iter::once(row.name.clone()).chain(cells));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// What a column is called, with its unit.
pub fn heading(key: &str) -> String {
    match key {
        "iops" => "IOPS".to_owned(),
        "bytes_per_s" => "MiB/s".to_owned(),
        "expected_iops" => "expected IOPS".to_owned(),
        "expected_bytes_per_s" => "expected MiB/s".to_owned(),
        "seconds" => "ms".to_owned(),
        "ops_per_s" | "edges_per_s" => key.replace("_per_s", "/s"),
        "expected_ops_per_s" => "expected ops/s".to_owned(),
        "commands_per_op" | "bytes_per_op" | "expected_commands_per_op" | "expected_bytes_per_op" => {
            key.replace("_per_op", "/op").replace('_', " ")
        }
        "client_cpu_ns_per_io" => "client CPU us/io".to_owned(),
        "crossover_ios" => "crossover, I/Os".to_owned(),
        key => match (key.strip_suffix("_ns"), key.strip_suffix("_per_io")) {
            (Some(time), _) => format!("{} us", time.replace("99_9", "99.9").replace('_', " ")),
            (_, Some(count)) => format!("{}/io", count.replace('_', " ")),
            _ => key.replace('_', " "),
        },
    }
}

/// A figure as people read it.
pub fn cell(key: &str, value: f64) -> String {
    match key {
        "iops" | "expected_iops" | "ops_per_s" | "expected_ops_per_s" | "edges_per_s" => units::iops(value),
        "crossover_ios"
        | "levels"
        | "commands"
        | "expected_commands"
        | "admin_commands"
        | "expected_admin_commands" => {
            format!("{value:.0}")
        }
        "bytes_per_op" | "expected_bytes_per_op" => format!("{value:.0}"),
        "seconds" => format!("{:.3}", value * 1e3),
        "bytes_per_s" | "expected_bytes_per_s" => units::mib_per_s(value),
        "copied_bytes_per_io" | "ssd_bytes_per_io" | "expected_ssd_bytes_per_io" => format!("{value:.0}"),
        key if key.ends_with("_ns") || key == "client_cpu_ns_per_io" => format!("{:.2}", value / 1e3),
        _ => format!("{value:.3}"),
    }
}
