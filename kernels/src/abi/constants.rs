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
    /// Version of all structs; both sides must have the same.
    ABI_VERSION: u32 = 2;
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
    /// Completion word: armed, and not yet answered.
    WORD_PENDING: u32 = 0x8000;
    /// Completion word: mask of the status, CQE DW3 >> 17.
    WORD_STATUS: u32 = 0x7fff;
    /// Completion word: the generation begins at this bit.
    WORD_GENERATION_SHIFT: u32 = 16;
    /// `QueueHost::state`: in use.
    QUEUE_RUNNING: u32 = 0;
    /// `QueueHost::state`: given up by the host.
    QUEUE_LOST: u32 = 1;
    /// One warp owns the pair: no atomic operations.
    SHARING_EXCLUSIVE: u32 = 0;
    /// Several warps share the pair.
    SHARING_SHARED: u32 = 1;
    /// `QueueRef::flags`: doorbells go through shadows in memory (Doorbell Buffer Config).
    QUEUE_SHADOW: u32 = 1;
    /// `QueueRef::flags`: 32-bit command identifiers.
    QUEUE_WIDE_CIDS: u32 = 2;
    /// `NamespaceRef::flags`: data is described by one inline SGL descriptor, else by PRPs.
    NAMESPACE_SGL: u32 = 1;
    /// Most PRP list entries of a command, so that a list never chains.
    PRP_LIST_MAX: u32 = 256;
    /// Bytes of a page of a PRP table.
    PRP_TABLE_PAGE: u32 = 4096;
    /// Status: the library's own code in the low bits, not the controller's.
    STATUS_LIBRARY: u32 = 0x8000;
    /// The deadline passed with the command in flight: its buffer is not free.
    TIMED_OUT: u32 = 1;
    /// The deadline passed before the command was submitted: its buffer is free.
    NOT_SUBMITTED: u32 = 2;
    /// The host's stop flag was seen before submission.
    ABORTED: u32 = 3;
    /// The extent leaves the namespace.
    OUT_OF_RANGE: u32 = 4;
    /// The buffer address is not dword-aligned.
    MISALIGNED: u32 = 5;
    /// The host deleted the queue; attach again.
    QUEUE_GONE: u32 = 6;
    /// The lane has no free command identifier.
    NO_CID: u32 = 7;
    /// The token's command was answered already.
    STALE_TOKEN: u32 = 8;
    /// An indivisible batch above entries - 1.
    INVALID_BATCH: u32 = 9;
    /// Above the controller's transfer limit.
    TOO_LARGE: u32 = 10;
    /// The data leaves the registered buffer.
    OUT_OF_BUFFER: u32 = 11;
    /// An argument that no command can carry: zero blocks, another queue.
    INVALID_FIELD: u32 = 12;
    /// Verification: the data read is not the data expected.
    MISMATCH: u32 = 13;
    /// The queue is full at the moment.
    NO_ROOM: u32 = 14;
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
    /// First word of a verifiable unit: "WARPBELL".
    UNIT_MAGIC: u64 = u64::from_le_bytes(*b"WARPBELL");
    /// `VerifyArgs::mode`: write the pattern.
    VERIFY_WRITE: u32 = 0;
    /// `VerifyArgs::mode`: read and check it.
    VERIFY_CHECK: u32 = 1;
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
}
