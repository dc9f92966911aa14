//! Several SSDs as one, for kernels and for I/O by the host.

use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use warpbell::{DataPointers, IoOp, VolumeLayout, VolumePart, VolumePlace, VolumeSpec};
use warpbell_hw::Lba;
use zerocopy::IntoBytes;

use crate::args;
use crate::buffer::{Buffer, BufferCore, Buffers, Handed, Maker, Mapped, still_mapped};
use crate::engine::{self, Part, Transfer, Used, Way};
use crate::error::{Answer, Failure, Kind, at_exit};
use crate::foreign::{self, Pages};
use crate::future::Future;
use crate::home::Own;
use crate::queues::{Queues, QueuesCore, User};
use crate::ssd::Open;

/// A volume, and what keeps its queues open.
type Parts = (Arc<warpbell::Volume>, Vec<User>);

/// What is behind a volume.
pub(crate) struct VolumeCore {
    /// As the volume counts them.
    members: Vec<Arc<QueuesCore>>,
    /// None once it was closed.
    state: RwLock<Option<Parts>>,
    /// Its buffers, and their other names.
    buffers: Buffers,
}

/// The volume in messages.
const VOLUME: &str = "volume";

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
        let (volume, _) = state.as_ref().ok_or_else(|| Failure::closed(VOLUME))?;
        work(volume)
    }

    /// Kernels over its queues that have not ended.
    pub(crate) fn running(&self) -> usize {
        self.members.iter().map(|queues| queues.running()).max().unwrap_or(0)
    }

    /// The volume, which is not closed meanwhile.
    pub(crate) fn held_open(&self) -> OpenVolume<'_> {
        OpenVolume(self.state.read())
    }

    /// Its buffers are plain memory then, but for what is in flight.
    fn close(&self) -> Answer<()> {
        self.check_home()?;
        let mut state = self.state.write();
        if state.is_none() {
            return Ok(());
        }
        let running = self.running();
        if running > 0 {
            let text = format!(
                "{VOLUME}: {running} kernels still run over its queues: wait for their launches first"
            );
            return Err(Failure::new(Kind::Busy, text));
        }
        let closed = state.take();
        drop(state);
        let Some((volume, _users)) = closed else { return Ok(()) };
        self.unmap(&volume).map_err(|error| still_mapped(VOLUME, error))
    }

    /// Lets go of the memory of all its buffers, and gives the first failure.
    fn unmap(&self, volume: &warpbell::Volume) -> Result<(), warpbell::Error> {
        let unmapped = |buffer: Arc<BufferCore>| match buffer.unmap(VOLUME) {
            // A launch that is just about to begin leaves it to the queues.
            Some(Mapped::All(memory)) if !buffer.is_handed() => volume.release(&memory),
            _ => Ok(()),
        };
        let released: Vec<_> = self.buffers.take().into_iter().map(unmapped).collect();
        released.into_iter().collect()
    }
}

/// Arrays over its buffers may live longer: their memory is the host's alone then.
impl Drop for VolumeCore {
    fn drop(&mut self) {
        // A child of fork lets go of nothing.
        if self.check_home().is_err() {
            return;
        }
        if let Some((volume, _users)) = self.state.get_mut().take() {
            // What a command may still use stays with the queues.
            let _ = self.unmap(&volume);
        }
    }
}

/// A volume that is not closed while this is held.
pub(crate) struct OpenVolume<'a>(RwLockReadGuard<'a, Option<Parts>>);

impl OpenVolume<'_> {
    /// Lets go of a buffer's memory. An error where a command may still use it: then the queues keep it.
    pub(crate) fn release(&self, memory: &warpbell::VolumeBuffer) -> Result<(), warpbell::Error> {
        self.0.as_ref().map_or(Ok(()), |(volume, _)| volume.release(memory))
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
        let core = VolumeCore { members, state, buffers: Buffers::default() };
        Ok(Volume { core: Own::new(Arc::new(core)) })
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
        let engines: Vec<_> = all.iter().map(|open| open.engine.clone()).collect();
        let parts = VolumePart::flushes(present);
        let progress = engine::spread(parts, move |part| (engines[part.place().member].clone(), None));
        let queues = all.iter().map(|open| open.engine.shared().clone());
        Future::new(queues, progress, 0).result(py, None).map(drop)
    }

    /// Memory that kernels and all SSDs reach: the kernel argument `warpbell_volume_buffer_ref`. It stays mapped until it,
    /// the volume or the queues are closed, also where it is forgotten.
    fn buffer<'py>(&self, py: Python<'py>, nbytes: &Bound<'py, PyAny>) -> PyResult<Bound<'py, VolumeBuffer>> {
        let nbytes = args::within("nbytes", nbytes, 1, i64::MAX as u64)? as usize;
        VolumeBuffer::new(py, &self.core, (0, nbytes), |volume| volume.buffer(nbytes))
    }

    /// The memory of an existing writable object, as `Ssd.register` has it, for all SSDs and kernels. It is kept until the
    /// buffer is closed, or the queues, also where it is forgotten.
    fn register<'py>(
        &self,
        py: Python<'py>,
        object: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, VolumeBuffer>> {
        self.core.with(|_| Ok(()))?;
        foreign::check_no_buffer(object)?;
        let Pages { memory, part, .. } = foreign::window(object, false)?;
        VolumeBuffer::new(py, &self.core, part, |volume| volume.register(memory, part))
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

    /// Lets go of the volume; its queues stay open, and I/O in flight goes on. Its buffers stay as memory of the host
    /// until they are closed: no SSD has them mapped any more. Refused while kernels run over its queues; a second call
    /// does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.core.close())?)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        slf.core.with(|_| Ok(()))?;
        Ok(slf)
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        at_exit(exception, self.close(py))
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

/// Memory that kernels and all SSDs of a volume reach: a buffer of the first SSD that the others have mapped, too.
#[pyclass(frozen, extends = Buffer, module = "warpbell")]
pub(crate) struct VolumeBuffer {
    pub(crate) core: Own<VolumeCore>,
}

impl VolumeBuffer {
    /// `part` of what `make` makes while the volume is open: whoever closes it finds the buffer.
    fn new<'py>(
        py: Python<'py>,
        core: &Arc<VolumeCore>,
        part: (usize, usize),
        make: impl FnOnce(&warpbell::Volume) -> Result<warpbell::VolumeBuffer, warpbell::Error> + Send,
    ) -> PyResult<Bound<'py, VolumeBuffer>> {
        let made = |volume: &Arc<warpbell::Volume>| {
            let (first, maker) = (&core.members()[0], Maker::Volume(Arc::downgrade(core)));
            let memory = Mapped::All(Arc::new(make(volume)?));
            let buffer = Buffer::new(BufferCore::new(first.ssd.clone(), memory, part, maker));
            core.buffers.add(&buffer.core);
            Ok(buffer)
        };
        let base = py.detach(|| core.with(made))?;
        Bound::new(
            py,
            PyClassInitializer::from(base).add_subclass(VolumeBuffer { core: Own::new(core.clone()) }),
        )
    }

    /// The memory, as long as the volume and the buffer are open.
    pub(crate) fn buffer(slf: &Bound<'_, Self>) -> Answer<Arc<warpbell::VolumeBuffer>> {
        let core = &slf.as_super().get().core;
        core.memory_of_volume()?.ok_or_else(|| Failure::closed(&**core))
    }

    /// The memory for a kernel.
    pub(crate) fn hand(slf: &Bound<'_, Self>) -> Answer<(Mapped, Handed)> {
        slf.as_super().get().core.hand(slf.get().core.members())
    }
}

#[pymethods]
impl VolumeBuffer {
    /// The same memory as a buffer of the first SSD: a view. Close it before this buffer.
    fn view(slf: &Bound<'_, Self>) -> PyResult<Buffer> {
        let (core, own) = (&slf.as_super().get().core, &slf.get().core);
        Ok(own.with(|_| {
            let view = Buffer::new(core.another(&own.members()[0])?);
            own.buffers.add(&view.core);
            Ok(view)
        })?)
    }

    /// A copy of its bytes.
    fn read<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyBytes>> {
        let (py, core) = (slf.py(), &slf.as_super().get().core);
        VolumeBuffer::buffer(slf)?;
        PyBytes::new_with(py, core.nbytes() as usize, |into| Ok(py.detach(|| core.copy_out(0, into))?))
    }

    /// Copies bytes into it, from its first on.
    fn write(slf: &Bound<'_, Self>, data: &[u8]) -> PyResult<()> {
        VolumeBuffer::buffer(slf)?;
        let core = &slf.as_super().get().core;
        if data.len() as u64 > core.nbytes() {
            let limit = format!("the buffer has {} bytes", core.nbytes());
            return Err(Failure::argument("data of bytes", data.len(), limit).into());
        }
        Ok(core.copy_in(0, data)?)
    }

    fn __warpbell_reference__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyBytes>> {
        let buffer = VolumeBuffer::buffer(slf)?;
        Ok(PyBytes::new(slf.py(), warpbell::VolumeBuffer::as_ref(&buffer).as_bytes()))
    }
}

/// One read or write by the host, over the SSDs of a volume.
struct HostIo {
    core: Arc<VolumeCore>,
    op: IoOp,
    buffer: Arc<warpbell::VolumeBuffer>,
    /// The same as a buffer of the first SSD, which counts I/O over it.
    base: Arc<BufferCore>,
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
        let base = given.as_super().get().core.clone();
        if !Arc::ptr_eq(&given.get().core, core) {
            let text = format!("volume {base}: belongs to another volume, whose SSDs map it");
            return Err(Failure::new(Kind::Argument, text).into());
        }
        let (at, nbytes) = args::part(at, nbytes, base.nbytes())?;
        let offset = args::count("offset", offset)?;
        Ok(HostIo { core: core.clone(), op, buffer: VolumeBuffer::buffer(given)?, base, offset, at, nbytes })
    }

    /// Sends its parts to the queues of the SSDs.
    fn begin(&self) -> Answer<Future> {
        let pieces = self.core.with(|volume| {
            let block = u64::from(volume.block_bytes());
            args::check_extent(self.offset, self.nbytes, (block, volume.blocks() * block), "the volume")?;
            Ok(volume.places(Lba(self.offset / block), self.nbytes / block)?)
        })?;
        let opened = self.core.opened()?;
        let parts: Vec<Part> =
            VolumePart::of(self.op, pieces).into_iter().map(|part| part.behind(self.at)).collect();
        for part in parts.iter().filter(|part| part.op() == IoOp::Write) {
            self.check_write(&opened, part.place())?;
        }
        let queues: Vec<_> = opened.iter().map(|open| open.engine.shared().clone()).collect();
        Ok(Future::new(queues, engine::spread(parts, self.way(&opened)?), self.nbytes))
    }

    fn check_write(&self, opened: &[Open], place: VolumePlace) -> Answer<()> {
        let core = &self.core.members()[place.member].ssd;
        let ssd = &opened[place.member].ssd;
        core.check_write(ssd, place.lba.get() * core.block, place.blocks * core.block)
    }

    /// How an SSD does a part.
    fn way(&self, opened: &[Open]) -> Answer<impl Fn(&Part) -> Way + Send + Sync + 'static> {
        let member = |(index, open): (usize, &Open)| -> Answer<_> {
            let Some(memory) = self.buffer.on(index) else {
                let limit = "has no memory on each of them";
                return Err(Failure::argument("volume buffer", "of fewer SSDs", limit));
            };
            let by = self.core.members()[index].ssd.data_pointer();
            Ok((open.engine.clone(), DataPointers::new(memory, by)))
        };
        let members: Vec<_> = opened.iter().enumerate().map(member).collect::<Answer<_>>()?;
        let (buffer, counted) = (self.buffer.clone(), Arc::new(self.base.used()?));
        Ok(move |part: &Part| {
            let VolumePlace { member, lba: Lba(lba), blocks } = part.place();
            let (engine, data) = &members[member];
            let used = Used::Volume { used: counted.clone(), buffer: buffer.clone() };
            let (op, at) = (part.op(), part.at());
            (engine.clone(), Some(Transfer { op, lba, blocks, data: *data, at, used }))
        })
    }
}
