//! Which tile is in which buffer, when it is loaded, and when it is computed on.

use std::fmt::Write;

use super::Input;
use crate::error::Error;
use crate::model::Settings;
use crate::param::read;
use crate::random::Random;

/// Name and version of the document's form.
const SCHEMA: &str = "warpbell.plan.tiles/1";

/// One tile's way. Times are microseconds from the beginning of the first load.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct TileStep {
    /// The tile, from 0.
    pub tile: u64,
    /// The buffer that it lies in, from 0.
    pub buffer: u64,
    /// Its load begins: the buffer is free, and the load before it has ended.
    pub load_start_us: f64,
    /// Its load ends.
    pub load_end_us: f64,
    /// Computing on it begins: it is there, and the tile before it is done.
    pub compute_start_us: f64,
    /// Computing on it ends: its buffer is free.
    pub compute_end_us: f64,
}

/// The schedule of all tiles, the same for the same inputs.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct TileSchedule {
    /// Form of the document.
    pub schema: &'static str,
    /// Version of this program.
    pub warpbell: &'static str,
    /// Buffers.
    pub buffers: u64,
    /// Bytes of a tile.
    pub tile_bytes: u64,
    /// When the last tile is done: `simulated_us` of the model's answer.
    pub end_us: f64,
    /// Waiting for tiles, after the first: `stall_us` of the answer.
    pub stall_us: f64,
    /// The tiles, in order.
    pub tiles: Vec<TileStep>,
}

/// The steps of `input`, one after the other.
pub(super) struct Steps<'a> {
    input: &'a Input,
    random: Random,
    /// When each buffer's tile has been computed on.
    free: Vec<f64>,
    tile: u64,
    loaded: f64,
    computed: f64,
}

impl<'a> Steps<'a> {
    pub(super) fn of(input: &'a Input) -> Steps<'a> {
        let free = vec![0.0; input.buffers as usize];
        Steps { input, random: Random::new(input.seed), free, tile: 0, loaded: 0.0, computed: 0.0 }
    }
}

impl Iterator for Steps<'_> {
    type Item = TileStep;

    fn next(&mut self) -> Option<TileStep> {
        let (input, tile) = (self.input, self.tile);
        if tile == input.tiles {
            return None;
        }
        self.tile += 1;
        let buffer = tile % input.buffers;
        let load_start_us = self.loaded.max(self.free[buffer as usize]);
        let load_us = (input.load_us + input.jitter_us * self.random.normal()).max(0.0);
        self.loaded = load_start_us + load_us;
        let compute_start_us = self.computed.max(self.loaded);
        self.computed = compute_start_us + input.compute_us;
        self.free[buffer as usize] = self.computed;
        let (load_end_us, compute_end_us) = (self.loaded, self.computed);
        Some(TileStep { tile, buffer, load_start_us, load_end_us, compute_start_us, compute_end_us })
    }
}

impl TileSchedule {
    /// The schedule that `plan tiles` answers about with the same settings.
    pub fn of(settings: &Settings<'_>) -> Result<TileSchedule, Error> {
        let input: Input = read(&super::MODEL.values(settings)?.0)?;
        input.check()?;
        let run = input.simulated();
        Ok(TileSchedule {
            schema: SCHEMA,
            warpbell: env!("CARGO_PKG_VERSION"),
            buffers: input.buffers,
            tile_bytes: input.tile_bytes,
            end_us: run.time_us,
            stall_us: run.stall_us,
            tiles: Steps::of(&input).collect(),
        })
    }

    /// For people: a line for each tile.
    pub fn text(&self) -> String {
        let mut text =
            "  tile buffer  load_start_us    load_end_us compute_start_us compute_end_us\n".to_owned();
        for step in &self.tiles {
            let TileStep { tile, buffer, load_start_us, load_end_us, compute_start_us, compute_end_us } =
                step;
            let _ = writeln!(
                text,
                "{tile:>6} {buffer:>6} {load_start_us:>14.3} {load_end_us:>14.3} {compute_start_us:>16.3} \
                 {compute_end_us:>14.3}"
            );
        }
        let _ =
            writeln!(text, "end: {:.3} us, of which {:.3} us waiting for tiles", self.end_us, self.stall_us);
        text
    }
}
