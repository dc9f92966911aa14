//! Leases: a part of what queues reach, for kernels that should reach no more.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::RwLock;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use warpbell::LeaseSpec;
use warpbell_hw::Lba;
use zerocopy::IntoBytes;

use crate::args;
use crate::buffer::Buffer;
use crate::error::{Answer, Failure, at_exit};
use crate::home::Own;
use crate::queues::{Queues, QueuesCore, User};

/// What is behind a lease.
pub(crate) struct LeaseCore {
    pub(crate) queues: Arc<QueuesCore>,
    /// None once it was closed.
    state: RwLock<Option<(warpbell::Lease, User)>>,
}

impl LeaseCore {
    /// Does something with the lease, which is not closed meanwhile.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&warpbell::Lease) -> Answer<T>) -> Answer<T> {
        self.queues.ssd.check_home()?;
        let state = self.state.read();
        let (lease, _) = state.as_ref().ok_or_else(|| Failure::closed("lease"))?;
        work(lease)
    }
}

/// A part of what queues reach: the device library refuses what it does not allow. Takes the queues' place in a launch, and
/// is the kernel argument `warpbell_namespace_ref`. Any number of threads may use it.
#[pyclass(frozen, module = "warpbell")]
pub(crate) struct Lease {
    pub(crate) core: Own<LeaseCore>,
}

#[pymethods]
impl Lease {
    /// The blocks that it allows: the first, and the one behind the last.
    #[getter]
    fn lbas(&self) -> PyResult<(u64, u64)> {
        let lbas = self.core.with(|lease| Ok(lease.lbas()))?;
        Ok((lbas.start.get(), lbas.end.get()))
    }

    /// Whether commands that change blocks are refused.
    #[getter]
    fn read_only(&self) -> PyResult<bool> {
        Ok(self.core.with(|lease| Ok(lease.is_read_only()))?)
    }

    /// Lets go of the lease; a second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.core.queues.ssd.check_home()?;
        // A launch over it that begins now is waited for.
        py.detach(|| drop(self.core.state.write().take()));
        Ok(())
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
        let reference = self.core.with(|lease| Ok(lease.namespace()))?;
        Ok(PyBytes::new(py, reference.as_bytes()))
    }
}

#[pymethods]
impl Queues {
    /// A lease of blocks `lbas` and queues `queues` (each a first one and the one behind the last; None: all), with data in
    /// `buffer` alone (one of these queues; None: anywhere).
    #[pyo3(signature = (lbas=None, *, read_only=false, queues=None, buffer=None))]
    fn lease(
        &self,
        lbas: Option<&Bound<'_, PyAny>>,
        read_only: bool,
        queues: Option<&Bound<'_, PyAny>>,
        buffer: Option<&Bound<'_, Buffer>>,
    ) -> PyResult<Lease> {
        let lbas = range("lbas", lbas)?.map(|lbas| Lba(lbas.start)..Lba(lbas.end));
        let queues = range("queues", queues)?.map(numbers_of_queues).transpose()?;
        let (memory, bytes) = match buffer {
            None => (None, None),
            Some(buffer) => {
                let core = &buffer.get().core;
                let memory = core.memory()?;
                let first = core.skip(&memory) as u64;
                (Some(memory), Some(first..first + core.nbytes()))
            }
        };
        let spec = LeaseSpec::new().lbas(lbas).read_only(read_only).queues(queues);
        let spec = spec.buffer(memory.as_ref()).buffer_bytes(bytes);
        let lease = self.core.with(|attached| Ok((attached.attachment.lease(&spec)?, self.core.user())))?;
        let core = LeaseCore { queues: self.core.clone(), state: RwLock::new(Some(lease)) };
        Ok(Lease { core: Own::new(Arc::new(core)) })
    }
}

fn numbers_of_queues(queues: Range<u64>) -> Answer<Range<u32>> {
    let number = |number: u64| {
        u32::try_from(number).map_err(|_| Failure::argument("queues", number, "must be below 2^32"))
    };
    Ok(number(queues.start)?..number(queues.end)?)
}

/// Two numbers: from the first to before the second.
pub(crate) fn range(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Range<u64>>> {
    let Some(value) = value else { return Ok(None) };
    let (first, end): (Bound<'_, PyAny>, Bound<'_, PyAny>) = value.extract().map_err(|_| {
        Failure::argument_type(name, value, "must be a tuple: the first, and the one behind the last")
    })?;
    Ok(Some(args::count(name, &first)?..args::count(name, &end)?))
}
