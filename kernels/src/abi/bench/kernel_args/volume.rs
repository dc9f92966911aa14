// UNSAFETY: the implementation vouches for what our kernels do with their arguments.
#![expect(unsafe_code, reason = "a promise about kernels, which the host acts upon")]
//! Kernels that read a volume.

use super::{scaled, span};
use crate::abi::{
    BENCH_VOLUME_MEMBERS, BENCH_VOLUME_TOKENS, BenchVolumeArgs, BufferRef, Grid, Holds, KernelArgs,
    NamespaceRef, SHARING_SHARED, Span, VolumeCounts, VolumeMember, VolumeState, WARP_LANES,
};

// SAFETY: bench_volume.cu and volume.cuh follow these addresses, by the number of warp and member. What the volume's host
// wrote into `members` names queues, and what it wrote into `parts` mappings of the buffer.
unsafe impl KernelArgs for BenchVolumeArgs {
    const KERNELS: &'static [&'static str] =
        &["bench_volume", "bench_volume_hashed", "bench_volume_by_cta", "bench_volume_nearest"];

    fn namespace(&self) -> &NamespaceRef {
        &self.bench.ns
    }

    fn buffer(&self) -> Option<&BufferRef> {
        None
    }

    fn refusal(&self, grid: &Grid<'_>) -> Option<&'static str> {
        let (bench, volume) = (&self.bench, &self.volume);
        if volume.member_count == 0 || volume.member_count > BENCH_VOLUME_MEMBERS {
            Some("the volume has 1 to BENCH_VOLUME_MEMBERS SSDs")
        } else if self.buffer.member_count != volume.member_count {
            Some("the buffer is of another volume")
        } else if bench.ns.block_shift != volume.block_shift || bench.ns.sharing != SHARING_SHARED {
            Some("the namespace has the volume's block size, and shared queues")
        } else if bench.iodepth.div_ceil(grid.warps.max(1)) > BENCH_VOLUME_TOKENS * WARP_LANES {
            Some("a lane has at most BENCH_VOLUME_TOKENS reads in flight")
        } else if bench.units == 0 {
            Some("the volume has no unit")
        } else {
            None
        }
    }

    fn spans(&self, grid: &Grid<'_>) -> Vec<Span> {
        let (bench, volume, buffer) = (&self.bench, &self.volume, &self.buffer);
        let members = volume.member_count.into();
        let share = bench.iodepth.div_ceil(grid.warps.max(1)).max(bench.units_per_warp);
        let units =
            u64::from(grid.warps.saturating_sub(1)) * u64::from(bench.units_per_warp) + u64::from(share);
        let bytes = units.saturating_mul(scaled(bench.blocks_per_io, volume.block_shift));
        let own = [
            Span {
                holds: Holds::Queues,
                ..span("volume.members", volume.members, members, size_of::<VolumeMember>())
            },
            span("volume.counts", volume.counts, members, size_of::<VolumeCounts>()),
            span("volume.state", volume.state, 1, size_of::<VolumeState>()),
            Span {
                holds: Holds::Buffers,
                ..span("buffer.parts", buffer.parts, members, size_of::<BufferRef>())
            },
            span("buffer", buffer.data, buffer.bytes, 1),
            span("buffer", buffer.data, bytes, 1),
        ];
        bench.common(grid.warps).chain(own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{BenchArgs, VolumeBufferRef, VolumeRef};

    fn grid_of(warps: u32) -> Grid<'static> {
        Grid { kernel: "bench_volume", blocks: warps, warps, block: 32, shared_bytes: 0 }
    }

    #[test]
    fn volumes_that_the_kernel_has_no_room_for_are_refused() {
        let ns = NamespaceRef {
            queue_count: 2,
            block_shift: 12,
            sharing: SHARING_SHARED,
            ..NamespaceRef::unleased()
        };
        let bench = BenchArgs { ns, iodepth: 64, units: 9, blocks_per_io: 2, ..BenchArgs::new() };
        let bench = BenchArgs { units_per_warp: 16, ..bench };
        let volume = VolumeRef { member_count: 2, block_shift: 12, ..VolumeRef::new() };
        let buffer = VolumeBufferRef { member_count: 2, ..VolumeBufferRef::new() };
        let right = BenchVolumeArgs { bench, volume, buffer, ..BenchVolumeArgs::new() };
        let buffer = |warps| {
            let spans = right.spans(&grid_of(warps));
            spans.iter().filter(|span| span.field == "buffer").map(|span| span.bytes).max()
        };
        assert_eq!(right.refusal(&grid_of(4)), None);
        assert_eq!(buffer(4), Some(4 * 16 * 2 * 4096));
        assert_eq!(buffer(1), Some(64 * 2 * 4096));
        let of = |bench| BenchVolumeArgs { bench, ..right };
        let wrong = [
            (BenchVolumeArgs { volume: VolumeRef { member_count: 9, ..volume }, ..right }, "1 to"),
            (BenchVolumeArgs { volume: VolumeRef { member_count: 1, ..volume }, ..right }, "another volume"),
            (of(BenchArgs { ns: NamespaceRef { block_shift: 9, ..ns }, ..bench }), "block size"),
            (of(BenchArgs { iodepth: 4 * 512 + 1, ..bench }), "BENCH_VOLUME_TOKENS"),
            (of(BenchArgs { units: 0, ..bench }), "no unit"),
        ];
        for (args, expected) in wrong {
            let refused = args.refusal(&grid_of(4));
            assert!(refused.is_some_and(|why| why.contains(expected)), "{expected}: {refused:?}");
        }
    }
}
