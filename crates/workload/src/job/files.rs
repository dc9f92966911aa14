//! Runs over a file: the I/Os of its range that lie in one extent each.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use warpbell_files::{FileMap, WritableFile};

use super::check::{conflict, too_large};
use super::{JobError, Limits};
use crate::options::{Api, BenchOptions};

/// I/Os of a file at most: where each begins is held in memory.
const IOS_MAX: u64 = 1 << 27;

/// A file of a namespace, as its options name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Its path, or the name of its partition.
    pub name: String,
    /// Where its bytes lie.
    pub map: FileMap,
    /// What of it may be overwritten; `None`: it is only read.
    pub writable: Option<WritableFile>,
}

impl NamedFile {
    /// A file that may be overwritten.
    pub fn of_writable(name: String, writable: WritableFile) -> NamedFile {
        NamedFile { name, map: writable.map().clone(), writable: Some(writable) }
    }

    /// Whether kernels can read it: by blocks of `block` bytes, of which namespace `limits.nsid` has so many.
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), JobError> {
        let block = u64::from(limits.block_size);
        let end = limits.blocks.saturating_mul(block);
        let refused = |reason| Err(JobError::File { name: self.name.clone(), reason });
        for extent in self.map.extents() {
            let (at, bytes) = (extent.at, extent.bytes.min(self.map.size() - extent.offset));
            if !at.is_multiple_of(block) || !extent.offset.is_multiple_of(block) {
                let offset = extent.offset;
                return refused(format!(
                    "byte {offset} of it lies at byte {at}: both must begin a block of {block} bytes"
                ));
            }
            if at.checked_add(bytes).is_none_or(|last| last > end) {
                return refused(format!(
                    "it has {bytes} bytes at byte {at}, behind the end of {}",
                    limits.nsid
                ));
            }
        }
        Ok(())
    }
}

/// What a run reads of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileJob {
    /// The file.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its extents.
    pub extents: usize,
    /// I/Os of the range that are read.
    pub ios: u64,
    /// I/Os of the range that are not: part of them is a hole, or lies elsewhere.
    pub ios_left_out: u64,
    /// The first block of each.
    #[serde(skip)]
    pub(crate) lbas: Arc<Vec<u64>>,
}

/// The I/Os of the range, where a file is read.
pub(super) fn of(
    options: &BenchOptions,
    limits: &Limits,
    (offset, size): (u64, u64),
) -> Result<Option<FileJob>, JobError> {
    let Some(file) = options.file.as_deref() else { return Ok(None) };
    file.check(limits)?;
    let (bs, block) = (options.bs.0, u64::from(limits.block_size));
    if let (true, Some(writable)) = (writes(options), &file.writable) {
        // All of the range, whatever of it the run would meet.
        let pieces = writable.pieces(offset, size, block);
        let flag = if options.size.is_some() { "size" } else { "offset" };
        pieces
            .map_err(|error| conflict(flag, if flag == "size" { size } else { offset }, error.to_string()))?;
    }
    let all = size / bs;
    if all > IOS_MAX {
        return Err(too_large(
            "size",
            size,
            format!("{} bytes with this --bs, {IOS_MAX} I/Os", IOS_MAX * bs),
        ));
    }
    let mut lbas = Vec::new();
    for extent in file.map.extents() {
        // A file has its last block alone, to the end.
        let whole = extent.bytes.next_multiple_of(block);
        let first = extent.offset.saturating_sub(offset).div_ceil(bs);
        let end = (extent.offset + whole).saturating_sub(offset) / bs;
        let lba = |io: u64| (extent.at + (offset + io * bs - extent.offset)) / block;
        lbas.extend((first..end.min(all)).map(lba));
    }
    if lbas.is_empty() {
        let reason = format!("no I/O of this size lies within one extent of {}", file.name);
        return Err(conflict("bs", options.bs, reason));
    }
    let ios = lbas.len() as u64;
    Ok(Some(FileJob {
        name: file.name.clone(),
        bytes: file.map.size(),
        extents: file.map.extents().len(),
        ios,
        ios_left_out: all - ios,
        lbas: Arc::new(lbas),
    }))
}

/// Whether the run writes to its range.
fn writes(options: &BenchOptions) -> bool {
    options.rw.writes() || options.verify.is_some()
}

/// Refuses what would write to a file that is only read, or reads by another order than that of I/Os.
pub(super) fn refuse(options: &BenchOptions) -> Result<(), JobError> {
    let Some(file) = &options.file else { return Ok(()) };
    let reason =
        |what: &str| format!("a file is only read{what}; --allow-write=NAME#{} permits it", file.name);
    if file.writable.is_none() {
        if options.rw.writes() {
            return Err(conflict("rw", options.rw, reason("")));
        }
        if let Some(verify) = options.verify {
            return Err(conflict("verify", verify, reason(", and checked data is written first")));
        }
    }
    if options.replay.is_some() {
        return Err(conflict(
            "replay",
            "FILE",
            "a replay has blocks of its own, and reads no file".to_owned(),
        ));
    }
    if let Some(protocol) = options.protocol {
        return Err(conflict("protocol", protocol, "the laboratory reads whole namespaces".to_owned()));
    }
    if options.api == Api::Array {
        let reason =
            "an array over a page cache is over a whole namespace here; use api io, raw, batch or host";
        return Err(conflict("api", options.api, reason.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use warpbell_files::Extent;

    use super::*;
    use crate::job::Job;
    use crate::options::Access;
    use crate::size::ByteSize;

    /// 7,000 bytes: 4 KiB at block 100, a hole of 1 KiB, and the rest at block 20.
    fn options(bs: u64) -> BenchOptions {
        let extents = vec![
            Extent { offset: 0, at: 51_200, bytes: 4096 },
            Extent { offset: 5120, at: 10_240, bytes: 2048 },
        ];
        let map = FileMap::new(7000, extents).unwrap();
        let file = NamedFile { name: "/f".to_owned(), map, writable: None };
        let bs = ByteSize(bs);
        BenchOptions { file: Some(Arc::new(file)), rw: Access::Read, bs, ..BenchOptions::default() }
    }

    #[test]
    fn units_lie_within_extents() {
        let job = Job::resolve(&options(1024), &Limits::of_blocks(1000)).unwrap();
        let file = job.file.as_ref().unwrap();
        assert_eq!(*file.lbas, [100, 102, 104, 106, 20, 22]);
        assert_eq!((file.ios, file.ios_left_out, job.io_slots()), (6, 1, 6));
        let later = BenchOptions { offset: ByteSize(512), ..options(1024) };
        let file = Job::resolve(&later, &Limits::of_blocks(1000)).unwrap().file.unwrap();
        assert_eq!((&file.lbas[..], file.ios_left_out), (&[101, 103, 105, 21][..], 2));
    }

    #[test]
    fn what_a_file_cannot_do_is_refused_by_its_flag() {
        let error =
            |options: &BenchOptions| Job::resolve(options, &Limits::of_blocks(1000)).unwrap_err().to_string();
        let line = error(&options(8192));
        assert_eq!(line, "--bs 8k: must be at most 7168 bytes, the range in use");
        let writing = error(&BenchOptions { rw: Access::RandWrite, ..options(512) });
        assert_eq!(writing, "--rw randwrite: a file is only read; --allow-write=NAME#/f permits it");
        let behind = error(&BenchOptions { offset: ByteSize(7168), ..options(512) });
        assert_eq!(behind, "--offset 7k: must be at most 6656 bytes, the last block of /f");
        let map = FileMap::new(10, vec![Extent { offset: 0, at: 100, bytes: 10 }]).unwrap();
        let file = Some(Arc::new(NamedFile { name: "/odd".to_owned(), map, writable: None }));
        let line = error(&BenchOptions { file, ..options(512) });
        assert!(
            line.starts_with("/odd: byte 0 of it lies at byte 100: both must begin a block of 512 bytes"),
            "{line}"
        );
    }
}
