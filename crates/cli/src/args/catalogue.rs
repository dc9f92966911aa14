//! `files import`, `export`, `verify`, `rm`: files that a catalogue on a bare SSD has.

use std::path::PathBuf;

use clap::Args;
use warpbell_hw::Nsid;
use warpbell_workload::ByteSize;

use super::{DeviceArgs, nsid};

/// `files import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files, folders (with a / at the end: without their own name) and s3://bucket/prefix
    #[arg(value_name = "SRC", required = true)]
    pub sources: Vec<String>,
    /// Where they go to: DEVICE or DEVICE#/folder
    #[arg(value_name = "DEVICE")]
    pub device: String,
    /// Permit writes to the device with this path, serial number, PCI address or socket; may be given again
    #[arg(long, value_name = "PATH|SERIAL|BDF|SOCKET", require_equals = true)]
    pub allow_write: Vec<String>,
    /// Faults for the software controller to inject, as TOML
    #[arg(long, value_name = "PLAN")]
    pub fault: Option<PathBuf>,
    /// Namespace
    #[arg(long, value_name = "N", default_value = "1", value_parser = nsid())]
    pub nsid: Nsid,
    /// Make a new catalogue: whatever is on the device is lost, files of an older catalogue too
    #[arg(long)]
    pub format: bool,
    /// Where files begin, in a new catalogue: multiples of so many bytes, such as a stripe [default: 4k]
    #[arg(long, value_name = "SIZE")]
    pub align: Option<ByteSize>,
    /// Room for names, twice, in a new catalogue [default: a 64th of the device, 64m at most]
    #[arg(long, value_name = "SIZE")]
    pub catalogue_bytes: Option<ByteSize>,
    /// Make files durable after so many of them, or 1 GiB
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..))]
    pub commit_files: u64,
    /// Do not compare objects with their ETag: in buckets that a key of their own encrypts it is no MD5
    #[arg(long)]
    pub no_etag_check: bool,
}

/// `files export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The device.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Namespace
    #[arg(long, value_name = "N", default_value = "1", value_parser = nsid())]
    pub nsid: Nsid,
    /// If the catalogue's newest generation is damaged, take the one before: it lacks what the last commit brought
    #[arg(long)]
    pub allow_dirty: bool,
    /// The folder that files go to; those that are there with the same contents are left as they are, others are refused
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Replace files of the same name with other contents
    #[arg(long)]
    pub force: bool,
}

/// `files verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The device.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Namespace
    #[arg(long, value_name = "N", default_value = "1", value_parser = nsid())]
    pub nsid: Nsid,
    /// If the catalogue's newest generation is damaged, take the one before: it lacks what the last commit brought
    #[arg(long)]
    pub allow_dirty: bool,
}

/// `files rm`.
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// The device.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Namespace
    #[arg(long, value_name = "N", default_value = "1", value_parser = nsid())]
    pub nsid: Nsid,
    /// Remove folders, with all that is in them
    #[arg(short, long)]
    pub recursive: bool,
}
