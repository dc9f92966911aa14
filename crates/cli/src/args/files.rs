//! `files`: files on a device that no kernel has mounted.

use clap::Subcommand;

use super::{CaptureArgs, ManifestCheckArgs};

/// `files`.
#[derive(Debug, Subcommand)]
pub enum FilesCommand {
    /// Write down where files of a mounted file system lie, for when no kernel has it mounted
    Capture(CaptureArgs),
    /// Compare a manifest with its device, and files with their checksums
    Check(ManifestCheckArgs),
}
