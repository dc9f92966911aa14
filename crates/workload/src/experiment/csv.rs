//! Rows of an experiment for spreadsheets.

use std::fmt::Write as _;

use super::figures::{ExperimentReport, Figures};
use crate::points::cell;
use crate::stopwatch::ClockKind;

/// One line for each way and repeat, under a line of names. What a way has no figure of is empty.
pub fn experiment_csv(report: &ExperimentReport) -> String {
    let keys = report.keys();
    let mut text = "experiment,device,target,clock,iodepth,way,repeat".to_owned();
    for key in &keys {
        let _ = write!(text, ",{key}");
    }
    text.push('\n');
    for row in &report.rows {
        let once = [row.figures.clone()];
        let (each, several) = if row.each.is_empty() { (&once[..], false) } else { (&row.each[..], true) };
        for (repeat, figures) in each.iter().enumerate() {
            let repeat = if several { repeat.to_string() } else { String::new() };
            line(&mut text, report, &[&row.name, &repeat], (&keys, figures));
        }
    }
    text
}

fn line(text: &mut String, report: &ExperimentReport, own: &[&str], (keys, figures): (&[&str], &Figures)) {
    let clock = match report.clock {
        ClockKind::Monotonic => "monotonic",
        ClockKind::Virtual => "virtual",
    };
    let depth = report.iodepth.to_string();
    let of_all = [&report.experiment, &report.device.name, &report.target, clock, &depth];
    let cells = of_all.into_iter().chain(own.iter().copied()).map(cell);
    let values = keys.iter().map(|key| figures.get(key).map_or(String::new(), |value| value.to_string()));
    let _ = writeln!(text, "{}", cells.chain(values).collect::<Vec<_>>().join(","));
}
