//! Which architectures share a run of the compiler's front end.

use crate::includes::closure;
use crate::{HEADERS, PROBES, SOURCES};

/// The header whose code differs between the architectures before 100: each copies into shared memory in its own way.
pub const STREAMS: &str = "warpbell/impl/stream.cuh";

/// The same front end for 75 to 90, and a newer one from 100 on: PTX of one differs in its target alone, as a test of the
/// compile matrix shows.
const SHARED: [&[u32]; 2] = [&[75, 80, 90], &[100, 120]];
const OWN: [&[u32]; 4] = [&[75], &[80], &[90], &[100, 120]];

/// Architectures by the PTX that machine code of this source is made from, which is that of each family's first.
pub fn families(name: &str, text: &str) -> &'static [&'static [u32]] {
    let files: Vec<_> = HEADERS.iter().chain(SOURCES).chain(PROBES).copied().collect();
    let streams = closure(name, text, &files).iter().any(|(name, _)| *name == STREAMS);
    if streams { &OWN } else { &SHARED }
}
