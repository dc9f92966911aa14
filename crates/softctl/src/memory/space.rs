//! The IOVA space of one controller, and each thread's view of it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crossbeam::utils::CachePadded;
use parking_lot::Mutex;
use vm_memory::VolatileSlice;
use warpbell_hw as hw;
use warpbell_hw::{AccessError, DmaAccess, DmaError, DmaLimits, DmaSource, Iova, Window};

use super::claim::Claims;
use super::iova::IovaAllocator;
use super::remote::{Backing, Remote, RemoteHost, RingMemory};
use super::source::{backing_of, stitch};
use super::{PAGE, prefetch_read, prefetch_write};
use crate::checker::{Checker, Rule};

/// Most mappings at a time, as of a VFIO type1 container.
const MAPPINGS: u32 = 65535;

/// Unmapped ranges that messages can tell from addresses that were never mapped.
const REMEMBERED: usize = 64;

/// A mapping.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) access: DmaAccess,
    pub(super) backing: Backing,
    /// Whether a queue lies in it: then not every byte may be data.
    pub(super) queues: bool,
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

    fn remote(&self) -> Option<&Arc<Remote>> {
        match &self.backing {
            Backing::Memory(_) => None,
            Backing::Remote(remote) => Some(remote),
        }
    }
}

/// All mappings, by address, and what queues have of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// Controllers read them for each command, so what their neighbours on the heap write is in other cache lines.
    pub(super) regions: Vec<Arc<CachePadded<Region>>>,
    pub(super) claims: Claims,
    /// What was unmapped last, for messages: start and length.
    unmapped: VecDeque<(u64, u64)>,
    /// How many regions are remote.
    pub(super) remotes: usize,
}

impl Table {
    fn find(&self, iova: u64) -> Option<usize> {
        self.regions.partition_point(|region| region.start <= iova).checked_sub(1)
    }

    pub(super) fn insert(&mut self, region: Region) {
        let at = self.regions.partition_point(|other| other.start < region.start);
        self.remotes += usize::from(region.remote().is_some());
        self.regions.insert(at, Arc::new(region.into()));
    }

    pub(super) fn remove(&mut self, start: u64, len: u64) {
        if let Some(at) = self.find(start).filter(|at| self.regions[*at].start == start) {
            let region = self.regions.remove(at);
            self.remotes -= usize::from(region.remote().is_some());
        }
        self.unmapped.truncate(REMEMBERED - 1);
        self.unmapped.push_front((start, len));
    }

    /// The windows of `iova..iova + len`, which may cross mappings that are neighbours, if all of it allows `access`.
    pub(super) fn pieces(&self, iova: u64, len: u64, access: DmaAccess) -> Option<Vec<Window>> {
        let (mut at, mut rest, mut pieces) = (iova, len, Vec::new());
        while rest > 0 {
            let region = &self.regions[self.find(at)?];
            if !region.holds(at, 1) || !region.allows(access) {
                return None;
            }
            let offset = at - region.start;
            let piece = rest.min(region.len - offset);
            let Backing::Memory(window) = &region.backing else { return None };
            pieces.push(window.slice(offset as usize, piece as usize).ok()?);
            rest -= piece;
            at = at.checked_add(piece).or((rest == 0).then_some(0))?;
        }
        Some(pieces)
    }

    /// Brings the marks of the regions that have some of a range up to date.
    pub(super) fn mark(&mut self, iova: u64, len: u64) {
        let first = self.find(iova).unwrap_or(0);
        let last = iova.saturating_add(len - 1);
        for slot in self.regions[first..].iter_mut().take_while(|region| region.start <= last) {
            let queues = self.claims.overlapping(slot.start, slot.len).is_some();
            if slot.queues != queues {
                let Region { start, len, access, .. } = ***slot;
                let region = Region { start, len, access, backing: slot.backing.clone(), queues };
                *slot = Arc::new(region.into());
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) table: Table,
    pub(super) allocator: IovaAllocator,
}

impl Inner {
    pub(super) fn check_count(&self) -> Result<(), DmaError> {
        let full = self.table.regions.len() >= MAPPINGS as usize;
        if full { Err(DmaError::TooMany { limit: MAPPINGS }) } else { Ok(()) }
    }
}

/// A controller's DMA address space: drivers map memory into it, the controller reaches it by IOVA.
#[derive(Debug)]
pub struct IovaSpace {
    pub(super) inner: Mutex<Inner>,
    /// Counts changes of the table.
    generation: AtomicU64,
    checker: Arc<Checker>,
    /// Who copies from and to remote memory.
    host: OnceLock<Weak<dyn RemoteHost>>,
}

impl IovaSpace {
    pub(crate) fn new(checker: Arc<Checker>) -> Arc<IovaSpace> {
        let inner = Inner { table: Table::default(), allocator: IovaAllocator::new() };
        Arc::new(IovaSpace {
            inner: Mutex::new(inner),
            generation: AtomicU64::new(0),
            checker,
            host: OnceLock::new(),
        })
    }

    /// From now on remote memory can be mapped, and `host` copies.
    pub(crate) fn copied_by(&self, host: Weak<dyn RemoteHost>) {
        // Set once, when the controller is put together.
        let _ = self.host.set(host);
    }

    fn host(&self) -> Option<Arc<dyn RemoteHost>> {
        self.host.get()?.upgrade()
    }

    /// Bytes of client memory that are mapped.
    pub fn mapped_bytes(&self) -> u64 {
        self.inner.lock().table.regions.iter().map(|region| region.len).sum()
    }

    /// Gives memory an IOVA.
    fn place(&self, backing: Backing, access: DmaAccess) -> Result<Iova, DmaError> {
        let len = backing.len();
        let mut inner = self.inner.lock();
        inner.check_count()?;
        let no_space = || DmaError::NoSpace { len, ranges: vec![IovaAllocator::range()] };
        let start = inner.allocator.take(len).ok_or_else(no_space)?;
        let region = Region { start, len, access, backing, queues: false };
        self.change(&mut inner, |table| table.insert(region));
        Ok(Iova(start))
    }

    /// The window of a mapped range. One that crosses mappings is mapped once more, in one piece.
    pub(crate) fn window(&self, iova: u64, len: u64, access: DmaAccess) -> Result<Window, AccessError> {
        let refused = || AccessError::NotMapped { iova: Iova(iova), len: len as usize, access };
        let inner = self.inner.lock();
        let region = inner.table.find(iova).map(|index| &inner.table.regions[index]).ok_or_else(refused)?;
        if region.holds(iova, len) && region.allows(access) {
            let Backing::Memory(window) = &region.backing else {
                return Err(AccessError::NoPointer { iova: Iova(iova) });
            };
            return Ok(window.slice((iova - region.start) as usize, len as usize)?);
        }
        stitch(&inner.table, iova, len, access).ok_or_else(refused)
    }

    /// Where a ring lies, which may be remote memory; then in one mapping.
    pub(crate) fn ring(&self, iova: u64, len: u64, access: DmaAccess) -> Result<RingMemory, AccessError> {
        let inner = self.inner.lock();
        let region = inner.table.find(iova).map(|index| &inner.table.regions[index]);
        let region = region.filter(|region| region.holds(iova, len) && region.allows(access));
        if let Some((region, Backing::Remote(remote))) = region.map(|region| (region, &region.backing)) {
            return Ok(RingMemory::Remote(remote.clone(), iova - region.start));
        }
        drop(inner);
        self.window(iova, len, access).map(RingMemory::Window)
    }

    pub(super) fn change(&self, inner: &mut Inner, edit: impl FnOnce(&mut Table)) {
        edit(&mut inner.table);
        // Release: a view that sees the new count takes the lock and finds at least this table.
        self.generation.fetch_add(1, Ordering::Release);
    }
}

impl hw::DmaSpace for IovaSpace {
    fn map(&self, source: DmaSource<'_>, access: DmaAccess) -> Result<Iova, DmaError> {
        let mut backing = backing_of(source, access)?;
        let Backing::Remote(remote) = &mut backing else { return self.place(backing, access) };
        let host = self.host().ok_or_else(|| DmaError::only_an_engine(&*remote.memory))?;
        *remote = host.prepare(remote.memory.clone())?;
        let remote = remote.clone();
        let placed = self.place(backing, access);
        if placed.is_err() {
            host.let_go(&remote)?;
        }
        placed
    }

    fn unmap(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
        let mut inner = self.inner.lock();
        if !inner.allocator.release(iova.0, len) {
            return Err(DmaError::NotMapped { iova, len });
        }
        let remote = inner.table.find(iova.0).and_then(|at| inner.table.regions[at].remote().cloned());
        self.change(&mut inner, |table| {
            for claim in table.claims.lose(iova.0, len) {
                self.checker.report(Rule::QueueMemoryUnmapped, format!("{claim}, unmapped"));
            }
            table.remove(iova.0, len);
        });
        drop(inner);
        // No copy begins any more; what is in flight ends before the memory is its owner's again.
        match remote.zip(self.host()) {
            Some((remote, host)) => host.let_go(&remote),
            None => Ok(()),
        }
    }

    fn limits(&self) -> DmaLimits {
        DmaLimits { ranges: vec![IovaAllocator::range()], page_size: PAGE, mappings: MAPPINGS }
    }
}

impl hw::ClientMemory for IovaSpace {
    fn slice(&self, iova: Iova, len: usize, access: DmaAccess) -> Result<Window, AccessError> {
        self.window(iova.0, len as u64, access)
    }
}

/// One thread's snapshot of an [`IovaSpace`].
///
/// The snapshot keeps its windows alive: a client that unmaps memory under a running command loses data, not the
/// process.
pub(crate) struct View {
    space: Arc<IovaSpace>,
    /// A copy, of this thread's allocation: beside the space's lies what clients write.
    table: Table,
    generation: u64,
    /// Region of the last lookup: buffers are few and used again and again.
    last: Cell<usize>,
}

impl View {
    pub(crate) fn new(space: Arc<IovaSpace>) -> View {
        let mut view = View { space, table: Table::default(), generation: u64::MAX, last: Cell::new(0) };
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

    /// Whether any memory has no pointer.
    #[inline]
    pub(crate) fn has_remote(&self) -> bool {
        self.table.remotes > 0
    }

    /// The remote memory that has all of `iova..iova + len`, in no queue, and allows `access`, and where in it the first
    /// byte is.
    pub(crate) fn remote(&self, iova: u64, len: usize, access: DmaAccess) -> Option<(&Arc<Remote>, u64)> {
        if !self.has_remote() {
            return None;
        }
        let region = &self.table.regions[self.table.find(iova)?];
        let whole = region.holds(iova, len as u64) && region.allows(access);
        if region.queues && self.table.claims.overlapping(iova, len as u64).is_some() {
            return None;
        }
        region.remote().filter(|_| whole).map(|remote| (remote, iova - region.start))
    }

    /// What queues have of the memory.
    pub(crate) fn claims(&self) -> &Claims {
        &self.table.claims
    }

    #[cold]
    fn renew(&mut self) {
        let inner = self.space.inner.lock();
        self.generation = self.space.generation.load(Ordering::Acquire);
        // The old regions are dropped under the lock, so that whoever drops one last is ordered after all its users.
        self.table = inner.table.clone();
        self.last.set(0);
    }

    /// The bytes `iova..iova + len`, if they lie in one mapping that allows `access` and in no queue.
    #[inline]
    pub(crate) fn resolve(&self, iova: u64, len: usize, access: DmaAccess) -> Option<VolatileSlice<'_>> {
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
        let Backing::Memory(window) = &region.backing else { return None };
        window.volatile().subslice((iova - region.start) as usize, len).ok()
    }

    /// How many of the bytes `iova..iova + len` the mapping of `iova` has, if there is one.
    pub(crate) fn in_one_mapping(&self, iova: u64, len: usize) -> Option<usize> {
        let region = &self.table.regions[self.table.find(iova)?];
        let offset = iova - region.start;
        (offset < region.len).then(|| (region.len - offset).min(len as u64) as usize)
    }

    /// Asks for the cache lines of a range, if it is where the last lookup was.
    #[inline(always)]
    pub(crate) fn prefetch(&self, iova: u64, len: usize, write: bool) {
        let Some(region) = self.table.regions.get(self.last.get()) else { return };
        let Backing::Memory(window) = &region.backing else { return };
        let address = window.as_ptr().wrapping_add(iova.wrapping_sub(region.start) as usize);
        if !region.holds(iova, len as u64) {
            return;
        }
        if write { prefetch_write(address, len) } else { prefetch_read(address, len) }
    }

    /// Copies bytes out of client memory; false if they are not mapped readable.
    pub(crate) fn read(&self, iova: u64, into: &mut [u8]) -> bool {
        match self.resolve(iova, into.len(), DmaAccess::READ) {
            Some(slice) => _ = slice.copy_to(into),
            None => return self.read_pieces(iova, into),
        }
        true
    }

    /// As [`View::read`], over mappings that are neighbours.
    #[cold]
    fn read_pieces(&self, mut iova: u64, mut into: &mut [u8]) -> bool {
        while !into.is_empty() {
            let Some(len) = self.in_one_mapping(iova, into.len()) else { return false };
            let (piece, rest) = into.split_at_mut(len);
            let Some(slice) = self.resolve(iova, len, DmaAccess::READ) else { return false };
            slice.copy_to(piece);
            (iova, into) = (iova.wrapping_add(len as u64), rest);
        }
        true
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
        assert_eq!(space.mapped_bytes(), 8192 + 4096);
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
        assert_eq!(space.mapped_bytes(), 0);
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
    }
}
