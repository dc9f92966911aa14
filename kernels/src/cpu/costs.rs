//! What accesses of a lane take in virtual time, and where the figures come from. docs/protocols.md has the model, and
//! says which of the sources were read.

use std::ops::Range;

use super::ffi::RawRange;

/// What a lane's accesses take, in nanoseconds: `simt/costs.h` in Rust.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessCosts {
    /// Instructions before each access.
    pub instructions: u32,
    /// A load from the memory of the block; a read-modify-write as well.
    pub load_shared: u32,
    /// A load from the GPU's memory.
    pub load_gpu: u32,
    /// A load from host memory.
    pub load_host: u32,
    /// A store, until it has left.
    pub store: u32,
    /// A read-modify-write in the GPU's memory.
    pub rmw_gpu: u32,
    /// A read-modify-write in host memory.
    pub rmw_host: u32,
    /// For so long a read-modify-write keeps others from its address.
    pub rmw_service: u32,
    /// A fence of GPU scope, or a release.
    pub fence_gpu: u32,
    /// The same of system scope, with nothing on its way to the host.
    pub fence_sys: u32,
    /// From a store to host memory, or a doorbell, until it is there. A system fence waits for it.
    pub host_write: u32,
    /// A doorbell, until it has left.
    pub doorbell: u32,
    /// A collective, from its last lane's arrival on.
    pub collective: u32,
    /// A read of the clock.
    pub clock: u32,
}

impl AccessCosts {
    /// A Hopper GPU (H100 SXM, H200) behind PCIe 4 or 5. 1.98 GHz turn cycles into nanoseconds.
    pub const H200: AccessCosts = AccessCosts {
        // Assumed: five instructions that depend on each other, four cycles each.
        instructions: 10,
        // 28.6 cycles, 14.4 ns: ahmadsharif1/cuda_study, README 3a, H100 SXM5.
        load_shared: 14,
        // 259.9 cycles, 131.3 ns, an L2 hit past L1: the same. Luo et al., arXiv 2402.13499, have about the same in cycles.
        load_gpu: 131,
        // 1.0 to 1.6 us on PCIe 3, by a GPU's zero-copy reads: Min et al., EMOGI, arXiv 2006.06890. The lower end, as the
        // links of an H200 are faster.
        load_host: 1000,
        // Assumed: a warp's store of 16 bytes a lane takes four passes of the load-store unit, two cycles each.
        store: 4,
        // Assumed: made in L2, hence as a load.
        rmw_gpu: 131,
        // Assumed: made by the host behind the same way, hence as a load.
        rmw_host: 1000,
        // One in a clock of L2, on one address: NVIDIA's Kepler GK110 white paper. Whole nanoseconds; newer GPUs: assumed.
        rmw_service: 1,
        // Assumed: stores before it are acknowledged by L2, so a trip to L2.
        fence_gpu: 131,
        // Assumed: a trip to L2, and one more for what else the system may see.
        fence_sys: 262,
        // Assumed: there and back, as a load.
        host_write: 1000,
        // Assumed: a store as any other; it is posted.
        doorbell: 4,
        // 22 cycles on V100 for a shuffle or a meeting of a warp: Zhang et al., arXiv 2004.05371. Newer GPUs: assumed.
        collective: 11,
        // Assumed: twenty cycles to read a special register, and as many for the 64 bits to agree.
        clock: 20,
    };
}

/// A launch's costs, and what of its memory is the host's.
#[derive(Debug)]
pub(super) struct Charged {
    pub(super) costs: AccessCosts,
    /// Sorted, and apart: the executor searches by halving.
    pub(super) host: Vec<RawRange>,
}

impl Charged {
    pub(super) fn new(costs: AccessCosts, mut host: Vec<Range<u64>>) -> Charged {
        host.sort_by_key(|range| range.start);
        let mut apart: Vec<RawRange> = Vec::new();
        for Range { start: begin, end } in host {
            match apart.last_mut() {
                Some(last) if begin <= last.end => last.end = last.end.max(end),
                _ => apart.push(RawRange { begin, end }),
            }
        }
        Charged { costs, host: apart }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_host_memory_are_sorted_and_apart() {
        let charged = Charged::new(AccessCosts::H200, vec![40..50, 0..10, 10..20, 12..16, 30..35]);
        let found: Vec<_> = charged.host.iter().map(|range| (range.begin, range.end)).collect();
        assert_eq!(found, [(0, 20), (30, 35), (40, 50)]);
    }
}
