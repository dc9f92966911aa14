// UNSAFETY: kernels are native code over the addresses in their arguments.
#![expect(unsafe_code, reason = "a kernel does what its source says: the caller answers for that")]
//! Kernels of the user's own: compiled at run time or before, and launched.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::{slice, thread};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use warpbell::{CompileOptions, Launch as Prepared, LaunchOver, Target};
use warpbell_kernels::abi::BLOCK_THREADS_MAX;
use warpbell_kernels::cpu::Threads;

use crate::args;
use crate::buffer::{Buffer, BufferCore, Handed, Mapped};
use crate::cache::{PageCache, TileSchedule};
use crate::device;
use crate::error::{Answer, Failure};
use crate::file::FileTable;
use crate::home::Own;
use crate::launch::{Launch, LaunchCore};
use crate::lease::{Lease, LeaseCore};
use crate::queues::{NamespaceRef, Queues, QueuesCore};
use crate::volume::{Volume, VolumeBuffer, VolumeCore};

/// CUDA's limit of a launch in blocks.
const GRID_LIMIT: u64 = i32::MAX as u64;
/// Threads of the CPU target: each is one of the system's.
const CPU_THREADS_LIMIT: u64 = 1024;

/// Kernels that were compiled. Any number of threads may use it.
#[pyclass(frozen, module = "warpbell")]
pub(crate) struct Program {
    program: warpbell::Program,
}

/// Grid, block and the rest.
struct Shape {
    grid: u32,
    block: u32,
    shared_bytes: u32,
    workers: usize,
    cooperative: bool,
    stream: Option<u64>,
}

/// What a launch is over.
enum Over {
    Queues(Arc<QueuesCore>),
    Lease(Arc<LeaseCore>),
    Volume(Arc<VolumeCore>),
}

impl Over {
    fn of(over: &Bound<'_, PyAny>) -> Answer<Over> {
        if let Ok(queues) = over.cast::<Queues>() {
            return Ok(Over::Queues(queues.get().core.clone()));
        }
        if let Ok(volume) = over.cast::<Volume>() {
            return Ok(Over::Volume(volume.get().core.clone()));
        }
        if let Ok(lease) = over.cast::<Lease>() {
            return Ok(Over::Lease(lease.get().core.clone()));
        }
        Err(Failure::argument_type(
            "queues",
            over,
            "must be warpbell.Queues, a warpbell.Lease or a warpbell.Volume",
        ))
    }

    fn all(&self) -> Vec<Arc<QueuesCore>> {
        match self {
            Over::Queues(queues) => vec![queues.clone()],
            Over::Lease(lease) => vec![lease.queues.clone()],
            Over::Volume(volume) => volume.members().to_vec(),
        }
    }

    /// Refuses a reference of queues that the launch is not over: they could be closed while the kernel runs.
    fn check_owner(&self, reference: &str, owners: &[Arc<QueuesCore>]) -> Answer<()> {
        let all = self.all();
        let other = owners.iter().find(|owner| !all.iter().any(|queues| Arc::ptr_eq(queues, owner)));
        other.map_or(Ok(()), |other| {
            let limit = "the launch is over other queues, and keeps these alone";
            Err(Failure::argument("argument", format!("{reference} of {other}"), limit))
        })
    }

    /// The queues that keep a buffer, among those of the launch.
    fn keeper(&self, buffer: &BufferCore) -> Answer<Arc<QueuesCore>> {
        let all = self.all();
        let found = all.iter().find(|queues| Arc::ptr_eq(&queues.ssd, buffer.ssd()));
        let queues = found.ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|queues| queues.ssd.name.as_str()).collect();
            let limit =
                format!("belongs to {}, and the launch is over {}", buffer.ssd().name, names.join(", "));
            Failure::argument("argument", buffer, limit)
        })?;
        if queues.target != Target::Cpu && !buffer.is_of(queues) {
            let limit = format!(
                "kernels on {} reach memory of their queues alone: queues.buffer(nbytes)",
                queues.target
            );
            return Err(Failure::argument("argument", buffer, limit));
        }
        let elsewhere = buffer.gpu().filter(|gpu| gpu.info().target() != queues.target.to_string());
        if let Some(gpu) = elsewhere {
            let (own, target) = (gpu.info().target(), queues.target);
            let limit = format!("lies in the memory of {own}, which kernels on {target} do not reach");
            return Err(Failure::argument("argument", buffer, limit));
        }
        Ok(queues.clone())
    }
}

impl Program {
    /// The kernel's bytes of arguments, compared with those that were packed.
    fn check_size(&self, kernel: &str, packed: usize, layout: &str) -> Answer<()> {
        let Some((_, expected)) = self.program.kernels().find(|(name, _)| *name == kernel) else {
            let known: Vec<&str> = self.program.kernels().map(|(name, _)| name).collect();
            let limit = format!("the program has {}", known.join(", "));
            return Err(Failure::argument("kernel", kernel, limit));
        };
        if expected != packed as u64 {
            let limit =
                format!("its struct has {expected} bytes, and the arguments take {packed} ({layout})");
            return Err(Failure::argument("kernel", kernel, limit));
        }
        Ok(())
    }

    fn prepare(&self, over: &impl LaunchOver, kernel: &str, packed: &[u8]) -> Answer<Prepared> {
        // SAFETY: what references among the arguments name is kept; for other addresses the caller answers, as the
        // documentation of `launch` says.
        let launch = unsafe { self.program.launch(over, kernel, packed) };
        Ok(launch?)
    }

    fn start(
        &self,
        over: &Over,
        kernel: &str,
        packed: &[u8],
        shape: &Shape,
        kept: Vec<Kept>,
    ) -> Answer<Arc<LaunchCore>> {
        let run = |launch: Prepared| -> Answer<Arc<LaunchCore>> {
            let launch = launch.grid(shape.grid).block(shape.block).shared_bytes(shape.shared_bytes);
            let mut launch = launch.cooperative(shape.cooperative).keep(kept);
            if let Some(stream) = shape.stream {
                // SAFETY: its object is kept; for a number the caller answers, as the documentation of `launch` says.
                launch = unsafe { launch.stream(stream) };
            }
            let running = launch.threads(Threads::new().workers(shape.workers)).start()?;
            Ok(Arc::new(LaunchCore::new(kernel.to_owned(), running)))
        };
        match over {
            Over::Queues(queues) => queues.with(|attached| {
                let launch = self.prepare(&attached.attachment, kernel, packed)?;
                queues.start(attached, || run(launch.mailbox(&attached.mailbox)?))
            }),
            Over::Lease(lease) => lease.with(|opened| {
                let queues = &lease.queues;
                let launch = self.prepare(opened, kernel, packed)?;
                queues.with(|attached| queues.start(attached, || run(launch.mailbox(&attached.mailbox)?)))
            }),
            Over::Volume(volume) => volume.with(|opened| {
                let launch = run(self.prepare(&**opened, kernel, packed)?)?;
                volume.members().iter().for_each(|queues| queues.add_launch(&launch));
                Ok(launch)
            }),
        }
    }
}

/// What a launch keeps.
enum Kept {
    Stream { _stream: Py<PyAny> },
    Buffer { _memory: Mapped, _handed: Handed },
    Memory { _memory: warpbell::KernelMemory },
    Lease { _lease: warpbell::Lease },
    Volume { _volume: Arc<warpbell::Volume> },
}

/// Memory that references among the arguments name.
fn kept_by(over: &Over, arguments: &Bound<'_, PyTuple>) -> Answer<Vec<Kept>> {
    let mut kept = Vec::new();
    for argument in arguments.iter() {
        if argument.cast::<VolumeBuffer>().is_err()
            && let Ok(buffer) = argument.cast::<Buffer>()
        {
            let core = &buffer.get().core;
            let (_memory, _handed) = over.keeper(core)?.hand(core)?;
            kept.push(Kept::Buffer { _memory, _handed });
        } else {
            kept.extend(kept_of_queues(over, &argument)?);
        }
    }
    Ok(kept)
}

/// The same for a reference to queues, or to what is made of them.
fn kept_of_queues(over: &Over, argument: &Bound<'_, PyAny>) -> Answer<Option<Kept>> {
    if let Ok(namespace) = argument.cast::<NamespaceRef>() {
        over.check_owner("namespace", slice::from_ref(&*namespace.get().core))?;
    } else if let Ok(cache) = argument.cast::<PageCache>() {
        over.check_owner("page cache", cache.get().owners())?;
        return Ok(Some(Kept::Memory { _memory: cache.get().memory()? }));
    } else if let Ok(table) = argument.cast::<FileTable>() {
        over.check_owner("file table", table.get().owners())?;
        return Ok(Some(Kept::Memory { _memory: table.get().memory()? }));
    } else if let Ok(tiles) = argument.cast::<TileSchedule>() {
        over.check_owner("tile schedule", tiles.get().owners())?;
        return Ok(Some(Kept::Memory { _memory: tiles.get().memory()? }));
    } else if let Ok(lease) = argument.cast::<Lease>() {
        let core = &lease.get().core;
        over.check_owner("lease", slice::from_ref(&core.queues))?;
        return Ok(Some(Kept::Lease { _lease: core.with(|lease| Ok(lease.clone()))? }));
    } else if let Ok(volume) = argument.cast::<Volume>() {
        let core = &volume.get().core;
        over.check_owner("volume", core.members())?;
        return Ok(Some(Kept::Volume { _volume: core.with(|volume| Ok(volume.clone()))? }));
    } else if let Ok(buffer) = argument.cast::<VolumeBuffer>() {
        over.check_owner("volume buffer", buffer.get().core.members())?;
        let (_memory, _handed) = VolumeBuffer::hand(buffer)?;
        return Ok(Some(Kept::Buffer { _memory, _handed }));
    }
    Ok(None)
}

#[pymethods]
impl Program {
    /// Its kernels by name, each with the bytes of its arguments.
    #[getter]
    fn kernels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (name, bytes) in self.program.kernels() {
            all.set_item(name, bytes)?;
        }
        Ok(all)
    }

    /// Where it runs.
    #[getter]
    fn target(&self) -> String {
        self.program.target().to_string()
    }

    /// What it was compiled to.
    #[getter]
    fn code(&self) -> String {
        self.program.code().to_string()
    }

    /// Starts `kernel` over queues, or a volume. `args` are the fields of the kernel's struct in order: NumPy scalars,
    /// ctypes instances, bytes, buffers, and references such as `queues.namespace`. They are packed as C does it, and
    /// their size is compared with that of the kernel's struct.
    ///
    /// A kernel reads and writes wherever the addresses in its arguments point: what references name is kept until it has
    /// ended, and for other addresses the caller answers.
    ///
    /// On `stream`, one of torch, CuPy or cuda.core, or its handle, it begins after what is there, and what comes later
    /// begins after it. The caller answers for a handle: a stream of this GPU, there until the kernel has ended.
    #[pyo3(signature = (queues, kernel, *args, grid=None, block=None, shared_bytes=None, threads=None, cooperative=false, stream=None))]
    #[expect(clippy::too_many_arguments, reason = "options by name, as Python has them")]
    fn launch(
        &self,
        py: Python<'_>,
        queues: &Bound<'_, PyAny>,
        kernel: &str,
        args: &Bound<'_, PyTuple>,
        grid: Option<&Bound<'_, PyAny>>,
        block: Option<&Bound<'_, PyAny>>,
        shared_bytes: Option<&Bound<'_, PyAny>>,
        threads: Option<&Bound<'_, PyAny>>,
        cooperative: bool,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Launch> {
        let over = Over::of(queues)?;
        let cores = || thread::available_parallelism().map_or(1, NonZero::get);
        let shape = Shape {
            grid: args::optional("grid", grid, 1, GRID_LIMIT)?.unwrap_or(1) as u32,
            block: args::optional("block", block, 1, BLOCK_THREADS_MAX.into())?.unwrap_or(32) as u32,
            shared_bytes: args::optional("shared_bytes", shared_bytes, 0, u32::MAX.into())?.unwrap_or(0)
                as u32,
            workers: args::optional("threads", threads, 1, CPU_THREADS_LIMIT)?
                .map_or_else(cores, |n| n as usize),
            cooperative,
            stream: stream.map(device::handle).transpose()?,
        };
        let packed = py.import("warpbell._pack")?.getattr("pack")?.call1((args,))?;
        let (packed, layout): (Bound<'_, PyBytes>, String) = packed.extract()?;
        self.check_size(kernel, packed.as_bytes().len(), &layout)?;
        let mut kept = kept_by(&over, args)?;
        kept.extend(stream.map(|stream| Kept::Stream { _stream: stream.clone().unbind() }));
        let bytes = packed.as_bytes();
        let core = py.detach(|| self.start(&over, kernel, bytes, &shape, kept))?;
        Ok(Launch { core: Own::new(core) })
    }

    fn __repr__(&self) -> String {
        let names: Vec<&str> = self.program.kernels().map(|(name, _)| name).collect();
        format!("<warpbell.Program of {} for {}>", names.join(", "), self.program.target())
    }
}

/// Compiles a source, which includes `<warpbell/warpbell.cuh>` and defines kernels by `WARPBELL_KERNEL`.
///
/// `defines` are macros, as a dict or a list of `NAME=VALUE`; `headers` texts of headers by name; `cache` is the folder
/// that results are kept in.
#[pyfunction]
#[pyo3(signature = (source, *, target="cpu", name="kernel.cu", defines=None, headers=None, cache=None))]
pub(crate) fn compile(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    target: &str,
    name: &str,
    defines: Option<&Bound<'_, PyAny>>,
    headers: Option<&Bound<'_, PyAny>>,
    cache: Option<PathBuf>,
) -> PyResult<Program> {
    let source: String = source
        .extract()
        .map_err(|_| Failure::argument_type("source", source, "must be the text of a .cu file"))?;
    let mut options = CompileOptions::default();
    for definition in definitions(defines)? {
        options = options.define(&definition);
    }
    let headers = headers.map(|headers| {
        let dict = headers.cast::<PyDict>();
        let dict =
            dict.map_err(|_| Failure::argument_type("headers", headers, "must be a dict of texts by name"))?;
        dict.extract::<std::collections::BTreeMap<String, String>>()
    });
    for (name, text) in headers.transpose()?.unwrap_or_default() {
        options = options.header(&name, &text);
    }
    if let Some(folder) = &cache {
        options = options.cache(folder);
    }
    let target: Target = target.parse().map_err(|error| Failure::from(warpbell::Error::from(error)))?;
    let program = py.detach(|| {
        let target = target.open()?;
        // SAFETY: the caller's promise, as with `ctypes`: a kernel is native code of theirs.
        unsafe { warpbell::Program::compile(&target, name, &source, &options) }
    });
    Ok(Program { program: program.map_err(Failure::from)? })
}

/// `NAME` or `NAME=VALUE` each.
fn definitions(defines: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let Some(defines) = defines else { return Ok(Vec::new()) };
    let Ok(dict) = defines.cast::<PyDict>() else {
        return args::names("defines", Some(defines));
    };
    dict.iter()
        .map(
            |(name, value)| {
                if value.is_none() { Ok(name.to_string()) } else { Ok(format!("{name}={}", value.str()?)) }
            },
        )
        .collect()
}

/// Kernels that were compiled before with this version's headers: PTX or a cubin for a GPU, a shared object for `cpu`,
/// whose code is run as this program's own is.
#[pyfunction]
#[pyo3(signature = (path, *, target="cpu"))]
pub(crate) fn load(py: Python<'_>, path: &Bound<'_, PyAny>, target: &str) -> PyResult<Program> {
    let path: PathBuf = path.extract().map_err(|_| {
        Failure::argument_type("path", path, "must be the path of a file, as text or os.PathLike")
    })?;
    let target: Target = target.parse().map_err(|error| Failure::from(warpbell::Error::from(error)))?;
    let program = py.detach(|| {
        let target = target.open()?;
        // SAFETY: the caller trusts the file, as the documentation says.
        unsafe { warpbell::Program::load(&target, &path) }
    });
    Ok(Program { program: program.map_err(Failure::from)? })
}
