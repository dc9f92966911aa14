//! `plan`: what to expect before anything runs.

mod tiles;

use std::path::Path;

use serde::Serialize;
use warpbell_plan::golden::{self, Check};
use warpbell_plan::{Answer, Calibration, Error, Settings, show_value};

use crate::args::{Global, Output, PlanArgs, TraceTo, plan_flag};
use crate::exit::{Ending, FAILED};
use crate::out;
use crate::outputs::{self, Outputs};

/// Name and version of the form of `--golden`.
const GOLDEN_SCHEMA: &str = "warpbell.plan.golden/1";

/// Runs the command.
pub fn run(args: &PlanArgs, global: &Global) -> Result<(), Ending> {
    if args.golden { golden_values(args, global) } else { answer(args, global) }
}

fn answer(args: &PlanArgs, global: &Global) -> Result<(), Ending> {
    let calibration = args.calib.as_deref().map(calibration).transpose()?;
    let settings = Settings {
        preset: args.preset.clone(),
        calibration: calibration.as_ref(),
        given: args.given.clone(),
    };
    let ask = |settings: &Settings<'_>| args.model.answer(settings).map_err(refusal);
    if args.all {
        let answers = (1..=warpbell_plan::SITUATIONS).map(|case| {
            let mut settings = settings.clone();
            settings.given.insert("case".to_owned(), case.into());
            ask(&settings)
        });
        let answers: Vec<Answer> = answers.collect::<Result<_, _>>()?;
        return match global.output() {
            Output::Normal => out::text(&answers.iter().map(Answer::text).collect::<Vec<_>>().join("\n")),
            Output::Json => out::json(&answers),
        };
    }
    let answer = ask(&settings)?;
    refuse_outputs(args)?;
    plot(args, &settings)?;
    if let Some(to) = &args.trace
        && tiles::trace(to, &settings, global)?
    {
        return Ok(());
    }
    match global.output() {
        Output::Normal => out::text(&answer.text()),
        Output::Json => out::json(&answer),
    }
}

/// Refuses to write what this command needs, before anything is written.
fn refuse_outputs(args: &PlanArgs) -> Result<(), Ending> {
    let mut outputs = Outputs::new();
    args.calib.iter().for_each(|path| outputs.keep("the file of --calib", path));
    let trace = match &args.trace {
        Some(TraceTo::File(path, _)) => Some(path),
        _ => None,
    };
    let all = [("--svg", args.svg.as_ref()), ("--csv", args.csv.as_ref()), ("--trace", trace)];
    all.into_iter().try_for_each(|(flag, path)| path.map_or(Ok(()), |path| outputs.claim(flag, path)))
}

/// Writes what `--svg` and `--csv` ask for.
fn plot(args: &PlanArgs, settings: &Settings<'_>) -> Result<(), Ending> {
    if args.svg.is_none() && args.csv.is_none() {
        return Ok(());
    }
    let Some(plot) = args.model.plot(settings).map_err(refusal)? else { return Ok(()) };
    args.svg.iter().try_for_each(|path| outputs::write("--svg", path, &plot.svg()))?;
    args.csv.iter().try_for_each(|path| outputs::write("--csv", path, &plot.csv()))
}

fn calibration(path: &Path) -> Result<Calibration, Ending> {
    let wrong = |error: &dyn std::fmt::Display| Ending::usage(format!("--calib {}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    Calibration::parse(&text).map_err(|error| wrong(&error))
}

/// A refused value, by the flag that it was given with.
fn refusal(error: Error) -> Ending {
    match error {
        Error::Value { name, value, reason } => {
            Ending::usage(format!("--{} '{value}': {reason}", plan_flag(&name)))
        }
        error => Ending::usage(error),
    }
}

#[derive(Serialize)]
struct Golden<'a> {
    schema: &'static str,
    model: &'static str,
    ok: bool,
    checks: &'a [Check],
}

fn golden_values(args: &PlanArgs, global: &Global) -> Result<(), Ending> {
    let checks = golden::checks(args.model).map_err(Ending::failed)?;
    let off = checks.iter().filter(|check| !check.ok).count();
    match global.output() {
        Output::Normal => out::text(&checks.iter().map(line).collect::<String>())?,
        Output::Json => {
            let model = args.model.name;
            out::json(&Golden { schema: GOLDEN_SCHEMA, model, ok: off == 0, checks: &checks })?;
        }
    }
    ending(off, checks.len())
}

/// How `--golden` ends.
fn ending(off: usize, all: usize) -> Result<(), Ending> {
    match off {
        0 => Ok(()),
        _ => Err(Ending::new(FAILED, format!("{off} of {all} golden values are off"))),
    }
}

fn line(check: &Check) -> String {
    let Check { name, result, tolerance, ok, .. } = check;
    let mark = if *ok { "ok  " } else { "OFF " };
    let (expected, found) = (show_value(&check.expected), show_value(&check.found));
    let within = show_value(&(tolerance * 100.0).into());
    format!("{mark} {name}: {result} expected {expected} found {found} tolerance {within} %\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_off_fails_and_is_marked() {
        assert!(ending(0, 3).is_ok());
        assert!(format!("{:?}", ending(1, 3).unwrap_err()).contains("1 of 3 golden values are off"));
        let model = warpbell_plan::find("tlp").unwrap();
        let mut check = golden::checks(model).unwrap().remove(0);
        assert_eq!(line(&check), "ok   4 B: efficiency expected 0.143 found 0.1429 tolerance 0.2 %\n");
        check.ok = false;
        assert!(line(&check).starts_with("OFF "));
    }
}
