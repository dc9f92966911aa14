//! Ways for kernels to reach an SSD's doorbells.

use std::fmt;
use std::sync::Arc;

use warpbell_hw::{Device, DoorbellError, DoorbellKind, DoorbellPath, DoorbellProxy, Doorbells, Qid};

use super::Probe;
use crate::{Gpu, GpuError, Registered};

/// A way for kernels to reach doorbells, in the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorbellRoute {
    /// The doorbells are ordinary memory, registered as such: a controller in software polls it.
    Memory,
    /// The pages of the SSD's BAR, registered as I/O memory.
    IoMemory,
    /// A page of host memory that a CPU thread forwards from.
    Proxy,
}

impl fmt::Display for DoorbellRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DoorbellRoute::Memory => "doorbells in memory",
            DoorbellRoute::IoMemory => "BAR registered as I/O memory",
            DoorbellRoute::Proxy => "forwarded by a CPU thread",
        })
    }
}

/// Doorbells that kernels can ring, as long as this lives.
#[derive(Clone)]
pub struct DoorbellAccess {
    // First: the pages are unregistered before the proxy takes its own away.
    pages: Registered,
    proxy: Option<Arc<DoorbellProxy>>,
    route: DoorbellRoute,
}

impl fmt::Debug for DoorbellAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoorbellAccess").field("route", &self.route).finish_non_exhaustive()
    }
}

impl DoorbellAccess {
    /// Which way it is.
    pub fn route(&self) -> DoorbellRoute {
        self.route
    }

    /// How stores reach the controller.
    pub fn path(&self) -> DoorbellPath {
        match self.route {
            DoorbellRoute::Proxy => DoorbellPath::Forwarded,
            DoorbellRoute::Memory | DoorbellRoute::IoMemory => DoorbellPath::Mapped,
        }
    }

    /// A doorbell's address for kernels. `doorbells` are those of the device that this was made for.
    pub fn address(
        &self,
        doorbells: &dyn Doorbells,
        qid: Qid,
        kind: DoorbellKind,
    ) -> Result<u64, DoorbellError> {
        let doorbell = match &self.proxy {
            // Forwarded from here on.
            Some(proxy) => proxy.doorbell(qid, kind)?,
            None => doorbells.doorbell(qid, kind)?,
        };
        Ok(self.pages.address() + doorbell.offset() as u64)
    }
}

/// Makes the doorbells of `device` reachable for kernels of `gpu` by the first way that works, and says what was tried.
pub fn doorbells(
    gpu: &Arc<Gpu>,
    device: &dyn Device,
) -> (Result<DoorbellAccess, GpuError>, Vec<Probe<DoorbellRoute>>) {
    let page = device.doorbells().window();
    let ordinary = page.memory().is_ordinary();
    let (route, registered) = match (ordinary, device.doorbells().path()) {
        (true, DoorbellPath::Mapped) => (DoorbellRoute::Memory, gpu.register(&page)),
        (true, DoorbellPath::Forwarded) => (DoorbellRoute::Proxy, gpu.register(&page)),
        (false, _) => (DoorbellRoute::IoMemory, gpu.register_io(&page)),
    };
    let mut probes = vec![probe(route, &registered)];
    let error = match registered {
        Ok(pages) => return (Ok(DoorbellAccess { pages, proxy: None, route }), probes),
        Err(error) => error,
    };
    if route != DoorbellRoute::IoMemory {
        return (Err(error), probes);
    }
    let forwarded = forwarded(gpu, device);
    let pages = forwarded.as_ref().map(|access| &access.pages).map_err(Clone::clone);
    probes.push(Probe { route: DoorbellRoute::Proxy, outcome: pages.map(words).map_err(Into::into) });
    (forwarded, probes)
}

fn forwarded(gpu: &Arc<Gpu>, device: &dyn Device) -> Result<DoorbellAccess, GpuError> {
    let object = || format!("doorbells of {}", device.info().name);
    let proxy = device.forwarded_doorbells();
    let proxy = proxy.ok_or_else(|| GpuError::refused(object(), "they cannot be forwarded"))?;
    let proxy = proxy.map_err(|error| GpuError::refused(object(), error.to_string()))?;
    let pages = gpu.register(&proxy.window())?;
    Ok(DoorbellAccess { pages, proxy: Some(proxy), route: DoorbellRoute::Proxy })
}

fn probe(route: DoorbellRoute, registered: &Result<Registered, GpuError>) -> Probe<DoorbellRoute> {
    let outcome = registered.as_ref().map(words).map_err(|error| error.clone().into());
    Probe { route, outcome }
}

fn words(pages: &Registered) -> String {
    format!("{} bytes registered", pages.window().len())
}
