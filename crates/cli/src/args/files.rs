//! `files`: files on a device that no kernel has mounted; and which part of a device other commands read.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{
    CaptureArgs, DeviceArgs, ExportArgs, ImportArgs, ManifestCheckArgs, RemoveArgs, VerifyArgs, nsid,
};
use warpbell_hw::Nsid;

/// `files`.
#[derive(Debug, Subcommand)]
pub enum FilesCommand {
    /// Show what is in a folder of the file system on a device: DEVICE, or DEVICE#/folder
    Ls(FilesArgs),
    /// Show where the bytes of a file lie: DEVICE#/path
    Stat(FilesArgs),
    /// Write down where files of a mounted file system lie, for when no kernel has it mounted
    Capture(CaptureArgs),
    /// Compare a manifest with its device, and files with their checksums
    Check(ManifestCheckArgs),
    /// Bring files, folders or s3://bucket/prefix onto a bare SSD, with a catalogue; files that are there are skipped
    Import(ImportArgs),
    /// Copy files of a catalogue to a folder, and check them: DEVICE, or DEVICE#/path
    Export(ExportArgs),
    /// Read every file of a catalogue and compare it with its checksum: DEVICE, or DEVICE#/path
    Verify(VerifyArgs),
    /// Remove files of a catalogue: DEVICE#/path
    Rm(RemoveArgs),
}

/// A file or a folder of a file system.
#[derive(Debug, Args)]
pub struct FilesArgs {
    /// The device.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Namespace
    #[arg(long, value_name = "N", default_value = "1", value_parser = nsid())]
    pub nsid: Nsid,
    /// Which part of it.
    #[command(flatten)]
    pub part: PartArgs,
}

/// Which part of a device, and how the file system there is read.
#[derive(Clone, Debug, Default, Args)]
pub struct PartArgs {
    /// The partition, by its number, PARTUUID or label; with DEVICE#/path the one that has the file system
    #[arg(long, value_name = "N|UUID|LABEL")]
    pub partition: Option<String>,
    /// Read a file system that was not unmounted: what its journal has is missing; or of a catalogue whose newest generation
    /// is damaged the one before
    #[arg(long)]
    pub allow_dirty: bool,
    /// Where files lie is in this manifest, which `warpbell files capture` made
    #[arg(long, value_name = "FILE", conflicts_with_all = ["partition", "allow_dirty"])]
    pub manifest: Option<PathBuf>,
}

impl PartArgs {
    /// Whether any of it is.
    pub fn is_given(&self) -> bool {
        self.partition.is_some() || self.allow_dirty || self.manifest.is_some()
    }
}
