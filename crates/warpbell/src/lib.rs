//! Warpbell: GPU-initiated NVMe.
//!
//! Open an [`Ssd`] by [`DeviceName`], [`attach`](Ssd::attach) queues for so many warps, register
//! [`Buffer`]s, and run kernels on a [`Target`]: they write NVMe commands into rings, ring doorbells and
//! poll completions by themselves. The host only sets up and cleans up.
//!
//! ```
//! use warpbell::{AttachOptions, DeviceName, OpenOptions, RingPlacement, Ssd};
//!
//! let name: DeviceName = "soft:size=1m".parse()?;
//! let ssd = Ssd::open(&name, &OpenOptions::default())?;
//! let queues = ssd.attach(&AttachOptions::new().queues(2).warps(2))?;
//! assert_eq!(queues.pairs().len(), 2);
//! # Ok::<(), warpbell::Error>(())
//! ```
//!
//! The layers below are public as crates of their own: `warpbell-driver` (the controller's life),
//! `warpbell-softctl` (the soft controller), `warpbell-kernels` (the device library and the CPU executor),
//! `warpbell-hw` (hardware as traits) and `warpbell-nvme` (wire types).

mod buffer;
mod client_time;
mod cuda;
mod device_data;
mod device_name;
mod error;
mod files;
mod find_file;
mod host_io;
mod host_queue;
mod launch;
mod lease;
#[cfg(feature = "log")]
pub mod log;
mod offered;
mod open;
mod order;
mod page_cache;
mod path;
mod placement;
mod program;
mod queues;
mod recovery;
mod regions;
mod running;
mod ssd;
mod status_text;
mod target;
#[cfg(any(test, feature = "test-hooks"))]
#[doc(hidden)]
pub mod test_hooks;
mod tiles;
mod trace;
mod volume;

pub use buffer::{Buffer, DataPointerKind};
pub use device_name::{DeviceName, DeviceNameError, Named};
pub use error::{Error, error_chain};
pub use files::{FileTable, SsdSource};
pub use find_file::FileOptions;
pub use host_io::{
    BlockIo, DataPointers, IoEnd, IoMemory, IoOp, IoOutcome, IoRequest, RequestCheck, RequestQueue,
    RequestQueueSpec,
};
pub use host_queue::{HostQueue, HostQueueSpec};
pub use launch::{Launch, LaunchOver, Module};
pub use lease::{Lease, LeaseSpec};
pub use open::space_of;
pub use order::{Delivery, OrderDomain, OrderPolicy, OrderRefusal, Reaper};
pub use page_cache::{PageCache, PageCacheReport, PageCacheSpec};
pub use path::DataPath;
pub use placement::{
    DataPlacement, Domains, ForeignMemory, Place, PlaceError, RingPlace, RingPlacement, RingPlaces,
    RingPlacesError, placements,
};
pub use queues::attach::{AttachOptions, Attachment};
pub use queues::doorbells::{DoorbellChoice, DoorbellChoiceError};
pub use queues::kernel_memory::{KernelMemory, SharedMemory};
pub use queues::kernel_queues::{
    KernelQueues, KernelQueuesSpec, QueueCounters, RingAddresses, ShadowAddresses, Sharing,
};
pub use queues::layout::{CidLayout, DEFAULT_COMMANDS_PER_LANE, LANES, LayoutError};

pub use program::{Code, CompileOptions, Program};
#[cfg(feature = "mutations")]
pub use recovery::mutation as recovery_mutation;
pub use recovery::{
    AbortAnswer, OnRelease, QueueName, Recovery, RecoveryCounters, RecoveryEvent, RecoveryPolicy, SsdEvent,
    SsdEventKind, warning_words,
};
pub use regions::{Region, Regions};
pub use running::{LaunchReport, Running};
pub use ssd::{OpenOptions, Ssd, same_file};
pub use status_text::describe_status;
pub use target::{OpenTarget, Target, TargetError};
pub use tiles::{TILE_SLOTS_MAX, Tile, TileList, TileReport, TileSchedule, TileSpec};
pub use trace::{LaneTrace, TraceMemory, TraceSpec};
pub use volume::{
    MemberReport, Volume, VolumeBuffer, VolumeIo, VolumeIoSpec, VolumeLayout, VolumeLeft, VolumePart,
    VolumePiece, VolumePlace, VolumeRequest, VolumeSpec,
};

pub use warpbell_gpu::{DEVICE_PAGE, DeviceMemory, Gpu};
pub use warpbell_hw::{Lba, Nsid};
pub use warpbell_kernels::abi;
pub use warpbell_vfio::Bdf;
