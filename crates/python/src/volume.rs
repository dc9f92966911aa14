//! Several SSDs as one, and a cache of pages: what kernels use of them is made here.

use std::sync::Arc;

use parking_lot::RwLock;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use warpbell::{PageCacheSpec, VolumeLayout, VolumeSpec};
use zerocopy::IntoBytes;

use crate::args;
use crate::error::{Answer, Failure, at_exit};
use crate::home::Own;
use crate::queues::{Queues, QueuesCore, User};

/// What is behind a volume.
pub(crate) struct VolumeCore {
    members: Vec<Arc<QueuesCore>>,
    /// None once it was closed.
    state: RwLock<Option<(Arc<warpbell::Volume>, Vec<User>)>>,
}

impl VolumeCore {
    pub(crate) fn members(&self) -> &[Arc<QueuesCore>] {
        &self.members
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
            Failure::argument_type("queues", queues, "must be a list of warpbell.Queues, one of each SSD")
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

    /// Memory that kernels and all SSDs reach: the kernel argument `warpbell_volume_buffer_ref`.
    fn buffer(&self, py: Python<'_>, nbytes: &Bound<'_, PyAny>) -> PyResult<VolumeBuffer> {
        let nbytes = args::within("nbytes", nbytes, 1, i64::MAX as u64)? as usize;
        let buffer = py.detach(|| self.core.with(|volume| Ok(volume.buffer(nbytes)?)))?;
        Ok(VolumeBuffer { buffer: Own::new(Arc::new(buffer)), nbytes, core: Own::new(self.core.clone()) })
    }

    /// What kernels did on each SSD.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let report = self.core.with(|volume| Ok(volume.report()?))?;
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

    /// Lets go of the volume; its queues stay open.
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

    /// A copy of its bytes.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let buffer = self.buffer()?;
        PyBytes::new_with(py, self.nbytes, |into| {
            buffer.buffer().read(0, into).map_err(|error| Failure::from(error).into())
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

/// A cache of pages that kernels share: the kernel argument `warpbell_cache_ref`. Its pages lie in a buffer of the queues,
/// `queues.buffer(cache.buffer_bytes)`. Any number of threads may use it.
#[pyclass(frozen, module = "warpbell")]
pub(crate) struct PageCache {
    cache: Own<warpbell::PageCache>,
    pub(crate) core: Own<QueuesCore>,
}

impl PageCache {
    pub(crate) fn memory(&self) -> Answer<warpbell::KernelMemory> {
        self.core.with(|_| Ok(self.cache.memory()))
    }
}

#[pymethods]
impl PageCache {
    /// A cache of so many pages of `page_bytes` bytes, of the namespace of `queues` from block `first_block` on.
    #[new]
    #[pyo3(signature = (queues, *, pages, page_bytes=None, first_block=None, timeout=None))]
    fn new(
        queues: &Bound<'_, PyAny>,
        pages: &Bound<'_, PyAny>,
        page_bytes: Option<&Bound<'_, PyAny>>,
        first_block: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PageCache> {
        let given = queues
            .cast::<Queues>()
            .map_err(|_| Failure::argument_type("queues", queues, "must be warpbell.Queues"))?;
        let core = given.get().core.clone();
        let mut spec = PageCacheSpec::new().lines(args::within("pages", pages, 1, 1 << 30)? as u32);
        if let Some(bytes) = args::optional("page_bytes", page_bytes, 1, 1 << 31)? {
            spec = spec.page_bytes(bytes as u32);
        }
        if let Some(block) = args::optional("first_block", first_block, 0, u64::MAX)? {
            spec = spec.first_block(block);
        }
        if let Some(limit) = args::deadline("timeout", timeout)? {
            spec = spec.deadline(limit);
        }
        let shape = (core.ssd.blocks, core.ssd.block as u32);
        let cache =
            core.with(|attached| Ok(warpbell::PageCache::new(attached.attachment.target(), shape, &spec)?))?;
        Ok(PageCache { cache: Own::new(Arc::new(cache)), core: Own::new(core) })
    }

    /// Bytes of the buffer that its pages lie in.
    #[getter]
    fn buffer_bytes(&self) -> usize {
        self.cache.buffer_bytes()
    }

    /// Pages that may be cached.
    #[getter]
    fn pages(&self) -> u64 {
        self.cache.pages()
    }

    /// What kernels counted.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = self.core.with(|_| Ok(self.cache.report()?))?;
        let dict = PyDict::new(py);
        dict.set_item("hits", report.hits)?;
        dict.set_item("misses", report.misses)?;
        dict.set_item("write_backs", report.write_backs)?;
        dict.set_item("prefetched", report.prefetched)?;
        dict.set_item("hit_rate", report.hit_rate())?;
        dict.set_item("error", report.error)?;
        Ok(dict)
    }

    fn __warpbell_reference__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.core.with(|_| Ok(()))?;
        Ok(PyBytes::new(py, warpbell::PageCache::as_ref(&self.cache).as_bytes()))
    }
}
