//! Which architectures share a run of the compiler's front end.

use crate::includes::closure;
use crate::{HEADERS, PROBES, SOURCES};

/// The header whose code differs between the architectures before 100: each copies into shared memory in its own way.
pub const STREAMS: &str = "warpbell/impl/stream.cuh";

/// PTX of 80 and of 90 differs in its target alone, and so does that of 100 and of 120: a test of the compile matrix looks.
/// That of 75 differs in details from that of 80.
const SHARED: [&[u32]; 3] = [&[75], &[80, 90], &[100, 120]];
/// Where each copies in its own way.
const OWN: [&[u32]; 4] = [&[75], &[80], &[90], &[100, 120]];
/// Kernels that try each call of the library are carried as PTX of the oldest alone: newer GPUs take that.
const CHECKS: [&[u32]; 2] = [&[75, 80, 90], &[100, 120]];

/// Architectures by the PTX that machine code of this source is made from, which is that of each family's first.
pub fn families(name: &str, text: &str) -> &'static [&'static [u32]] {
    let files: Vec<_> = HEADERS.iter().chain(SOURCES).chain(PROBES).copied().collect();
    let streams = closure(name, text, &files).iter().any(|(name, _)| *name == STREAMS);
    match (streams, name.ends_with("_check.cu")) {
        (true, _) => &OWN,
        (false, true) => &CHECKS,
        (false, false) => &SHARED,
    }
}
