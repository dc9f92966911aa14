//! The structs of `warpbell.h` and the headers beside it, laid out as C does. A test compares sizes and offsets with a C
//! compiler's.

mod files;
mod volumes;

pub mod host_io;

use std::ffi::{c_char, c_void};

pub use files::{FileInfo, FileOptions, FilePart};
pub use volumes::{
    CacheCounters, CacheInfo, CacheOptions, MemberInfo, Tile, TilesInfo, TilesOptions, VolumeInfo,
    VolumeIoEnd, VolumeIoOptions, VolumeOptions,
};

/// `WARPBELL_API_VERSION`: it grows with every function, and with every field at the end of a struct.
pub const API_VERSION: u32 = 8;

/// The oldest header whose programs run with this library. Version 3 was one number for the C API and for what
/// kernels share.
pub const OLDEST_API_VERSION: u32 = 3;

/// A handle as C sees it: a number in the shape of a pointer, never dereferenced.
pub type Handle = *mut c_void;

/// What begins every struct of options and every struct that is filled in.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Head {
    /// `WARPBELL_API_VERSION` of the header.
    pub api_version: u32,
    /// Bytes of the struct as the program knows it.
    pub size: u32,
}

impl Head {
    pub(crate) const fn of<T>() -> Head {
        Head { api_version: API_VERSION, size: size_of::<T>() as u32 }
    }
}

/// `warpbell_open_options`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OpenOptions {
    /// Version and size.
    pub head: Head,
    /// Null-terminated array of names, or null.
    pub allow_write: *const *const c_char,
    /// Queue pairs to ask for; 0: the default.
    pub queues: u32,
    /// Not 0: PRP entries only.
    pub prp_only: u32,
    /// Where rings lie; null: `host`.
    pub rings: *const c_char,
    /// Where data lies; null: `host`.
    pub data: *const c_char,
    /// The GPU whose memory `hbm` is.
    pub gpu: *const c_char,
    /// What is done about queues that do not answer; null: the defaults.
    pub recovery: *const RecoveryPolicy,
    /// How kernels ring doorbells; null: `auto`. Since version 5.
    pub doorbells: *const c_char,
}

/// `warpbell_recovery_policy`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RecoveryPolicy {
    /// Version and size.
    pub head: Head,
    /// Between two polls of queues.
    pub alarm_period_ns: u64,
    /// Between two polls of the controller's status.
    pub health_period_ns: u64,
    /// Between two polls for events.
    pub event_period_ns: u64,
    /// For all Abort commands of one pass.
    pub abort_ns: u64,
    /// From an Abort to the end of its command.
    pub settle_ns: u64,
    /// For the deletion of a queue pair.
    pub delete_ns: u64,
    /// Until there is a queue in place of it.
    pub replace_ns: u64,
    /// For kernels to leave all queues.
    pub quiesce_ns: u64,
    /// For a reset.
    pub reset_ns: u64,
    /// In which resets are counted.
    pub reset_window_ns: u64,
    /// Resets in that time.
    pub resets: u32,
    /// Not 0: the function is never reset.
    pub no_function_reset: u32,
    /// Not 0: nothing is done.
    pub off: u32,
    /// Not 0: a wish for the function's release is only told.
    pub keep_on_release: u32,
}

/// `warpbell_event`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Event {
    /// Version and size.
    pub head: Head,
    /// On the device's clock.
    pub at_ns: u64,
    /// `WARPBELL_EVENT_*`.
    pub kind: u32,
    /// `WARPBELL_STEP_*`.
    pub step: u32,
    /// Index of the queue.
    pub queue: u32,
    /// Its identifier; 0: no queue's.
    pub qid: u32,
    /// The command.
    pub tag: u32,
    /// SMART critical warning.
    pub warning: u32,
    /// In words.
    pub text: [u8; 256],
}

/// `warpbell_recovery_counters`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RecoveryCounters {
    /// Version and size.
    pub head: Head,
    /// Alarms answered.
    pub alarms: u64,
    /// Commands given up.
    pub timed_out: u64,
    /// Abort commands.
    pub aborts: u64,
    /// Acknowledged.
    pub aborts_acknowledged: u64,
    /// Of unknown commands.
    pub aborts_not_found: u64,
    /// Not answered.
    pub aborts_unanswered: u64,
    /// Completions after the deadline.
    pub late_completions: u64,
    /// Queues given up.
    pub queues_lost: u64,
    /// Queues in place of those.
    pub queues_replaced: u64,
    /// Queues not replaced.
    pub queues_dead: u64,
    /// Queue identifiers that came back.
    pub ids_freed: u64,
    /// Resets.
    pub resets: u64,
    /// Resets that failed.
    pub resets_failed: u64,
    /// 1 if the SSD was given up.
    pub ssds_lost: u64,
    /// Events that nobody took.
    pub events_lost: u64,
}

/// `warpbell_lease_options`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LeaseOptions {
    /// Version and size.
    pub head: Head,
    /// First block.
    pub first_lba: u64,
    /// Blocks; 0: all.
    pub blocks: u64,
    /// Not 0: nothing that changes blocks.
    pub read_only: u32,
    /// First queue.
    pub first_queue: u32,
    /// Queues; 0: all.
    pub queues: u32,
    /// 0.
    pub pad0: u32,
    /// The only buffer; null: any.
    pub buffer: Handle,
}

/// `warpbell_ssd_info`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SsdInfo {
    /// Version and size.
    pub head: Head,
    /// Model number.
    pub model: [u8; 48],
    /// Serial number.
    pub serial: [u8; 24],
    /// Firmware revision.
    pub firmware: [u8; 16],
    /// Of one command; 0: no limit.
    pub max_transfer_bytes: u64,
    /// Usable namespaces.
    pub namespaces: u32,
    /// I/O queue pairs granted.
    pub queues: u32,
}

/// `warpbell_namespace_info`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NamespaceInfo {
    /// Version and size.
    pub head: Head,
    /// Logical blocks.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Identifier.
    pub nsid: u32,
    /// 1 if the host may write.
    pub writable: u32,
    /// 0.
    pub pad0: u32,
}

/// `warpbell_attach_options`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AttachOptions {
    /// Version and size.
    pub head: Head,
    /// Where kernels run; null: `cpu`.
    pub target: *const c_char,
    /// Of each wait; 0: the default.
    pub timeout_ns: u64,
    /// Namespace; 0: the first.
    pub nsid: u32,
    /// Queue pairs; 0: 1.
    pub queues: u32,
    /// Warps; 0: as many as queues.
    pub warps: u32,
    /// Outstanding per queue; 0: the default.
    pub iodepth: u32,
    /// In flight per lane; 0: what fits.
    pub commands_per_lane: u32,
    /// `WARPBELL_SHARING_*`.
    pub sharing: u32,
    /// Replacements of each queue; 0: the default.
    pub replacement_queues: u32,
    /// Not 0: alarms are not answered.
    pub no_recovery: u32,
}

/// `warpbell_compile_options`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CompileOptions {
    /// Version and size.
    pub head: Head,
    /// Null-terminated array of definitions, or null.
    pub definitions: *const *const c_char,
    /// Folder for results, or null. Since version 4.
    pub cache: *const c_char,
}

/// `warpbell_launch_options`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LaunchOptions {
    /// Version and size.
    pub head: Head,
    /// Blocks; 0: 1.
    pub grid: u32,
    /// Threads of a block; 0: 32.
    pub block: u32,
    /// Shared memory of a block.
    pub shared_bytes: u32,
    /// Threads of the CPU target; 0: as many as CPUs.
    pub cpu_threads: u32,
    /// Not 0: all blocks at the same time, or none. Since version 5.
    pub cooperative: u32,
    /// Not 0: on `stream`. Since version 8.
    pub on_stream: u32,
    /// The driver's handle of a stream; null: the default one. Since version 8.
    pub stream: *mut c_void,
}
