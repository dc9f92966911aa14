//! What the host shares with kernels that write traces. `abi_trace.h` says what each field is.

use super::mirror;

mirror! {
    /// One event of a trace.
    plain TraceEvent = "warpbell_trace_event" {
        /// When, on the kernel's clock.
        clock_ns: u64,
        /// First block of a submission, and what its kind says of others.
        value: u64,
        /// `TRACE_*` 7:0, opcode 15:8, queue identifier 31:16.
        what: u32,
        /// Command identifier.
        cid: u32,
        /// What its kind says; generation 31:16 of commands.
        detail: u32,
        /// Low `TRACE_INDEX_BITS` bits of an index.
        index: u32,
    }
}

mirror! {
    /// The ring of one lane.
    plain TraceLane = "warpbell_trace_lane" {
        /// Address of `TraceEvent[1 << shift]`; 0: events are counted and not kept.
        events: u64,
        /// Events so far; the oldest are overwritten.
        written: u64,
        /// Base-2 logarithm of the events kept.
        shift: u32,
        /// Zero.
        pad0: u32,
        /// Zero.
        pad1: u64,
    }
}
