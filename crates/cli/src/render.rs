//! Benchmark results as text, in the manner of fio.

mod table;

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use warpbell_workload::resident::ResidentFigures;
use warpbell_workload::trace::TraceSummary;
use warpbell_workload::{
    AccessCost, AgentReport, Api, ArrayReport, BenchReport, ClockKind, Completion, Distribution, GroupReport,
    Job, Latency, PathReport, PointSummary, RecoveryReport, Run, Skipped, Spread, SsdReport, Traffic,
    Trouble,
};

use crate::units;
use table::table;

/// Said above every result of the CPU target.
pub const BANNER: &str = "target cpu: software controller and kernels on the CPU; not a hardware figure";

/// The whole report.
pub fn bench(report: &BenchReport) -> String {
    let mut text = header(report);
    // Of points that ran several times, medians; and each run where something went wrong.
    let several = !report.points.is_empty();
    for run in report.runs.iter().filter(|run| !several || run.partial || !run.clean()) {
        text.push_str(&self::run(run));
        text.push_str(&own_path(report, run));
    }
    if several {
        text.push_str(&medians(&report.points));
    } else if report.runs.len() > 1 {
        text.push_str(&table(&report.runs));
    }
    for Skipped { point, reason } in &report.skipped {
        let _ = writeln!(text, "skipped: {point}: {reason}");
    }
    if report.partial {
        text.push_str("partial: interrupted before its end\n");
    }
    text
}

/// The report of each SSD, then all of them together, a line for each point.
pub fn group(group: &GroupReport) -> String {
    let mut text: String = group.devices.iter().map(|report| bench(report) + "\n").collect();
    let Some(first) = group.devices.first() else { return text };
    let _ = writeln!(text, "all {} devices together:", group.devices.len());
    for (run, sum) in first.runs.iter().zip(&group.runs) {
        let _ = write!(text, "{}", job(&run.job));
        for (name, traffic) in [("read", &sum.read), ("write", &sum.write)] {
            if traffic.ios > 0 {
                let _ = writeln!(text, "  {name}: {}  errors={}", self::traffic(traffic), sum.errors);
            }
        }
    }
    text
}

/// The way of a run, where that of others is another.
fn own_path(report: &BenchReport, run: &Run) -> String {
    match &run.data_path {
        Some(own) if *own != report.data_path => {
            path(own).lines().map(|line| format!("  {line}\n")).collect()
        }
        _ => String::new(),
    }
}

fn header(report: &BenchReport) -> String {
    let (device, path) = (&report.device, &report.data_path);
    let host_only = report.runs.iter().all(|run| run.job.api == Api::Host);
    let banner = banner(&report.target, &path.controller, host_only);
    format!(
        "warpbell {} · {} · {} {} · namespace {}, {} blocks of {}B\n{banner}\n{}",
        report.warpbell,
        device.name,
        device.model,
        device.serial,
        device.nsid,
        device.blocks,
        device.block_size_bytes,
        self::path(path),
    )
}

/// The way that commands and data took: a line, and one for each reason that it was no other.
pub fn path(path: &PathReport) -> String {
    let line = |word: &str, text: &Option<String>| {
        text.as_ref().map(|text| format!("{word}: {text}\n")).unwrap_or_default()
    };
    let model = path.client.as_ref().map(|client| format!("{client}: a model, whose accesses take time"));
    let reasons = line("doorbells not mapped", &path.doorbells_refused)
        + &line("route", &path.route)
        + &line("client", &model);
    format!(
        "path: rings {}, data {}, order: {}, doorbells {}, data pointers {}, controller {}\n{reasons}",
        path.rings, path.data, path.ordering, path.doorbells, path.data_pointer, path.controller,
    )
}

/// Whether a virtual machine emulates the controller that has this model.
pub fn is_emulated(model: &str) -> bool {
    model.starts_with("QEMU")
}

/// What figures of such a one are not of.
pub fn emulated(model: &str) -> String {
    format!("its controller is emulated: {model}")
}

/// What the figures are of, so that nobody takes them for others.
pub fn banner(target: &str, controller: &str, host_only: bool) -> String {
    match (target, controller) {
        ("cpu", "gpu-resident") => {
            "target cpu: GPU-resident controller and kernels on the CPU; not a hardware figure".to_owned()
        }
        (target, "gpu-resident") if target.starts_with("ptx") => {
            format!("target {target}: GPU-resident controller and PTX on the CPU; not a hardware figure")
        }
        (target, "gpu-resident") => {
            format!(
                "target {target}: GPU-resident controller, no data moves; the limit of the device library"
            )
        }
        (_, "software") if host_only => {
            "host API: software controller and driver on the CPU; not a hardware figure".to_owned()
        }
        ("cpu", "software") => BANNER.to_owned(),
        ("cpu", controller) if host_only => format!("host API: driver on the CPU, {controller} controller"),
        ("cpu", controller) => {
            format!("target cpu: kernels on the CPU, {controller} controller; not a figure of a GPU")
        }
        (target, "software") if !host_only && target.starts_with("ptx") => {
            format!(
                "target {target}: software controller and PTX on the CPU; not a figure of an SSD or a GPU"
            )
        }
        (target, controller) if !host_only && target.starts_with("ptx") => {
            format!("target {target}: PTX on the CPU, {controller} controller; not a figure of a GPU")
        }
        (target, "software") if !host_only => {
            format!("target {target}: software controller on the CPU; not a figure of an SSD")
        }
        (_, controller) if host_only => format!("host API: driver on the CPU, {controller} controller"),
        (target, controller) => format!("target {target}, {controller} controller"),
    }
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
    let _ = writeln!(text, "  per I/O: {}", costs(run));
    text.push_str(&faults(run));
    let _ = write!(text, "  cpu: total={}", units::seconds(run.cpu_time_ns));
    if let Some(time) = run.client_cpu_time_ns {
        let _ = write!(text, "  client={}", units::seconds(time));
    }
    if let Some(time) = run.controller_cpu_time_ns {
        let _ = write!(text, "  controller={}", units::seconds(time));
    }
    let _ = writeln!(text, "  errors={}  violations={}", run.errors, run.violations);
    text.push_str(&replayed(run));
    text.push_str(&recovery(&run.recovery));
    if let Some(agents) = &run.agents {
        text.push_str(&self::agents(agents));
    }
    if let Some(report) = &run.array {
        text.push_str(&array(report));
    }
    if let Some(figures) = &run.resident {
        text.push_str(&resident(figures));
    }
    if let Some(trace) = &run.trace {
        text.push_str(&self::trace(trace));
    }
    text + &trouble(run)
}

/// What the soft controllers were told to do wrong, and did.
fn faults(run: &Run) -> String {
    let line = |ssd: &SsdReport| {
        let each = ssd.faults.iter().map(|(kind, count)| format!("{kind}={count}"));
        format!("  faults injected: {}\n", each.collect::<Vec<_>>().join("  "))
    };
    run.ssds.iter().filter(|ssd| !ssd.faults.is_empty()).map(line).collect()
}

/// What an I/O cost, or why nobody knows.
fn costs(run: &Run) -> String {
    let each = &run.per_io;
    let named = [
        ("sq doorbells", each.sq_doorbells_per_io, 4),
        ("cq doorbells", each.cq_doorbells_per_io, 4),
        ("shadow stores", each.shadow_stores_per_io, 4),
        ("rmw", each.rmw_per_io, 4),
        ("fences", each.fences_per_io, 4),
        ("polls", each.polls_per_io, 2),
        ("register reads", each.register_reads_per_io, 4),
    ];
    let counted = named.iter().map(|(name, count, digits)| Some(format!("{name}={:.*}", digits, (*count)?)));
    match counted.collect::<Option<Vec<_>>>() {
        Some(counted) => counted.join("  "),
        None => format!("not counted: {}", run.counters_missing.as_deref().unwrap_or("nothing ran")),
    }
}

/// What went wrong on the way, and what was done about it; nothing where nothing did.
fn recovery(report: &RecoveryReport) -> String {
    if report.is_quiet() {
        return String::new();
    }
    let Trouble { timed_out, aborted, not_submitted, retried, recovered, queue_losses, late_completions } =
        report.clients;
    let mut text = format!(
        "  trouble: timed out={timed_out} aborted={aborted} not submitted={not_submitted} retried={retried} \
         recovered={recovered} queue losses={queue_losses} late completions={late_completions}\n"
    );
    let _ = writeln!(
        text,
        "  recovery: aborts={} (acknowledged={} not found={} unanswered={}) \
         queues lost={} replaced={} dead={} late doorbells={} resets={} (failed={}){}",
        report.aborts_sent,
        report.aborts_acknowledged,
        report.aborts_not_found,
        report.aborts_unanswered,
        report.queues_lost,
        report.queues_replaced,
        report.queues_dead,
        report.late_doorbells,
        report.resets,
        report.resets_failed,
        if report.ssds_lost > 0 { "; the SSD was given up" } else { "" }
    );
    text
}

/// What a replay has done beside I/Os; nothing where it has not.
fn replayed(run: &Run) -> String {
    let [flushes, trims, blocks] =
        [run.flushes, run.trims, run.blocks_trimmed].map(Option::unwrap_or_default);
    match flushes + trims {
        0 => String::new(),
        _ => format!("  replay: flushes={flushes} trims={trims} blocks trimmed={blocks}\n"),
    }
}

fn trace(trace: &TraceSummary) -> String {
    format!(
        "  trace: events={} overwritten={}  commands per doorbell={:.1} (at most {})  completions per reap={:.1}\n",
        trace.events,
        trace.overwritten_events,
        trace.commands_per_doorbell,
        trace.largest_batch,
        trace.completions_per_reap
    )
}

fn agents(report: &AgentReport) -> String {
    let AgentReport { requests, batches, refused, compute_polls } = *report;
    let each = requests as f64 / batches.max(1) as f64;
    let polls = compute_polls.map_or("not counted".to_owned(), |polls| polls.to_string());
    format!(
        "  agents: requests={requests} batches={batches} ({each:.1} requests each) refused={refused}  \
         polls by compute warps={polls}\n"
    )
}

fn array(report: &ArrayReport) -> String {
    let ArrayReport { hits, misses, write_backs, hit_rate, commands_per_access, .. } = *report;
    format!(
        "  cache: hit rate={:.1} %  hits={hits} misses={misses} write-backs={write_backs}  commands per \
         access={commands_per_access:.4}\n  access: {}\n  plain memory: {}\n",
        hit_rate * 100.0,
        access(&report.cached),
        access(&report.plain)
    )
}

/// What an access cost, as far as anybody counted.
fn access(cost: &AccessCost) -> String {
    let mut text = format!("{:.2} ns", cost.ns_per_access);
    let named = [
        ("cpu ns", cost.cpu_ns_per_access),
        ("rmw", cost.rmw_per_access),
        ("fences", cost.fences_per_access),
        ("loads", cost.loads_per_access),
        ("collectives", cost.collectives_per_access),
    ];
    for (name, count) in named.into_iter().filter_map(|(name, count)| Some((name, count?))) {
        let _ = write!(text, "  {name}={count:.3}");
    }
    text
}

fn resident(figures: &ResidentFigures) -> String {
    let mut text = format!(
        "  resident: wait={} batch={} delay={}ns controller warps={} warps per block={}\n",
        figures.wait, figures.batch, figures.delay_ns, figures.controller_warps, figures.warps_per_block
    );
    if let Some(places) = &figures.multiprocessors {
        let _ = writeln!(
            text,
            "  multiprocessors: clients={} controller={} both={}  IOPS per client multiprocessor={}",
            places.client,
            places.controller,
            places.mixed,
            units::iops(places.iops_per_client)
        );
    }
    text
}

fn job(job: &Job) -> String {
    let size = warpbell_workload::ByteSize(job.bs_bytes);
    if let Some(replay) = &job.replay {
        return format!(
            "replay of {}: commands={} timing={} iodepth={} queues={} warps={} sharing={}\n",
            replay.file, replay.commands, replay.timing, job.iodepth, job.queues, job.warps, job.sharing
        );
    }
    let (rw, iodepth, queues, api) = (job.rw, job.iodepth, job.queues, job.api);
    let mut text = format!("{rw}: bs={size} iodepth={iodepth} queues={queues} api={api}");
    add_choices(&mut text, job);
    if job.commands_per_io > 1 {
        let _ = write!(text, " (each I/O is {} commands, above MDTS)", job.commands_per_io);
    }
    if let Some(file) = &job.file {
        let _ = write!(text, " file={} extents={}", file.name, file.extents);
        if file.ios_left_out > 0 {
            let ios = file.ios + file.ios_left_out;
            let _ = write!(text, " ({} of {ios} I/Os left out: not in one extent)", file.ios_left_out);
        }
    }
    text.push('\n');
    text
}

/// What differs from the defaults, or goes with one way of submitting.
fn add_choices(text: &mut String, job: &Job) {
    if job.random_distribution != Distribution::Random {
        let _ = write!(text, " random-distribution={}", job.random_distribution);
    }
    if job.completion != Completion::Poll {
        let _ = write!(text, " completion={}", job.completion);
    }
    if let Some(wanted) = job.coalescing {
        let _ = write!(text, " coalescing={wanted}");
    }
    if job.api != Api::Host {
        let _ = write!(text, " warps={} sharing={}", job.warps, job.sharing);
    }
    if let Some(agents) = job.agents {
        let _ = write!(text, " agents={agents}");
    }
    if let Some(block) = job.block {
        let _ = write!(text, " block={block} submitters={}", job.submitters(block));
    }
    if let Some(shape) = &job.array {
        let _ = write!(
            text,
            " cache={} policy={} pages={} spread={}",
            warpbell_workload::ByteSize(shape.cache_bytes),
            shape.policy,
            shape.pages,
            shape.spread
        );
    }
    if let Some(protocol) = job.protocol {
        let _ = write!(text, " protocol={protocol}");
    }
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

/// The points that ran several times, one line each.
fn medians(points: &[PointSummary]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
        .set_header(["point", "runs", "IOPS", "from", "to", "sure", "MiB/s", "p50 us", "p99 us", "p99.9 us"]);
    for point in points {
        let us = |spread: &Option<Spread>| {
            spread.as_ref().map_or("-".to_owned(), |spread| format!("{:.2}", spread.median / 1e3))
        };
        let interval = point.iops.interval;
        table.add_row([
            if point.point.is_empty() { "-".to_owned() } else { point.point.clone() },
            point.runs.to_string(),
            units::iops(point.iops.median),
            units::iops(interval.low),
            units::iops(interval.high),
            format!("{:.1}%", interval.confidence * 100.0),
            units::mib_per_s(point.bytes_per_s.median),
            us(&point.p50_ns),
            us(&point.p99_ns),
            us(&point.p99_9_ns),
        ]);
    }
    lines(table, 1)
}

/// The lines of a table: the first columns are words, the others numbers.
fn lines(mut table: Table, words: usize) -> String {
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banners_name_what_was_software() {
        assert_eq!(banner("cpu", "software", false), BANNER);
        assert!(banner("cpu", "software", true).contains("not a hardware figure"));
        assert_eq!(banner("cpu", "pcie", true), "host API: driver on the CPU, pcie controller");
        assert!(banner("cpu", "vfio-user", false).ends_with("vfio-user controller; not a figure of a GPU"));
        assert_eq!(banner("cuda:0", "pcie", false), "target cuda:0, pcie controller");
        assert!(banner("cuda:0", "software", false).ends_with("not a figure of an SSD"));
        assert!(banner("ptx (PTX machine)", "software", false).ends_with("not a figure of an SSD or a GPU"));
        assert!(banner("ptx (PTX machine)", "pcie", false).ends_with("not a figure of a GPU"));
        assert!(banner("cuda:0", "software", true).starts_with("host API"));
        for target in ["cpu", "ptx (PTX machine)"] {
            assert!(banner(target, "gpu-resident", false).contains("not a hardware figure"), "{target}");
        }
    }
}
