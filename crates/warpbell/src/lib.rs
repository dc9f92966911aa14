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
//! let queues = ssd.attach(&AttachOptions { queues: 2, warps: 2, ..AttachOptions::default() })?;
//! assert_eq!(queues.pairs().len(), 2);
//! # Ok::<(), warpbell::Error>(())
//! ```
//!
//! The layers below are public as crates of their own: `warpbell-driver` (the controller's life),
//! `warpbell-softctl` (the soft controller), `warpbell-kernels` (the device library and the CPU executor),
//! `warpbell-hw` (hardware as traits) and `warpbell-nvme` (wire types).
#![forbid(unsafe_code)]

mod attach;
mod buffer;
mod device_name;
mod error;
mod host_queue;
mod layout;
mod pairs;
mod path;
mod run;
mod ssd;
mod target;

pub use attach::{AttachOptions, Attachment, QueueCounters, Sharing};
pub use buffer::{Buffer, Descriptor};
pub use device_name::{Bdf, DeviceName, DeviceNameError};
pub use error::Error;
pub use host_queue::HostQueue;
pub use layout::{CidLayout, DEFAULT_TOKENS, LANES, LayoutError};
pub use path::DataPath;

pub use ssd::{OpenOptions, RingPlacement, Ssd, same_file};
pub use target::{Target, TargetError};

pub use warpbell_driver as driver;
pub use warpbell_hw as hw;
pub use warpbell_kernels as kernels;
pub use warpbell_nvme as nvme;
pub use warpbell_softctl as soft;
