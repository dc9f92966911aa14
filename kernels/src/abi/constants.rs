//! The constants of `abi.h`, without their `WARPBELL_` prefix.

/// A constant's C name and value.
pub type Constant = (&'static str, u64);

macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$doc])* pub const $name: $type = $value;)*

        /// Every mirrored constant, for checks against the header.
        pub const CONSTANTS: &[Constant] = &[$((concat!("WARPBELL_", stringify!($name)), $name as u64),)*];
    };
}

constants! {
    /// Version of what users' kernels share with hosts; both sides must have the same.
    ABI_VERSION: u32 = 4;
    /// Version of what kernels of benches and tests share with their host.
    BENCH_ABI_VERSION: u32 = 4;
    /// Lanes of a warp.
    WARP_LANES: u32 = 32;
    /// Threads of a block of our kernels at most, on a GPU.
    BLOCK_THREADS_MAX: u32 = 256;
    /// Words that different warps write lie this many bytes apart.
    LINE_BYTES: u32 = 128;
    /// `QueueState::ticket`: no further reservations.
    TICKET_CLOSED: u64 = 1 << 63;
    /// `QueueState::reap`: a reaper is at work.
    REAP_LOCK: u64 = 1 << 63;
    /// Completion slot: armed, and not yet answered.
    SLOT_PENDING: u32 = 0x8000;
    /// Completion slot: mask of the status, CQE DW3 >> 17.
    SLOT_STATUS: u32 = 0x7fff;
    /// Completion slot: the generation begins at this bit.
    SLOT_GENERATION_SHIFT: u32 = 16;
    /// `QueueHost::state`: in use.
    QUEUE_RUNNING: u32 = 0;
    /// `QueueHost::state`: given up by the host; a successor may come.
    QUEUE_LOST: u32 = 1;
    /// `QueueHost::state`: given up by the host, and no successor will come.
    QUEUE_DEAD: u32 = 2;
    /// A word of `QueueHost::hazards`: the lane does not know the queue, or will never read it again.
    HAZARD_FREE: u32 = 0;
    /// The lane may touch rings, words, state and doorbells.
    HAZARD_TAKEN: u32 = 1;
    /// The lane reads the host's page and the successor's reference only.
    HAZARD_WAITING: u32 = 2;
    /// One warp owns the pair: no atomic operations.
    SHARING_EXCLUSIVE: u32 = 0;
    /// Several warps share the pair.
    SHARING_SHARED: u32 = 1;
    /// `QueueRef::flags`: doorbells go through shadows in memory (Doorbell Buffer Config).
    QUEUE_SHADOW: u32 = 1;
    /// `QueueRef::flags`: 32-bit command identifiers.
    QUEUE_WIDE_CIDS: u32 = 2;
    /// `QueueRef::flags`: completions come in the order of submission.
    QUEUE_IN_ORDER: u32 = 4;
    /// `QueueRef::flags`: whoever reaps flushes the data before it delivers.
    QUEUE_FLUSH: u32 = 8;
    /// `NamespaceRef::flags`: data is described by one inline SGL descriptor, else by PRPs.
    NAMESPACE_SGL: u32 = 1;
    /// `NamespaceRef::flags`: nothing that changes the medium.
    NAMESPACE_READ_ONLY: u32 = 2;
    /// `NamespaceRef::flags`: the SSD has no Compare. `VolumeRef::flags`: a member has none.
    NAMESPACE_NO_COMPARE: u32 = 4;
    /// The same of Write Zeroes.
    NAMESPACE_NO_WRITE_ZEROES: u32 = 8;
    /// The same of Dataset Management.
    NAMESPACE_NO_DEALLOCATE: u32 = 16;
    /// Most PRP list entries of a command, so that a list never chains.
    PRP_LIST_MAX: u32 = 256;
    /// Bytes of a page of a PRP table.
    PRP_TABLE_PAGE: u32 = 4096;
    /// Status: the library's own code in the low bits, not the controller's.
    STATUS_LIBRARY: u32 = 0x8000;
    /// The deadline passed with the command in flight: its buffer is not free.
    STATUS_TIMED_OUT: u32 = 1;
    /// The deadline passed before the command was submitted: its buffer is free.
    STATUS_NOT_SUBMITTED: u32 = 2;
    /// The host's stop flag was seen before submission.
    STATUS_ABORTED: u32 = 3;
    /// The extent leaves the namespace.
    STATUS_OUT_OF_RANGE: u32 = 4;
    /// The buffer address is not dword-aligned.
    STATUS_MISALIGNED: u32 = 5;
    /// The host deleted the queue; attach again.
    STATUS_QUEUE_GONE: u32 = 6;
    /// The lane has no free command identifier.
    STATUS_NO_CID: u32 = 7;
    /// The token's command was answered already.
    STATUS_STALE_TOKEN: u32 = 8;
    /// An indivisible batch above entries - 1.
    STATUS_INVALID_BATCH: u32 = 9;
    /// Above the controller's transfer limit.
    STATUS_TOO_LARGE: u32 = 10;
    /// The data leaves the registered buffer.
    STATUS_OUT_OF_BUFFER: u32 = 11;
    /// An argument that no command can carry: zero blocks, another queue.
    STATUS_INVALID_FIELD: u32 = 12;
    /// Verification: the data read is not the data expected.
    STATUS_MISMATCH: u32 = 13;
    /// The queue is full at the moment.
    STATUS_NO_ROOM: u32 = 14;
    /// The host has given the SSD up: no successor of the queue will come.
    STATUS_SSD_LOST: u32 = 15;
    /// The lease does not permit writing.
    STATUS_READ_ONLY: u32 = 16;
    /// Outside the lease's blocks, or its memory.
    STATUS_OUT_OF_LEASE: u32 = 17;
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
    /// `TileStep::flags`: an earlier step has loaded it, and it is still there: no load.
    TILE_RESIDENT: u32 = 1;
    /// First word of a verifiable unit: "WARPBELL".
    UNIT_MAGIC: u64 = u64::from_le_bytes(*b"WARPBELL");
    /// `QueueTestArgs::mode`: read and check.
    TEST_READ: u32 = 0;
    /// `QueueTestArgs::mode`: write.
    TEST_WRITE: u32 = 1;
    /// `QueueTestArgs::mode`: write a block of its own, then read it back.
    TEST_WRITE_READ: u32 = 2;
    /// `QueueTestArgs::mode`: no data.
    TEST_FLUSH: u32 = 3;
    /// `QueueTestArgs::flags`: wait a second time on a copy of each consumed token.
    TEST_STALE_TOKEN: u32 = 1;
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
    /// Bits of `TraceEvent::index`.
    TRACE_INDEX_BITS: u32 = 23;
    /// A group attached: `value` is the queue's epoch, `index` the warp slot.
    TRACE_ATTACH: u32 = 1;
    /// A command was written into its entry: `value` is its first block, `detail` its blocks less 1.
    TRACE_SUBMIT: u32 = 2;
    /// The tail moved to `index`, written as `detail`.
    TRACE_SQ_DOORBELL: u32 = 3;
    /// The head moved to `index`, written as `detail`.
    TRACE_CQ_DOORBELL: u32 = 4;
    /// `detail` completions from `index` on were collected; `value` of them were nobody's.
    TRACE_REAP: u32 = 5;
    /// A command was answered: `detail` is its status.
    TRACE_COMPLETE: u32 = 6;
    /// A lane wanted to submit and could not: `detail` is why.
    TRACE_REFUSE: u32 = 7;
    /// A command that had timed out has completed.
    TRACE_LATE: u32 = 8;
    /// `value` of a doorbell: its register was written.
    TRACE_REGISTER: u32 = 1;
    /// The opcode begins at this bit of `TraceEvent::what`.
    TRACE_OPCODE_SHIFT: u32 = 8;
    /// The queue identifier begins at this bit of `TraceEvent::what`.
    TRACE_QUEUE_SHIFT: u32 = 16;
    /// The generation begins at this bit of `TraceEvent::detail`.
    TRACE_GENERATION_SHIFT: u32 = 16;
    /// Blocks of the namespace, and of the buffer, that each warp of a kernel `check_*` has for itself.
    CHECK_WARP_BLOCKS: u32 = 256;
    /// Locks of kernel `check_port`: those by acquires of atomics, and by waiting for a turn.
    PORT_LOCKS: u32 = 6;
    /// Words from one lock to the next. Two words beside each count its holders.
    PORT_LINE: u32 = 16;
    /// The word that all lanes add to.
    PORT_SUM: u32 = 96;
    /// The word whose low half they add to.
    PORT_SHORT_SUM: u32 = 97;
    /// The first word of bits: one of each block for each round.
    PORT_BITS: u32 = 112;
    /// SSDs of a volume at most.
    VOLUME_MEMBERS_MAX: u32 = 32;
    /// `VolumeRef::layout`: chunk after chunk goes to member after member.
    VOLUME_STRIPE: u32 = 0;
    /// `VolumeRef::layout`: each member has all chunks.
    VOLUME_REPLICATE: u32 = 1;
    /// `VolumeRef::layout`: one member after the other.
    VOLUME_CONCATENATE: u32 = 2;
}
