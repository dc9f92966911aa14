//! Copying what [`Machine`](crate::Machine) reads into one file, to be looked at elsewhere.

mod entry;
mod files;
mod select;
mod unpack;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use warpbell_vfio::pci::Sysfs;

use entry::Entry;
use files::Collector;
pub use unpack::Unpacked;

/// Name and version of the file's form.
const SCHEMA: &str = "warpbell.machine/1";

/// What identifies a device for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serials {
    /// Serial numbers are left out.
    Left,
    /// They are copied.
    Taken,
}

/// Files, links and folders of a machine, by path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    schema: String,
    entries: BTreeMap<String, Entry>,
}

/// A captured machine that could not be written, read or unpacked.
#[derive(Debug)]
pub struct CaptureError {
    /// Which file.
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

impl Capture {
    /// What a check of `sysfs` reads. Only files that are named here are taken, and of those with more in them only
    /// the lines that are read: no serial numbers, unless asked for, no host name, no user's processes.
    pub fn of(sysfs: &Sysfs, serials: Serials) -> Capture {
        let mut collector = Collector::new(sysfs);
        select::host(&mut collector);
        select::iommu(&mut collector);
        select::pci(&mut collector, serials);
        select::blocks(&mut collector);
        Capture { schema: SCHEMA.to_owned(), entries: collector.done() }
    }

    /// How many files, links and folders there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes JSON into a new file.
    pub fn write(&self, path: &Path) -> Result<(), CaptureError> {
        let write = || {
            let text = self.to_json()?;
            // Of its owner's alone: as root, more was read than others may see.
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            file?.write_all(text.as_bytes())
        };
        write().map_err(|source| CaptureError { path: path.to_owned(), source })
    }

    /// A line for each entry, so that two machines can be compared line by line.
    fn to_json(&self) -> serde_json::Result<String> {
        let lines = self.entries.iter().map(|(path, entry)| {
            Ok(format!("{}: {}", serde_json::to_string(path)?, serde_json::to_string(entry)?))
        });
        let lines: Vec<String> = lines.collect::<serde_json::Result<_>>()?;
        let schema = serde_json::to_string(&self.schema)?;
        Ok(format!("{{\n\"schema\": {schema},\n\"entries\": {{\n{}\n}}\n}}\n", lines.join(",\n")))
    }

    /// Reads what [`write`](Capture::write) wrote.
    pub fn read(path: &Path) -> Result<Capture, CaptureError> {
        let failed = |source| CaptureError { path: path.to_owned(), source };
        let text = fs::read(path).map_err(failed)?;
        let capture: Capture = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
        if capture.schema != SCHEMA {
            let what = format!("schema {:?}, expected {SCHEMA:?}", capture.schema);
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        Ok(capture)
    }
}
