//! The constants of `abi_bench.h`, `abi_lab.h` and `abi_resident.h`, without their `WARPBELL_` prefix.

use crate::abi::constants::constants;

constants! {
    /// Every mirrored constant of the bench ABI, for checks against the headers.
    BENCH_CONSTANTS {
        /// Version of what kernels of benches and tests share with their host.
        BENCH_ABI_VERSION: u32 = 4;
        /// Buckets of a latency histogram.
        HISTOGRAM_BUCKETS: u32 = 1024;
        /// `BenchArgs::pattern`: one unit after the other.
        PATTERN_SEQUENTIAL: u32 = 0;
        /// `BenchArgs::pattern`: units at random.
        PATTERN_RANDOM: u32 = 1;
        /// `BenchArgs::api`: entries built by the kernel itself, over `queue.cuh`.
        API_RAW: u32 = 0;
        /// `BenchArgs::api`: `io.cuh`.
        API_IO: u32 = 1;
        /// Requests of a client lane of `bench_agent`, and what an agent's lane has in flight.
        BENCH_MAIL_SLOTS: u32 = 4;
        /// Dynamic shared memory of a block of `bench_batch`.
        BENCH_BLOCK_BYTES: u32 = 22528;
        /// Tiles in the ring of a warp of `bench_tiles`.
        BENCH_TILE_SLOTS: u32 = 8;
        /// Tiles in its shared memory.
        BENCH_TILE_STAGES: u32 = 2;
        /// Dynamic shared memory of a block of `bench_tiles`, beside these.
        BENCH_TILES_BYTES: u32 = 4096;
        /// SSDs of a volume of `bench_volume` at most.
        BENCH_VOLUME_MEMBERS: u32 = 8;
        /// Reads that a lane of it has in flight at most.
        BENCH_VOLUME_TOKENS: u32 = 16;
        /// First word of a verifiable unit: "WARPBELL".
        UNIT_MAGIC: u64 = u64::from_le_bytes(*b"WARPBELL");
        /// `ResidentQueue::broken`: a doorbell value that is not an entry of the queue.
        RULE_DOORBELL_RANGE: u32 = 0;
        /// A tail that adds more entries than are free.
        RULE_DOORBELL_OVERRUN: u32 = 1;
        /// A head that frees completions that were not posted.
        RULE_CQ_HEAD_BEYOND_TAIL: u32 = 2;
        /// An entry that was not written since it was last fetched; with `RESIDENT_POISON`.
        RULE_STALE_ENTRY: u32 = 3;
        /// A command identifier that is in flight.
        RULE_CID_IN_FLIGHT: u32 = 4;
        /// FFFFh as a command identifier.
        RULE_CID_RESERVED: u32 = 5;
        /// Anything but Flush, Write and Read.
        RULE_UNSUPPORTED_OPCODE: u32 = 6;
        /// Half of a fused operation.
        RULE_FUSED_OPERATION: u32 = 7;
        /// Another namespace.
        RULE_NAMESPACE_IDENTIFIER: u32 = 8;
        /// Dwords 2 and 3 are not zero.
        RULE_RESERVED_FIELD: u32 = 9;
        /// Dwords 4 and 5 are not zero.
        RULE_METADATA: u32 = 10;
        /// Blocks past the end of the namespace.
        RULE_LBA_RANGE: u32 = 11;
        /// More blocks than a command may move.
        RULE_TRANSFER_SIZE: u32 = 12;
        /// Neither PRPs nor one SGL descriptor.
        RULE_DATA_POINTER: u32 = 13;
        /// A descriptor that is no data block.
        RULE_SGL_DESCRIPTOR: u32 = 14;
        /// A data block of another length than the command's.
        RULE_SGL_LENGTH: u32 = 15;
        /// A PRP that is not dword aligned, or a list that is not qword aligned.
        RULE_PRP_MISALIGNED: u32 = 16;
        /// A second PRP with an offset.
        RULE_PRP_OFFSET: u32 = 17;
        /// A second PRP without need.
        RULE_PRP_UNNEEDED: u32 = 18;
        /// Data outside of the buffer.
        RULE_FOREIGN_ADDRESS: u32 = 19;
        /// Rules that there are.
        RULES: u32 = 20;
        /// Words of a protocol on lines of their own, of each queue.
        LAB_LINES: u32 = 16;
        /// 64-bit words of such a line.
        LAB_LINE_WORDS: u32 = 16;
        /// Arrays of a protocol with an element for each ring entry.
        LAB_ARRAYS: u32 = 4;
        /// 64-bit words of an element.
        LAB_ENTRY_WORDS: u32 = 4;
        /// `ResidentArgs::mode`: each warp keeps its share of iodepth outstanding.
        RESIDENT_THROUGHPUT: u32 = 0;
        /// `ResidentArgs::mode`: each thread waits for its own command, a warp together.
        RESIDENT_EACH: u32 = 1;
        /// `ResidentArgs::mode`: each thread for itself.
        RESIDENT_THREAD: u32 = 2;
        /// `ResidentArgs::flags`: both sides sum up what was submitted.
        RESIDENT_DIGEST: u32 = 1;
        /// `ResidentArgs::flags`: fetched entries are overwritten.
        RESIDENT_POISON: u32 = 2;
        /// `ResidentArgs::flags`: a command's status is made of its block address.
        RESIDENT_ECHO: u32 = 4;
        /// `ResidentArgs::flags`: clients check each command before it is submitted, as `io.cuh` does.
        RESIDENT_CHECKED: u32 = 8;
        /// Dword 0 of a poisoned entry.
        RESIDENT_POISONED: u32 = 0xffff_ffff;
        /// With `RESIDENT_ECHO`: the status, but for the low byte of the address.
        RESIDENT_ECHO_STATUS: u32 = 0x700;
        /// Commands that a lane keeps outstanding at most, in `RESIDENT_THROUGHPUT`.
        RESIDENT_SLOTS: u32 = 4;
        /// Queues that a warp of the controller watches at most.
        RESIDENT_WATCHED: u32 = 32;
        /// `GaugeArgs::mode`: pauses, as in each loop that waits.
        GAUGE_PAUSE: u32 = 0;
        /// `GaugeArgs::mode`: reads the clock.
        GAUGE_CLOCK: u32 = 1;
        /// `GaugeArgs::mode`: loads the word.
        GAUGE_LOAD: u32 = 2;
        /// `GaugeArgs::mode`: moves the word on by one, by compare-and-swap.
        GAUGE_CAS: u32 = 3;
        /// `GaugeArgs::mode`: stores to the word, and waits for the answer.
        GAUGE_PING: u32 = 4;
        /// `GaugeArgs::mode`: the other side of `GAUGE_PING`.
        GAUGE_PONG: u32 = 5;
        /// `GaugeArgs::mode`: block 0 is `GAUGE_PING`, block 1 `GAUGE_PONG`.
        GAUGE_BOTH: u32 = 6;
    }
}
