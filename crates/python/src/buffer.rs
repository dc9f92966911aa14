//! Memory that an SSD, the host and kernels reach.

mod held;

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyTuple};
use warpbell::{DataPointers, Gpu};
use warpbell_kernels::abi::BufferRef;

use crate::args;
use crate::error::{Answer, Failure, Kind, at_exit};
use crate::home::{Home, Own};
use crate::queues::QueuesCore;
use crate::ssd::SsdCore;

pub(crate) use held::{Buffers, Handed, Maker, Mapped, still_mapped};
use held::{Held, Lost, Plain};

/// What is behind a buffer. Views, I/O and launches keep it.
pub(crate) struct BufferCore {
    ssd: Arc<SsdCore>,
    /// As kernels and commands name it: exactly the bytes that were asked for.
    reference: BufferRef,
    /// Where the host finds the first byte; 0 where it has no pointer.
    host: usize,
    /// The GPU whose memory it is, if it is one's.
    gpu: Option<Arc<Gpu>>,
    /// Whether SSDs only read from it.
    readonly: bool,
    /// What has its mapping, too.
    maker: Maker,
    /// Commands that the controller may still execute over it, as their queue was not deleted.
    lost: Arc<AtomicUsize>,
    /// Launches that have the memory.
    launches: Arc<AtomicUsize>,
    state: Mutex<State>,
}

struct State {
    /// None once it was closed.
    memory: Option<Held>,
    /// Views that Python has: buffers and DLPack tensors.
    exports: usize,
    /// Reads and writes in flight.
    transfers: usize,
    /// The object whose memory it is, if it is one's, by the reference that the memory keeps.
    owner: Option<Arc<Py<PyAny>>>,
    /// Queues whose kernels were handed it.
    handed: Vec<Weak<QueuesCore>>,
    /// The buffer of which it is another name, if it is one's.
    original: Option<Export>,
    /// The memory once `__cuda_array_interface__` was asked for: whoever did keeps the object, and may use it as long.
    _shown: Option<Plain>,
}

/// A view that Python has of the memory. It counts until it is dropped.
pub(crate) struct Export {
    core: Own<BufferCore>,
    _memory: Option<Plain>,
}

/// I/O in flight over the memory. It counts until it is dropped.
pub(crate) struct Use {
    core: Arc<BufferCore>,
    memory: warpbell::Buffer,
}

impl BufferCore {
    /// `nbytes` bytes of `memory`, from `skip` on.
    pub(crate) fn new(
        ssd: Arc<SsdCore>,
        mapped: Mapped,
        (skip, nbytes): (usize, usize),
        maker: Maker,
    ) -> BufferCore {
        let memory = mapped.first();
        let whole = memory.as_ref();
        let reference = BufferRef {
            data: whole.data + skip as u64,
            iova: whole.iova + skip as u64,
            bytes: nbytes as u64,
            ..whole
        };
        let host = memory.window().map_or(0, |window| window.as_ptr() as usize + skip);
        let gpu = memory.device_memory().map(|memory| memory.gpu().clone());
        let state = State {
            memory: Some(Held::Mapped(mapped)),
            exports: 0,
            transfers: 0,
            owner: None,
            handed: Vec::new(),
            original: None,
            _shown: None,
        };
        let (lost, launches, state) = (Arc::default(), Arc::default(), Mutex::new(state));
        BufferCore { ssd, reference, host, gpu, readonly: false, maker, lost, launches, state }
    }

    /// Another name of this memory, as the buffer's own SSD has it, for kernels of these queues. It is a view that counts.
    pub(crate) fn another(self: &Arc<Self>, queues: &Arc<QueuesCore>) -> Answer<BufferCore> {
        let (original, memory) = (self.export()?, self.memory()?);
        let part = (self.skip(&memory), self.nbytes() as usize);
        let maker = Maker::View(Arc::downgrade(queues));
        let core = BufferCore::new(self.ssd.clone(), Mapped::One(memory), part, maker);
        core.state.lock().original = Some(original);
        Ok(core)
    }

    /// The same, of this object's memory.
    pub(crate) fn owned_by(self, owner: Arc<Py<PyAny>>) -> BufferCore {
        self.state.lock().owner = Some(owner);
        self
    }

    /// The same, with this word on whether SSDs only read from it.
    pub(crate) fn readonly(self, readonly: bool) -> BufferCore {
        BufferCore { readonly, ..self }
    }

    pub(crate) fn is_readonly(&self) -> bool {
        self.readonly
    }

    pub(crate) fn check_writable(&self) -> Answer<()> {
        match self.readonly {
            true => Err(Failure::argument(
                "buffer",
                format!("of {} bytes", self.nbytes()),
                "was registered as read-only",
            )),
            false => Ok(()),
        }
    }

    pub(crate) fn nbytes(&self) -> u64 {
        self.reference.bytes
    }

    /// Where the host finds the first byte, if it does.
    pub(crate) fn host(&self) -> Option<usize> {
        (self.host != 0).then_some(self.host)
    }

    pub(crate) fn ssd(&self) -> &Arc<SsdCore> {
        &self.ssd
    }

    /// Whether it belongs to these queues.
    pub(crate) fn is_of(&self, queues: &Arc<QueuesCore>) -> bool {
        self.maker.is(queues)
    }

    /// The kernel argument that names it.
    pub(crate) fn reference(&self) -> Answer<BufferRef> {
        self.check_open().map(|()| self.reference)
    }

    pub(crate) fn check_open(&self) -> Answer<()> {
        self.ssd.check_home()?;
        if self.is_closed() { Err(self.gone()) } else { Ok(()) }
    }

    /// The memory stays for the host alone, as `closed` is: gives what was mapped, if it was.
    pub(crate) fn unmap(&self, closed: &str) -> Option<Mapped> {
        let mut state = self.state.lock();
        let Some(Held::Mapped(mapped)) = &state.memory else { return None };
        let mapped = mapped.clone();
        let held = state.memory.as_ref().and_then(Held::plain);
        state.memory = held.map(|plain| Held::Plain(plain, closed.to_owned()));
        Some(mapped)
    }

    /// Data pointers to parts of it.
    pub(crate) fn data_pointers(&self) -> DataPointers {
        DataPointers::new(self.reference, self.ssd.data_pointer())
    }

    /// The memory as it is mapped for the SSD.
    pub(crate) fn memory(&self) -> Answer<warpbell::Buffer> {
        self.ssd.check_home()?;
        Ok(self.mapped(&self.state.lock())?.first().clone())
    }

    /// The memory as it is mapped for each SSD of a volume; `None` for buffers of one SSD.
    pub(crate) fn memory_of_volume(&self) -> Answer<Option<Arc<warpbell::VolumeBuffer>>> {
        self.ssd.check_home()?;
        match self.mapped(&self.state.lock())? {
            Mapped::All(memory) => Ok(Some(memory.clone())),
            Mapped::One(_) => Ok(None),
        }
    }

    fn mapped<'a>(&self, state: &'a State) -> Answer<&'a Mapped> {
        match &state.memory {
            Some(Held::Mapped(mapped)) => Ok(mapped),
            Some(Held::Plain(_, closed)) => Err(Failure::closed(closed)),
            None => Err(self.gone()),
        }
    }

    pub(crate) fn export(self: &Arc<Self>) -> Answer<Export> {
        self.ssd.check_home()?;
        let mut state = self.state.lock();
        let memory = state.memory.as_ref().map(Held::plain).ok_or_else(|| self.gone())?;
        state.exports += 1;
        Ok(Export { core: Own::new(self.clone()), _memory: memory })
    }

    pub(crate) fn used(self: &Arc<Self>) -> Answer<Use> {
        let mut state = self.state.lock();
        let memory = self.mapped(&state)?.first().clone();
        state.transfers += 1;
        Ok(Use { core: self.clone(), memory })
    }

    /// The memory for a kernel of these queues.
    pub(crate) fn hand(&self, queues: &[Arc<QueuesCore>]) -> Answer<(Mapped, Handed)> {
        self.ssd.check_home()?;
        let mut state = self.state.lock();
        let mapped = self.mapped(&state)?.clone();
        state.handed.retain(|queues| queues.strong_count() > 0);
        for queues in queues {
            if !state.handed.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(queues))) {
                state.handed.push(Arc::downgrade(queues));
            }
        }
        Ok((mapped, Handed::new(&self.launches)))
    }

    /// Whether a launch has the memory.
    pub(crate) fn is_handed(&self) -> bool {
        self.launches.load(Ordering::Acquire) > 0
    }

    /// Shows Python's collector the object whose memory it is, where nothing but one Python object has that: neither
    /// views, nor I/O, nor kernels. The collector waits for no lock.
    fn traverse(self: &Arc<Self>, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(state) = self.state.try_lock() else { return Ok(()) };
        let unused = Arc::strong_count(self) == 1
            && matches!(self.maker, Maker::Ssd)
            && self.lost.load(Ordering::Acquire) == 0
            && state.exports == 0
            && state.transfers == 0
            && state._shown.is_none()
            && state.handed.iter().all(|queues| queues.strong_count() == 0);
        match &state.owner {
            Some(owner) if unused => visit.call(&**owner),
            _ => Ok(()),
        }
    }

    /// Gives what is let go of: without a lock.
    pub(crate) fn close(&self) -> Answer<impl Sized + use<>> {
        self.ssd.check_home()?;
        let volume = self.maker.volume();
        // Not closed before all is let go of: closing it would not find what was taken here.
        let volume = volume.as_ref().map(|volume| volume.held_open());
        // Kernels that have ended let go of it.
        let running = self.maker.running();
        let mut state = self.state.lock();
        if state.memory.is_some() {
            self.check_unused(&state, running)?;
        }
        let held = (state.memory.take(), state.owner.take(), state.original.take());
        drop(state);
        if let Some(Held::Mapped(mapped)) = &held.0 {
            self.maker.release(mapped, volume.as_ref()).map_err(|error| still_mapped(self, error))?;
        }
        let lost = self.lost.load(Ordering::Acquire);
        if lost == 0 || held.0.is_none() {
            return Ok(held);
        }
        let text = format!(
            "{self}: {} did not delete the queue of {lost} requests over it, and may still use it: it is closed, but \
             stays mapped until the SSD is closed",
            self.ssd.name
        );
        Err(Failure::new(Kind::InUse, text))
    }

    /// Refuses to close what views, I/O or kernels have. What an SSD's buffer was handed to keeps it by itself.
    fn check_unused(&self, state: &State, running: usize) -> Answer<()> {
        let busy = |kind, count: usize, what: &str| match count {
            0 => Ok(()),
            _ => Err(Failure::new(kind, format!("{self}: {count} {what}"))),
        };
        busy(Kind::Exported, state.exports, "live views of it: delete arrays and memoryviews over it first")?;
        busy(Kind::Busy, state.transfers, "transfers in flight: wait for their futures first")?;
        let launches = match self.maker {
            Maker::Ssd => 0,
            _ => running.max(self.launches.load(Ordering::Acquire)),
        };
        busy(Kind::Busy, launches, "kernels still run that may use it: wait for their launches first")
    }

    /// Hands its address out without a view that counts: the memory stays as long as the object.
    pub(crate) fn show(&self) -> Answer<()> {
        self.ssd.check_home()?;
        let mut state = self.state.lock();
        state._shown = Some(state.memory.as_ref().and_then(Held::plain).ok_or_else(|| self.gone())?);
        Ok(())
    }

    /// The GPU whose memory it is, if it is one's.
    pub(crate) fn gpu(&self) -> Option<&Arc<Gpu>> {
        self.gpu.as_ref()
    }

    /// Copies bytes out of it.
    pub(crate) fn copy_out(&self, at: usize, into: &mut [u8]) -> Answer<()> {
        let memory = self.memory()?;
        Ok(memory.read(at + self.skip(&memory), into)?)
    }

    /// Copies bytes into it.
    pub(crate) fn copy_in(&self, at: usize, from: &[u8]) -> Answer<()> {
        self.check_writable()?;
        let memory = self.memory()?;
        Ok(memory.write(at + self.skip(&memory), from)?)
    }

    /// Bytes of the mapped memory before the first of its own.
    pub(crate) fn skip(&self, memory: &warpbell::Buffer) -> usize {
        (self.reference.data - memory.as_ref().data) as usize
    }

    fn is_closed(&self) -> bool {
        self.state.lock().memory.is_none()
    }

    fn gone(&self) -> Failure {
        Failure::closed(self)
    }
}

impl std::fmt::Display for BufferCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "buffer of {} bytes", self.reference.bytes)
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if self.core.home() == Home::here() {
            self.core.state.lock().exports -= 1;
        }
    }
}

impl Use {
    /// The GPU whose memory it is, if it is one's.
    pub(crate) fn gpu(&self) -> Option<&Arc<Gpu>> {
        self.core.gpu()
    }

    /// The memory alone, which the controller may still use: the I/O is over.
    pub(crate) fn keep(&self) -> Box<dyn Any + Send> {
        let (count, memory) = (self.core.lost.clone(), self.memory.clone());
        count.fetch_add(1, Ordering::Release);
        Box::new(Lost { count, _memory: memory })
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.core.state.lock().transfers -= 1;
    }
}

/// Memory that an SSD, the host and kernels reach, or the caller's own memory, registered.
///
/// NumPy and others view it without copies: `numpy.frombuffer(buffer, dtype)`, `numpy.from_dlpack(buffer)`,
/// `memoryview(buffer)`. While such a view lives the buffer cannot be closed. Any number of threads may use it; who reads
/// bytes while an SSD writes them reads either.
#[pyclass(frozen, subclass, module = "warpbell")]
pub(crate) struct Buffer {
    pub(crate) core: Own<BufferCore>,
}

impl Buffer {
    pub(crate) fn new(core: BufferCore) -> Buffer {
        let core = Arc::new(core);
        core.ssd.buffers.add(&core);
        Buffer { core: Own::new(core) }
    }
}

#[pymethods]
impl Buffer {
    /// Bytes of it.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.core.nbytes()
    }

    /// Where kernels find the first byte: for host memory the host, too.
    #[getter]
    fn address(&self) -> PyResult<u64> {
        Ok(self.core.reference()?.data)
    }

    /// Whether SSDs only read from it.
    #[getter]
    fn readonly(&self) -> bool {
        self.core.is_readonly()
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.core.is_closed()
    }

    /// A copy of `nbytes` bytes (all that it has from `at` on), wherever the memory lies. Wait for the futures and kernels
    /// that write to it before.
    #[pyo3(signature = (at=None, nbytes=None))]
    fn copy_to_host<'py>(
        &self,
        py: Python<'py>,
        at: Option<&Bound<'py, PyAny>>,
        nbytes: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let all = self.core.nbytes();
        let at = args::optional("at", at, 0, all)?.unwrap_or(0);
        let nbytes = args::optional("nbytes", nbytes, 0, all - at)?.unwrap_or(all - at);
        PyBytes::new_with(
            py,
            nbytes as usize,
            |into| Ok(py.detach(|| self.core.copy_out(at as usize, into))?),
        )
    }

    /// Copies bytes into it from `at` on, wherever the memory lies.
    #[pyo3(signature = (data, at=None))]
    fn copy_from_host(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        at: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let at = args::optional("at", at, 0, self.core.nbytes())?.unwrap_or(0);
        let (bytes, left) = (args::bytes("data", data)?, self.core.nbytes() - at);
        let from = bytes.as_bytes();
        if from.len() as u64 > left {
            let limit = format!("the buffer has {left} bytes from {at} on");
            return Err(Failure::argument("data", format!("of {} bytes", from.len()), limit).into());
        }
        Ok(py.detach(|| self.core.copy_in(at as usize, from))?)
    }

    /// Lets go of the memory, and of an object whose memory it was; the soft controller may keep both until its next admin
    /// command, at the latest until the SSD is closed, and what kernels were handed stays until their queues are closed,
    /// but for buffers of those queues and of volumes. Refused while views of it live, transfers over it are in flight, or
    /// kernels run over the queues that it was made for; a second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        // It may wait for a volume that is closed just now.
        drop(py.detach(|| self.core.close())?);
        Ok(())
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        slf.core.check_open()?;
        Ok(slf)
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        at_exit(exception, self.close(py))
    }

    /// The object whose memory this is may lead back here: an array with this as an attribute.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // A child of fork lets go of nothing.
        if self.core.home() == Home::here() { self.core.traverse(&visit) } else { Ok(()) }
    }

    /// Nobody has it any more.
    fn __clear__(&self) {
        drop(self.core.close());
    }

    fn __len__(&self) -> usize {
        self.core.nbytes() as usize
    }

    fn __repr__(&self) -> String {
        let state = if self.core.is_closed() { ", closed" } else { "" };
        format!("<warpbell.Buffer of {} bytes at {:#x}{state}>", self.core.nbytes(), self.core.reference.data)
    }
}
