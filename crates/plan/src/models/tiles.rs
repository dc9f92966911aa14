//! `tiles`: loading tiles while others are computed on: buffers, stalls, and how long a tile stays.

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::model::{Outcome, Preset, Values, model};
use crate::number::shown;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series};
use crate::random::Random;

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
        let mut random = Random::new(self.seed);
        // When each buffer's tile has been computed on.
        let mut free = vec![0.0; self.buffers as usize];
        let (mut loaded, mut computed, mut stall) = (0.0f64, 0.0f64, 0.0);
        for tile in 0..self.tiles {
            let slot = (tile % self.buffers) as usize;
            let load = (self.load_us + self.jitter_us * random.normal()).max(0.0);
            loaded = loaded.max(free[slot]) + load;
            if tile > 0 {
                stall += (loaded - computed).max(0.0);
            }
            computed = computed.max(loaded) + self.compute_us;
            free[slot] = computed;
        }
        Run { time_us: computed, stall_us: stall }
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
    use super::*;

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
    fn a_ring_that_does_not_fit_is_refused() {
        let error = answer(&Input { buffers: 4, ..Input::default() }).unwrap_err().to_string();
        assert_eq!(error, "buffers '4': 4 buffers of 65536 bytes do not fit into 232448 bytes");
    }
}
