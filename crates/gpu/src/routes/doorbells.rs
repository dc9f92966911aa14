//! Ways for kernels to reach an SSD's doorbells.

use std::fmt;
use std::sync::Arc;

use warpbell_hw::{Device, DoorbellError, DoorbellKind, DoorbellPath, DoorbellProxy, Doorbells, Qid, Window};

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
        let (offset, len) = (doorbell.offset(), self.pages.window().len());
        if offset + size_of::<u32>() > len {
            return Err(DoorbellError::Outside { qid, offset, len });
        }
        Ok(self.pages.address() + offset as u64)
    }
}

/// Makes the doorbells of queues 1 to `queues` of `device` reachable for kernels of `gpu` by the first way that works,
/// and says what was tried. Whether stores arrive is not known of a BAR that was registered: that takes a command.
pub fn doorbells(
    gpu: &Arc<Gpu>,
    device: &dyn Device,
    queues: u16,
) -> (Result<DoorbellAccess, GpuError>, Vec<Probe<DoorbellRoute>>) {
    let (route, mapped) = mapped_doorbells(gpu, device, queues);
    let mut probes = vec![probe(route, &mapped)];
    if mapped.is_ok() || route != DoorbellRoute::IoMemory {
        return (mapped, probes);
    }
    let forwarded = forwarded_doorbells(gpu, device);
    probes.push(probe(DoorbellRoute::Proxy, &forwarded));
    (forwarded, probes)
}

/// The doorbells of queues 1 to `queues` as the device has them, and which way that is. Of a BAR only their pages are
/// registered.
pub fn mapped_doorbells(
    gpu: &Arc<Gpu>,
    device: &dyn Device,
    queues: u16,
) -> (DoorbellRoute, Result<DoorbellAccess, GpuError>) {
    let page = device.doorbells().window();
    let ordinary = page.memory().is_ordinary();
    let (route, registered) = match (ordinary, device.doorbells().path()) {
        (true, DoorbellPath::Mapped) => (DoorbellRoute::Memory, gpu.register(&page)),
        (true, DoorbellPath::Forwarded) => (DoorbellRoute::Proxy, gpu.register(&page)),
        (false, _) => (DoorbellRoute::IoMemory, gpu.register_io(&used(device.doorbells(), &page, queues))),
    };
    (route, registered.map(|pages| DoorbellAccess { pages, proxy: None, route }))
}

/// The part of the page(s) that has the doorbells of queues 0 to `last`.
fn used(doorbells: &dyn Doorbells, page: &Window, last: u16) -> Window {
    let end = doorbells.offset(Qid(last), DoorbellKind::CqHead) + size_of::<u32>();
    page.slice(0, end.min(page.len())).expect("a part of it")
}

/// The same doorbells through a page of host memory that a CPU thread forwards from.
pub fn forwarded_doorbells(gpu: &Arc<Gpu>, device: &dyn Device) -> Result<DoorbellAccess, GpuError> {
    let object = || format!("doorbells of {}", device.info().name);
    let proxy = device.forwarded_doorbells();
    let proxy = proxy.ok_or_else(|| GpuError::refused(object(), "they cannot be forwarded"))?;
    let proxy = proxy.map_err(|error| GpuError::refused(object(), error.to_string()))?;
    let pages = gpu.register(&proxy.window())?;
    Ok(DoorbellAccess { pages, proxy: Some(proxy), route: DoorbellRoute::Proxy })
}

fn probe(route: DoorbellRoute, access: &Result<DoorbellAccess, GpuError>) -> Probe<DoorbellRoute> {
    let words = |access: &DoorbellAccess| format!("{} bytes registered", access.pages.window().len());
    Probe { route, outcome: access.as_ref().map(words).map_err(|error| error.clone().into()) }
}
