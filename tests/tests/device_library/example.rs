//! Kernels made of a frame of the page and the examples that belong in it.

use warpbell::{Module, Sharing};
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::TestVariant;
use warpbell_tests::{Framed, framed};

pub const LANES: usize = 32;
pub const MODES: [(&str, Sharing); 2] = [("exclusive", Sharing::Exclusive), ("shared", Sharing::Shared)];

/// A kernel for each example of a kind, sharing mode, and change of the text.
pub struct Examples {
    pub module: Module,
    examples: Vec<(String, &'static str)>,
}

impl Examples {
    /// Those of this frame, compiled: see [`framed`].
    pub fn compile(frame: &str, marks: &[&str], before: &str, changes: &[(&str, &str)]) -> Examples {
        let Framed { source, kernels } = framed(frame, marks, before, &MODES.map(|mode| mode.0), changes);
        let compiled = Variant::text("device-library.cu", &source).quick().loaded();
        let module = compiled.unwrap_or_else(|error| panic!("{error}")).into();
        Examples { module, examples: kernels }
    }

    /// Name and text of each kernel for a sharing mode, and for the change of this number.
    pub fn of(&self, mode: &str, change: usize) -> impl Iterator<Item = (&str, &'static str)> {
        let end = format!("_{mode}_{change}");
        let found = self.examples.iter().filter(move |(name, _)| name.ends_with(&end));
        found.map(|(name, body)| (name.as_str(), *body))
    }
}

/// What the test of volumes puts in place of the mapping that the frame names.
pub const MAPPINGS: [&str; 5] = ["round_robin", "hashed", "by_cta", "nearest", "chunk_after_chunk"];

/// A frame as the page has it.
pub const AS_IT_IS: &[(&str, &str)] = &[("", "")];
