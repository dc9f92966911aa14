//! What the host shares with kernels that try each call of the device library. `abi_check.h` says what each field is.

use super::constants::constants;
use super::{BufferRef, Layout, NamespaceRef, VolumeBufferRef, VolumeRef, mirror};

constants! {
    /// Every mirrored constant of kernels that only tests run, for checks against the header.
    CHECK_CONSTANTS {
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
    }
}

/// Every mirrored struct of kernels that only tests run.
pub const CHECK_STRUCTS: &[Layout] = &[
    Layout::of::<CheckResult>(),
    Layout::of::<CheckArgs>(),
    Layout::of::<StaleCheckArgs>(),
    Layout::of::<AttachCheckArgs>(),
    Layout::of::<PortCheckArgs>(),
    Layout::of::<TestRecord>(),
    Layout::of::<QueueTestArgs>(),
    Layout::of::<VolumeCheckResult>(),
    Layout::of::<VolumeCheckArgs>(),
];

mirror! {
    /// What one warp of a kernel `check_*` saw.
    plain CheckResult = "warpbell_check_result" {
        /// Calls, of each lane, that were answered as they should be.
        done: u64,
        /// Calls that were not.
        failed: u64,
        /// Calls that moved other data than they should have.
        wrong: u64,
        /// The first of these in one of the lanes: its number in the kernel.
        step: u32,
        /// The answer to it.
        status: u32,
    }
}

mirror! {
    /// Kernels `check_*`: the calls of one part of the device library each.
    bench CheckArgs = "warpbell_check_args" {
        /// The namespace.
        ns: NamespaceRef,
        /// `CHECK_WARP_BLOCKS` blocks for each warp of the launch.
        buffer: BufferRef,
        /// Address of `CheckResult[warps]`, zeroed.
        results: u64,
        /// Address of a `u32` that ends the kernel once it is not 0.
        stop: u64,
        /// First block of warp 0.
        first_lba: u64,
        /// Seed of contents.
        seed: u64,
        /// How often each warp makes the calls.
        rounds: u32,
        /// Zero.
        pad0: u32,
    }
}

mirror! {
    /// Kernel `check_stale`: whether data is there when what announces it is.
    bench StaleCheckArgs = "warpbell_stale_check_args" {
        /// Address of `u64[words]`: all of them are the round's number, once it has begun.
        data: u64,
        /// Address of `u64[32]` in host memory: the round, by each lane.
        answer: u64,
        /// Address of a `u32` in host memory: the round that has begun, from 1 on.
        turn: u64,
        /// Address of a `u32` in host memory: the last round that the kernel has looked at.
        seen: u64,
        /// Address of a `u32` in host memory that ends the kernel once it is not 0.
        stop: u64,
        /// Address of a [`CheckResult`], zeroed.
        results: u64,
        /// How long a round may take to begin, in nanoseconds.
        timeout_ns: u64,
        /// Words of data.
        words: u32,
        /// Rounds.
        rounds: u32,
    }
}

mirror! {
    /// Kernel `check_attach`: whether a lane that attaches and a host that gives the queue up see each other.
    bench AttachCheckArgs = "warpbell_attach_check_args" {
        /// Address of a [`QueueRef`](super::QueueRef), shared, for one warp.
        queue: u64,
        /// Address of a `u32` in host memory: the round, if the lane was let in; else 0.
        attached: u64,
        /// Address of a `u32` in host memory: the round that has begun, from 1 on.
        turn: u64,
        /// Address of a `u32` in host memory: the round in which the lane is about to attach.
        begun: u64,
        /// Address of a `u32` in host memory: the round in which the host has looked at the hazard slot.
        looked: u64,
        /// Address of a `u32` in host memory: the last round that the kernel has left.
        seen: u64,
        /// Address of a [`CheckResult`], zeroed.
        results: u64,
        /// How long each wait may take, in nanoseconds.
        timeout_ns: u64,
        /// Rounds.
        rounds: u32,
        /// Zero.
        pad0: u32,
    }
}

mirror! {
    /// Kernel `check_port`: what port.cuh says of its accesses.
    bench PortCheckArgs = "warpbell_port_check_args" {
        /// Address of `u64[PORT_BITS + rounds * blocks]`, zeroed: the words of `abi_check.h`.
        words: u64,
        /// Address of [`CheckResult`] of each warp, zeroed.
        results: u64,
        /// How long all of it may take, in nanoseconds.
        timeout_ns: u64,
        /// Rounds.
        rounds: u32,
        /// Zero.
        pad0: u32,
    }
}

mirror! {
    /// What `queue_test` saw of one command.
    plain TestRecord = "warpbell_test_record" {
        /// Statuses returned for it: exactly 1 is right.
        answers: u32,
        /// The first.
        status: u32,
        /// 1: checked and right, 2: checked and wrong, 0: not checked.
        payload: u32,
        /// Its command identifier.
        cid: u32,
        /// Its block.
        lba: u64,
        /// First word of the data, where it was wrong.
        found: u64,
    }
}

mirror! {
    /// Kernel `queue_test`: every lane issues `commands` commands through the raw queue.
    bench QueueTestArgs = "warpbell_queue_test_args" {
        /// The namespace.
        ns: NamespaceRef,
        /// One block per warp, lane and command in flight.
        buffer: BufferRef,
        /// Address of the [`Mailbox`](super::Mailbox).
        mailbox: u64,
        /// Address of `TestRecord[warps][32][commands]`, zeroed.
        records: u64,
        /// Address of `WarpResult[warps]`.
        results: u64,
        /// Seed of offsets and patterns.
        seed: u64,
        /// Deadline of a wait in nanoseconds; 0: the queue's.
        timeout_ns: u64,
        /// Deadline of a submission in nanoseconds; 0: the same.
        submit_timeout_ns: u64,
        /// Commands of each lane.
        commands: u32,
        /// Lanes that submit together; they take turns where that is below 32.
        batch: u32,
        /// Commands in flight per lane at most.
        async_depth: u32,
        /// `TEST_READ` and its like.
        mode: u32,
        /// `TEST_STALE_TOKEN`.
        flags: u32,
        /// Zero.
        pad0: u32,
    }
}

mirror! {
    /// What one warp of kernel `volume_check` saw.
    plain VolumeCheckResult = "warpbell_volume_check_result" {
        /// Units written, or read and looked at.
        units: u64,
        /// Of those: read, and not what was written there.
        wrong: u64,
        /// Units whose I/O did not succeed.
        failed: u64,
        /// The status of one of them.
        status: u64,
    }
}

mirror! {
    /// Kernel `volume_check`: writes every unit of a volume, or reads and compares all.
    bench VolumeCheckArgs = "warpbell_volume_check_args" {
        /// The volume.
        volume: VolumeRef,
        /// 32 units for each warp of the launch.
        buffer: VolumeBufferRef,
        /// Address of `VolumeCheckResult[warps]`, zeroed.
        results: u64,
        /// Address of a `u32` that ends the kernel once it is not 0.
        stop: u64,
        /// Units of the volume.
        units: u64,
        /// Seed of contents.
        seed: u64,
        /// Blocks of a unit.
        unit_blocks: u32,
        /// 1: writes; 0: reads.
        writes: u32,
    }
}
