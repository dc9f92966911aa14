//! What lanes of our kernels draw.

use warpbell_base::{GOLDEN, SplitMix64, mix64};

/// What lane `lane` of all lanes of a launch draws from (`workload` in kernels/bench/workload.cuh).
pub(crate) fn of_lane(seed: u64, lane: u64) -> SplitMix64 {
    let behind = lane.wrapping_add(1).wrapping_mul(GOLDEN);
    SplitMix64::from_state(mix64(seed.wrapping_add(behind)))
}
