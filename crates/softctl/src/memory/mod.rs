//! The client's memory: which windows are mapped at which IOVA, and access to them.
//!
//! [`IovaSpace`] is what a driver maps into ([`hw::DmaSpace`]) and what others may use as a controller
//! ([`hw::ClientMemory`]). Each thread of the controller looks addresses up in its own [`View`], a snapshot that it
//! renews when the space has changed, so that the fast path takes no lock. Some of it may be [`Remote`]: without a pointer.

mod chosen;
mod claim;
mod iova;
mod mapping;
mod prefetch;
mod remote;
mod source;
mod space;

pub(crate) use claim::Claim;
pub(crate) use prefetch::{prefetch_read, prefetch_write};
pub(crate) use remote::{Pin, Remote, RemoteHost, RingMemory};
pub use space::IovaSpace;
pub(crate) use space::View;

pub(crate) use mapping::Anonymous;

use warpbell_hw as hw;

/// Bytes of a page of the IOVA space.
pub(crate) const PAGE: u64 = hw::BASE_PAGE as u64;
