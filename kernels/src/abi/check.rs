//! What the host shares with kernels that try each call of the device library. `abi_check.h` says what each field is.

use super::{BufferRef, NamespaceRef, mirror};

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
