//! What every crate of Warpbell may import, and what would otherwise stand in several.
//!
//! [`options!`] declares structs to which later versions may add fields, [`bytes`] reads sizes such as `64m`, [`Time`]
//! shows durations such as `20us`, and [`SplitMix64`] makes random numbers that are the same on every machine. Only what at least three crates need is here,
//! and nothing that knows of NVMe or GPUs.

mod options;
mod random;
mod size;
mod time;

pub use random::{GOLDEN, SplitMix64, mix64};
pub use size::{SizeError, bytes, unit_bytes};
pub use time::Time;
