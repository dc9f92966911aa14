//! Records: a file's name, and what is known of it.

use std::collections::BTreeMap;

use super::layout::Header;
use crate::Error;
use crate::bytes::{le16, le32, le64};

/// Bytes of a name at most.
const NAME_MAX: usize = 1023;
/// Bytes of a part of a name at most.
const PART_MAX: usize = 255;
/// Parts of a name at most.
const PARTS_MAX: usize = 64;
/// Bytes of what is recorded of a file's origin at most.
pub const ORIGIN_MAX: usize = 255;
/// Bytes of a record before name, origin and extents.
const FIXED: usize = 24;
/// Bytes of an extent.
const EXTENT: usize = 16;

/// Space that lies together: whole units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// Where it begins, in bytes of the namespace.
    pub at: u64,
    /// Its length.
    pub bytes: u64,
}

impl Run {
    /// Where it ends.
    pub fn end(&self) -> u64 {
        self.at + self.bytes
    }
}

/// A file of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its bytes.
    pub size: u64,
    /// CRC-32C of its contents.
    pub crc: u32,
    /// What its source says of itself: of an object ETag and time; of others nothing.
    pub origin: String,
    /// Where it lies, in the order of its bytes.
    pub runs: Vec<Run>,
}

/// The files by name.
pub type Files = BTreeMap<String, File>;

/// Why a name is none of a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NameError {
    #[error("a name has 1 to {NAME_MAX} bytes")]
    Length,
    #[error("a name has at most {PARTS_MAX} parts between slashes")]
    Parts,
    #[error(
        "part {part:?} of a name: a part has 1 to {PART_MAX} bytes other than NUL, and neither `.` nor `..`"
    )]
    Part { part: String },
}

/// What is wrong with a record.
#[derive(Debug, thiserror::Error)]
enum RecordError {
    #[error("the records end inside of it")]
    Cut,
    #[error("{bytes} bytes of origin: at most {ORIGIN_MAX}")]
    Origin { bytes: usize },
    #[error(transparent)]
    Text(#[from] std::string::FromUtf8Error),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("{name} is not behind the name before it")]
    Order { name: String },
    #[error("extent of {} bytes at byte {}: space is bytes {start} to {end}, in units of {unit}", run.bytes, run.at)]
    Run { run: Run, start: u64, end: u64, unit: u64 },
    #[error("{size} bytes in extents of {held}")]
    Size { size: u64, held: u64 },
}

/// Whether `name` is one of a file.
pub(crate) fn check_name(name: &str) -> Result<(), NameError> {
    let parts = name.split('/');
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(NameError::Length);
    }
    if parts.clone().count() > PARTS_MAX {
        return Err(NameError::Parts);
    }
    for part in parts {
        if part.is_empty() || part.len() > PART_MAX || [".", ".."].contains(&part) || part.contains('\0') {
            return Err(NameError::Part { part: part.to_owned() });
        }
    }
    Ok(())
}

/// The file that stands where `name` needs a folder, or a file in the folder that `name` would be.
pub fn conflict<'a, T>(files: &'a BTreeMap<String, T>, name: &'a str) -> Option<&'a str> {
    let above = name.match_indices('/').map(|(at, _)| &name[..at]).find(|above| files.contains_key(*above));
    above.or_else(|| inside(files, name).next().map(|(name, _)| name))
}

/// The files in folder `path`.
pub fn inside<'a, T>(
    files: &'a BTreeMap<String, T>,
    path: &str,
) -> impl Iterator<Item = (&'a str, &'a T)> + use<'a, T> {
    let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
    files
        .range(prefix.clone()..)
        .take_while(move |(name, _)| name.starts_with(&prefix))
        .map(|(name, file)| (name.as_str(), file))
}

/// Bytes of a record.
pub fn length(name: &str, file: &File) -> usize {
    FIXED + name.len() + file.origin.len() + file.runs.len() * EXTENT
}

/// All records, by name.
pub fn encode(files: &Files) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(files.iter().map(|(name, file)| length(name, file)).sum());
    for (name, file) in files {
        bytes.extend_from_slice(&file.size.to_le_bytes());
        bytes.extend_from_slice(&file.crc.to_le_bytes());
        bytes.extend_from_slice(&(file.runs.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&(file.origin.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(file.origin.as_bytes());
        for run in &file.runs {
            bytes.extend_from_slice(&run.at.to_le_bytes());
            bytes.extend_from_slice(&run.bytes.to_le_bytes());
        }
    }
    bytes
}

/// Reads `count` records, and checks them: names, order, extents, and that no two files share space.
pub fn decode(header: &Header, count: u64, bytes: &[u8]) -> Result<Files, Error> {
    let mut files: Vec<(String, File)> = Vec::new();
    let mut rest = bytes;
    for index in 0..count {
        let damaged = |error: RecordError| {
            Error::damaged(format!("record {index} of the catalogue"), error.to_string())
        };
        let (name, file, later) = record(rest).map_err(damaged)?;
        check_name(&name).map_err(|error| damaged(error.into()))?;
        check_runs(header, &file)
            .map_err(|error| Error::damaged(format!("catalogue: {name}"), error.to_string()))?;
        if files.last().is_some_and(|(last, _)| *last >= name) {
            return Err(damaged(RecordError::Order { name }));
        }
        files.push((name, file));
        rest = later;
    }
    if !rest.is_empty() {
        let reason = format!("{} bytes follow the last of {count} records", rest.len());
        return Err(Error::damaged("catalogue", reason));
    }
    let files: Files = files.into_iter().collect();
    check_shared(&files)?;
    Ok(files)
}

fn record(bytes: &[u8]) -> Result<(String, File, &[u8]), RecordError> {
    if bytes.len() < FIXED {
        return Err(RecordError::Cut);
    }
    let (size, crc, runs) = (le64(bytes, 0), le32(bytes, 8), le32(bytes, 12) as usize);
    let (name, origin) = (usize::from(le16(bytes, 16)), usize::from(le16(bytes, 18)));
    if origin > ORIGIN_MAX {
        return Err(RecordError::Origin { bytes: origin });
    }
    let (text, rest) = bytes[FIXED..].split_at_checked(name + origin).ok_or(RecordError::Cut)?;
    let (extents, rest) = rest.split_at_checked(runs.saturating_mul(EXTENT)).ok_or(RecordError::Cut)?;
    let utf8 = |text: &[u8]| String::from_utf8(text.to_vec());
    let run = |bytes: &[u8]| Run { at: le64(bytes, 0), bytes: le64(bytes, 8) };
    let runs = extents.chunks_exact(EXTENT).map(run).collect();
    Ok((utf8(&text[..name])?, File { size, crc, origin: utf8(&text[name..])?, runs }, rest))
}

fn check_runs(header: &Header, file: &File) -> Result<(), RecordError> {
    let (start, end) = header.data();
    let mut held: u64 = 0;
    for run @ Run { at, bytes } in &file.runs {
        let whole = at.is_multiple_of(header.unit) && bytes.is_multiple_of(header.unit) && *bytes > 0;
        let within = *at >= start && at.checked_add(*bytes).is_some_and(|it| it <= end);
        if !whole || !within {
            return Err(RecordError::Run { run: *run, start, end, unit: header.unit });
        }
        // Extents of one file may repeat each other here; that they do not is checked over all files.
        held = held.saturating_add(*bytes);
    }
    if file.size.checked_next_multiple_of(header.unit) != Some(held) {
        return Err(RecordError::Size { size: file.size, held });
    }
    Ok(())
}

fn check_shared(files: &Files) -> Result<(), Error> {
    let mut all: Vec<(Run, &str)> = Vec::new();
    for (name, file) in files {
        all.extend(file.runs.iter().map(|run| (*run, name.as_str())));
        let above = name.match_indices('/').map(|(at, _)| &name[..at]);
        if let Some(above) = above.into_iter().find(|above| files.contains_key(*above)) {
            return Err(Error::damaged(
                format!("catalogue: {name}"),
                format!("{above} is a file, not a folder"),
            ));
        }
    }
    all.sort_unstable();
    for pair in all.windows(2) {
        if pair[0].0.end() > pair[1].0.at {
            let reason = format!("it shares space with {}, at byte {}", pair[0].1, pair[1].0.at);
            return Err(Error::damaged(format!("catalogue: {}", pair[1].1), reason));
        }
    }
    Ok(())
}
