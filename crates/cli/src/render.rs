//! Benchmark results as text, in the manner of fio.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use warpbell_workload::{Api, BenchReport, ClockKind, Job, Latency, Run, Traffic};

use crate::units;

/// Said above every result of the CPU target.
pub const BANNER: &str = "target cpu: software controller and kernels on the CPU; not a hardware figure";

/// The whole report.
pub fn bench(report: &BenchReport) -> String {
    let mut text = header(report);
    for run in &report.runs {
        text.push_str(&self::run(run));
    }
    if report.runs.len() > 1 {
        text.push_str(&table(&report.runs));
    }
    if report.partial {
        text.push_str("partial: interrupted before its end\n");
    }
    text
}

fn header(report: &BenchReport) -> String {
    let (device, path) = (&report.device, &report.data_path);
    let host_only = report.runs.iter().all(|run| run.job.api == Api::Host);
    let banner = match report.target.as_str() {
        "cpu" if host_only => {
            "host API: software controller and driver on the CPU; not a hardware figure".into()
        }
        "cpu" => BANNER.to_owned(),
        target => format!("target {target}"),
    };
    format!(
        "warpbell {} · {} · {} {} · namespace {}, {} blocks of {}B\n{banner}\n\
         path: rings {}, data {}, doorbells {}, descriptors {}, controller {}\n",
        report.warpbell,
        device.name,
        device.model,
        device.serial,
        device.nsid,
        device.blocks,
        device.block_size_bytes,
        path.rings,
        path.data,
        path.doorbells,
        path.descriptors,
        path.controller,
    )
}

/// One run: its job, then a line for each direction, latency, costs, and what went wrong.
fn run(run: &Run) -> String {
    let mut text = job(&run.job);
    if run.clock == ClockKind::Virtual {
        text.push_str("  clock: virtual (times are the profile's, not this machine's)\n");
    }
    for (name, traffic) in [("read", &run.read), ("write", &run.write)] {
        if traffic.ios > 0 {
            let _ =
                writeln!(text, "  {name}: {}  {}", self::traffic(traffic), units::seconds(run.runtime_ns));
        }
    }
    if let Some(latency) = &run.lat_ns {
        let _ = writeln!(text, "  {}", self::latency(latency));
    }
    if let (Some(read), Some(write)) = (&run.read_lat_ns, &run.write_lat_ns) {
        let _ = writeln!(text, "  read {}", self::latency(read));
        let _ = writeln!(text, "  write {}", self::latency(write));
    }
    let each = &run.per_io;
    let _ = writeln!(
        text,
        "  per I/O: sq doorbells={:.4}  cq doorbells={:.4}  shadow stores={:.4}  rmw={:.4}  fences={:.4}  polls={:.2}",
        each.sq_doorbells_per_io,
        each.cq_doorbells_per_io,
        each.shadow_stores_per_io,
        each.rmw_per_io,
        each.fences_per_io,
        each.polls_per_io
    );
    let _ = write!(text, "  cpu: total={}", units::seconds(run.cpu_time_ns));
    let _ = write!(text, "  client={}", units::seconds(run.client_cpu_time_ns));
    if let Some(time) = run.controller_cpu_time_ns {
        let _ = write!(text, "  controller={}", units::seconds(time));
    }
    let _ = writeln!(text, "  errors={}  violations={}", run.errors, run.violations);
    text + &trouble(run)
}

fn job(job: &Job) -> String {
    let size = warpbell_workload::ByteSize(job.bs_bytes);
    let mut text =
        format!("{}: bs={size} iodepth={} queues={} api={}", job.rw, job.iodepth, job.queues, job.api);
    if job.api != Api::Host {
        let _ = write!(text, " warps={} sharing={}", job.warps, job.sharing);
    }
    if job.commands_per_io > 1 {
        let _ = write!(text, " (each I/O is {} commands, above MDTS)", job.commands_per_io);
    }
    text.push('\n');
    text
}

fn traffic(traffic: &Traffic) -> String {
    let (iops, bandwidth) = (units::iops(traffic.iops), units::bandwidth(traffic.bytes_per_s));
    format!("IOPS={iops}  BW={bandwidth}  ios={}", traffic.ios)
}

fn latency(latency: &Latency) -> String {
    let us = |ns: f64| format!("{:.2}", ns / 1e3);
    let at = |ns: u64| us(ns as f64);
    format!(
        "lat (us): min={}  avg={}  p50={}  p90={}  p99={}  p99.9={}  p99.99={}  max={}",
        at(latency.min),
        us(latency.mean),
        at(latency.p50),
        at(latency.p90),
        at(latency.p99),
        at(latency.p99_9),
        at(latency.p99_99),
        at(latency.max)
    )
}

/// Violations, failed commands and wrong data; nothing where there are none.
fn trouble(run: &Run) -> String {
    let mut text = String::new();
    for violation in &run.violation_examples {
        let _ = writeln!(text, "  violation: {violation}");
    }
    for failure in &run.failures {
        let lba = failure.lba.map_or(String::new(), |lba| format!(" LBA {lba}"));
        let _ =
            writeln!(text, "  failed: {} namespace {}{lba}: {}", failure.op, failure.nsid, failure.status);
    }
    let Some(verify) = &run.verify else { return text };
    let _ = writeln!(text, "  verify: {} blocks compared, {} wrong", verify.blocks, verify.mismatches);
    for wrong in &verify.examples {
        let _ = writeln!(
            text,
            "  wrong data: namespace {} LBA {}: expected crc32c {}, actual {}",
            wrong.nsid, wrong.lba, wrong.expected, wrong.actual
        );
    }
    text
}

/// The points of a sweep, one line each.
fn table(runs: &[Run]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "rw",
        "bs",
        "iodepth",
        "queues",
        "api",
        "warps",
        "IOPS",
        "MiB/s",
        "MB/s",
        "p50 us",
        "p99 us",
        "p99.99 us",
        "errors",
    ]);
    for run in runs {
        let job = &run.job;
        let us = |pick: fn(&Latency) -> u64| {
            run.lat_ns.as_ref().map_or("-".to_owned(), |latency| format!("{:.2}", pick(latency) as f64 / 1e3))
        };
        table.add_row([
            job.rw.to_string(),
            warpbell_workload::ByteSize(job.bs_bytes).to_string(),
            job.iodepth.to_string(),
            job.queues.to_string(),
            job.api.to_string(),
            if job.api == Api::Host { "-".to_owned() } else { job.warps.to_string() },
            units::iops(run.total.iops),
            format!("{:.0}", run.total.bytes_per_s / f64::from(1 << 20)),
            format!("{:.0}", run.total.bytes_per_s / 1e6),
            us(|latency| latency.p50),
            us(|latency| latency.p99),
            us(|latency| latency.p99_99),
            (run.errors + run.verify.as_ref().map_or(0, |verify| verify.mismatches)).to_string(),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
