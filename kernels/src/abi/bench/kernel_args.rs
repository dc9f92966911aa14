// UNSAFETY: the implementations vouch for what our kernels do with their arguments.
#![expect(unsafe_code, reason = "a promise about kernels, which the host acts upon")]
//! Which memory the kernels of benches touch.

mod volume;

use crate::abi::{
    AgentCounts, BENCH_BLOCK_BYTES, BENCH_MAIL_SLOTS, BENCH_TILE_SLOTS, BENCH_TILE_STAGES, BENCH_TILES_BYTES,
    BLOCK_THREADS_MAX, BenchAgentArgs, BenchArgs, BenchArrayArgs, BenchBatchArgs, BufferRef, CacheLine,
    CacheReport, ChunkResult, DigestArgs, FileExtent, Grid, HISTOGRAM_BUCKETS, Holds, KernelArgs, LINE_BYTES,
    LabArgs, Mailbox, NamespaceRef, QueueRef, RESIDENT_THROUGHPUT, ReplayArgs, ReplayResult, ResidentArgs,
    ResidentQueue, Span, WARP_LANES, WarpResult,
};

/// Bytes of a `request_queue<BENCH_MAIL_SLOTS>`.
pub const BENCH_REQUEST_QUEUE_BYTES: usize = ((1 + 9 * BENCH_MAIL_SLOTS) * LINE_BYTES) as usize;

/// Bytes of the tables of CRC-32C.
const CRC_BYTES: u64 = 8 * 256 * 4;
/// Bytes of one lane's histogram.
const HISTOGRAM_BYTES: u64 = HISTOGRAM_BUCKETS as u64 * 4;

/// Saturates: what no memory has is refused.
fn span(field: &'static str, address: u64, count: u64, each: usize) -> Span {
    Span::new(field, address, count.saturating_mul(each as u64))
}

/// None where the address is 0, which says that there is none.
fn optional(field: &'static str, address: u64, count: u64, each: u64) -> Option<Span> {
    (address != 0).then(|| span(field, address, count, each as usize))
}

fn queues(ns: &NamespaceRef) -> Span {
    Span { holds: Holds::Queues, ..span("ns", ns.queues, ns.queue_count.into(), size_of::<QueueRef>()) }
}

fn lanes(warps: u32) -> u64 {
    u64::from(warps) * u64::from(WARP_LANES)
}

/// So many pieces of `1 << shift` bytes.
fn scaled(count: impl Into<u64>, shift: u32) -> u64 {
    1u64.checked_shl(shift).map_or(u64::MAX, |each| count.into().saturating_mul(each))
}

/// The buffer, and `units` units of `blocks` blocks in it.
fn data(ns: &NamespaceRef, buffer: &BufferRef, units: u64, blocks: u32) -> [Span; 2] {
    let bytes = units.saturating_mul(scaled(blocks, ns.block_shift));
    [span("buffer", buffer.data, buffer.bytes, 1), span("buffer", buffer.data, bytes, 1)]
}

/// Units that warps have, the last of which may have a larger share of its queue's commands than `each`.
fn shares(ns: &NamespaceRef, iodepth: u32, each: u32, warps: u32) -> u64 {
    let share = iodepth.div_ceil((warps / ns.queue_count.max(1)).max(1));
    u64::from(warps.saturating_sub(1)) * u64::from(each) + u64::from(share.max(each))
}

impl BenchArgs {
    /// Spans of what all kernels with these arguments touch, beside the buffer.
    fn common(&self, warps: u32) -> impl Iterator<Item = Span> + use<> {
        let histograms = optional("histograms", self.histograms, lanes(warps) * 2, HISTOGRAM_BYTES);
        let tables = (self.verify != 0).then(|| span("crc_tables", self.crc_tables, CRC_BYTES, 1));
        let always = [
            queues(&self.ns),
            span("mailbox", self.mailbox, 1, size_of::<Mailbox>()),
            span("results", self.results, warps.into(), size_of::<WarpResult>()),
        ];
        let lbas = optional("lbas", self.lbas, self.units, size_of::<u64>() as u64);
        always.into_iter().chain(histograms).chain(tables).chain(lbas)
    }

    /// The buffer, with the units of so many warps that submit.
    fn units_of(&self, warps: u32) -> [Span; 2] {
        let units = shares(&self.ns, self.iodepth, self.units_per_warp, warps);
        data(&self.ns, &self.buffer, units, self.blocks_per_io)
    }
}

// SAFETY: bench.cuh, bench_order.cu, bench_tiles.cu, workload.cuh and common.cuh follow these addresses, by the warp's
// number. What tiles need of shared memory and ring, `refusal` makes sure of.
unsafe impl KernelArgs for BenchArgs {
    const KERNELS: &'static [&'static str] = &[
        "bench",
        "bench_traced",
        "bench_order_none",
        "bench_order_delivery",
        "bench_order_completion",
        "bench_tiles",
        "bench_tiles_busy",
        "bench_tiles_resident",
        "bench_tiles_resident_busy",
    ];

    fn namespace(&self) -> &NamespaceRef {
        &self.ns
    }

    fn buffer(&self) -> Option<&BufferRef> {
        Some(&self.buffer)
    }

    fn refusal(&self, grid: &Grid<'_>) -> Option<&'static str> {
        if self.ns.queue_count == 0 {
            return Some("the namespace has no queue");
        }
        if !grid.kernel.starts_with("bench_tiles") {
            return None;
        }
        let tile = scaled(self.blocks_per_io, self.ns.block_shift);
        let shared = tile.saturating_mul(BENCH_TILE_STAGES.into()).saturating_add(BENCH_TILES_BYTES.into());
        if grid.block != WARP_LANES {
            Some("a block has one warp")
        } else if u64::from(grid.shared_bytes) < shared {
            Some("a block has less dynamic shared memory than BENCH_TILES_BYTES and a tile for each stage")
        } else if self.units_per_warp < BENCH_TILE_SLOTS {
            Some("a warp has fewer units than BENCH_TILE_SLOTS")
        } else {
            None
        }
    }

    fn spans(&self, grid: &Grid<'_>) -> Vec<Span> {
        self.common(grid.warps).chain(self.units_of(grid.warps)).collect()
    }
}

// SAFETY: bench_agent.cuh follows these addresses, by the number of agent or compute warp.
unsafe impl KernelArgs for BenchAgentArgs {
    const KERNELS: &'static [&'static str] = &["bench_agent"];

    fn namespace(&self) -> &NamespaceRef {
        &self.bench.ns
    }

    fn buffer(&self) -> Option<&BufferRef> {
        Some(&self.bench.buffer)
    }

    fn spans(&self, grid: &Grid<'_>) -> Vec<Span> {
        // As the kernel does: more agents than warps leave a number that no memory is large enough for.
        let compute = grid.warps.wrapping_sub(self.agents);
        let own = [
            span("request_queues", self.request_queues, compute.into(), BENCH_REQUEST_QUEUE_BYTES),
            span("counts", self.counts, self.agents.into(), size_of::<AgentCounts>()),
            span("polls", self.polls, compute.into(), size_of::<u64>()),
        ];
        self.bench.common(grid.warps).chain(self.bench.units_of(compute)).chain(own).collect()
    }
}

// SAFETY: bench_batch.cuh follows these addresses, by the number of the block and its submitter.
unsafe impl KernelArgs for BenchBatchArgs {
    const KERNELS: &'static [&'static str] = &["bench_batch"];

    fn namespace(&self) -> &NamespaceRef {
        &self.bench.ns
    }

    fn buffer(&self) -> Option<&BufferRef> {
        Some(&self.bench.buffer)
    }

    fn refusal(&self, grid: &Grid<'_>) -> Option<&'static str> {
        if grid.block > BLOCK_THREADS_MAX || !grid.block.is_multiple_of(WARP_LANES) {
            return Some("a block has 32 to 256 threads, in whole warps");
        }
        if self.submitters == 0 || self.submitters > grid.block / WARP_LANES {
            return Some("of each block at least one warp submits, and at most all");
        }
        if grid.shared_bytes < BENCH_BLOCK_BYTES {
            return Some("a block has less dynamic shared memory than BENCH_BLOCK_BYTES");
        }
        self.bench.refusal(grid)
    }

    fn spans(&self, grid: &Grid<'_>) -> Vec<Span> {
        let submitters = grid.blocks.saturating_mul(self.submitters);
        self.bench.common(grid.warps.max(submitters)).chain(self.bench.units_of(submitters)).collect()
    }
}

// SAFETY: bench_array.cuh and cache.cuh follow these addresses: words of `units` pages, lines of the cache.
unsafe impl KernelArgs for BenchArrayArgs {
    const KERNELS: &'static [&'static str] = &[
        "bench_array_clock",
        "bench_array_fifo",
        "bench_array_lru",
        "bench_array_plain",
        "bench_array_check",
        "bench_array_flush",
    ];

    fn namespace(&self) -> &NamespaceRef {
        &self.bench.ns
    }

    fn buffer(&self) -> Option<&BufferRef> {
        Some(&self.bench.buffer)
    }

    fn spans(&self, grid: &Grid<'_>) -> Vec<Span> {
        let (bench, cache) = (&self.bench, &self.cache);
        let words = bench.units.saturating_mul(scaled(bench.blocks_per_io, bench.ns.block_shift) / 8);
        let plain = grid.kernel == "bench_array_plain";
        // Plain words lie in the buffer, one page after the other; cached ones in a page for each line.
        let pages = if plain { bench.units } else { 0 };
        let own = [
            span("sums", self.sums, lanes(grid.warps), size_of::<u64>()),
            span("cache.lines", cache.lines, cache.line_count.into(), size_of::<CacheLine>()),
            span("cache.buckets", cache.buckets, u64::from(cache.bucket_mask) + 1, size_of::<u64>()),
            span("cache.report", cache.report, 1, size_of::<CacheReport>()),
            span("buffer", bench.buffer.data, scaled(cache.line_count, cache.page_shift), 1),
        ];
        let stored = optional("stored", self.stored, words.div_ceil(64), 8);
        let buffer = data(&bench.ns, &bench.buffer, pages, bench.blocks_per_io);
        bench.common(grid.warps).chain(buffer).chain(own).chain(stored).collect()
    }
}

// SAFETY: the kernels in lab/ follow these addresses, by the number of queue and command.
unsafe impl KernelArgs for LabArgs {
    const KERNELS: &'static [&'static str] =
        &["lab_turns", "lab_turns_alone", "lab_marks", "lab_marks_own", "lab_lockstep", "lab_service"];

    fn namespace(&self) -> &NamespaceRef {
        &self.bench.ns
    }

    fn buffer(&self) -> Option<&BufferRef> {
        Some(&self.bench.buffer)
    }

    fn refusal(&self, grid: &Grid<'_>) -> Option<&'static str> {
        let queues = self.bench.ns.queue_count;
        if queues == 0 || self.warps == 0 || !self.warps.is_multiple_of(queues) {
            return Some("the warps that submit are a multiple of the queues");
        }
        let served = self.warps.saturating_add(if grid.kernel == "lab_service" { queues } else { 0 });
        (grid.warps > served).then_some("there are more warps than submit, or serve a queue")
    }

    fn spans(&self, grid: &Grid<'_>) -> Vec<Span> {
        let (bench, queues) = (&self.bench, u64::from(self.bench.ns.queue_count));
        let units = queues.saturating_mul(bench.iodepth.into());
        let state = span("state", self.state, queues * u64::from(self.queue_words), size_of::<u64>());
        let buffer = data(&bench.ns, &bench.buffer, units, bench.blocks_per_io);
        bench.common(grid.warps).chain(buffer).chain([state]).collect()
    }
}

// SAFETY: replay.cuh follows these addresses, by the warp's number. `firsts`, which the host fills, says how many
// commands there are.
unsafe impl KernelArgs for ReplayArgs {
    const KERNELS: &'static [&'static str] = &["replay", "replay_traced"];

    fn namespace(&self) -> &NamespaceRef {
        &self.ns
    }

    fn buffer(&self) -> Option<&BufferRef> {
        Some(&self.buffer)
    }

    fn spans(&self, grid: &Grid<'_>) -> Vec<Span> {
        let units = shares(&self.ns, self.iodepth, self.units_per_warp, grid.warps);
        let histograms = optional("histograms", self.histograms, lanes(grid.warps) * 2, HISTOGRAM_BYTES);
        let own = [
            queues(&self.ns),
            span("mailbox", self.mailbox, 1, size_of::<Mailbox>()),
            span("results", self.results, grid.warps.into(), size_of::<WarpResult>()),
            span("totals", self.totals, grid.warps.into(), size_of::<ReplayResult>()),
            span("commands", self.commands, 1, 1),
            span("firsts", self.firsts, u64::from(grid.warps) + 1, size_of::<u64>()),
        ];
        own.into_iter()
            .chain(histograms)
            .chain(data(&self.ns, &self.buffer, units, self.unit_blocks))
            .collect()
    }
}

// SAFETY: digest.cu follows these addresses, by the number of warp and chunk.
unsafe impl KernelArgs for DigestArgs {
    const KERNELS: &'static [&'static str] = &["digest"];

    fn namespace(&self) -> &NamespaceRef {
        &self.ns
    }

    fn buffer(&self) -> Option<&BufferRef> {
        Some(&self.buffer)
    }

    fn spans(&self, grid: &Grid<'_>) -> Vec<Span> {
        let file = &self.file;
        let chunks = file.bytes.div_ceil(scaled(self.chunk_blocks, self.ns.block_shift).max(1));
        let own = [
            queues(&self.ns),
            span("mailbox", self.mailbox, 1, size_of::<Mailbox>()),
            span("results", self.results, grid.warps.into(), size_of::<WarpResult>()),
            span("chunks", self.chunks, chunks, size_of::<ChunkResult>()),
            span("crc_tables", self.crc_tables, CRC_BYTES, 1),
            span("file.extents", file.extents, file.count.into(), size_of::<FileExtent>()),
            span("file.buckets", file.buckets, u64::from(file.bucket_count) + 1, size_of::<u32>()),
        ];
        own.into_iter().chain(data(&self.ns, &self.buffer, lanes(grid.warps), self.chunk_blocks)).collect()
    }
}

// SAFETY: the resident_*.cuh follow these addresses. No data moves: the buffer is not touched. `queues`, which the host
// fills, says where rings and doorbells are.
unsafe impl KernelArgs for ResidentArgs {
    const KERNELS: &'static [&'static str] = &["resident"];

    fn namespace(&self) -> &NamespaceRef {
        &self.ns
    }

    fn buffer(&self) -> Option<&BufferRef> {
        None
    }

    fn spans(&self, grid: &Grid<'_>) -> Vec<Span> {
        let clients = u64::from(self.clients);
        let own = [
            queues(&self.ns),
            span("mailbox", self.mailbox, 1, size_of::<Mailbox>()),
            span("results", self.results, clients, size_of::<WarpResult>()),
            span("digests", self.digests, clients, size_of::<u64>()),
            span("queues", self.queues, self.ns.queue_count.into(), size_of::<ResidentQueue>()),
            span("places", self.places, grid.blocks.into(), size_of::<u32>()),
            span("ended", self.ended, 1, size_of::<u32>()),
        ];
        // Who waits has one.
        let timed = self.mode != RESIDENT_THROUGHPUT;
        let histograms =
            timed.then(|| span("histograms", self.histograms, lanes(self.clients), HISTOGRAM_BYTES as usize));
        own.into_iter().chain(histograms).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{BenchVolumeArgs, FileRef};
    use crate::cpu::Module;

    fn takes<T: KernelArgs>(module: &Module) {
        for name in T::KERNELS {
            let kernel = module.kernel(name).unwrap();
            assert_eq!(kernel.args_size(), size_of::<T>() as u64, "{name}");
        }
    }

    #[test]
    fn each_kernel_that_is_named_takes_its_arguments() {
        let module = Module::builtin().unwrap();
        takes::<BenchArgs>(&module);
        takes::<BenchAgentArgs>(&module);
        takes::<BenchBatchArgs>(&module);
        takes::<BenchArrayArgs>(&module);
        takes::<BenchVolumeArgs>(&module);
        takes::<LabArgs>(&module);
        takes::<ReplayArgs>(&module);
        takes::<DigestArgs>(&module);
        takes::<ResidentArgs>(&module);
    }

    fn grid_of(kernel: &str, warps: u32) -> Grid<'_> {
        Grid { kernel, blocks: warps, warps, block: 32, shared_bytes: 0 }
    }

    #[test]
    fn a_grid_that_the_kernel_cannot_run_with_is_refused() {
        let ns = NamespaceRef { queue_count: 2, ..NamespaceRef::unleased() };
        let bench = BenchArgs { ns, ..BenchArgs::new() };
        assert_eq!(bench.refusal(&grid_of("bench", 1)), None);
        assert!(BenchArgs::new().refusal(&grid_of("bench", 1)).is_some_and(|why| why.contains("no queue")));
        let batch = BenchBatchArgs { bench, submitters: 1, ..BenchBatchArgs::new() };
        let whole = Grid { shared_bytes: BENCH_BLOCK_BYTES, ..grid_of("bench_batch", 1) };
        assert_eq!(batch.refusal(&whole), None);
        let wrong = [
            (batch, Grid { shared_bytes: 0, ..whole }, "dynamic shared memory"),
            (batch, Grid { block: 288, ..whole }, "whole warps"),
            (BenchBatchArgs { submitters: 0, ..batch }, whole, "at least one warp"),
            (BenchBatchArgs { submitters: 2, ..batch }, whole, "at most all"),
        ];
        for (args, grid, expected) in wrong {
            assert!(args.refusal(&grid).is_some_and(|why| why.contains(expected)), "{expected}");
        }
        let lab = LabArgs { bench, warps: 4, ..LabArgs::new() };
        let refused = |lab: LabArgs, kernel, warps| lab.refusal(&grid_of(kernel, warps)).is_some();
        assert!(!refused(lab, "lab_turns", 4) && !refused(lab, "lab_service", 6));
        assert!(refused(lab, "lab_turns", 5) && refused(lab, "lab_service", 7));
        assert!(
            refused(LabArgs { warps: 3, ..lab }, "lab_turns", 3)
                && refused(LabArgs { warps: 0, ..lab }, "lab_turns", 1)
        );
    }

    fn bytes_of(args: &impl KernelArgs, kernel: &str, warps: u32, field: &str) -> u64 {
        let spans = args.spans(&grid_of(kernel, warps));
        spans.iter().filter(|span| span.field == field).map(|span| span.bytes).max().unwrap_or(0)
    }

    #[test]
    fn what_is_touched_grows_with_the_grid_and_with_what_is_asked_for() {
        let ns = NamespaceRef { queue_count: 2, block_shift: 9, ..NamespaceRef::unleased() };
        let bench = BenchArgs { ns, iodepth: 8, units_per_warp: 4, blocks_per_io: 8, ..BenchArgs::new() };
        // 4 warps of 4 units each; one warp alone has all 8 of its queue.
        assert_eq!(bytes_of(&bench, "bench", 4, "buffer"), 16 * 4096);
        assert_eq!(bytes_of(&bench, "bench", 1, "buffer"), 8 * 4096);
        assert_eq!(bytes_of(&bench, "bench", 4, "crc_tables"), 0);
        assert_eq!(bytes_of(&BenchArgs { verify: 1, ..bench }, "bench", 4, "crc_tables"), 8192);
        let agents = BenchAgentArgs { bench, agents: 5, ..BenchAgentArgs::new() };
        assert!(bytes_of(&agents, "bench_agent", 4, "request_queues") > 1 << 40, "no agent has a warp");
        let file = FileRef { bytes: u64::MAX, count: 7, bucket_count: 14, ..FileRef::new() };
        let wild = DigestArgs { file, chunk_blocks: u32::MAX, ns, ..DigestArgs::new() };
        assert!(bytes_of(&wild, "digest", u32::MAX, "buffer") > 1 << 60);
        assert_eq!(bytes_of(&wild, "digest", 1, "file.extents"), 7 * 32);
        assert_eq!(bytes_of(&wild, "digest", 1, "file.buckets"), 15 * 4);
    }
}
