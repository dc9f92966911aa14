//! `tiles`: loading tiles while others are computed on: buffers, stalls, and how long a tile stays.

mod schedule;

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::model::{Outcome, Preset, Values, model};
use crate::number::shown;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series};
use schedule::Steps;
pub use schedule::{TileSchedule, TileStep};

inputs! {
    tiles: u64 = 8, Kind::Count(100_000), "", "tiles";
    load_us: f64 = 4.0, Kind::Positive, "us", "loading a tile", measurable;
    compute_us: f64 = 6.0, Kind::Positive, "us", "computing on a tile", measurable;
    buffers: u64 = 2, Kind::Count(1024), "", "tiles that there is room for at a time";
    jitter_us: f64 = 0.0, Kind::Number, "us", "standard deviation of loading", measurable;
    reuse: u64 = 1, Kind::Count(1 << 32), "", "operations on a tile while it is there";
    tile_bytes: u64 = 64 << 10, Kind::Bytes, "B", "bytes of a tile";
    sram_bytes: u64 = 227 << 10, Kind::Bytes, "B", "memory for tiles, such as the shared memory of a block";
    seed: u64 = 1, Kind::Whole(u64::MAX), "", "seed of the jitter";
}

const FORMULA: &[&str] = &[
    "one buffer: T = N * (load + compute)",
    "two or more: T = load + (N - 1) * max(load, compute) + compute, stall = (N - 1) * max(0, load - compute)",
    "with jitter: simulated, a load starts when a buffer is free and the load before it has ended",
    "loading for each operation = load / reuse",
];
const SURE: (Sure, &str) =
    (Sure::Model, "model M13; times of loads and computations are inputs, to be measured");
const LIMITS: &[&str] = &[
    "one load at a time, at a constant speed but for the jitter",
    "the simulated jitter is a normal deviation, cut off at zero; real tails are longer",
];
const PRESETS: &[Preset] = &[
    Preset {
        name: "load-bound",
        meaning: "loading takes longer than computing",
        values: r#"{"tiles": 8, "load_us": 6, "compute_us": 4}"#,
    },
    Preset {
        name: "balanced",
        meaning: "both take the same: double buffering nearly doubles the speed",
        values: r#"{"tiles": 16, "load_us": 5, "compute_us": 5}"#,
    },
    Preset {
        name: "systolic",
        meaning: "an array that takes a tile each 5 us, loads that vary, four buffers",
        values: r#"{"tiles": 1000, "load_us": 4.5, "compute_us": 5, "jitter_us": 1, "buffers": 4, "tile_bytes": 32768}"#,
    },
];
model!("tiles", "what do double buffering and longer residency of tiles gain?", presets: PRESETS, plot: Some(plot));

/// What a run of all tiles took, and how long the computation waited after its first tile.
struct Run {
    time_us: f64,
    stall_us: f64,
}

impl Input {
    fn check(&self) -> Result<(), Error> {
        let (needed, there) = (self.buffers as f64 * self.tile_bytes as f64, self.sram_bytes);
        if needed > there as f64 {
            let reason = format!(
                "{} buffers of {} bytes do not fit into {there} bytes",
                self.buffers, self.tile_bytes
            );
            return Err(Error::value("buffers", self.buffers, reason));
        }
        Ok(())
    }

    fn serial_us(&self) -> f64 {
        self.tiles as f64 * (self.load_us + self.compute_us)
    }

    fn buffered_us(&self) -> f64 {
        match self.buffers {
            1 => self.serial_us(),
            _ => self.load_us + (self.tiles - 1) as f64 * self.load_us.max(self.compute_us) + self.compute_us,
        }
    }

    /// Tile by tile.
    fn simulated(&self) -> Run {
        let mut run = Run { time_us: 0.0, stall_us: 0.0 };
        for step in Steps::of(self) {
            if step.tile > 0 {
                run.stall_us += step.compute_start_us - run.time_us;
            }
            run.time_us = step.compute_end_us;
        }
        run
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    input.check()?;
    let (serial, buffered, run) = (input.serial_us(), input.buffered_us(), input.simulated());
    let (decides, each) = match (input.buffers, input.load_us > input.compute_us) {
        (1, _) => ("a single buffer: loads and computations take turns", input.load_us + input.compute_us),
        (_, true) => ("loading", input.load_us),
        (_, false) => ("computing", input.compute_us),
    };
    Ok(Outcome::new(
        format!("{decides}: {} us a tile", shown(each)),
        vec![
            Figure::new("serial_us", serial, "us", "with one buffer"),
            Figure::new("buffered_us", buffered, "us", "with these buffers, without jitter"),
            Figure::new("speedup", serial / buffered, "", "of buffering; 2 at most"),
            Figure::new("stall_us", run.stall_us, "us", "simulated: waiting for tiles, after the first"),
            Figure::new("simulated_us", run.time_us, "us", "simulated, with jitter"),
            Figure::new(
                "load_per_operation_us",
                input.load_us / input.reuse as f64,
                "us",
                "loading for each operation",
            ),
            Figure::new("ring_bytes", input.buffers * input.tile_bytes, "B", "memory of the buffers"),
        ],
    ))
}

fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let line = |jitter_us: f64| {
        let at = |buffers: f64| {
            let (buffers, tiles) = (buffers as u64, base.tiles.max(1000));
            let input = Input { buffers, jitter_us, tiles, ..base.clone() };
            input.simulated().time_us / tiles as f64
        };
        Series::of(format!("jitter of {jitter_us} us"), (1..=8).map(f64::from), at)
    };
    let lines = [0.0, base.load_us / 4.0, base.load_us].map(line).to_vec();
    Ok(Plot::single("Time of a tile", Axis::linear("buffers"), Axis::linear("us"), lines))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::Settings;

    #[test]
    fn the_simulation_is_the_formula_where_nothing_varies() {
        for (load_us, compute_us) in [(4.0, 6.0), (6.0, 4.0), (5.0, 5.0), (1.0, 100.0)] {
            for tiles in 1..20 {
                for buffers in 1..4 {
                    let input = Input { tiles, load_us, compute_us, buffers, ..Input::default() };
                    let run = input.simulated();
                    assert!((run.time_us - input.buffered_us()).abs() < 1e-6, "{input:?}");
                    let stall = (tiles - 1) as f64 * (load_us - compute_us).max(0.0);
                    assert!(buffers == 1 || (run.stall_us - stall).abs() < 1e-6, "{input:?}");
                }
            }
        }
    }

    #[test]
    fn more_buffers_ride_out_more_jitter_from_the_same_seed() {
        let at = |buffers| {
            let input = Input { tiles: 2000, jitter_us: 2.0, buffers, ..Input::default() };
            input.simulated().time_us
        };
        assert!(at(8) < at(2) && at(2) < at(1));
        assert_eq!(at(2), at(2));
    }

    #[test]
    fn a_schedule_ends_when_the_model_says_and_never_loads_over_a_tile_in_use() {
        for (preset, jitter_us) in [("load-bound", 0.0), ("balanced", 0.0), ("systolic", 1.0)] {
            let settings = Settings { preset: Some(preset.to_owned()), ..Settings::default() };
            let (schedule, answer) = (TileSchedule::of(&settings).unwrap(), MODEL.answer(&settings).unwrap());
            assert_eq!(answer.result("simulated_us"), Some(&schedule.end_us.into()));
            assert_eq!(answer.result("stall_us"), Some(&schedule.stall_us.into()));
            let formula = answer.result("buffered_us").and_then(Value::as_f64).unwrap();
            assert!(jitter_us > 0.0 || (schedule.end_us - formula).abs() < 1e-9, "{preset}");
            let last = schedule.tiles.last().unwrap();
            assert_eq!((last.compute_end_us, last.tile + 1), (schedule.end_us, schedule.tiles.len() as u64));
            for (before, after) in schedule.tiles.iter().zip(&schedule.tiles[schedule.buffers as usize..]) {
                assert_eq!(before.buffer, after.buffer);
                assert!(after.load_start_us >= before.compute_end_us);
            }
            for pair in schedule.tiles.windows(2) {
                assert!(pair[1].load_start_us >= pair[0].load_end_us);
                assert!(pair[1].compute_start_us >= pair[0].compute_end_us.max(pair[1].load_end_us));
                // The next tile is on its way before this one is done.
                assert!(pair[1].load_start_us < pair[0].compute_end_us);
            }
            assert_eq!(schedule, TileSchedule::of(&settings).unwrap());
        }
    }

    #[test]
    fn a_ring_that_does_not_fit_is_refused() {
        let error = answer(&Input { buffers: 4, ..Input::default() }).unwrap_err().to_string();
        assert_eq!(error, "buffers '4': 4 buffers of 65536 bytes do not fit into 232448 bytes");
    }
}
