//! `loader`: what faster loading of data makes of a training run.

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::model::{Outcome, Preset, Values, model};
use crate::models::percent;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series};

inputs! {
    load_share: f64 = 0.8, Kind::Share, "", "share of the time that is loading now", measurable;
    gain: f64 = 2.5, Kind::Positive, "", "how many times faster loading becomes";
    overlap: String = "none".into(), Kind::Choice(&["none", "full"]), "", "full: afterwards, loading and computing go on at the same time";
    days: f64 = 4.0, Kind::Positive, "days", "how long the run takes now";
    target_days: f64 = 1.5, Kind::Positive, "days", "how long it should take";
}

const FORMULA: &[&str] = &[
    "time after = (1 - f) + f / g (no overlap), max(1 - f, f / g) (full overlap), as a share of now",
    "share that loading must have for the target = (1 - target / now) / (1 - 1 / g)",
];
const SURE: (Sure, &str) = (
    Sure::Bound,
    "model M16b, Amdahl's law; 80 % loading is a figure of an article, for which no source was found",
);
const LIMITS: &[&str] =
    &["the GPU does nothing else than compute and wait for data; preprocessing counts as loading"];
const PRESETS: &[Preset] = &[
    Preset { name: "s4-low", meaning: "an article's lower gain, 2.5", values: r#"{"gain": 2.5}"# },
    Preset { name: "s4-high", meaning: "its upper gain, 4", values: r#"{"gain": 4}"# },
];
model!("loader", "what does faster loading make of a training run?", presets: PRESETS, plot: Some(plot));

impl Input {
    /// The time afterwards, as a share of the time now.
    fn after(&self) -> f64 {
        let (compute, load) = (1.0 - self.load_share, self.load_share / self.gain);
        if self.overlap == "full" { compute.max(load) } else { compute + load }
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    let after = input.after();
    let (compute, load) = (1.0 - input.load_share, input.load_share / input.gain);
    let slower = if load > compute { "loading, still" } else { "computing, now" };
    // A gain of one saves nothing, whatever the share.
    let needed = (1.0 - input.target_days / input.days) / (1.0 - 1.0 / input.gain);
    let bound = format!("{slower}: {} of the time was computing, which no loader shortens", percent(compute));
    Ok(Outcome::new(
        bound,
        vec![
            Figure::new("speedup", 1.0 / after, "", "of the whole run"),
            Figure::new("days_after", input.days * after, "days", "how long the run takes then"),
            Figure::new("utilisation_before", compute, "", "share of the time that the GPU computes now"),
            Figure::new("utilisation_after", compute / after, "", "and then"),
            Figure::new(
                "needed_load_share",
                needed,
                "",
                "share of loading that the target needs; above 1: impossible",
            ),
        ],
    ))
}

fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let line = |load_share: f64| {
        let at = |gain: f64| 1.0 / Input { gain, load_share, ..base.clone() }.after();
        Series::of(
            format!("{} of the time is loading", percent(load_share)),
            (2..=20).map(|half| f64::from(half) / 2.0),
            at,
        )
    };
    let lines = [0.2, 0.5, 0.8, 0.95].map(line).to_vec();
    Ok(Plot::single(
        "Speed-up of a run",
        Axis::linear("loading becomes faster by this factor"),
        Axis::linear("speed-up"),
        lines,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_gain_beats_the_share_that_is_left() {
        for gain in [1.0, 2.0, 10.0, 1e9] {
            let input = Input { gain, ..Input::default() };
            assert!(1.0 / input.after() <= 5.0 + 1e-9);
            assert!(Input { overlap: "full".into(), ..input.clone() }.after() <= input.after());
        }
        assert_eq!(Input { gain: 1.0, ..Input::default() }.after(), 1.0);
    }
}
