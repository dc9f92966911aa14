//! An experiment several times: medians, and how sure the rate is.

use warpbell::{Ssd, Target};

use super::figures::{ExperimentReport, Figures, Row};
use super::{Experiment, ExperimentOptions, experiment};
use crate::control::Control;
use crate::error::RunError;
use crate::latency::LatencyHistogram;
use crate::result::Skipped;
use crate::statistics::{median, median_interval};

/// Runs an experiment `repeats` times, from its first row to its last each time, so that ways take turns. Repeat *r* has
/// the seed plus *r*: it draws other addresses. What was found before something broke is in the report.
pub fn repeated(
    which: Experiment,
    ssds: &[Ssd],
    target: Target,
    (options, repeats): (&ExperimentOptions, u32),
    control: &Control,
) -> Result<(ExperimentReport, Option<RunError>), RunError> {
    let (first, mut broken) = experiment(which, ssds, target, options, control)?;
    let mut all = vec![first];
    for repeat in 1..repeats {
        if control.stopped() || broken.is_some() {
            break;
        }
        let options = ExperimentOptions { seed: options.seed.wrapping_add(repeat.into()), ..options.clone() };
        match experiment(which, ssds, target, &options, control) {
            Ok((report, wrong)) => {
                all.push(report);
                broken = wrong;
            }
            Err(error) => broken = Some(error),
        }
    }
    let ended = all.len() as u32 == repeats;
    let mut report = together(all);
    report.partial |= !ended;
    Ok((report, broken))
}

/// Several repeats as one report. There is one at least.
fn together(mut all: Vec<ExperimentReport>) -> ExperimentReport {
    if all.len() == 1 {
        return all.swap_remove(0);
    }
    let repeats = all.len();
    let mut rows: Vec<(String, Vec<Row>)> = Vec::new();
    let mut skipped: Vec<Skipped> = Vec::new();
    let partial = all.iter().any(|report| report.partial);
    let mut report = all[0].clone();
    for each in all {
        for row in each.rows {
            match rows.iter_mut().find(|(name, _)| *name == row.name) {
                Some((_, of_it)) => of_it.push(row),
                None => rows.push((row.name.clone(), vec![row])),
            }
        }
        let new: Vec<_> = each
            .skipped
            .into_iter()
            .filter(|one| skipped.iter().all(|known| known.point != one.point))
            .collect();
        skipped.extend(new);
    }
    report.incomplete = rows.iter().filter(|(_, each)| each.len() < repeats).map(lacking(repeats)).collect();
    report.rows = rows.into_iter().map(|(name, each)| median_row(name, each)).collect();
    (report.repeats, report.skipped, report.partial) = (repeats as u32, skipped, partial);
    report
}

/// Says in how many repeats a row is.
fn lacking(repeats: usize) -> impl Fn(&(String, Vec<Row>)) -> Skipped {
    move |(name, each)| Skipped {
        point: name.clone(),
        reason: format!("measured in {} of {repeats} repeats", each.len()),
    }
}

/// The median of each figure over the repeats that have it, and the latencies of all.
fn median_row(name: String, rows: Vec<Row>) -> Row {
    let all = LatencyHistogram::together(rows.iter().filter_map(|row| row.latency_histogram.as_ref()));
    let latency_histogram = all.expect("rows of this program").and_then(|all| all.encoded());
    let each: Vec<Figures> = rows.into_iter().map(|row| row.figures).collect();
    let mut figures = Figures::default();
    for (key, _) in each.iter().flat_map(Figures::iter) {
        if figures.get(key).is_none()
            && let Some(middle) = median(&values(&each, key))
        {
            figures = figures.with(key.to_owned(), middle);
        }
    }
    let iops_interval = median_interval(&values(&each, "iops"));
    Row { name, figures, iops_interval, latency_histogram, each }
}

/// A figure in all repeats that have it.
fn values(each: &[Figures], key: &str) -> Vec<f64> {
    each.iter().filter_map(|figures| figures.get(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::report as bench;
    use crate::stopwatch::ClockKind;

    fn report(rows: &[(&str, f64)], skipped: &[&str]) -> ExperimentReport {
        let row = |(name, iops): &(&str, f64)| {
            Row::new(*name, Figures::default().with("iops", *iops).with("p50_ns", 1e9 / iops))
        };
        let skip = |name: &&str| Skipped { point: (*name).to_owned(), reason: "because".to_owned() };
        ExperimentReport {
            schema: super::super::EXPERIMENT_SCHEMA.to_owned(),
            experiment: "path".to_owned(),
            api: None,
            origin: None,
            target: "cpu".to_owned(),
            device: bench(Vec::new()).device,
            clock: ClockKind::Monotonic,
            iodepth: 1,
            repeats: 1,
            rows: rows.iter().map(row).collect(),
            incomplete: Vec::new(),
            skipped: skipped.iter().map(skip).collect(),
            partial: false,
        }
    }

    #[test]
    fn figures_are_medians_and_what_a_repeat_lacks_is_named() {
        let all = vec![
            report(&[("a", 100.0), ("b", 10.0)], &["c"]),
            report(&[("a", 400.0)], &["c", "b"]),
            report(&[("a", 200.0), ("b", 20.0)], &["c"]),
        ];
        let found = together(all);
        assert_eq!((found.repeats, found.rows.len(), found.partial), (3, 2, false));
        let [a, b] = &found.rows[..] else { panic!("two rows") };
        assert_eq!((a.figures.get("iops"), a.figures.get("p50_ns")), (Some(200.0), Some(5e6)));
        let interval = a.iops_interval.unwrap();
        assert_eq!((interval.low, interval.high, interval.confidence), (100.0, 400.0, 0.75));
        assert_eq!(
            a.each.iter().map(|each| each.get("iops").unwrap()).collect::<Vec<_>>(),
            [100.0, 400.0, 200.0]
        );
        assert_eq!(b.figures.get("iops"), Some(15.0));
        let lacking: Vec<_> = found.incomplete.iter().map(|one| (&one.point[..], &one.reason[..])).collect();
        assert_eq!(lacking, [("b", "measured in 2 of 3 repeats")]);
        assert_eq!(found.skipped.iter().map(|one| &one.point[..]).collect::<Vec<_>>(), ["c", "b"]);
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<ExperimentReport>(&text).unwrap(), found);
    }
}
