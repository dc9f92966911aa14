//! Opens SSDs by name.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use warpbell::{DoorbellChoice, DoorbellChoiceError, OpenOptions, Target};
use warpbell_hw::Nsid;

use crate::args;
use crate::error::{Answer, Failure};
use crate::home::Own;
use crate::ssd::{Ssd, SsdCore};

/// Commands in flight at most.
const DEPTH_MAX: u64 = 1023;

/// Opens the SSD of that name: `soft:size=1g`, `soft:file=PATH`, `vfio-user:SOCKET`, or a PCI address.
///
/// `namespace` is its number (None: the first usable one), `depth` the commands that reads and writes keep in flight,
/// `timeout` the seconds that one command may take. `allow_write` names files and SSDs that may be written: memory needs
/// no leave. `rings` and `data` say where rings and data lie: `host`, `hbm` (the memory of `gpu`: `cuda:N` or `ptx`),
/// `bar:BDF/N`, and for rings `cmb`. `doorbells` says how kernels ring: `auto`, `mapped` or `forwarded`.
#[pyfunction]
#[pyo3(signature = (name, *, namespace=None, depth=None, queue_entries=None, queues=None, timeout=None, allow_write=None, prp_only=false, rings="host", data="host", gpu=None, doorbells="auto"))]
#[expect(clippy::too_many_arguments, reason = "options by name, as Python has them")]
pub(crate) fn open(
    py: Python<'_>,
    name: &Bound<'_, PyAny>,
    namespace: Option<&Bound<'_, PyAny>>,
    depth: Option<&Bound<'_, PyAny>>,
    queue_entries: Option<&Bound<'_, PyAny>>,
    queues: Option<&Bound<'_, PyAny>>,
    timeout: Option<&Bound<'_, PyAny>>,
    allow_write: Option<&Bound<'_, PyAny>>,
    prp_only: bool,
    rings: &str,
    data: &str,
    gpu: Option<&str>,
    doorbells: &str,
) -> PyResult<Ssd> {
    warpbell::log::start_if_asked();
    let text: String = name
        .extract()
        .map_err(|_| Failure::argument_type("name", name, "must be text, such as soft:size=1g"))?;
    let nsid = args::optional("namespace", namespace, 1, u32::MAX.into())?.map(|nsid| Nsid(nsid as u32));
    let depth = args::optional("depth", depth, 1, DEPTH_MAX)?.unwrap_or(32) as u32;
    let entries = args::optional("queue_entries", queue_entries, 2, 65536)?.map(|entries| entries as u32);
    let queues = args::optional("queues", queues, 1, 65535)?.map(|queues| queues as u16);
    let limit = args::timeout("timeout", timeout)?.unwrap_or(Duration::from_secs(30));
    let options = OpenOptions::new()
        .allow_write(args::names("allow_write", allow_write)?)
        .queues(queues)
        .prp_only(prp_only)
        .doorbells(doorbells_of(doorbells)?);
    let core = py.detach(|| -> Answer<SsdCore> {
        let gpu = gpu.map(str::parse::<Target>).transpose().map_err(warpbell::Error::from)?;
        let (rings, data) = warpbell::placements(rings, data, gpu)?;
        let name = text.parse().map_err(warpbell::Error::from)?;
        let ssd = warpbell::Ssd::open(&name, &options.rings(rings).data(data))?;
        if ssd.soft().is_some_and(|soft| soft.is_stepped()) {
            let rule = "virtual time is for simulations and `warpbell bench`; leave time=virtual out";
            return Err(Failure::argument("device", name, rule));
        }
        SsdCore::new(ssd, nsid, (depth, entries), limit)
    })?;
    Ok(Ssd { core: Own::new(Arc::new(core)) })
}

fn doorbells_of(text: &str) -> Answer<DoorbellChoice> {
    text.parse().map_err(|error: DoorbellChoiceError| {
        Failure::new(crate::error::Kind::Argument, format!("doorbells {error}"))
    })
}
