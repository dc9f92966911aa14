//! Files of a C program, and their tables for kernels.

use std::sync::Arc;

use warpbell::{FileOptions, FileTable};
use warpbell_files::{FileMap, Piece};
use warpbell_hw::Nsid;
use warpbell_kernels::abi::FileRef;

use crate::cache::Cache;
use crate::error::{Answer, Failure};
use crate::handle::{Kind, Table};
use crate::queues::{QUEUES, Queues};
use crate::scope::{User, Users};
use crate::ssd::{OpenSsd, SSDS};
use crate::types::{CacheOptions, FileInfo, FilePart, Head};

pub(crate) static FILES: Table<File> = Table::new(Kind::File);
pub(crate) static TABLES: Table<OpenTable> = Table::new(Kind::FileTable);

/// A file that a C program has open.
pub(crate) struct File {
    ssd: Arc<OpenSsd>,
    map: FileMap,
    nsid: Nsid,
    /// Keeps the SSD open.
    _user: User,
}

impl File {
    pub(crate) fn open(ssd: u64, path: &str, options: &FileOptions) -> Answer<u64> {
        let ssd = SSDS.get(ssd)?;
        let user = ssd.users.enter(|| ())?;
        let nsid = ssd.ssd.namespace(options.nsid)?.nsid;
        let map = ssd.ssd.find_file(path, options)?;
        Ok(FILES.add(File { ssd, map, nsid, _user: user }))
    }

    pub(crate) fn info(&self) -> Answer<FileInfo> {
        let pieces = self.map.pieces(0, self.map.size()).map_err(warpbell::Error::from)?;
        let holes = pieces.filter(|piece| matches!(piece, Piece::Hole { .. }));
        Ok(FileInfo {
            head: Head::of::<FileInfo>(),
            bytes: self.map.size(),
            hole_bytes: holes.map(|hole| hole.bytes()).sum(),
            extents: self.map.extents().len() as u64,
            nsid: self.nsid.get(),
            block_bytes: self.ssd.ssd.namespace(Some(self.nsid))?.block_size,
        })
    }

    pub(crate) fn extent(&self, index: u64) -> Answer<FilePart> {
        let all = self.map.extents();
        let extent = usize::try_from(index).ok().and_then(|index| all.get(index)).ok_or_else(|| {
            Failure::invalid(format!("extent index {index}: the file has {} extents", all.len()))
        })?;
        let head = Head::of::<FilePart>();
        Ok(FilePart { head, offset: extent.offset, at: extent.at, bytes: extent.bytes })
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Answer<()> {
        Ok(self.ssd.ssd.read_file(&self.map, offset, into)?)
    }
}

/// A table of a file, in memory of its queues' target.
pub(crate) struct OpenTable {
    table: FileTable,
    queues: Arc<Queues>,
    caches: Users,
    /// Keeps the queues open.
    _user: User,
}

impl OpenTable {
    pub(crate) fn make(queues: u64, file: u64) -> Answer<u64> {
        let (queues, file) = (QUEUES.get(queues)?, FILES.get(file)?);
        let user = queues.made.enter(|| ())?;
        let table = FileTable::new(&queues.attachment, &file.map)?;
        let caches = Users::new("file table", "close each cache first (warpbell_cache_close)");
        Ok(TABLES.add(OpenTable { table, queues, caches, _user: user }))
    }

    pub(crate) fn close(handle: u64) -> Answer<()> {
        let may = |table: &OpenTable| table.queues.runs.none().and_then(|()| table.caches.close());
        TABLES.close(handle, may).map(drop)
    }

    pub(crate) fn to_ref(&self) -> Answer<FileRef> {
        Ok(self.table.reference(&self.queues.attachment)?)
    }

    pub(crate) fn cache(&self, options: &CacheOptions) -> Answer<u64> {
        Cache::of_file(&self.queues, (&self.table, self.caches.enter(|| ())?), options)
    }
}
