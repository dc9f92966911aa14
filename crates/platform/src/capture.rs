//! Copying what [`Machine`](crate::Machine) reads into a folder, to be looked at elsewhere.

mod files;
mod select;

use std::io;
use std::path::{Path, PathBuf};

use warpbell_vfio::pci::Sysfs;

use files::Writer;

/// What identifies a device for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serials {
    /// Serial numbers are left out.
    Left,
    /// They are copied.
    Taken,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Files and links.
    pub files: usize,
    /// Bytes of the files.
    pub bytes: u64,
}

/// A file that could not be written.
#[derive(Debug)]
pub struct CaptureError {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

impl std::fmt::Display for CaptureError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Copies what a check of `sysfs` reads into `folder`, which must be new or empty. Only files that are named here are
/// copied, and of those with more in them only the lines that are read: no serial numbers, unless asked for, no host
/// name, no user's processes.
pub fn capture(sysfs: &Sysfs, folder: &Path, serials: Serials) -> Result<Captured, CaptureError> {
    let mut writer = Writer::new(sysfs, folder)?;
    select::host(&mut writer)?;
    select::iommu(&mut writer)?;
    select::pci(&mut writer, serials)?;
    select::blocks(&mut writer)?;
    Ok(writer.done())
}
