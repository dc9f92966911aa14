//! Why a soft controller did not start.

use std::io;
use std::path::PathBuf;

use crate::config::SoftConfigError;
use warpbell_hw::{Lba, Nsid};

/// Why a soft controller did not start, or an access from outside failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SoftError {
    /// A setting is out of its range.
    #[error(transparent)]
    Config(#[from] SoftConfigError),
    /// A file cannot be opened.
    #[error("cannot open {} for {action}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What it was opened for.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A path that holds no blocks.
    #[error("cannot use {}: neither a regular file nor a block device", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A file that has no blocks.
    #[error("cannot use {0}: it is empty; make it as long as the SSD is to be: truncate -s 1g {0}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A file that another controller writes.
    #[error("cannot write {}: another process or controller has it open for writing; wait for its end, or use another file", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// A block device that the kernel uses.
    #[error("cannot write {}: the kernel uses it, as a mounted file system, swap or a part of an array; unmount it, or use another one", path.display())]
    Busy {
        /// The device.
        path: PathBuf,
    },
    /// No memory for a namespace.
    #[error("cannot reserve {len} bytes for a namespace: {source}")]
    Memory {
        /// Bytes asked for.
        len: u64,
        /// What the system said.
        source: io::Error,
    },
    /// No memory for the doorbell registers.
    #[error("cannot set up the doorbell registers: {0}")]
    Doorbells(#[from] warpbell_hw::MemoryError),
    /// Threaded and stepped controllers on one subsystem.
    #[error("subsystem {serial}: its controllers are all threaded or all stepped")]
    MixedModes {
        /// The subsystem's serial number.
        serial: String,
    },
    /// No identifier for another controller.
    #[error("a subsystem has at most {limit} controllers in its life")]
    Controllers {
        /// How many it had.
        limit: u16,
    },
    /// A thread did not start.
    #[error("cannot start poller {index}: {source}")]
    Thread {
        /// Which poller.
        index: usize,
        /// What the system said.
        source: io::Error,
    },
    /// No such namespace.
    #[error("{nsid} does not exist: there are {count}")]
    Namespace {
        /// The namespace asked for.
        nsid: Nsid,
        /// How many there are.
        count: usize,
    },
    /// Bytes outside a namespace.
    #[error("{len} bytes from {lba} of {nsid} on: it has {blocks} blocks of {block_size} bytes")]
    Range {
        /// The namespace.
        nsid: Nsid,
        /// First block.
        lba: Lba,
        /// Length in bytes.
        len: usize,
        /// Blocks of the namespace.
        blocks: u64,
        /// Bytes of a block.
        block_size: u32,
    },
    /// A namespace that may not be written.
    #[error("{lba} of {nsid} is write protected")]
    Protected {
        /// The namespace.
        nsid: Nsid,
        /// First block.
        lba: Lba,
    },
    /// The store failed.
    #[error("{lba} of {nsid}: {reason}")]
    Store {
        /// The namespace.
        nsid: Nsid,
        /// First block.
        lba: Lba,
        /// What the store said.
        reason: String,
    },
}
