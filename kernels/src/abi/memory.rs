//! What kernels and the host keep per queue, namespace, buffer and launch.

use super::mirror;

mirror! {
    /// A queue's state, in device memory; it outlives kernels. Each group has a line of its own.
    versioned QueueState = "warpbell_queue_state" {
        /// Completions whose SQ head lies outside what was submitted.
        sqhd_mismatch: u32,
        /// With `QUEUE_SHADOW`: bytes from the SQ tail's entry to the CQ head's.
        shadow_stride: u32,
        /// Address of the SQ tail's shadow doorbell, in host memory.
        shadow: u64,
        /// Address of the SQ tail's EventIdx.
        events: u64,
        /// Address of the trace of kernels compiled with `WARPBELL_TRACE`; 0: none.
        trace: u64,
        /// With `QUEUE_FLUSH`: address of a 32-bit register of the controller.
        flush_register: u64,
        /// With `QUEUE_FLUSH`: address of a 32-bit word of the memory that data lies in; 0: the register suffices.
        flush_data: u64,
        /// Blocks that one Dataset Management deallocates at most; 0: no limit.
        deallocate_blocks: u64,
        /// Its ranges at most; 0: no limit.
        deallocate_ranges: u32,
        /// Blocks of one of them; 0: no limit.
        deallocate_range_blocks: u32,
        /// Zero.
        pad0: [u32; 14],
        /// Completions that no pending command owned, per lane; the sum counts.
        spurious: [u32; 32],
        /// Commands that completed after their deadline, per lane; the sum counts.
        late: [u32; 32],
        /// Shared: CLOSED bit, and the next index to reserve.
        ticket: u64,
        /// Zero.
        pad1: [u64; 15],
        /// Shared: every index below is published.
        turn: u64,
        /// Shared, with `QUEUE_SHADOW`: the low half of the tail last rung.
        rung: u32,
        /// Zero.
        pad2: [u32; 29],
        /// Shared: LOCK bit, and the commands whose completions were reaped and told to the controller.
        reap: u64,
        /// Zero.
        pad3: [u64; 15],
        /// Shared: completions reaped, told or not.
        head: u64,
        /// Of all completions reaped: those of no pending command, which give no room.
        surplus: u32,
        /// Zero.
        pad4: [u32; 29],
        /// Exclusive: the owner's tail, saved at detach.
        exclusive_tail: u64,
        /// Exclusive: the owner's head.
        exclusive_head: u64,
        /// Exclusive: the head last told to the controller.
        exclusive_reported: u64,
        /// Zero.
        pad5: [u64; 13],
    }
}

impl QueueState {
    /// A fresh state whose counters stand at `start`, which modulo twice the ring's entries is the position
    /// of the rings: 0 straight from creation.
    pub const fn starting_at(start: u64) -> QueueState {
        QueueState {
            ticket: start,
            turn: start,
            rung: start as u32,
            reap: start,
            head: start,
            exclusive_tail: start,
            exclusive_head: start,
            exclusive_reported: start,
            ..QueueState::new()
        }
    }
}

mirror! {
    /// The host's page of a queue, in host memory.
    versioned QueueHost = "warpbell_queue_host" {
        /// `QUEUE_RUNNING`, `QUEUE_LOST` or `QUEUE_DEAD`: written by the host.
        state: u32,
        /// Set to 1 by a lane after it quarantined a command; the host exchanges it for 0, then scans.
        alarm: u32,
        /// Address of `u32[warp_slots][32]` in host memory; bit k: the lane's command k is quarantined.
        quarantine: u64,
        /// Address of the [`QueueRef`] of the queue in place of this one; 0: none yet. Written once, after `state`, when
        /// the controller has forgotten this queue.
        successor: u64,
        /// Address of `u32[warp_slots][32]` in host memory: 1 while the lane may touch rings, words, state or doorbells
        /// of this queue; 0: nobody counts.
        hazards: u64,
        /// Zero.
        pad: [u64; 11],
    }
}

mirror! {
    /// One queue pair as kernels see it.
    versioned QueueRef = "warpbell_queue_ref" {
        /// Address of the 64-byte submission entries.
        sq: u64,
        /// Address of the 16-byte completion entries.
        cq: u64,
        /// Address of the 32-bit tail doorbell.
        sq_doorbell: u64,
        /// Address of the 32-bit head doorbell.
        cq_doorbell: u64,
        /// Address of the [`QueueState`], in device memory.
        state: u64,
        /// Address of `u32[warp_slots][32][1 << token_shift]`, in device memory, zeroed.
        words: u64,
        /// Address of the [`QueueHost`], in host memory.
        host: u64,
        /// As in [`QueueHost`].
        quarantine: u64,
        /// Default for every wait, from its start, in nanoseconds.
        timeout_ns: u64,
        /// Base-2 logarithm of the ring entries.
        sq_shift: u32,
        /// Equal to `sq_shift`.
        cq_shift: u32,
        /// Ring at least whenever the tail crosses a multiple of `1 << ring_shift`.
        ring_shift: u32,
        /// Ring the CQ doorbell when so many entries are unreported; 1 to entries - 1.
        cq_doorbell_batch: u32,
        /// L: command identifier = `warp_slot << L | lane << (L - 5) | k`.
        local_bits: u32,
        /// Base-2 logarithm of the commands in flight per lane; at most L - 5.
        token_shift: u32,
        /// Warps that may attach; `warp_slots << L` is at most 65536, or 2^32 with `QUEUE_WIDE_CIDS`.
        warp_slots: u32,
        /// Queue identifier.
        qid: u32,
        /// Grows with every replacement of a lost queue.
        epoch: u32,
        /// `SHARING_*`.
        sharing: u32,
        /// `QUEUE_SHADOW` and its like.
        flags: u32,
        /// Zero.
        pad0: u32,
    }
}

mirror! {
    /// A namespace, and the queues through which kernels reach it. Warp w of the launch uses queue
    /// w mod `queue_count`, and there warp slot w div `queue_count`.
    versioned NamespaceRef = "warpbell_namespace_ref" {
        /// Address of `QueueRef[queue_count]`, readable by kernels.
        queues: u64,
        /// Logical blocks.
        blocks: u64,
        /// Queues.
        queue_count: u32,
        /// `SHARING_*`, of all its queues.
        sharing: u32,
        /// Warps for which command identifiers and words exist, over all queues.
        warps: u32,
        /// Namespace identifier.
        nsid: u32,
        /// Base-2 logarithm of the block size: 9 or 12.
        block_shift: u32,
        /// Blocks per command at most.
        max_blocks: u32,
        /// Base-2 logarithm of the controller's memory page: 12.
        page_shift: u32,
        /// `NAMESPACE_*`.
        flags: u32,
        /// Commands touch no block before this one,
        lease_first: u64,
        /// and none from this one on.
        lease_end: u64,
        /// The lowest address of their data, as the controller sees it,
        lease_iova: u64,
        /// and the end of the highest.
        lease_iova_end: u64,
        /// Command Retry Delay Times 1 to 3, units of 100 ms.
        crdt: [u32; 3],
        /// Blocks per Write Zeroes at most; 0: `max_blocks`.
        zeroes_blocks: u32,
    }
}

impl NamespaceRef {
    /// No queues and no blocks yet, and no limits but the namespace's own.
    pub const fn unleased() -> NamespaceRef {
        NamespaceRef { lease_end: u64::MAX, lease_iova_end: u64::MAX, ..NamespaceRef::new() }
    }
}

mirror! {
    /// Registered memory, contiguous for the controller.
    versioned BufferRef = "warpbell_buffer_ref" {
        /// Address for kernels.
        data: u64,
        /// Address for the controller; any dword alignment.
        iova: u64,
        /// Bytes.
        bytes: u64,
        /// IOVA of the PRP table; 0: none (SGLs only, or at most two pages).
        prp_iova: u64,
        /// Base-2 logarithm of the table's page.
        page_shift: u32,
        /// 0.
        flags: u32,
    }
}

mirror! {
    /// Host memory that a running kernel and the host both access.
    versioned Mailbox = "warpbell_mailbox" {
        /// Set by the host: finish what is in flight, then return.
        stop: u32,
        /// 0, then 1 from the first lane that reports an error.
        claimed: u32,
        /// First block of the I/O that failed.
        error_lba: u64,
        /// Its status.
        error_status: u32,
        /// The block (of threads) that saw it.
        error_block: u32,
        /// The thread that saw it.
        error_thread: u32,
        /// 1 once the error fields are valid.
        reported: u32,
        /// Zero.
        pad: [u64; 11],
    }
}
