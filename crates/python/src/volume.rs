//! Several SSDs as one, for kernels and for I/O by the host.

use std::sync::Arc;

use parking_lot::RwLock;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use warpbell::{DataPointers, IoOp, VolumeLayout, VolumePlace, VolumeSpec};
use warpbell_hw::Lba;
use zerocopy::IntoBytes;

use crate::args;
use crate::buffer::{Buffer, BufferCore};
use crate::engine::{self, Transfer, Used, Way};
use crate::error::{Answer, Failure, Kind, at_exit};
use crate::future::Future;
use crate::home::Own;
use crate::queues::{Queues, QueuesCore, User};
use crate::ssd::Open;

/// What is behind a volume.
pub(crate) struct VolumeCore {
    /// As the volume counts them.
    members: Vec<Arc<QueuesCore>>,
    /// None once it was closed.
    state: RwLock<Option<(Arc<warpbell::Volume>, Vec<User>)>>,
}

impl VolumeCore {
    pub(crate) fn members(&self) -> &[Arc<QueuesCore>] {
        &self.members
    }

    /// Its SSDs, as the volume counts them.
    fn opened(&self) -> Answer<Vec<Open>> {
        self.members.iter().map(|queues| queues.ssd.open()).collect()
    }

    fn check_home(&self) -> Answer<()> {
        self.members.iter().try_for_each(|queues| queues.ssd.check_home())
    }

    /// Does something with the volume, which is not closed meanwhile.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Arc<warpbell::Volume>) -> Answer<T>) -> Answer<T> {
        self.check_home()?;
        let state = self.state.read();
        let (volume, _) = state.as_ref().ok_or_else(|| Failure::closed("volume"))?;
        work(volume)
    }
}

/// The queues of several SSDs as one volume. Any number of threads may use it. What is on the SSDs is not looked at: the
/// same SSDs in the same order, with the same layout and chunks, are the same volume.
#[pyclass(frozen, module = "warpbell")]
pub(crate) struct Volume {
    pub(crate) core: Own<VolumeCore>,
}

#[pymethods]
impl Volume {
    /// `queues` of each SSD, attached for one target; `layout` is stripe, replicate or concatenate.
    #[new]
    #[pyo3(signature = (queues, *, layout="stripe", chunk_bytes=None))]
    fn new(
        queues: &Bound<'_, PyAny>,
        layout: &str,
        chunk_bytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Volume> {
        let queues: Vec<Bound<'_, Queues>> = queues.extract().map_err(|_| {
            let limit = "must be a list of warpbell.Queues, one of each SSD: ssd.attach() makes them";
            Failure::argument_type("queues", queues, limit)
        })?;
        let layout = match layout {
            "stripe" => VolumeLayout::Stripe,
            "replicate" => VolumeLayout::Replicate,
            "concatenate" => VolumeLayout::Concatenate,
            other => {
                let limit = "must be stripe, replicate or concatenate";
                return Err(Failure::argument("layout", other, limit).into());
            }
        };
        let mut spec = VolumeSpec::new().layout(layout);
        if let Some(bytes) = args::optional("chunk_bytes", chunk_bytes, 1, u64::MAX)? {
            spec = spec.chunk_bytes(bytes);
        }
        let members: Vec<Arc<QueuesCore>> = queues.iter().map(|queues| queues.get().core.clone()).collect();
        // Counted while they are open: they cannot be closed in between.
        let opened = open_next(&members, &[], &|attachments| {
            let volume = Arc::new(warpbell::Volume::new(attachments, &spec)?);
            Ok((volume, members.iter().map(QueuesCore::user).collect()))
        })?;
        // As the volume counts them.
        let members = opened.0.order().map(|given| members[given].clone()).collect();
        let state = RwLock::new(Some(opened));
        Ok(Volume { core: Own::new(Arc::new(VolumeCore { members, state })) })
    }

    /// Blocks of it.
    #[getter]
    fn blocks(&self) -> PyResult<u64> {
        Ok(self.core.with(|volume| Ok(volume.blocks()))?)
    }

    /// Bytes of a block: the largest of its SSDs'.
    #[getter]
    fn block_size(&self) -> PyResult<u32> {
        Ok(self.core.with(|volume| Ok(volume.block_bytes()))?)
    }

    /// Bytes of it.
    #[getter]
    fn nbytes(&self) -> PyResult<u64> {
        Ok(self.core.with(|volume| Ok(volume.blocks() * u64::from(volume.block_bytes())))?)
    }

    /// Begins to read `nbytes` bytes (all that the buffer has from `at` on) from byte `offset` of the volume, by all SSDs
    /// that have some. What one replica cannot read is read from the next.
    #[pyo3(signature = (buffer, offset, *, at=None, nbytes=None))]
    fn read_into(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        at: Option<&Bound<'_, PyAny>>,
        nbytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Future> {
        let io = HostIo::new(&self.core, IoOp::Read, buffer, offset, (at, nbytes))?;
        Ok(py.detach(|| io.begin())?)
    }

    /// Begins to write `nbytes` bytes of the buffer (all that it has from `at` on) to byte `offset` of the volume: to each
    /// replica. Where one fails, replicas differ until the same bytes are written again.
    #[pyo3(signature = (buffer, offset, *, at=None, nbytes=None))]
    fn write_from(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        at: Option<&Bound<'_, PyAny>>,
        nbytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Future> {
        let io = HostIo::new(&self.core, IoOp::Write, buffer, offset, (at, nbytes))?;
        Ok(py.detach(|| io.begin())?)
    }

    /// Makes what was written before durable on each SSD, but for replicas that were dropped: waits for the writes in flight,
    /// then for the SSDs.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let (present, all) = self.core.with(|volume| Ok((volume.present()?, self.core.opened()?)))?;
        let opened: Vec<Open> = present.into_iter().map(|member| all[member].clone()).collect();
        let queues: Vec<_> = opened.iter().map(|open| open.engine.shared().clone()).collect();
        let flushes = opened.into_iter().map(|open| (open.engine, None)).collect();
        Future::new(queues, engine::all(flushes), 0).result(py, None).map(drop)
    }

    /// Memory that kernels and all SSDs reach: the kernel argument `warpbell_volume_buffer_ref`.
    fn buffer(&self, py: Python<'_>, nbytes: &Bound<'_, PyAny>) -> PyResult<VolumeBuffer> {
        let nbytes = args::within("nbytes", nbytes, 1, i64::MAX as u64)? as usize;
        let buffer = py.detach(|| self.core.with(|volume| Ok(volume.buffer(nbytes)?)))?;
        Ok(VolumeBuffer { buffer: Own::new(Arc::new(buffer)), nbytes, core: Own::new(self.core.clone()) })
    }

    /// What kernels did on each SSD.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let report = py.detach(|| self.core.with(|volume| Ok(volume.report()?)))?;
        let dict = |member: warpbell::MemberReport| {
            let dict = PyDict::new(py);
            dict.set_item("name", member.name)?;
            dict.set_item("bytes_read", member.bytes_read)?;
            dict.set_item("bytes_written", member.bytes_written)?;
            dict.set_item("errors", member.errors)?;
            dict.set_item("present", member.present)?;
            dict.set_item("avoided", member.avoided)?;
            Ok(dict)
        };
        report.into_iter().map(dict).collect()
    }

    /// Lets go of the volume; its queues stay open, and I/O in flight goes on.
    fn close(&self) -> PyResult<()> {
        self.core.check_home()?;
        drop(self.core.state.write().take());
        Ok(())
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        slf.core.with(|_| Ok(()))?;
        Ok(slf)
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        at_exit(exception, self.close())
    }

    fn __warpbell_reference__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let reference = self.core.with(|volume| Ok(warpbell::Volume::as_ref(volume)?))?;
        Ok(PyBytes::new(py, reference.as_bytes()))
    }
}

/// Opens one after the other: `work` gets all of them.
fn open_next<T>(
    members: &[Arc<QueuesCore>],
    before: &[&warpbell::Attachment],
    work: &dyn Fn(&[&warpbell::Attachment]) -> Answer<T>,
) -> Answer<T> {
    let Some((first, rest)) = members.split_first() else { return work(before) };
    first.with(|attached| open_next(rest, &[before, &[&attached.attachment]].concat(), work))
}

/// Memory that kernels and all SSDs of a volume reach.
#[pyclass(frozen, module = "warpbell")]
pub(crate) struct VolumeBuffer {
    buffer: Own<warpbell::VolumeBuffer>,
    nbytes: usize,
    pub(crate) core: Own<VolumeCore>,
}

impl VolumeBuffer {
    /// The memory, as long as the volume is open.
    pub(crate) fn buffer(&self) -> Answer<Arc<warpbell::VolumeBuffer>> {
        self.core.with(|_| Ok(self.buffer.clone()))
    }
}

#[pymethods]
impl VolumeBuffer {
    /// Bytes of it.
    #[getter]
    fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// The same memory as a buffer of the first SSD, which NumPy and others view without copies.
    fn view(&self) -> PyResult<Buffer> {
        let memory = self.buffer()?.buffer().clone();
        let queues = &self.core.members()[0];
        let core = BufferCore::new(queues.ssd.clone(), memory, (0, self.nbytes), Some(queues));
        Ok(Buffer::new(core))
    }

    /// A copy of its bytes.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let buffer = self.buffer()?;
        PyBytes::new_with(py, self.nbytes, |into| {
            py.detach(|| buffer.buffer().read(0, into)).map_err(|error| Failure::from(error).into())
        })
    }

    /// Copies bytes into it, from its first on.
    fn write(&self, data: &[u8]) -> PyResult<()> {
        if data.len() > self.nbytes {
            let limit = format!("the buffer has {} bytes", self.nbytes);
            return Err(Failure::argument("data of bytes", data.len(), limit).into());
        }
        Ok(self.buffer()?.buffer().write(0, data).map_err(Failure::from)?)
    }

    fn __warpbell_reference__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, warpbell::VolumeBuffer::as_ref(&*self.buffer()?).as_bytes()))
    }
}

/// One read or write by the host, over the SSDs of a volume.
struct HostIo {
    core: Arc<VolumeCore>,
    op: IoOp,
    buffer: Arc<warpbell::VolumeBuffer>,
    offset: u64,
    /// The first byte in the buffer.
    at: u64,
    nbytes: u64,
}

impl HostIo {
    fn new(
        core: &Arc<VolumeCore>,
        op: IoOp,
        buffer: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        (at, nbytes): (Option<&Bound<'_, PyAny>>, Option<&Bound<'_, PyAny>>),
    ) -> PyResult<HostIo> {
        let given = buffer.cast::<VolumeBuffer>().map_err(|_| {
            let limit = "must be a warpbell.VolumeBuffer: volume.buffer(nbytes) makes one";
            Failure::argument_type("buffer", buffer, limit)
        })?;
        let given = given.get();
        if !Arc::ptr_eq(&given.core, core) {
            let text = format!(
                "volume buffer of {} bytes: belongs to another volume, whose SSDs map it",
                given.nbytes
            );
            return Err(Failure::new(Kind::Argument, text).into());
        }
        let (at, nbytes) = args::part(at, nbytes, given.nbytes as u64)?;
        let offset = args::count("offset", offset)?;
        Ok(HostIo { core: core.clone(), op, buffer: given.buffer()?, offset, at, nbytes })
    }

    /// Sends its parts to the queues of the SSDs.
    fn begin(&self) -> Answer<Future> {
        let pieces = self.core.with(|volume| {
            let block = u64::from(volume.block_bytes());
            args::check_extent(self.offset, self.nbytes, (block, volume.blocks() * block), "the volume")?;
            Ok(volume.places(Lba(self.offset / block), self.nbytes / block)?)
        })?;
        let opened = self.core.opened()?;
        let ways = |piece: warpbell::VolumePiece| -> Answer<Vec<Way>> {
            piece.places.iter().map(|place| self.way(&opened, place, piece.at)).collect()
        };
        let parts: Vec<Vec<Way>> = pieces.into_iter().map(ways).collect::<Answer<_>>()?;
        let progress = match self.op {
            IoOp::Read => engine::read(parts),
            _ => {
                let each = parts.into_iter().flatten();
                engine::all(each.map(|(engine, transfer)| (engine, Some(transfer))).collect())
            }
        };
        let queues = opened.iter().map(|open| open.engine.shared().clone());
        Ok(Future::new(queues, progress, self.nbytes))
    }

    /// A piece as one SSD moves it.
    fn way(&self, opened: &[Open], place: &VolumePlace, at: u64) -> Answer<Way> {
        let (core, open) = (&self.core.members()[place.member].ssd, &opened[place.member]);
        let Some(memory) = self.buffer.on(place.member) else {
            return Err(Failure::argument("volume buffer", "of fewer SSDs", "has no memory on each of them"));
        };
        let (lba, blocks) = (place.lba.get(), place.blocks);
        if self.op == IoOp::Write {
            core.check_write(&open.ssd, lba * core.block, blocks * core.block)?;
        }
        let transfer = Transfer {
            op: self.op,
            lba,
            blocks,
            data: DataPointers::new(memory.as_ref(), core.descriptor()),
            at: self.at + at,
            used: Used::Volume { _buffer: self.buffer.clone() },
        };
        Ok((open.engine.clone(), transfer))
    }
}
