// UNSAFETY: an implementation vouches for what a kernel of ours does with its arguments.
#![expect(unsafe_code, reason = "a promise about kernels, which the host acts upon")]
//! Which memory a kernel of ours touches, so that a launch of it can be checked.

use super::{BufferRef, NamespaceRef, Plain};

/// Memory that an argument names, and that the kernel reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The argument.
    pub field: &'static str,
    /// Its first byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// What is there.
    pub holds: Holds,
}

/// What memory holds that an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Nothing that is followed.
    Data,
    /// References of queues, which are followed to rings and doorbells.
    Queues,
    /// References of buffers, whose addresses are put into commands.
    Buffers,
}

impl Span {
    /// Memory without references.
    pub fn new(field: &'static str, address: u64, bytes: u64) -> Span {
        Span { field, address, bytes, holds: Holds::Data }
    }
}

/// What is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid<'a> {
    /// The kernel.
    pub kernel: &'a str,
    /// Blocks.
    pub blocks: u32,
    /// Warps of all blocks.
    pub warps: u32,
    /// Threads of a block.
    pub block: u32,
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
}

/// Arguments of a kernel of ours whose addresses can be checked: a launch with them is safe.
///
/// # Safety
/// Each kernel in `KERNELS` touches what `spans` lists for its grid, its queues, and nothing else, as long as what it
/// finds in that memory is what its host put there.
pub unsafe trait KernelArgs: Plain {
    /// Kernels that take them.
    const KERNELS: &'static [&'static str];

    /// All memory that is touched, but for what its queues have.
    fn spans(&self, grid: &Grid<'_>) -> Vec<Span>;

    /// The namespace, by whose queues warps find theirs.
    fn namespace(&self) -> &NamespaceRef;

    /// The buffer whose addresses the kernel puts into commands. None where no data moves, or by what `spans` names.
    fn buffer(&self) -> Option<&BufferRef>;

    /// Why the kernel cannot run with this grid, whatever its memory: it would divide by zero, or leave what a block has.
    fn refusal(&self, _grid: &Grid<'_>) -> Option<&'static str> {
        (self.namespace().queue_count == 0).then_some("the namespace has no queue")
    }
}
