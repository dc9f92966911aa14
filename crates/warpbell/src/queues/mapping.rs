//! How kernels of a target reach rings and shadow doorbells.

use std::ops::Range;

use warpbell_driver::{QueuePair, RingReservation};
use warpbell_hw::{BASE_PAGE, DoorbellKind, Shadow, Window};

use crate::queues::doorbells::DoorbellMapping;
use crate::{Error, OpenTarget, RingAddresses, ShadowAddresses, SharedMemory};

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
