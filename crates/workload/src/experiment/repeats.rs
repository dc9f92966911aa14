//! An experiment several times: medians, and how sure the rate is.

use warpbell::{Ssd, Target};

use super::figures::{EXPECTED, ExperimentReport, Figures, Row, values};
use super::models::{self, Model};
use super::{Experiment, ExperimentOptions, once};
use crate::control::Control;
use crate::error::RunError;
use crate::latency::LatencyHistogram;
use crate::result::Skipped;
use crate::statistics::{median, median_interval};

/// Runs an experiment `repeats` times, with the ways in another order each time, so that they take turns. Repeat *r* has the
/// seed plus *r*: it draws other addresses. What was found before something broke is in the report.
pub fn repeated(
    which: Experiment,
    ssds: &[Ssd],
    target: Target,
    (options, repeats): (&ExperimentOptions, u32),
    control: &Control,
) -> Result<(ExperimentReport, Option<RunError>), RunError> {
    let first = once(which, ssds, target, (options, 0, repeats), control)?;
    let mut broken = first.broken;
    let (mut all, mut models) = (vec![first.report], first.models);
    for repeat in 1..repeats {
        if control.stopped() || broken.is_some() {
            break;
        }
        let options = ExperimentOptions { seed: options.seed.wrapping_add(repeat.into()), ..options.clone() };
        match once(which, ssds, target, (&options, repeat, repeats), control) {
            Ok(next) => {
                all.push(next.report);
                let new = |model: &Model| models.iter().all(|known| known.row != model.row);
                let new: Vec<Model> = next.models.into_iter().filter(new).collect();
                models.extend(new);
                broken = next.broken;
            }
            Err(error) => broken = Some(error),
        }
    }
    let ended = all.len() as u32 == repeats;
    let mut report = together(all, &models);
    report.partial |= !ended;
    Ok((report, broken))
}

/// Several repeats as one report. There is one at least.
fn together(mut all: Vec<ExperimentReport>, models: &[Model]) -> ExperimentReport {
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
    // Of medians, too: what one repeat measured of another row says less.
    models::apply(models, &mut report.rows);
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
    let order = rows.iter().flat_map(|row| row.order.clone()).collect();
    let each: Vec<Figures> = rows.into_iter().map(|row| row.figures).collect();
    let mut figures = Figures::default();
    for (key, _) in each.iter().flat_map(Figures::iter) {
        if figures.get(key).is_none()
            && let Some(middle) = median(&values(&each, key))
        {
            figures = figures.with(key.to_owned(), middle);
        }
    }
    let interval = |key: &str| median_interval(&values(&each, key));
    // No interval is of what a model says.
    let measured = figures.iter().filter(|(key, _)| !key.starts_with(EXPECTED));
    let intervals = measured.filter_map(|(key, _)| Some((key.to_owned(), interval(key)?))).collect();
    Row { name, iops_interval: interval("iops"), intervals, figures, latency_histogram, order, each }
}

#[cfg(test)]
mod tests {
    use super::super::models::Known;
    use super::*;
    use crate::result::tests::report as bench;
    use crate::stopwatch::ClockKind;

    fn report(rows: &[(&str, f64)], skipped: &[&str]) -> ExperimentReport {
        let row = |(order, (name, iops)): (usize, &(&str, f64))| {
            let figures = Figures::default().with("iops", *iops).with("p50_ns", 1e9 / iops);
            Row { order: vec![order as u32], ..Row::new(*name, figures) }
        };
        let skip = |name: &&str| Skipped { point: (*name).to_owned(), reason: "because".to_owned() };
        ExperimentReport {
            schema: super::super::EXPERIMENT_SCHEMA.to_owned(),
            experiment: "path".to_owned(),
            api: None,
            warpbell: "1".to_owned(),
            origin: None,
            target: "cpu".to_owned(),
            device: bench(Vec::new()).device,
            devices: vec![bench(Vec::new()).device],
            data_paths: Vec::new(),
            clock: ClockKind::Monotonic,
            iodepth: 1,
            repeats: 1,
            rows: rows.iter().enumerate().map(row).collect(),
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
        let says =
            |known: &Known<'_>| Some(Figures::default().with("expected_iops", known.get("b", "iops")? * 2.0));
        let found = together(all, &[Model { row: "a".to_owned(), says: Box::new(says) }]);
        assert_eq!((found.repeats, found.rows.len(), found.partial), (3, 2, false));
        let [a, b] = &found.rows[..] else { panic!("two rows") };
        assert_eq!((a.figures.get("iops"), a.figures.get("p50_ns")), (Some(200.0), Some(5e6)));
        assert_eq!(a.figures.get("expected_iops"), Some(30.0), "of the medians");
        let latency = a.intervals["p50_ns"];
        assert_eq!((latency.low, latency.high, latency.confidence), (2.5e6, 1e7, 0.75));
        assert!(!a.intervals.contains_key("expected_iops"));
        assert_eq!((&a.order[..], &b.order[..]), (&[0, 0, 0][..], &[1, 1][..]));
        let interval = a.iops_interval.unwrap();
        assert_eq!(a.intervals["iops"], interval);
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
