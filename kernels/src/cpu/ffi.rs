// UNSAFETY: declares the C interface of the executor, and reads the tables that a module exports.
#![expect(unsafe_code, reason = "foreign functions and tables of compiled C++")]
//! `simt/module.h` in Rust.

use std::ffi::{CStr, c_char, c_void};
use std::ops::AddAssign;

use super::costs::AccessCosts;
use crate::abi::Row;

pub(super) const ABI_VERSION: u32 = 5;
pub(super) const MODULE_SYMBOL: &[u8] = b"wb_simt_module_v1";
pub(super) const TABLE_SYMBOL: &[u8] = b"warpbell_abi_table";

pub(super) const GUARD_PAGES: u32 = 1;
pub(super) const STRICT_SHUFFLE: u32 = 2;
pub(super) const EXPLORE: u32 = 4;
pub(super) const OBSERVE_SHARED: u32 = 8;

/// A worker of the executor; only ever behind a pointer.
#[repr(C)]
pub(super) struct RawWorker {
    _opaque: [u8; 0],
}

pub(super) type KernelFn = unsafe extern "C" fn(*const c_void);
pub(super) type ModuleFn = unsafe extern "C" fn() -> *const RawModule;

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawHooks {
    pub(super) context: *mut c_void,
    pub(super) doorbell: Option<unsafe extern "C" fn(*mut c_void, *mut u32, u32)>,
    pub(super) clock_ns: Option<unsafe extern "C" fn(*mut c_void) -> u64>,
    pub(super) memory_event: Option<unsafe extern "C" fn(*mut c_void, u32, u64, u32, u32, u32)>,
    pub(super) pass_time: Option<unsafe extern "C" fn(*mut c_void, u64) -> u64>,
    pub(super) register_load: Option<unsafe extern "C" fn(*mut c_void, *const u32) -> u32>,
}

#[repr(C)]
pub(super) struct RawLaunch {
    pub(super) abi_version: u32,
    pub(super) size: u32,
    pub(super) kernel: Option<KernelFn>,
    pub(super) args: *const c_void,
    pub(super) args_size: u64,
    pub(super) grid_x: u32,
    pub(super) block_x: u32,
    pub(super) first_block: u32,
    pub(super) block_stride: u32,
    pub(super) resident_blocks: u32,
    pub(super) stack_bytes: u32,
    pub(super) shared_bytes: u32,
    pub(super) seed: u64,
    pub(super) preempt_one_in: u32,
    pub(super) store_buffer: u32,
    pub(super) flags: u32,
    pub(super) reserved: u32,
    pub(super) hooks: RawHooks,
    pub(super) costs: *const AccessCosts,
    pub(super) host: *const RawRange,
    pub(super) host_ranges: u64,
}

/// Addresses from `begin` up to, but not with, `end`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawRange {
    pub(super) begin: u64,
    pub(super) end: u64,
}

#[repr(C)]
pub(super) struct RawKernel {
    pub(super) name: *const c_char,
    pub(super) kernel: Option<KernelFn>,
    pub(super) args_size: u64,
    pub(super) abi_version: u32,
    pub(super) reserved: u32,
    pub(super) next: *const RawKernel,
}

#[repr(C)]
pub(super) struct RawModule {
    pub(super) abi_version: u32,
    pub(super) size: u32,
    pub(super) create: unsafe extern "C" fn(*const RawLaunch) -> *mut RawWorker,
    pub(super) step: unsafe extern "C" fn(*mut RawWorker, u32) -> u32,
    pub(super) error: unsafe extern "C" fn(*const RawWorker) -> *const c_char,
    pub(super) counters: unsafe extern "C" fn(*const RawWorker, *mut Counters),
    pub(super) destroy: unsafe extern "C" fn(*mut RawWorker),
    pub(super) kernels: *const RawKernel,
    pub(super) explore: *const RawExplore,
}

/// Where a lane stands (`simt/explore.h`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct RawStop {
    pub(super) kind: u32,
    pub(super) bytes: u32,
    pub(super) address: u64,
    pub(super) stores: u32,
    pub(super) reserved: u32,
}

/// A store that waits in a buffer.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct RawWaiting {
    pub(super) address: u64,
    pub(super) bytes: u32,
    pub(super) doorbell: u32,
    pub(super) epoch: u32,
    pub(super) fenced: u32,
    pub(super) value: [u8; 16],
}

#[repr(C)]
pub(super) struct RawExplore {
    pub(super) advance: unsafe extern "C" fn(*mut RawWorker, u32, *mut RawStop),
    pub(super) waiting: unsafe extern "C" fn(*const RawWorker, u32, u32, *mut RawWaiting),
    pub(super) drain: unsafe extern "C" fn(*mut RawWorker, u32, u32),
    pub(super) save: unsafe extern "C" fn(*const RawWorker, u32, *mut u64, u64) -> u64,
    pub(super) restore: unsafe extern "C" fn(*mut RawWorker, u32, *const u64, *mut RawStop),
}

/// One row of `warpbell_abi_table`.
#[repr(C)]
pub(super) struct RawRow {
    structure: *const c_char,
    field: *const c_char,
    offset: u32,
    size: u32,
}

#[cfg(warpbell_cpu)]
unsafe extern "C" {
    pub(super) fn wb_simt_module_v1() -> *const RawModule;
    pub(super) static warpbell_abi_table: [RawRow; 0];
}

/// What workers counted: the costs of the device library, and the executor's own.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Atomic read-modify-writes, failed ones included.
    pub rmw: u64,
    /// Compare-and-swaps that found another value.
    pub rmw_failed: u64,
    /// Fences of system scope.
    pub fence_sys: u64,
    /// Fences of GPU scope.
    pub fence_gpu: u64,
    /// Doorbells rung: SQ and CQ.
    pub doorbells: u64,
    /// Submission queue tails rung.
    pub sq_doorbells: u64,
    /// Completion queue heads rung.
    pub cq_doorbells: u64,
    /// Submission queue entries written.
    pub sqes: u64,
    /// Completion queue entries reaped.
    pub cqes: u64,
    /// Looks at a completion slot or an entry's phase.
    pub polls: u64,
    /// Hooked loads.
    pub loads: u64,
    /// Hooked stores, doorbells left out.
    pub stores: u64,
    /// Completed warp collectives, each counted once for its group.
    pub collectives: u64,
    /// Times a lane left the processor.
    pub switches: u64,
    /// Of these, taken away by the seed.
    pub preemptions: u64,
    /// Stores that left a store buffer.
    pub drained: u64,
    /// Shadow doorbells written (Doorbell Buffer Config).
    pub shadow_stores: u64,
    /// Reads of registers, and of other devices' memory.
    pub register_reads: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.rmw += other.rmw;
        self.rmw_failed += other.rmw_failed;
        self.fence_sys += other.fence_sys;
        self.fence_gpu += other.fence_gpu;
        self.doorbells += other.doorbells;
        self.sq_doorbells += other.sq_doorbells;
        self.cq_doorbells += other.cq_doorbells;
        self.sqes += other.sqes;
        self.cqes += other.cqes;
        self.polls += other.polls;
        self.loads += other.loads;
        self.stores += other.stores;
        self.collectives += other.collectives;
        self.switches += other.switches;
        self.preemptions += other.preemptions;
        self.drained += other.drained;
        self.shadow_stores += other.shadow_stores;
        self.register_reads += other.register_reads;
    }
}

/// The text at `text`; "" for null.
///
/// # Safety
/// `text` is null or points to a C string that nobody changes meanwhile.
pub(super) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and a C string by this function's contract.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The rows of a module's `warpbell_abi_table`.
///
/// # Safety
/// `row` points to rows with static texts, the last of which has a null structure.
pub(super) unsafe fn rows(mut row: *const RawRow) -> Vec<Row> {
    let mut rows = Vec::new();
    loop {
        // SAFETY: the last row was not passed yet, so this is a row of the table.
        let RawRow { structure, field, offset, size } = unsafe { &*row };
        if structure.is_null() {
            return rows;
        }
        // SAFETY: a static C string by this function's contract.
        let structure = unsafe { text(*structure) };
        // SAFETY: the same.
        let field = unsafe { text(*field) };
        rows.push(Row { structure, field, offset: *offset, size: *size });
        // SAFETY: there is a row after each that is not the last.
        row = unsafe { row.add(1) };
    }
}
