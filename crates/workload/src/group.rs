//! What a benchmark of several SSDs reports: a report for each, and the sums.

use serde::Serialize;

use crate::queues::SsdReport;
use crate::recovery::RecoveryReport;
use crate::result::{BenchReport, Run, Traffic};

/// Name and version of the document's form.
pub const GROUP_SCHEMA: &str = "warpbell.bench-group/1";

/// One point of a sweep, over all SSDs, which ran at the same time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupRun {
    /// Which point of a sweep it is, by what the axes vary.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub point: String,
    /// Which of several runs of this point, from 0 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// When it ran among all runs of the command, from 0 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<u32>,
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

impl GroupRun {
    /// The sum of runs of one point and repeat.
    fn of(runs: &[&Run]) -> GroupRun {
        let of = || runs.iter().copied();
        let mut recovery = RecoveryReport::default();
        of().for_each(|run| recovery.add(&run.recovery));
        GroupRun {
            point: runs[0].point.clone(),
            repeat: runs[0].repeat,
            order: runs[0].order,
            recovery,
            errors: of().map(|run| run.errors).sum(),
            total: sum(of().map(|run| &run.total)),
            read: sum(of().map(|run| &run.read)),
            write: sum(of().map(|run| &run.write)),
            ssds: of().flat_map(|run| run.ssds.clone()).collect(),
        }
    }
}

impl GroupReport {
    /// Sums up the reports of SSDs that ran the same points. A run that one of them lacks has no sum: an SSD that broke
    /// has fewer runs than the others, and not the first of theirs.
    pub fn new(devices: Vec<BenchReport>) -> GroupReport {
        let on_all = |run: &Run| {
            let same = |other: &&Run| (&other.point, other.repeat) == (&run.point, run.repeat);
            let found = devices.iter().map(|device| device.runs.iter().find(same));
            found.collect::<Option<Vec<&Run>>>().map(|runs| GroupRun::of(&runs))
        };
        let runs = devices.first().map_or(Vec::new(), |first| first.runs.iter().filter_map(on_all).collect());
        GroupReport {
            schema: GROUP_SCHEMA,
            warpbell: env!("CARGO_PKG_VERSION"),
            partial: devices.iter().any(|device| device.partial),
            violations: devices.iter().map(|device| device.violations).sum(),
            mismatches: devices.iter().map(|device| device.mismatches).sum(),
            runs,
            devices,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::{report, run};

    #[test]
    fn sums_are_of_one_point_and_repeat() {
        let of = |runs: &[(&str, u32, u64)]| {
            let place = |(order, (point, repeat, ios)): (usize, &(&str, u32, u64))| Run {
                point: (*point).to_owned(),
                repeat: Some(*repeat),
                order: Some(order as u32),
                ..run(*ios, 0)
            };
            report(runs.iter().enumerate().map(place).collect())
        };
        let whole = of(&[("iodepth=1", 0, 1), ("iodepth=1", 1, 2), ("iodepth=2", 0, 4), ("iodepth=2", 1, 8)]);
        // This SSD broke in the second run of the first point.
        let broken = of(&[("iodepth=1", 0, 10), ("iodepth=2", 0, 40), ("iodepth=2", 1, 80)]);
        for devices in [vec![whole.clone(), broken.clone()], vec![broken, whole]] {
            let found = GroupReport::new(devices);
            let runs: Vec<_> =
                found.runs.iter().map(|run| (&run.point[..], run.repeat, run.total.ios)).collect();
            let wanted = [("iodepth=1", Some(0), 11), ("iodepth=2", Some(0), 44), ("iodepth=2", Some(1), 88)];
            assert_eq!(runs, wanted);
            let text = serde_json::to_value(&found.runs[2]).unwrap();
            assert_eq!((&text["point"], &text["repeat"]), (&"iodepth=2".into(), &1.into()));
        }
    }
}
