//! An open SSD: what it is, its memory, and its reads and writes.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use warpbell::{DEVICE_PAGE, DataPlacement, DataPointerKind, Gpu, IoOp, RequestQueueSpec};
use warpbell_hw::{Lba, Nsid};

use crate::args;
use crate::buffer::{Buffer, BufferCore, Buffers, Maker, Mapped};
use crate::device;
use crate::engine::{Engine, Transfer, Used};
use crate::error::{Answer, Failure, Kind, at_exit};
use crate::file::{self, File};
use crate::foreign::{self, Pages};
use crate::future::Future;
use crate::home::{Home, Own};
use crate::queues::QueuesCore;

/// Of `read` and `write`, the bytes between two looks for signals, such as Ctrl-C: a multiple of every size of block.
const PIECE: usize = 4 << 20;

/// What is behind an SSD. Buffers and queues keep it.
pub(crate) struct SsdCore {
    pub(crate) name: String,
    pub(crate) home: Home,
    pub(crate) nsid: Nsid,
    pub(crate) block: u64,
    pub(crate) blocks: u64,
    depth: u32,
    data_pointer: DataPointerKind,
    max_transfer_bytes: Option<u64>,
    info: [String; 3],
    /// None once it was closed.
    open: RwLock<Option<Open>>,
    /// Queues that were attached, and may be open.
    queues: Mutex<Vec<Weak<QueuesCore>>>,
    /// Buffers that were made, and may be open.
    pub(crate) buffers: Buffers,
}

/// What closing takes away.
#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) ssd: Arc<warpbell::Ssd>,
    pub(crate) engine: Arc<Engine>,
}

impl SsdCore {
    pub(crate) fn new(
        ssd: warpbell::Ssd,
        nsid: Option<Nsid>,
        (depth, entries): (u32, Option<u32>),
        limit: Duration,
    ) -> Answer<SsdCore> {
        let entries = entries_for(&ssd, depth, entries)?;
        let namespace = ssd.namespace(nsid)?;
        let (nsid, block, blocks) = (namespace.nsid, u64::from(namespace.block_size), namespace.blocks);
        let spec = RequestQueueSpec::new(nsid, depth).entries(entries).timeout(limit);
        let identify = ssd.identify();
        let info =
            [identify.model(), identify.serial(), identify.firmware()].map(|text| text.trim().to_owned());
        let data_pointer = ssd.data_path().data_pointer;
        let (name, max_transfer_bytes) = (ssd.name().to_string(), ssd.max_transfer_bytes());
        let ssd = Arc::new(ssd);
        let engine = Arc::new(Engine::start(ssd.clone(), spec)?);
        let (open, queues) = (RwLock::new(Some(Open { ssd, engine })), Mutex::default());
        let buffers = Buffers::default();
        Ok(SsdCore {
            name,
            home: Home::here(),
            nsid,
            block,
            blocks,
            depth,
            data_pointer,
            max_transfer_bytes,
            info,
            open,
            queues,
            buffers,
        })
    }

    pub(crate) fn data_pointer(&self) -> DataPointerKind {
        self.data_pointer
    }

    /// The GPU in whose memory data lies, if it lies in one's.
    pub(crate) fn gpu(&self) -> Answer<Option<Arc<Gpu>>> {
        Ok(match self.open()?.ssd.data_placement() {
            DataPlacement::Hbm(gpu) => Some(gpu.clone()),
            _ => None,
        })
    }

    /// What it is as long as it is open.
    pub(crate) fn open(&self) -> Answer<Open> {
        self.check_home()?;
        self.open.read().clone().ok_or_else(|| self.gone())
    }

    pub(crate) fn check_home(&self) -> Answer<()> {
        self.home.check(&self.name)
    }

    /// Closing looks for queues after it took what is open: those that come later are refused.
    pub(crate) fn add_queues(&self, queues: &Arc<QueuesCore>) -> Answer<()> {
        let open = self.open.read();
        if open.is_none() {
            return Err(self.gone());
        }
        let mut all = self.queues.lock();
        all.retain(|queues| queues.strong_count() > 0);
        all.push(Arc::downgrade(queues));
        Ok(())
    }

    fn gone(&self) -> Failure {
        Failure::closed(format!("ssd {}", self.name))
    }

    /// Its queues go first. Refused while kernels run on some.
    fn close(&self) -> Answer<()> {
        self.check_home()?;
        self.close_queues()?;
        let Some(Open { ssd, engine }) = self.open.write().take() else { return Ok(()) };
        // Those that were attached in between.
        let late = self.close_queues();
        let stopped = engine.stop();
        // Mappings would keep the device open.
        let closed = format!("ssd {}", self.name);
        self.buffers.take().iter().for_each(|buffer| drop(buffer.unmap(&closed)));
        let deleted = ssd.delete_host_queues();
        late?;
        stopped?;
        Ok(deleted?)
    }

    fn close_queues(&self) -> Answer<()> {
        let queues: Vec<_> = self.queues.lock().iter().filter_map(Weak::upgrade).collect();
        queues.iter().try_for_each(|queues| queues.close())
    }

    fn nbytes(&self) -> u64 {
        self.blocks * self.block
    }

    /// Whether these bytes are blocks of it.
    fn check_extent(&self, offset: u64, nbytes: u64) -> Answer<()> {
        args::check_extent(offset, nbytes, (self.block, self.nbytes()), &self.name)
    }

    /// Whether these blocks may be written.
    pub(crate) fn check_write(&self, ssd: &warpbell::Ssd, offset: u64, nbytes: u64) -> Answer<()> {
        Ok(ssd.check_write(Some(self.nsid), Lba(offset / self.block), nbytes)?)
    }
}

/// Entries of a queue that keeps `depth` commands in flight: as many as were asked for, or just enough.
fn entries_for(ssd: &warpbell::Ssd, depth: u32, asked: Option<u32>) -> Answer<u32> {
    let most = ssd.controller().max_entries();
    if depth >= most {
        let name = ssd.name();
        let limit = format!("queues of {name} have at most {most} entries: depth is at most {}", most - 1);
        return Err(Failure::argument("depth", depth, limit));
    }
    match asked {
        None => Ok((depth + 1).next_power_of_two().min(most)),
        Some(entries) if (depth + 1..=most).contains(&entries) => Ok(entries),
        Some(entries) => {
            let rule = format!("must be from depth + 1, {}, to the controller's {most}", depth + 1);
            Err(Failure::argument("queue_entries", entries, rule))
        }
    }
}

/// Model, serial number and firmware of an SSD.
#[pyclass(frozen, get_all, module = "warpbell")]
pub(crate) struct SsdInfo {
    model: String,
    serial: String,
    firmware: String,
}

#[pymethods]
impl SsdInfo {
    fn __repr__(&self) -> String {
        format!("SsdInfo(model={:?}, serial={:?}, firmware={:?})", self.model, self.serial, self.firmware)
    }
}

/// An open SSD. Any number of threads may use it; requests of one thread begin in the order in which they were made. It is
/// closed when it, its buffers and its queues are forgotten: whoever forgets the last waits for what is in flight, while
/// other threads go on. In a child of `fork` calls are refused, and nothing is closed.
#[pyclass(frozen, module = "warpbell")]
pub(crate) struct Ssd {
    pub(crate) core: Own<SsdCore>,
}

impl Ssd {
    /// The buffer of a request to an SSD, and which part of it: from where, and how many bytes.
    pub(crate) fn part(
        ssd: &Arc<SsdCore>,
        buffer: &Bound<'_, PyAny>,
        at: Option<&Bound<'_, PyAny>>,
        nbytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Arc<BufferCore>, u64, u64)> {
        let given = buffer.cast::<Buffer>().map_err(|_| {
            let limit = "must be a warpbell.Buffer: ssd.buffer(nbytes) makes one, ssd.register(array) has an array's memory";
            Failure::argument_type("buffer", buffer, limit)
        })?;
        let core = given.get().core.clone();
        if !Arc::ptr_eq(core.ssd(), ssd) {
            let (owner, other) = (&core.ssd().name, &ssd.name);
            let text = format!("{core}: belongs to {owner}, which maps it, and not to {other}");
            return Err(Failure::new(Kind::Argument, text).into());
        }
        let (at, nbytes) = args::part(at, nbytes, core.nbytes())?;
        Ok((core, at, nbytes))
    }

    fn transfer(
        &self,
        op: IoOp,
        offset: &Bound<'_, PyAny>,
        (buffer, at, nbytes): (Arc<BufferCore>, u64, u64),
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Future> {
        let offset = args::count("offset", offset)?;
        let open = self.core.open()?;
        self.core.check_extent(offset, nbytes)?;
        if op == IoOp::Write {
            self.core.check_write(&open.ssd, offset, nbytes)?;
        }
        if op == IoOp::Read {
            buffer.check_writable()?;
        }
        let (data, used) = (buffer.data_pointers(), Used::Buffer { used: buffer.used()? });
        if let Some(stream) = stream {
            device::wait_for_stream(stream, &buffer, buffer.gpu())?;
        }
        let (lba, blocks) = (offset / self.core.block, nbytes / self.core.block);
        let progress = open.engine.transfer(Transfer { op, lba, blocks, data, at, used });
        Ok(Future::new([open.engine.shared().clone()], progress, nbytes))
    }
}

#[pymethods]
impl Ssd {
    /// The name that it was opened by.
    #[getter]
    fn name(&self) -> &str {
        &self.core.name
    }

    /// The number of its namespace.
    #[getter]
    fn namespace(&self) -> u32 {
        self.core.nsid.0
    }

    /// Bytes of a block: offsets and lengths are multiples of it.
    #[getter]
    fn block_size(&self) -> u64 {
        self.core.block
    }

    /// Blocks of the namespace.
    #[getter]
    fn blocks(&self) -> u64 {
        self.core.blocks
    }

    /// Bytes of the namespace.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.core.nbytes()
    }

    /// The most bytes of one command of the SSD's; None: no limit. Larger requests are split.
    #[getter]
    fn max_transfer_bytes(&self) -> Option<u64> {
        self.core.max_transfer_bytes
    }

    /// Commands that reads and writes keep in flight at most.
    #[getter]
    fn depth(&self) -> u32 {
        self.core.depth
    }

    /// Model, serial number and firmware.
    #[getter]
    fn info(&self) -> SsdInfo {
        let [model, serial, firmware] = self.core.info.clone();
        SsdInfo { model, serial, firmware }
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.core.open.read().is_none()
    }

    /// Memory that the SSD reaches, where its data lies: zeroed bytes.
    fn buffer(&self, py: Python<'_>, nbytes: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        let nbytes = args::within("nbytes", nbytes, 1, i64::MAX as u64)? as usize;
        let (open, gpu) = (self.core.open()?, self.core.gpu()?);
        let make = || match gpu {
            None => open.ssd.buffer(nbytes),
            Some(gpu) => {
                open.ssd.register_device(&gpu.allocate(nbytes.next_multiple_of(DEVICE_PAGE as usize))?)
            }
        };
        let memory = py.detach(make).map_err(Failure::from)?;
        Ok(Buffer::new(BufferCore::new(self.core.clone(), Mapped::One(memory), (0, nbytes), Maker::Ssd)))
    }

    /// The memory of an existing writable object, such as a NumPy array or a tensor, as a buffer: no copy is made, and the
    /// object is kept. It must be contiguous and begin at a multiple of 4 bytes. Memory of a GPU needs an SSD whose data
    /// lies there (`data="hbm"`). SSDs only read from a `readonly` buffer; its object need not be writable.
    #[pyo3(signature = (object, *, readonly=false))]
    fn register(&self, py: Python<'_>, object: &Bound<'_, PyAny>, readonly: bool) -> PyResult<Buffer> {
        let open = self.core.open()?;
        foreign::check_no_buffer(object)?;
        let (memory, part, owner) =
            if let Some(found) = device::pages(object, self.core.gpu()?.as_ref(), readonly)? {
                (py.detach(|| open.ssd.register_device(&found.memory)), found.part, found.owner)
            } else {
                let Pages { memory, part, owner } = foreign::window(object, readonly)?;
                let register = || match readonly {
                    true => open.ssd.register_read_only(memory),
                    false => open.ssd.register(memory),
                };
                (py.detach(register), part, owner)
            };
        let memory = memory.map_err(Failure::from)?;
        let core = BufferCore::new(self.core.clone(), Mapped::One(memory), part, Maker::Ssd);
        Ok(Buffer::new(core.readonly(readonly).owned_by(owner)))
    }

    /// Begins to read `nbytes` bytes (all that the buffer has from `at` on) from byte `offset` of the SSD,
    /// once the work on `stream` has ended, for which this call waits. Work on the data begins after the future has ended.
    #[pyo3(signature = (buffer, offset, *, at=None, nbytes=None, stream=None))]
    fn read_into(
        &self,
        buffer: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        at: Option<&Bound<'_, PyAny>>,
        nbytes: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Future> {
        self.transfer(IoOp::Read, offset, Ssd::part(&self.core, buffer, at, nbytes)?, stream)
    }

    /// Begins to write `nbytes` bytes of the buffer (all that it has from `at` on) to byte `offset` of the
    /// SSD, once the work on `stream` has ended, for which this call waits.
    #[pyo3(signature = (buffer, offset, *, at=None, nbytes=None, stream=None))]
    fn write_from(
        &self,
        buffer: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        at: Option<&Bound<'_, PyAny>>,
        nbytes: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Future> {
        self.transfer(IoOp::Write, offset, Ssd::part(&self.core, buffer, at, nbytes)?, stream)
    }

    /// Bytes from `offset` on. Waits for the SSD; calls take turns.
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: &Bound<'py, PyAny>,
        nbytes: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (offset, nbytes) = (args::count("offset", offset)?, args::count("nbytes", nbytes)?);
        let open = self.core.open()?;
        self.core.check_extent(offset, nbytes)?;
        let (ssd, nsid) = (&open.ssd, self.core.nsid);
        PyBytes::new_with(py, nbytes as usize, |into| {
            for (piece, at) in into.chunks_mut(PIECE).zip((offset..).step_by(PIECE)) {
                py.check_signals()?;
                let lba = Lba(at / self.core.block);
                py.detach(|| ssd.read(Some(nsid), lba, piece)).map_err(Failure::from)?;
            }
            Ok(())
        })
    }

    /// Writes bytes from `offset` on. Waits for the SSD; calls take turns.
    fn write(&self, py: Python<'_>, offset: &Bound<'_, PyAny>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let offset = args::count("offset", offset)?;
        let open = self.core.open()?;
        let bytes = args::bytes("data", data)?;
        let from = bytes.as_bytes();
        self.core.check_extent(offset, from.len() as u64)?;
        self.core.check_write(&open.ssd, offset, from.len() as u64)?;
        for (piece, at) in from.chunks(PIECE).zip((offset..).step_by(PIECE)) {
            py.check_signals()?;
            let lba = Lba(at / self.core.block);
            py.detach(|| open.ssd.write(Some(self.core.nsid), lba, piece)).map_err(Failure::from)?;
        }
        Ok(())
    }

    /// A file of the file system on the SSD, which no kernel has mounted, by its absolute path: ext4, or a catalogue.
    /// `partition` has the file system where there are partitions: a number, PARTUUID or label. `manifest` is the path of
    /// what `warpbell files capture` wrote, in place of the file system. `allow_dirty` reads a file system that was not
    /// unmounted, without what its journal has.
    #[pyo3(signature = (path, *, manifest=None, partition=None, allow_dirty=false))]
    fn open_file(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        manifest: Option<PathBuf>,
        partition: Option<&Bound<'_, PyAny>>,
        allow_dirty: bool,
    ) -> PyResult<File> {
        let text = |name: &str, value: &Bound<'_, PyAny>, rule: &str| -> Answer<String> {
            value.extract().map_err(|_| Failure::argument_type(name, value, rule))
        };
        let path = text("path", path, "must be text, such as /data/a.bin")?;
        // Partitions are numbered, too.
        let partition = partition.map(|value| match value.extract::<u32>() {
            Ok(number) => Ok(number.to_string()),
            Err(_) => text("partition", value, "must be a number, a PARTUUID or a label"),
        });
        Ok(file::open(py, &self.core, &path, (manifest, partition.transpose()?, allow_dirty))?)
    }

    /// Makes what was written before durable: waits for the writes in flight, then for the SSD.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let engine = self.core.open()?.engine;
        Future::new([engine.shared().clone()], engine.flush(), 0).result(py, None).map(drop)
    }

    /// Closes the SSD, after the I/O in flight. Buffers stay as memory until they are closed; a second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.core.close())?)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        slf.core.open()?;
        Ok(slf)
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        at_exit(exception, self.close(py))
    }

    fn __repr__(&self) -> String {
        let (core, state) = (&self.core, if self.closed() { ", closed" } else { "" });
        format!("<warpbell.Ssd {}: {} blocks of {} bytes{state}>", core.name, core.blocks, core.block)
    }
}
