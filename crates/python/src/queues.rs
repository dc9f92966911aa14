//! Queues for kernels, the memory that those reach, and leases of a part of them.

use std::mem::offset_of;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use warpbell::{AttachOptions, Attachment, SharedMemory, Sharing, Target};
use warpbell_kernels::abi::Mailbox;
use zerocopy::IntoBytes;

use crate::args;
use crate::buffer::{Buffer, BufferCore, Handed, Maker, Mapped};
use crate::device;
use crate::error::{Answer, Failure, Kind, at_exit};
use crate::foreign::{self, Pages};
use crate::home::Own;
use crate::launch::LaunchCore;
use crate::ssd::{Ssd, SsdCore};

/// What is behind queues. Launches, leases and volumes keep it.
pub(crate) struct QueuesCore {
    pub(crate) ssd: Arc<SsdCore>,
    pub(crate) target: Target,
    /// None once they were closed.
    state: RwLock<Option<Attached>>,
    /// Held while they are deleted, which takes the SSD's time: `state` is not, as calls that hold the interpreter read it.
    closing: Mutex<()>,
    /// Memory that kernels were handed: a command that timed out may use it as long as there are queues.
    handed: Mutex<Vec<warpbell::Buffer>>,
    launches: Mutex<Vec<Weak<LaunchCore>>>,
    /// Leases and volumes that are open.
    users: Mutex<usize>,
}

/// What closing takes away.
pub(crate) struct Attached {
    pub(crate) attachment: Attachment,
    pub(crate) mailbox: SharedMemory,
}

/// A lease or a volume over the queues. It counts until it is dropped.
pub(crate) struct User(Arc<QueuesCore>);

impl Drop for User {
    fn drop(&mut self) {
        *self.0.users.lock() -= 1;
    }
}

impl QueuesCore {
    pub(crate) fn attach(ssd: &Arc<SsdCore>, options: &AttachOptions) -> Answer<Arc<QueuesCore>> {
        let open = ssd.open()?;
        let attachment = open.ssd.attach(options)?;
        let mailbox = attachment.target().shared(size_of::<Mailbox>())?;
        mailbox.window().write(0, Mailbox::new().as_bytes()).map_err(warpbell::Error::from)?;
        let (handed, launches, users) = (Mutex::default(), Mutex::default(), Mutex::default());
        let target = attachment.target().target();
        let state = RwLock::new(Some(Attached { attachment, mailbox }));
        let closing = Mutex::default();
        let core = QueuesCore { ssd: ssd.clone(), target, state, closing, handed, launches, users };
        let core = Arc::new(core);
        // Dropped where the SSD was closed meanwhile.
        ssd.add_queues(&core)?;
        Ok(core)
    }

    /// Does something with the queues, which are not closed meanwhile.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Attached) -> Answer<T>) -> Answer<T> {
        self.ssd.check_home()?;
        // Of one thread: a volume may name queues twice, which is refused later.
        let state = self.state.read_recursive();
        work(state.as_ref().ok_or_else(|| Failure::closed(self))?)
    }

    pub(crate) fn user(self: &Arc<Self>) -> User {
        *self.users.lock() += 1;
        User(self.clone())
    }

    /// Keeps memory that a kernel is handed until the queues are deleted. That of their own buffers they have.
    pub(crate) fn hand(self: &Arc<Self>, buffer: &BufferCore) -> Answer<(Mapped, Handed)> {
        let (mapped, guard) = buffer.hand(std::slice::from_ref(self))?;
        let mut handed = self.handed.lock();
        let memory = mapped.first();
        if !buffer.is_of(self) && !handed.iter().any(|known| known.as_ref() == memory.as_ref()) {
            handed.push(memory.clone());
        }
        drop(handed);
        Ok((mapped, guard))
    }

    /// Lets go of the memory of a buffer of theirs. An error where a command may still use it: then they keep it.
    pub(crate) fn release(&self, memory: &warpbell::Buffer) -> Result<(), warpbell::Error> {
        if let Some(attached) = self.state.read_recursive().as_ref() {
            return attached.attachment.release(memory);
        }
        // Not let go of before they are deleted.
        drop(self.closing.lock());
        Ok(())
    }

    pub(crate) fn add_launch(&self, launch: &Arc<LaunchCore>) {
        let mut launches = self.launches.lock();
        launches.retain(|launch| launch.strong_count() > 0);
        launches.push(Arc::downgrade(launch));
    }

    /// Kernels over them that have not ended.
    pub(crate) fn running(&self) -> usize {
        let launches: Vec<_> = self.launches.lock().iter().filter_map(Weak::upgrade).collect();
        launches.iter().filter(|launch| !launch.is_done()).count()
    }

    /// Starts a kernel over them. The first of several at a time finds no old wish to stop.
    pub(crate) fn start(
        &self,
        attached: &Attached,
        start: impl FnOnce() -> Answer<Arc<LaunchCore>>,
    ) -> Answer<Arc<LaunchCore>> {
        if self.running() == 0 {
            set_stop(&attached.mailbox, 0);
        }
        let launch = start()?;
        self.add_launch(&launch);
        Ok(launch)
    }

    pub(crate) fn close(&self) -> Answer<()> {
        self.ssd.check_home()?;
        let _turn = self.closing.lock();
        let mut state = self.state.write();
        if state.is_none() {
            return Ok(());
        }
        let (running, users) = (self.running(), *self.users.lock());
        if running > 0 {
            let text = format!("{self}: {running} kernels still run: wait for their launches first");
            return Err(Failure::new(Kind::Busy, text));
        }
        if users > 0 {
            let text = format!("{self}: {users} leases or volumes of them are open: close them first");
            return Err(Failure::new(Kind::Busy, text));
        }
        let attached = state.take();
        drop(state);
        // Launches have ended, and let go of what they kept.
        let launches: Vec<_> = self.launches.lock().drain(..).filter_map(|launch| launch.upgrade()).collect();
        launches.iter().for_each(|launch| launch.forget());
        let closed = attached.map_or(Ok(()), |attached| attached.attachment.close());
        let handed = std::mem::take(&mut *self.handed.lock());
        if let (Err(_), Ok(open)) = (&closed, self.ssd.open()) {
            open.ssd.controller().keep_until_disabled(handed);
        }
        Ok(closed?)
    }
}

impl std::fmt::Display for QueuesCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "queues of {}", self.ssd.name)
    }
}

fn set_stop(mailbox: &SharedMemory, value: u32) {
    mailbox.window().store_u32(offset_of!(Mailbox, stop), value, Ordering::Release);
}

/// Queues of an SSD that kernels on one target use. Any number of threads may use it; kernels that run at the same time
/// over exclusive queues need queues of their own. Forgotten, they are deleted when the last launch over them has ended.
#[pyclass(frozen, module = "warpbell")]
pub(crate) struct Queues {
    pub(crate) core: Own<QueuesCore>,
}

impl Queues {
    /// A buffer of part of this memory, which they have, too.
    fn made(&self, memory: warpbell::Buffer, part: (usize, usize)) -> Buffer {
        let maker = Maker::Queues(Arc::downgrade(&self.core));
        Buffer::new(BufferCore::new(self.core.ssd.clone(), Mapped::One(memory), part, maker))
    }
}

#[pymethods]
impl Queues {
    /// Where the kernels run.
    #[getter]
    fn target(&self) -> String {
        self.core.target.to_string()
    }

    /// The kernel argument that names the namespace and its queues: `warpbell_namespace_ref`.
    #[getter]
    fn namespace(&self) -> NamespaceRef {
        NamespaceRef { core: Own::new(self.core.clone()) }
    }

    /// Whether they were closed.
    #[getter]
    fn closed(&self) -> bool {
        self.core.state.read().is_none()
    }

    /// Memory that kernels, the SSD and the host reach: zeroed bytes. It stays mapped until the queues or it are closed,
    /// also where it is forgotten.
    fn buffer(&self, py: Python<'_>, nbytes: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        let nbytes = args::within("nbytes", nbytes, 1, i64::MAX as u64)? as usize;
        let made = py.detach(|| self.core.with(|queues| Ok(queues.attachment.buffer(nbytes)?)))?;
        Ok(self.made(made, (0, nbytes)))
    }

    /// The memory of an existing writable object, as `Ssd.register` has it, for kernels too. It is kept until the queues
    /// or the buffer are closed, also where that is forgotten.
    fn register(&self, py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        self.core.with(|_| Ok(()))?;
        foreign::check_no_buffer(object)?;
        let (made, part) = if let Some(found) = device::pages(object, self.core.ssd.gpu()?.as_ref(), false)? {
            let register = |queues: &Attached| Ok(queues.attachment.register_device(&found.memory)?);
            (py.detach(|| self.core.with(register))?, found.part)
        } else {
            let Pages { memory, part, .. } = foreign::window(object, false)?;
            (py.detach(|| self.core.with(|queues| Ok(queues.attachment.register(memory)?)))?, part)
        };
        Ok(self.made(made, part))
    }

    /// What kernels counted, a dict for each queue.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let counted = py.detach(|| {
            self.core.with(|queues| {
                let count = queues.attachment.layout().queues as usize;
                let all: Result<Vec<_>, _> =
                    (0..count).map(|queue| queues.attachment.counters(queue)).collect();
                Ok(all?)
            })
        })?;
        let dict = |counters: warpbell::QueueCounters| {
            let dict = PyDict::new(py);
            dict.set_item("ticket", counters.ticket)?;
            dict.set_item("head", counters.head)?;
            dict.set_item("spurious", counters.spurious)?;
            dict.set_item("late", counters.late)?;
            dict.set_item("sqhd_mismatch", counters.sqhd_mismatch)?;
            Ok(dict)
        };
        counted.into_iter().map(dict).collect()
    }

    /// Asks the kernels that poll the mailbox to stop.
    fn stop(&self) -> PyResult<()> {
        Ok(self.core.with(|queues| {
            set_stop(&queues.mailbox, 1);
            Ok(())
        })?)
    }

    /// Deletes the queues. Refused while kernels run; a second call does nothing.
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

    fn __repr__(&self) -> String {
        let state = if self.closed() { ", closed" } else { "" };
        format!("<warpbell.Queues of {} for kernels on {}{state}>", self.core.ssd.name, self.core.target)
    }
}

/// A kernel's argument: the namespace, and the queues to it. It names them as they are when the kernel is launched.
#[pyclass(frozen, module = "warpbell")]
pub(crate) struct NamespaceRef {
    pub(crate) core: Own<QueuesCore>,
}

#[pymethods]
impl NamespaceRef {
    fn __warpbell_reference__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let reference = self.core.with(|queues| Ok(queues.attachment.namespace()))?;
        Ok(PyBytes::new(py, reference.as_bytes()))
    }
}

#[pymethods]
impl Buffer {
    fn __warpbell_reference__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        // A kernel may write to what it is given.
        self.core.check_writable()?;
        Ok(PyBytes::new(py, self.core.reference()?.as_bytes()))
    }
}

#[pymethods]
impl Ssd {
    /// Queues for kernels on `target`: `cpu`, `ptx` or `cuda:N`. With sharing `exclusive` each warp has a queue of its
    /// own; `shared` ones serve any number.
    #[pyo3(signature = (target="cpu", queues=None, warps=None, *, sharing="exclusive", iodepth=None, timeout=None, replacement_queues=None, recovery=true))]
    #[expect(clippy::too_many_arguments, reason = "options by name, as Python has them")]
    fn attach(
        &self,
        py: Python<'_>,
        target: &str,
        queues: Option<&Bound<'_, PyAny>>,
        warps: Option<&Bound<'_, PyAny>>,
        sharing: &str,
        iodepth: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
        replacement_queues: Option<&Bound<'_, PyAny>>,
        recovery: bool,
    ) -> PyResult<Queues> {
        let default = AttachOptions::new();
        let most = u64::from(u32::MAX);
        let queues =
            args::optional("queues", queues, 1, 65535)?.map_or(default.queues, |queues| queues as u32);
        let warps = args::optional("warps", warps, 1, most)?.map_or(queues, |warps| warps as u32);
        let iodepth =
            args::optional("iodepth", iodepth, 1, 65535)?.map_or(default.iodepth, |depth| depth as u32);
        let limit: Option<Duration> = args::timeout("timeout", timeout)?;
        let replacements = args::optional("replacement_queues", replacement_queues, 0, most)?;
        let replacements = replacements.map_or(default.replacement_queues, |count| count as u32);
        let limit = limit.unwrap_or(default.timeout);
        let options = default
            .target(target.parse().map_err(|error| Failure::from(warpbell::Error::from(error)))?)
            .nsid(Some(self.core.nsid))
            .queues(queues)
            .warps(warps)
            .iodepth(iodepth)
            .sharing(sharing_of(sharing)?)
            .timeout(limit)
            .replacement_queues(replacements)
            .recovery(recovery);
        let core = py.detach(|| QueuesCore::attach(&self.core, &options))?;
        Ok(Queues { core: Own::new(core) })
    }
}

fn sharing_of(text: &str) -> Answer<Sharing> {
    match text {
        "shared" => Ok(Sharing::Shared),
        "exclusive" => Ok(Sharing::Exclusive),
        other => Err(Failure::argument("sharing", other, "must be shared or exclusive")),
    }
}
