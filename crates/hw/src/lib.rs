//! What an NVMe driver needs of hardware, as small traits and safe memory types.
//!
//! A [`Device`] is one NVMe function seen from its driver: [`Registers`] (BAR0), [`Doorbells`],
//! a [`DmaSpace`] that turns memory into IOVAs, [`Interrupts`], [`Reset`] and a [`Clock`]. VFIO,
//! vfio-user and the soft controller are three implementations; the driver never names one.
//! [`ClientMemory`] is the same DMA space seen from the controller's side, and an [`Endpoint`] a controller that
//! can be served to clients in other processes. [`RemoteMemory`] is memory that only an engine copies from and to, as
//! that of a GPU.
//!
//! All memory that a device may write is a [`Window`]: volatile and atomic accessors only, never a
//! Rust reference into it. [`SqRing`] and [`CqRing`] put queue entries on top.
//! Address spaces and identifiers are newtypes: [`Iova`], [`Qid`], [`Cid`], [`Lba`], [`Nsid`].
//!
//! Unsafe code lives in `mapping` and `memory` (accessors) and nowhere else in this crate.

mod arena;
mod available;
mod client_memory;
mod clock;
mod device;
mod dma;
mod doorbell;
mod doorbell_proxy;
mod endpoint;
mod id;
mod interrupt;
mod mapping;
mod memory;
mod pool;
mod processors;
mod registers;
mod registration;
mod remote;
mod reset;
mod ring;
mod user_memory;
mod words;

pub use arena::DmaArena;
pub use client_memory::{AccessError, ClientMemory, ClientSlice};
pub use clock::{Clock, MonotonicClock};
pub use device::{Device, DeviceInfo, DeviceKind, PciId};
pub use dma::{DmaAccess, DmaBuffer, DmaError, DmaLimits, DmaSource, DmaSpace};
pub use doorbell::{
    DOORBELL_MEMORY, Doorbell, DoorbellError, DoorbellKind, DoorbellPath, DoorbellSink, Doorbells, Shadow,
};
pub use doorbell_proxy::{DoorbellLost, DoorbellProxy, DoorbellWriter, ProxySlot};
pub use endpoint::{Endpoint, PciIdentity};
pub use id::{Cid, Iova, Lba, Nsid, Qid};
pub use interrupt::{InterruptError, Interrupts};
pub use mapping::{HostMemory, Mapping, WordMemory};
pub use memory::{BASE_PAGE, HUGE_PAGE, Memory, MemoryError, Window};
pub use pool::{Extent, Extents, Pool, PoolFull, PoolPart};
pub use processors::usable_processors;
pub use registers::Registers;
pub use registration::{Registration, Registrations};
pub use remote::{CopyDirection, CopyQueue, RemoteBuffer, RemoteCopy, RemoteMemory, RemoteRing};
pub use reset::{Reset, ResetError, ResetKind};
pub use ring::{CqRing, SqRing};
