//! The runs of a sweep, one line each.

use comfy_table::{Table, presets};
use warpbell_workload::{Api, Latency, Run};

use super::lines;
use crate::units;

/// The points of a sweep, one line each.
pub(super) fn table(runs: &[Run]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let named = runs.iter().any(|run| names_more(&run.point));
    let point = |text: &str| named.then(|| text.to_owned());
    table.set_header(point("point").into_iter().chain(COLUMNS.map(str::to_owned)));
    for run in runs {
        table.add_row(point(&run.point).into_iter().chain(cells(run)));
    }
    lines(table, usize::from(named))
}

/// Columns of the table of a sweep: of the job, then what came of it.
const COLUMNS: [&str; 13] = [
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
];

/// Whether an axis varies what has no column.
fn names_more(point: &str) -> bool {
    let shown = ["rw", "bs", "iodepth", "queues", "api", "warps", "protocol"];
    let mut axes = point.split(' ').filter_map(|pair| pair.split_once('='));
    axes.any(|(name, _)| !shown.contains(&name))
}

fn cells(run: &Run) -> [String; COLUMNS.len()] {
    let job = &run.job;
    let us = |pick: fn(&Latency) -> u64| {
        run.lat_ns.as_ref().map_or("-".to_owned(), |latency| format!("{:.2}", pick(latency) as f64 / 1e3))
    };
    [
        job.rw.to_string(),
        warpbell_workload::ByteSize(job.bs_bytes).to_string(),
        job.iodepth.to_string(),
        job.queues.to_string(),
        job.protocol.map_or_else(|| job.api.to_string(), |protocol| format!("{} {protocol}", job.api)),
        if job.api == Api::Host { "-".to_owned() } else { job.warps.to_string() },
        units::iops(run.total.iops),
        format!("{:.0}", run.total.bytes_per_s / f64::from(1 << 20)),
        format!("{:.0}", run.total.bytes_per_s / 1e6),
        us(|latency| latency.p50),
        us(|latency| latency.p99),
        us(|latency| latency.p99_99),
        (run.errors + run.verify.as_ref().map_or(0, |verify| verify.mismatches)).to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_stand_there_where_an_axis_has_no_column() {
        for point in ["", "bs=512 iodepth=4", "protocol=turns"] {
            assert!(!names_more(point), "{point}");
        }
        for point in ["dbbuf=on", "bs=512 rings=sq=cmb+cq=hbm", "random-distribution=zipf:1.2"] {
            assert!(names_more(point), "{point}");
        }
    }
}
