//! How kernels of a target reach rings and doorbells.

use std::ops::Range;
use std::sync::Arc;

use warpbell_driver::{QueuePair, RingReservation};
use warpbell_gpu::routes::{self, DoorbellAccess, DoorbellRoute};
use warpbell_hw::{BASE_PAGE, Device, DoorbellKind, DoorbellPath, Doorbells, Qid, Shadow, Window};

use crate::{Error, OpenTarget, RingAddresses, ShadowAddresses, SharedMemory};

/// The doorbells of a device, for kernels of a target. All of them: also of queues that are created later.
pub(crate) struct DoorbellMapping {
    device: Arc<dyn Device>,
    way: Way,
}

enum Way {
    /// On the CPU: the page itself.
    Page(SharedMemory),
    /// On a GPU: the first way that worked, and why one before it did not.
    Gpu(DoorbellAccess, Option<String>),
}

impl DoorbellMapping {
    pub(crate) fn new(target: &OpenTarget, device: &Arc<dyn Device>) -> Result<DoorbellMapping, Error> {
        let device = device.clone();
        let Some(gpu) = target.gpu() else {
            let way = Way::Page(target.share(device.doorbells().window())?);
            return Ok(DoorbellMapping { device, way });
        };
        in_real_time(target, device.as_ref())?;
        let (access, probes) = routes::doorbells(gpu, device.as_ref());
        let refused = probes.iter().find_map(|probe| probe.outcome.as_ref().err()).map(ToString::to_string);
        let access = access?;
        if let (DoorbellRoute::Proxy, Some(refused)) = (access.route(), &refused) {
            tracing::warn!(%refused, "doorbells of kernels go by way of a CPU thread");
        }
        Ok(DoorbellMapping { device, way: Way::Gpu(access, refused) })
    }

    /// Where kernels find one doorbell.
    fn address(&self, qid: Qid, kind: DoorbellKind) -> Result<u64, Error> {
        let doorbells: &dyn Doorbells = self.device.doorbells();
        Ok(match &self.way {
            Way::Page(page) => page.address() + doorbells.doorbell(qid, kind)?.offset() as u64,
            Way::Gpu(access, _) => access.address(doorbells, qid, kind)?,
        })
    }

    /// How a kernel's store reaches the register, and why not directly.
    pub(crate) fn path(&self) -> (DoorbellPath, Option<&str>) {
        match &self.way {
            Way::Page(_) => (self.device.doorbells().path(), None),
            Way::Gpu(access, refused) => (access.path(), refused.as_deref()),
        }
    }
}

/// A GPU's clock cannot be stepped, nor its doorbells be handed over one by one.
fn in_real_time(target: &OpenTarget, device: &dyn Device) -> Result<(), Error> {
    if device.clock().passes_by_itself() && device.doorbells().sink().is_none() {
        return Ok(());
    }
    Err(Error::Argument {
        object: "target",
        value: target.target().to_string(),
        limit: format!(
            "{} works in virtual time, which needs the CPU target (--target cpu)",
            device.info().name
        ),
    })
}

/// Memory of a ring for one queue pair after another.
#[derive(Debug)]
pub(crate) struct ReservedRing {
    pub(crate) memory: RingReservation,
    /// Where kernels find it, in a GPU's memory; `None`: where the host does.
    pub(crate) address: Option<u64>,
}

/// Ring memory for one queue pair after another, as the controller and kernels reach it.
#[derive(Debug)]
pub(crate) struct RingMapping {
    pub(crate) sq: RingReservation,
    pub(crate) cq: RingReservation,
    kernel_sq: KernelRing,
    kernel_cq: KernelRing,
}

/// A ring, as kernels reach it.
#[derive(Debug)]
enum KernelRing {
    /// Memory of the host or of another function, as long as this lives.
    Shared(SharedMemory),
    /// The GPU's own, which the reservation keeps.
    Device(Range<u64>),
}

impl KernelRing {
    fn new(target: &OpenTarget, ring: &ReservedRing) -> Result<KernelRing, Error> {
        match (ring.address, ring.memory.window()) {
            (None, Some(window)) => Ok(KernelRing::Shared(target.share(window.clone())?)),
            (address, _) => {
                let first = address.unwrap_or_default();
                Ok(KernelRing::Device(first..first + ring.memory.len() as u64))
            }
        }
    }

    fn range(&self) -> Range<u64> {
        match self {
            KernelRing::Shared(memory) => memory.range(),
            KernelRing::Device(range) => range.clone(),
        }
    }
}

impl RingMapping {
    pub(crate) fn new(
        target: &OpenTarget,
        (sq, cq): (ReservedRing, ReservedRing),
    ) -> Result<RingMapping, Error> {
        let (kernel_sq, kernel_cq) = (KernelRing::new(target, &sq)?, KernelRing::new(target, &cq)?);
        Ok(RingMapping { sq: sq.memory, cq: cq.memory, kernel_sq, kernel_cq })
    }

    /// Both rings, as kernels find them.
    pub(crate) fn ranges(&self) -> [Range<u64>; 2] {
        [&self.kernel_sq, &self.kernel_cq].map(KernelRing::range)
    }

    /// Where kernels find the rings, doorbells and shadows of a pair that was made of them.
    pub(crate) fn addresses(
        &self,
        pair: &QueuePair,
        doorbells: &DoorbellMapping,
        shadows: &ShadowMapping,
    ) -> Result<RingAddresses, Error> {
        Ok(RingAddresses {
            sq: self.kernel_sq.range().start,
            cq: self.kernel_cq.range().start,
            sq_doorbell: doorbells.address(pair.qid(), DoorbellKind::SqTail)?,
            cq_doorbell: doorbells.address(pair.qid(), DoorbellKind::CqHead)?,
            entries: pair.entries(),
            qid: pair.qid().get(),
            shadow: shadows.addresses(pair)?,
        })
    }
}

/// The pages of shadow doorbells, whole: also those of queues that are created later.
#[derive(Debug, Default)]
pub(crate) struct ShadowMapping {
    pages: Option<ShadowPages>,
}

#[derive(Debug)]
struct ShadowPages {
    entries: SharedMemory,
    events: SharedMemory,
}

impl ShadowMapping {
    /// The pages in which the shadows of `pair` lie, if it has any.
    pub(crate) fn new(target: &OpenTarget, pair: &QueuePair) -> Result<ShadowMapping, Error> {
        let Some(Shadow { entry, event }) = pair.sq_doorbell().shadow() else {
            return Ok(ShadowMapping::default());
        };
        let share = |window: &Window| target.share(page_of(window)?);
        Ok(ShadowMapping { pages: Some(ShadowPages { entries: share(entry)?, events: share(event)? }) })
    }

    /// The pages, as kernels find them.
    pub(crate) fn ranges(&self) -> Vec<Range<u64>> {
        let pages = self.pages.iter().flat_map(|pages| [&pages.entries, &pages.events]);
        pages.map(SharedMemory::range).collect()
    }

    fn addresses(&self, pair: &QueuePair) -> Result<Option<ShadowAddresses>, Error> {
        let (Some(tail), Some(head)) = (pair.sq_doorbell().shadow(), pair.cq_doorbell().shadow()) else {
            return Ok(None);
        };
        let Some(pages) = &self.pages else { return Err(strange_shadow(pair)) };
        let inside = |page: &SharedMemory, window: &Window| {
            let at = (window.as_ptr() as usize).checked_sub(page.window().as_ptr() as usize)?;
            (at + window.len() <= page.window().len()).then(|| page.address() + at as u64)
        };
        let both = inside(&pages.entries, &tail.entry).zip(inside(&pages.events, &tail.event));
        let (tail_at, event) = both.ok_or_else(|| strange_shadow(pair))?;
        // Both pages have the same layout.
        let stride = (head.entry.offset_in_memory() - tail.entry.offset_in_memory()) as u32;
        Ok(Some(ShadowAddresses { tail: tail_at, event, stride }))
    }
}

/// The page in which it lies.
fn page_of(window: &Window) -> Result<Window, Error> {
    let first = window.offset_in_memory() / BASE_PAGE * BASE_PAGE;
    let whole = Window::whole(window.memory().clone());
    let len = BASE_PAGE.min(whole.len() - first);
    Ok(whole.slice(first, len)?)
}

/// Shadow doorbells in pages that kernels cannot be made to reach any more.
fn strange_shadow(pair: &QueuePair) -> Error {
    Error::Argument {
        object: "shadow doorbells",
        value: pair.qid().to_string(),
        limit: "must lie in the pages that were there when the queues were attached".to_owned(),
    }
}
