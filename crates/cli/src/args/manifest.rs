//! `files capture`, `files check`: manifests.

use std::path::PathBuf;

use clap::Args;
use warpbell_files::manifest::Checksum;
use warpbell_hw::Nsid;

use super::{DeviceArgs, nsid};

/// `files capture`.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// Files and folders of one mounted file system, ext4 or XFS; -o names the manifest
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// The checksum of each file: crc32c, sha256, or none, which reads no file
    #[arg(long, value_name = "KIND", default_value = "crc32c", value_parser = checksum)]
    pub checksum: Checksum,
    /// Leave out what cannot be captured, and list it; otherwise the first of it ends the capture
    #[arg(long)]
    pub skip_refused: bool,
}

/// `files check`.
#[derive(Debug, Args)]
pub struct ManifestCheckArgs {
    /// The manifest
    #[arg(value_name = "MANIFEST")]
    pub manifest: PathBuf,
    /// The device.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Namespace; without it, the one that was captured
    #[arg(long, value_name = "N", value_parser = nsid())]
    pub nsid: Option<Nsid>,
}

fn checksum(text: &str) -> Result<Checksum, String> {
    match text {
        "none" => Ok(Checksum::None),
        "crc32c" => Ok(Checksum::Crc32c),
        "sha256" => Ok(Checksum::Sha256),
        _ => Err("expected crc32c, sha256 or none".to_owned()),
    }
}
