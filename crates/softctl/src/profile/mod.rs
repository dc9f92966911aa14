//! Profiles: how long commands take, as of some SSD.
//!
//! `text` reads them from TOML, `latency` draws from a distribution, `media` is the model that a controller runs:
//! units that work in parallel, the way to the client, a write buffer that drains to the units.

mod latency;
mod media;
mod text;

pub use latency::Percentiles;
pub(crate) use media::{Media, Operation};
pub use text::ProfileError;

use std::time::Duration;

/// How an SSD spends time. `docs/faults.md` says what each figure means and how they work together.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// What results call it.
    pub name: String,
    /// Reads.
    pub read: ReadProfile,
    /// Writes.
    pub write: WriteProfile,
    /// Every other command.
    pub flush: Percentiles,
    /// The units that hold the data.
    pub media: MediaProfile,
    /// Bytes of the write buffer.
    pub buffer_bytes: u64,
}

/// Reads.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReadProfile {
    /// Of a command of up to one stripe when nothing else goes on.
    pub latency: Percentiles,
    /// Bytes per second to the client.
    pub bandwidth: u64,
    /// How long a unit is taken by a stripe or a part of one.
    pub busy: Duration,
}

/// Writes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WriteProfile {
    /// Of a command of up to one stripe, into the buffer, when nothing else goes on.
    pub latency: Percentiles,
    /// Bytes per second from the client.
    pub bandwidth: u64,
}

/// Units, and what they do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MediaProfile {
    /// How many work at a time: dies, or channels.
    pub units: u32,
    /// Consecutive bytes in one unit.
    pub stripe: u64,
    /// How long a unit programs `program_size` bytes.
    pub program: Duration,
    /// Bytes that a unit programs at a time.
    pub program_size: u64,
    /// The longest that a read waits for a unit that programs or erases; `None`: to the end.
    pub suspend: Option<Duration>,
    /// How long an erasure takes, and after how many bytes programmed a unit does one.
    pub erase: Option<(Duration, u64)>,
}

impl Profile {
    /// Like an SSD with 3D XPoint media.
    pub fn optane() -> Profile {
        Profile::from_toml(include_str!("optane.toml")).expect("the built-in profile is valid")
    }

    /// Like an SSD with TLC NAND media.
    pub fn tlc() -> Profile {
        Profile::from_toml(include_str!("tlc.toml")).expect("the built-in profile is valid")
    }
}
