//! The models, one module each.

mod ckpt;
mod completion;
mod contention;
mod datapath;
mod doorbell;
mod fabric;
mod fence;
mod kv;
mod loader;
mod mtt;
mod pipeline;
mod queues;
mod reg;
mod situation;
mod stripe;
mod tiers;
mod tiles;
mod tlp;

pub use situation::CASES as SITUATIONS;
pub use tiles::{TileSchedule, TileStep};

use crate::error::Error;
use crate::model::Model;

/// All models.
pub const MODELS: &[&Model] = &[
    &reg::MODEL,
    &mtt::MODEL,
    &fence::MODEL,
    &contention::MODEL,
    &pipeline::MODEL,
    &datapath::MODEL,
    &loader::MODEL,
    &queues::MODEL,
    &doorbell::MODEL,
    &tlp::MODEL,
    &completion::MODEL,
    &stripe::MODEL,
    &tiles::MODEL,
    &kv::MODEL,
    &ckpt::MODEL,
    &tiers::MODEL,
    &fabric::MODEL,
    &situation::MODEL,
];

/// The model of this name.
pub fn find(name: &str) -> Result<&'static Model, Error> {
    let known = || MODELS.iter().map(|model| model.name).collect::<Vec<_>>().join(", ");
    let found = MODELS.iter().copied().find(|model| model.name == name);
    found.ok_or_else(|| Error::Model { name: name.to_owned(), known: known() })
}

/// The smallest of some named bounds.
fn least<'a>(bounds: &[(&'a str, f64)]) -> (&'a str, f64) {
    let least = bounds.iter().copied().reduce(|left, right| if right.1 < left.1 { right } else { left });
    least.unwrap_or(("no bound", f64::INFINITY))
}

/// The largest of some named parts.
fn largest<'a>(parts: &[(&'a str, f64)]) -> (&'a str, f64) {
    let largest = parts.iter().copied().reduce(|left, right| if right.1 > left.1 { right } else { left });
    largest.unwrap_or(("nothing", 0.0))
}

/// A share as a percentage.
fn percent(share: f64) -> String {
    format!("{} %", crate::number::shown(share * 100.0))
}

#[cfg(test)]
mod tests;
