//! What the host shares with the kernels that measure: `resident` and `gauge`. `abi_resident.h` says what each
//! does with it.

use crate::abi::{BufferRef, NamespaceRef, mirror};

mirror! {
    /// A queue pair as its GPU-resident controller sees it, and the controller's state between launches.
    bench ResidentQueue = "warpbell_resident_queue" {
        /// Address of the submission entries.
        sq: u64,
        /// Address of the completion entries.
        cq: u64,
        /// Address of the submission tail doorbell.
        sq_doorbell: u64,
        /// Address of the completion head doorbell.
        cq_doorbell: u64,
        /// Address of `u8[65536]`, zeroed; with a delay.
        in_flight: u64,
        /// Address of `ResidentFlight[entries]`; with a delay.
        flights: u64,
        /// Base-2 logarithm of the ring entries.
        shift: u32,
        /// Queue identifier.
        qid: u32,
        /// Entries that the submission doorbell told of, low half.
        published: u32,
        /// Entries fetched, low half.
        fetched: u32,
        /// Commands among them, low half.
        accepted: u32,
        /// Completions posted, low half.
        posted: u32,
        /// Completions that the completion doorbell told of, low half.
        taken: u32,
        /// Of the first broken rule: 1 + `RULE_*`; 0: none was broken.
        first_rule: u32,
        /// The command; 0 of a doorbell.
        first_cid: u32,
        /// How many entries were fetched before.
        first_fetched: u32,
        /// The value at fault.
        first_value: u64,
        /// Commands of all launches.
        commands: u64,
        /// Sum of `splitmix64(lba << 16 | cid)` over them.
        digest: u64,
        /// How often each rule was broken.
        broken: [u32; 32],
    }
}

mirror! {
    /// A command on its way, where completions are delayed.
    plain ResidentFlight = "warpbell_resident_flight" {
        /// When it completes, on the kernel's clock.
        due_ns: u64,
        /// Its identifier.
        cid: u32,
        /// Its status: 15 bits.
        status: u32,
    }
}

mirror! {
    /// Kernel `resident`: a controller and its clients in one launch.
    bench ResidentArgs = "warpbell_resident_args" {
        /// The namespace, and the queues of the clients.
        ns: NamespaceRef,
        /// Addresses that commands may name.
        buffer: BufferRef,
        /// Address of the [`Mailbox`](crate::abi::Mailbox).
        mailbox: u64,
        /// Address of `WarpResult[clients]`.
        results: u64,
        /// Address of `u64[clients]`, zeroed.
        digests: u64,
        /// Address of `u32[clients][32][HISTOGRAM_BUCKETS]`, zeroed; 0: none.
        histograms: u64,
        /// Address of `ResidentQueue[queue_count]`.
        queues: u64,
        /// Address of `u32[blocks]`: the multiprocessor of each.
        places: u64,
        /// Address of a `u32`, zeroed: clients that have ended.
        ended: u64,
        /// Commands of all clients; 0: no limit.
        io_limit: u64,
        /// Nanoseconds on the kernel's clock; 0: no limit.
        runtime_ns: u64,
        /// Deadline of a command in nanoseconds; 0: the queue's.
        timeout_ns: u64,
        /// Nanoseconds from fetch to completion, at least.
        delay_ns: u64,
        /// Blocks of the launch that are the controller.
        controller_blocks: u32,
        /// Warps that are clients.
        clients: u32,
        /// Commands outstanding per queue.
        iodepth: u32,
        /// Commands submitted at once at most, 1 to 32.
        batch: u32,
        /// Blocks of a command.
        blocks_per_io: u32,
        /// `RESIDENT_THROUGHPUT` and its like.
        mode: u32,
        /// `RESIDENT_DIGEST` and its like.
        flags: u32,
        /// Zero.
        pad0: u32,
    }
}

mirror! {
    /// What one warp of kernel `gauge` measured.
    plain GaugeResult = "warpbell_gauge_result" {
        /// Start, on the kernel's clock.
        start_ns: u64,
        /// End, on the kernel's clock.
        end_ns: u64,
        /// Rounds done.
        rounds: u64,
        /// Compare-and-swaps that found another value, or polls that found nothing.
        retries: u64,
    }
}

mirror! {
    /// Kernel `gauge`: lane 0 of each warp does one thing, again and again.
    bench GaugeArgs = "warpbell_gauge_args" {
        /// Address of a `u64`; of a `u32` for `GAUGE_PING` and `GAUGE_PONG`.
        word: u64,
        /// Address of a `u32`, for `GAUGE_PING` and `GAUGE_PONG`.
        answer: u64,
        /// Address of `GaugeResult[warps]`.
        results: u64,
        /// Address of the [`Mailbox`](crate::abi::Mailbox).
        mailbox: u64,
        /// Rounds of each warp.
        rounds: u64,
        /// `GAUGE_PAUSE` and its like.
        mode: u32,
        /// Zero.
        pad0: u32,
    }
}
