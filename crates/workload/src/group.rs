//! What a benchmark of several SSDs reports: a report for each, and the sums.

use serde::Serialize;

use crate::queues::SsdReport;
use crate::recovery::RecoveryReport;
use crate::result::{BenchReport, Traffic};

/// Name and version of the document's form.
pub const GROUP_SCHEMA: &str = "warpbell.bench-group/1";

/// One point of a sweep, over all SSDs, which ran at the same time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupRun {
    /// I/Os that did not succeed.
    pub errors: u64,
    /// What went wrong on the way, and what recovery did.
    pub recovery: RecoveryReport,
    /// Both directions together.
    #[serde(flatten)]
    pub total: Traffic,
    /// Reads.
    pub read: Traffic,
    /// Writes.
    pub write: Traffic,
    /// What was counted on each SSD.
    pub ssds: Vec<SsdReport>,
}

/// Several SSDs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupReport {
    /// [`GROUP_SCHEMA`].
    pub schema: &'static str,
    /// Version of Warpbell.
    pub warpbell: &'static str,
    /// Whether the command was interrupted.
    pub partial: bool,
    /// Violations of the protocol.
    pub violations: u64,
    /// Blocks with wrong data.
    pub mismatches: u64,
    /// Each point of the sweep, the SSDs summed up.
    pub runs: Vec<GroupRun>,
    /// Each SSD.
    pub devices: Vec<BenchReport>,
}

/// Counts and rates of SSDs that worked at the same time.
fn sum<'a>(each: impl Iterator<Item = &'a Traffic>) -> Traffic {
    each.fold(Traffic::default(), |sum, one| Traffic {
        ios: sum.ios + one.ios,
        bytes: sum.bytes + one.bytes,
        iops: sum.iops + one.iops,
        bytes_per_s: sum.bytes_per_s + one.bytes_per_s,
    })
}

impl GroupReport {
    /// Sums up the reports of SSDs that ran the same points.
    pub fn new(devices: Vec<BenchReport>) -> GroupReport {
        let points = devices.iter().map(|device| device.runs.len()).min().unwrap_or(0);
        let run = |point: usize| {
            let of = || devices.iter().map(move |device| &device.runs[point]);
            let mut recovery = RecoveryReport::default();
            of().for_each(|run| recovery.add(&run.recovery));
            GroupRun {
                recovery,
                errors: of().map(|run| run.errors).sum(),
                total: sum(of().map(|run| &run.total)),
                read: sum(of().map(|run| &run.read)),
                write: sum(of().map(|run| &run.write)),
                ssds: of().flat_map(|run| run.ssds.clone()).collect(),
            }
        };
        GroupReport {
            schema: GROUP_SCHEMA,
            warpbell: env!("CARGO_PKG_VERSION"),
            partial: devices.iter().any(|device| device.partial),
            violations: devices.iter().map(|device| device.violations).sum(),
            mismatches: devices.iter().map(|device| device.mismatches).sum(),
            runs: (0..points).map(run).collect(),
            devices,
        }
    }
}
