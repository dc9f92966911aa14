//! The constants of `abi.h` and its like, without their `WARPBELL_` prefix.

/// A constant's C name and value.
pub type Constant = (&'static str, u64);

macro_rules! constants {
    ($(#[$of:meta])* $all:ident { $($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)* }) => {
        $($(#[$doc])* pub const $name: $type = $value;)*

        $(#[$of])*
        pub const $all: &[$crate::abi::Constant] = &[$((concat!("WARPBELL_", stringify!($name)), $name as u64),)*];
    };
}
#[cfg(feature = "bench")]
pub(super) use constants;

constants! {
    /// Every mirrored constant of the device ABI, for checks against the headers.
    CONSTANTS {
        /// Version of what users' kernels share with hosts; both sides must have the same.
        ABI_VERSION: u32 = 4;
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
        /// `TileStep::flags`: an earlier step has loaded it, and it is still there: no load.
        TILE_RESIDENT: u32 = 1;
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
        /// SSDs of a volume at most.
        VOLUME_MEMBERS_MAX: u32 = 32;
        /// `VolumeRef::layout`: chunk after chunk goes to member after member.
        VOLUME_STRIPE: u32 = 0;
        /// `VolumeRef::layout`: each member has all chunks.
        VOLUME_REPLICATE: u32 = 1;
        /// `VolumeRef::layout`: one member after the other.
        VOLUME_CONCATENATE: u32 = 2;
    }
}
