//! The IOVA space of one controller, and each thread's view of it.
// UNSAFETY: turns looked-up ranges of client windows into spans that borrow from the window's owner.
#![expect(unsafe_code, reason = "spans are built from window pointers that the table keeps alive")]

use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use warpbell_hw as hw;
use warpbell_hw::{AccessError, DmaAccess, DmaError, DmaLimits, DmaSource, Iova, Window};

use super::claim::Claims;
use super::iova::IovaAllocator;
use super::mapping::FileMapping;
use super::{PAGE, Span, prefetch_read, prefetch_write};
use crate::checker::{Checker, Rule};

/// Most mappings at a time, as of a VFIO type1 container.
const MAPPINGS: u32 = 65535;

/// Unmapped ranges that messages can tell from addresses that were never mapped.
const REMEMBERED: usize = 64;

/// A mapping.
#[derive(Debug)]
struct Region {
    start: u64,
    len: u64,
    access: DmaAccess,
    window: Window,
    /// Whether a queue lies in it: then not every byte may be data.
    queues: bool,
}

impl Region {
    /// Whether `iova..iova + len` lies inside. An address below `start` wraps around to a huge offset.
    #[inline]
    fn holds(&self, iova: u64, len: u64) -> bool {
        let offset = iova.wrapping_sub(self.start);
        offset < self.len && len <= self.len - offset
    }

    fn allows(&self, access: DmaAccess) -> bool {
        (self.access.read || !access.read) && (self.access.write || !access.write)
    }
}

/// All mappings, by address, and what queues have of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    regions: Vec<Arc<Region>>,
    pub(super) claims: Claims,
    /// What was unmapped last, for messages: start and length.
    unmapped: VecDeque<(u64, u64)>,
}

impl Table {
    fn find(&self, iova: u64) -> Option<usize> {
        self.regions.partition_point(|region| region.start <= iova).checked_sub(1)
    }

    /// Brings the mark of the region at `iova` up to date.
    pub(super) fn mark(&mut self, iova: u64) {
        let Some(index) = self.find(iova) else { return };
        let region = &self.regions[index];
        let queues = self.claims.overlapping(region.start, region.len).is_some();
        let (start, len, access, window) = (region.start, region.len, region.access, region.window.clone());
        self.regions[index] = Arc::new(Region { start, len, access, window, queues });
    }
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) table: Arc<Table>,
    allocator: IovaAllocator,
    finished: VecDeque<hw::CopyId>,
    copies: u64,
}

/// A controller's DMA address space: drivers map memory into it, the controller reaches it by IOVA.
#[derive(Debug)]
pub struct IovaSpace {
    pub(super) inner: Mutex<Inner>,
    /// Counts changes of the table.
    generation: AtomicU64,
    checker: Arc<Checker>,
}

impl IovaSpace {
    pub(crate) fn new(checker: Arc<Checker>) -> Arc<IovaSpace> {
        let inner = Inner {
            table: Arc::default(),
            allocator: IovaAllocator::new(),
            finished: VecDeque::new(),
            copies: 0,
        };
        Arc::new(IovaSpace { inner: Mutex::new(inner), generation: AtomicU64::new(0), checker })
    }

    /// The window of a mapped range.
    pub(crate) fn window(&self, iova: u64, len: u64, access: DmaAccess) -> Result<Window, AccessError> {
        let refused = || AccessError::NotMapped { iova: Iova(iova), len: len as usize, access };
        let inner = self.inner.lock();
        let region = inner.table.find(iova).map(|index| &inner.table.regions[index]).ok_or_else(refused)?;
        if !region.holds(iova, len) || !region.allows(access) {
            return Err(refused());
        }
        Ok(region.window.slice((iova - region.start) as usize, len as usize)?)
    }

    pub(super) fn change(&self, inner: &mut Inner, edit: impl FnOnce(&mut Table)) {
        let mut table = Table::clone(&inner.table);
        edit(&mut table);
        inner.table = Arc::new(table);
        // Release: a view that sees the new count takes the lock and finds at least this table.
        self.generation.fetch_add(1, Ordering::Release);
    }
}

fn source_window(source: DmaSource<'_>) -> Result<Window, DmaError> {
    let check = |offset: u64, len: u64| {
        if offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE) && len > 0 {
            return Ok(());
        }
        Err(DmaError::Alignment { offset, len, page_size: PAGE })
    };
    match source {
        DmaSource::Memory(window) => {
            check(window.offset_in_memory() as u64, window.len() as u64)?;
            Ok(window.clone())
        }
        DmaSource::File { fd, offset, len } => {
            check(offset, len)?;
            let system = |source| DmaError::System { step: "mapping of a file", len, source };
            let size = rustix::fs::fstat(fd).map_err(|e| system(e.into()))?.st_size as u64;
            if offset.checked_add(len).is_none_or(|end| end > size) {
                let reason = format!("range {offset}+{len} is outside a file of {size} bytes");
                return Err(DmaError::Unsupported { reason });
            }
            let mapping = FileMapping::new(fd, offset, len as usize).map_err(system)?;
            Ok(Window::whole(Arc::new(mapping)))
        }
    }
}

impl hw::DmaSpace for IovaSpace {
    fn map(&self, source: DmaSource<'_>, access: DmaAccess) -> Result<Iova, DmaError> {
        let window = source_window(source)?;
        let len = window.len() as u64;
        let mut inner = self.inner.lock();
        if inner.table.regions.len() >= MAPPINGS as usize {
            return Err(DmaError::TooMany { limit: MAPPINGS });
        }
        let no_space = || DmaError::NoSpace { len, ranges: vec![IovaAllocator::range()] };
        let start = inner.allocator.take(len).ok_or_else(no_space)?;
        let region = Arc::new(Region { start, len, access, window, queues: false });
        self.change(&mut inner, |table| {
            let regions = &mut table.regions;
            regions.insert(regions.partition_point(|other| other.start < start), region);
        });
        Ok(Iova(start))
    }

    fn unmap(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
        let mut inner = self.inner.lock();
        if !inner.allocator.give_back(iova.0, len) {
            return Err(DmaError::NotMapped { iova, len });
        }
        self.change(&mut inner, |table| {
            for claim in table.claims.lose(iova.0, len) {
                self.checker.report(Rule::QueueMemoryUnmapped, format!("{claim}, unmapped"));
            }
            table.regions.retain(|region| region.start != iova.0);
            table.unmapped.truncate(REMEMBERED - 1);
            table.unmapped.push_front((iova.0, len));
        });
        Ok(())
    }

    fn limits(&self) -> DmaLimits {
        DmaLimits { ranges: vec![IovaAllocator::range()], page_size: PAGE, mappings: MAPPINGS }
    }
}

impl hw::ClientMemory for IovaSpace {
    fn slice(&self, iova: Iova, len: usize, access: DmaAccess) -> Result<Window, AccessError> {
        self.window(iova.0, len as u64, access)
    }

    fn start(&self, copy: hw::Copy) -> Result<hw::CopyId, AccessError> {
        // All client memory has a pointer here, so a copy is done when it is started.
        let mut bytes = vec![0; copy.staging.len()];
        match copy.direction {
            hw::CopyDirection::FromClient => {
                self.read(copy.iova, &mut bytes)?;
                copy.staging.write(0, &bytes)?;
            }
            hw::CopyDirection::ToClient => {
                copy.staging.read(0, &mut bytes)?;
                self.write(copy.iova, &bytes)?;
            }
        }
        let mut inner = self.inner.lock();
        inner.copies += 1;
        let id = hw::CopyId(inner.copies);
        inner.finished.push_back(id);
        Ok(id)
    }

    fn finished(&self) -> Option<(hw::CopyId, Result<(), AccessError>)> {
        Some((self.inner.lock().finished.pop_front()?, Ok(())))
    }
}

/// One thread's snapshot of an [`IovaSpace`].
///
/// The snapshot keeps its windows alive: a client that unmaps memory under a running command loses data, not the
/// process.
pub(crate) struct View {
    space: Arc<IovaSpace>,
    table: Arc<Table>,
    generation: u64,
    /// Region of the last lookup: buffers are few and used again and again.
    last: Cell<usize>,
}

impl View {
    pub(crate) fn new(space: Arc<IovaSpace>) -> View {
        let mut view = View { space, table: Arc::default(), generation: u64::MAX, last: Cell::new(0) };
        view.refresh();
        view
    }

    /// Takes a new snapshot if the space has changed; returns whether it has. Call it after a doorbell was read with
    /// acquire: what a client mapped before it rang is then visible.
    #[inline]
    pub(crate) fn refresh(&mut self) -> bool {
        let changed = self.space.generation.load(Ordering::Acquire) != self.generation;
        if changed {
            self.renew();
        }
        changed
    }

    /// Whether an address was mapped not long ago.
    pub(crate) fn was_unmapped(&self, iova: u64) -> bool {
        self.table.unmapped.iter().any(|(start, len)| iova.wrapping_sub(*start) < *len)
    }

    /// What queues have of the memory.
    pub(crate) fn claims(&self) -> &Claims {
        &self.table.claims
    }

    #[cold]
    fn renew(&mut self) {
        let inner = self.space.inner.lock();
        self.generation = self.space.generation.load(Ordering::Acquire);
        // The old table is dropped under the lock, so that whoever drops it last is ordered after all its users.
        self.table = inner.table.clone();
        self.last.set(0);
    }

    /// The bytes `iova..iova + len`, if they lie in one mapping that allows `access` and in no queue.
    #[inline]
    pub(crate) fn resolve(&self, iova: u64, len: usize, access: DmaAccess) -> Option<Span<'_>> {
        let regions = &self.table.regions;
        let region = match regions.get(self.last.get()) {
            Some(region) if region.holds(iova, len as u64) => region,
            _ => {
                let index = self.table.find(iova)?;
                self.last.set(index);
                &regions[index]
            }
        };
        if !region.holds(iova, len as u64) || !region.allows(access) {
            return None;
        }
        if region.queues && self.table.claims.overlapping(iova, len as u64).is_some() {
            return None;
        }
        let base = region.window.as_ptr().wrapping_add((iova - region.start) as usize);
        let base = NonNull::new(base)?;
        // SAFETY: the range lies in the region's window, which `self.table` keeps alive while the span borrows `self`.
        Some(unsafe { Span::new(base, len) })
    }

    /// Asks for the cache lines of a range, if it is where the last lookup was.
    #[inline(always)]
    pub(crate) fn prefetch(&self, iova: u64, len: usize, write: bool) {
        let Some(region) = self.table.regions.get(self.last.get()) else { return };
        let address = region.window.as_ptr().wrapping_add(iova.wrapping_sub(region.start) as usize);
        if !region.holds(iova, len as u64) {
            return;
        }
        if write { prefetch_write(address, len) } else { prefetch_read(address, len) }
    }

    /// Copies bytes out of client memory; false if they are not mapped readable in one piece.
    pub(crate) fn read(&self, iova: u64, into: &mut [u8]) -> bool {
        self.resolve(iova, into.len(), DmaAccess::READ).map(|span| span.read(into)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use warpbell_hw::{ClientMemory, DmaSpace};

    use super::*;

    fn space() -> Arc<IovaSpace> {
        IovaSpace::new(Arc::default())
    }

    #[test]
    fn windows_are_found_by_address_and_length() {
        let space = space();
        let one = Window::host(8192).unwrap();
        let two = Window::host(4096).unwrap();
        let at_one = space.map(DmaSource::Memory(&one), DmaAccess::READ_WRITE).unwrap();
        let at_two = space.map(DmaSource::Memory(&two), DmaAccess::READ).unwrap();
        one.write(5000, b"hello").unwrap();
        let view = View::new(space.clone());
        let mut bytes = [0; 5];
        assert!(view.read(at_one.0 + 5000, &mut bytes));
        assert_eq!(&bytes, b"hello");
        assert!(view.resolve(at_one.0 + 8190, 3, DmaAccess::READ).is_none(), "past the end");
        assert!(view.resolve(at_one.0 - 1, 1, DmaAccess::READ).is_none(), "before the start");
        assert!(view.resolve(u64::MAX, 2, DmaAccess::READ).is_none(), "around the end of the space");
        assert!(view.resolve(at_two.0, 4096, DmaAccess::READ).is_some());
        assert!(view.resolve(at_two.0, 1, DmaAccess::WRITE).is_none(), "mapped for reading only");
    }

    #[test]
    fn a_view_follows_the_space_when_asked_and_keeps_memory_alive() {
        let space = space();
        let mut view = View::new(space.clone());
        let window = Window::host(4096).unwrap();
        let iova = space.map(DmaSource::Memory(&window), DmaAccess::READ_WRITE).unwrap();
        assert!(view.resolve(iova.0, 1, DmaAccess::READ).is_none());
        view.refresh();
        space.unmap(iova, 4096).unwrap();
        drop(window);
        assert!(view.read(iova.0, &mut [0; 16]), "the snapshot is older");
        view.refresh();
        assert!(view.resolve(iova.0, 1, DmaAccess::READ).is_none());
        assert!(matches!(space.unmap(iova, 4096), Err(DmaError::NotMapped { .. })));
    }

    #[test]
    fn unmapping_queue_memory_is_a_violation() {
        let checker = Arc::new(Checker::default());
        let space = IovaSpace::new(checker.clone());
        let window = Window::host(8192).unwrap();
        let iova = space.map(DmaSource::Memory(&window), DmaAccess::READ_WRITE).unwrap();
        space.claim("submission queue 1".into(), iova.0 + 4096, 64).unwrap();
        space.unmap(iova, 8192).unwrap();
        assert_eq!(checker.violations()[0].rule, Rule::QueueMemoryUnmapped);
        assert!(checker.violations()[0].detail.starts_with("submission queue 1 lies at"));
        let again = space.map(DmaSource::Memory(&window), DmaAccess::READ_WRITE).unwrap();
        space.release("submission queue 1");
        space.unmap(again, 8192).unwrap();
        assert_eq!(checker.count(), 1);
    }

    #[test]
    fn bad_sources_are_refused_by_name() {
        let space = space();
        let window = Window::host(8192).unwrap();
        let odd = window.slice(8, 4096).unwrap();
        let error = space.map(DmaSource::Memory(&odd), DmaAccess::READ).unwrap_err().to_string();
        assert!(error.contains("offset 8"), "{error}");
        let short = window.slice(0, 100).unwrap();
        assert!(space.map(DmaSource::Memory(&short), DmaAccess::READ).is_err());
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let source = DmaSource::File { fd: file.as_fd(), offset: 4096, len: 4096 };
        let error = space.map(source, DmaAccess::READ).unwrap_err().to_string();
        assert!(error.contains("outside a file of 4096 bytes"), "{error}");
    }

    #[test]
    fn files_can_be_mapped_and_copies_finish() {
        let space = space();
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let source = DmaSource::File { fd: file.as_fd(), offset: 4096, len: 4096 };
        let iova = space.map(source, DmaAccess::READ_WRITE).unwrap();
        space.write(iova, b"through the file").unwrap();
        let mut back = [0; 16];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut back, 4096).unwrap();
        assert_eq!(&back, b"through the file");
        let staging = Window::host(4096).unwrap().slice(0, 7).unwrap();
        let copy = hw::Copy { direction: hw::CopyDirection::FromClient, iova, staging: staging.clone() };
        let id = space.start(copy).unwrap();
        assert_eq!(space.finished().unwrap().0, id);
        assert!(space.finished().is_none());
        assert_eq!(staging.to_vec(0, 7).unwrap(), b"through");
    }
}
