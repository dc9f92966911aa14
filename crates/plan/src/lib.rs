//! What to expect before anything runs: models of the path from SSD to GPU, each a pure function.
//!
//! A [`Model`] takes named inputs with units and gives an [`Answer`]: what was put in and where each value comes from,
//! the formula, the results, the bound that decides, and how sure all of it is. [`golden`] holds the models to values
//! that were computed by other means.
//!
//! Units are in the names: `_us` microseconds, `_gb_per_s` 10^9 bytes a second. A GiB is 2^30 bytes, a GB 10^9.

#![forbid(unsafe_code)]

mod answer;
mod calibration;
pub mod challenges;
pub mod chart;
mod error;
pub mod golden;
mod links;
mod model;
mod models;
mod number;
mod param;
mod plot;
mod random;
mod sim;
mod svg;

pub use answer::{Answer, Confidence, Figure, InputValue, Origin, Sure, Verdict};
pub use calibration::{Calibration, Measured};
pub use error::Error;
pub use model::{Model, Preset, Settings};
pub use models::{MODELS, SITUATIONS, TileSchedule, TileStep, find};
pub use number::{shown, value as show_value};
pub use param::{Kind, Param};
pub use plot::{Axis, Panel, Plot, Series};
pub use svg::escaped;
