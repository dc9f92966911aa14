//! Files of an SSD, and their tables for kernels.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use warpbell::{FileOptions, IoOp, KernelMemory};
use warpbell_files::{FileMap, Piece};
use zerocopy::IntoBytes;

use crate::args;
use crate::buffer::BufferCore;
use crate::device;
use crate::engine::{Transfer, Used};
use crate::error::{Answer, Failure};
use crate::future::Future;
use crate::home::Own;
use crate::queues::{Queues, QueuesCore};
use crate::ssd::{Ssd, SsdCore};

/// Zeroes that are put into a buffer at a time.
const ZEROES: usize = 64 << 10;

/// A file of the file system on an SSD, for reading. Any number of threads may use it. It keeps the SSD.
#[pyclass(frozen, module = "warpbell")]
pub(crate) struct File {
    ssd: Own<SsdCore>,
    path: String,
    map: FileMap,
}

/// How a part of a file is read into a buffer: places in it, and how many bytes.
struct Plan {
    transfers: Vec<Transfer>,
    /// Holes.
    zeroes: Vec<(u64, u64)>,
    /// What the SSD has behind the end of the file in its last block; none: 0 bytes.
    tail: (u64, u64),
}

impl File {
    /// How to read a part of the file.
    fn plan(&self, buffer: &Arc<BufferCore>, (offset, at, nbytes): (u64, u64, u64)) -> Answer<Plan> {
        let (block, end) = (self.ssd.block, offset.saturating_add(nbytes).min(self.map.size()));
        let (mut transfers, mut zeroes, mut tail, mut next) = (Vec::new(), Vec::new(), (0, 0), at);
        for piece in self.map.pieces(offset, end - offset).map_err(warpbell::Error::from)? {
            // What the buffer has behind the end of the file is of the last block, too.
            let is_last = next + piece.bytes() == at + (end - offset);
            let whole = if is_last { piece.bytes().next_multiple_of(block) } else { piece.bytes() };
            let place = if let Piece::Data { at, .. } = piece { at } else { 0 };
            if !place.is_multiple_of(block) || !whole.is_multiple_of(block) {
                let offset = offset + (next - at);
                let limit = format!(
                    "{} bytes at offset {offset} lie together, at byte {place}: must be whole blocks of {block} bytes; read() \
                     takes any",
                    piece.bytes()
                );
                return Err(Failure::argument("file", &self.path, limit));
            }
            match piece {
                Piece::Hole { .. } => zeroes.push((next, whole)),
                Piece::Data { .. } => {
                    let (data, used) = (buffer.data_pointers(), Used::Buffer { used: buffer.used()? });
                    let (lba, blocks) = (place / block, whole / block);
                    transfers.push(Transfer { op: IoOp::Read, lba, blocks, data, at: next, used });
                    tail = (next + piece.bytes(), whole - piece.bytes());
                }
            }
            next += whole;
        }
        Ok(Plan { transfers, zeroes, tail })
    }
}

/// Makes a part of a buffer zeroes.
fn zero(buffer: &BufferCore, (at, bytes): (u64, u64)) -> Answer<()> {
    for begin in (0..bytes).step_by(ZEROES) {
        let now = (bytes - begin).min(ZEROES as u64) as usize;
        buffer.copy_in((at + begin) as usize, &[0; ZEROES][..now])?;
    }
    Ok(())
}

#[pymethods]
impl File {
    /// Its path in the file system.
    #[getter]
    fn path(&self) -> &str {
        &self.path
    }

    /// Its bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.map.size()
    }

    /// Where it lies, by offset: tuples of offset in the file, byte of the namespace, and bytes. What none of them has is
    /// zeroes.
    #[getter]
    fn extents(&self) -> Vec<(u64, u64, u64)> {
        self.map.extents().iter().map(|extent| (extent.offset, extent.at, extent.bytes)).collect()
    }

    /// The SSD.
    #[getter]
    fn ssd(&self) -> Ssd {
        Ssd { core: Own::new(Arc::clone(&self.ssd)) }
    }

    /// Begins to read `nbytes` bytes (all that the buffer has from `at` on) from byte `offset` of the file, in whole
    /// blocks of the SSD, once the work on `stream` has ended, for which this call waits. Holes become zeroes at once. What
    /// is behind the end of the file in its last block is zeroes when the future has ended.
    #[pyo3(signature = (buffer, offset, *, at=None, nbytes=None, stream=None))]
    fn read_into(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        at: Option<&Bound<'_, PyAny>>,
        nbytes: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Future> {
        let (core, at, nbytes) = Ssd::part(&self.ssd, buffer, at, nbytes)?;
        let offset = args::count("offset", offset)?;
        let open = self.ssd.open()?;
        let whole = self.map.size().checked_next_multiple_of(self.ssd.block).unwrap_or(u64::MAX);
        args::check_extent(offset, nbytes, (self.ssd.block, whole), &self.path)?;
        core.check_writable()?;
        if let Some(stream) = stream {
            device::wait_for_stream(stream, &core, core.gpu())?;
        }
        let begun = py.detach(|| -> Answer<_> {
            let Plan { transfers, zeroes, tail } = self.plan(&core, (offset, at, nbytes))?;
            zeroes.into_iter().try_for_each(|hole| zero(&core, hole))?;
            if tail.1 == 0 {
                return Ok(open.engine.transfer_all(transfers));
            }
            // Until then nobody closes the buffer.
            let used = core.used()?;
            let mask = move || {
                let masked = zero(&core, tail);
                drop(used);
                masked
            };
            Ok(open.engine.transfer_all_then(transfers, mask))
        });
        Ok(Future::new([open.engine.shared().clone()], begun?, nbytes))
    }

    /// Bytes from `offset` on, any of them. Waits for the SSD; calls take turns.
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: &Bound<'py, PyAny>,
        nbytes: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (offset, nbytes) = (args::count("offset", offset)?, args::count("nbytes", nbytes)?);
        let open = self.ssd.open()?;
        // Before there is memory for them.
        self.map.pieces(offset, nbytes).map(drop).map_err(warpbell::Error::from).map_err(Failure::from)?;
        PyBytes::new_with(py, nbytes as usize, |into| {
            let read = py.detach(|| open.ssd.read_file(&self.map, offset, into));
            read.map_err(|error| Failure::from(error).into())
        })
    }

    fn __repr__(&self) -> String {
        let (name, path) = (&self.ssd.name, &self.path);
        format!(
            "<warpbell.File {name}#{path}: {} bytes, {} extents>",
            self.map.size(),
            self.map.extents().len()
        )
    }
}

/// A file on an SSD that is open.
pub(crate) fn open(
    py: Python<'_>,
    ssd: &Arc<SsdCore>,
    path: &str,
    (manifest, partition, allow_dirty): (Option<PathBuf>, Option<String>, bool),
) -> Answer<File> {
    let open = ssd.open()?;
    let options = FileOptions::new()
        .nsid(Some(ssd.nsid))
        .manifest(manifest)
        .partition(partition)
        .allow_dirty(allow_dirty);
    let map = py.detach(|| open.ssd.find_file(path, &options))?;
    Ok(File { ssd: Own::new(ssd.clone()), path: path.to_owned(), map })
}

/// Where a file lies, in memory of kernels: the kernel argument `warpbell_file_ref` (`file.cuh`). Any number of threads may
/// use it.
#[pyclass(frozen, module = "warpbell")]
pub(crate) struct FileTable {
    table: Own<warpbell::FileTable>,
    queues: Own<QueuesCore>,
}

impl FileTable {
    pub(crate) fn owners(&self) -> &[Arc<QueuesCore>] {
        std::slice::from_ref(&*self.queues)
    }

    pub(crate) fn memory(&self) -> Answer<KernelMemory> {
        self.queues.with(|_| Ok(self.table.memory()))
    }

    pub(crate) fn table(&self) -> &warpbell::FileTable {
        &self.table
    }
}

#[pymethods]
impl FileTable {
    /// The table of a file for kernels over `queues`, which must be of the namespace that the file was found in.
    #[new]
    fn new(py: Python<'_>, queues: &Bound<'_, Queues>, file: &Bound<'_, File>) -> PyResult<FileTable> {
        let (core, map) = (&queues.get().core, &file.get().map);
        let make = || core.with(|attached| Ok(warpbell::FileTable::new(&attached.attachment, map)?));
        let table = py.detach(make)?;
        Ok(FileTable { table: Own::new(Arc::new(table)), queues: Own::new(Arc::clone(core)) })
    }

    /// Bytes of the file.
    #[getter]
    fn size(&self) -> u64 {
        self.table.bytes()
    }

    fn __warpbell_reference__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let reference = self.queues.with(|attached| Ok(self.table.reference(&attached.attachment)?))?;
        Ok(PyBytes::new(py, reference.as_bytes()))
    }
}
