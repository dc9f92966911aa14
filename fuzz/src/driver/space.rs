//! The DMA space of the synthetic controller: memory from one arena, and who may still use which part of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use warpbell_hw::{DmaAccess, DmaError, DmaLimits, DmaSource, DmaSpace, Iova, Window};

/// Bytes of memory that a driver can have at a time. What it leaks is back for the next input.
const ARENA: usize = 16 << 20;
/// Where the first mapping lies, and how far apart they are.
const FIRST: u64 = 0x10_0000;
const APART: u64 = 1 << 24;

thread_local! {
    static MEMORY: Window = Window::host(ARENA).expect("memory for an arena");
}

#[derive(Default)]
struct Inner {
    mappings: BTreeMap<u64, Window>,
    /// What the controller may access: first byte and length, by who uses it.
    used: Vec<(User, u64, u64)>,
    /// Bytes of the arena that were handed out.
    taken: usize,
    next: u64,
    /// Mappings are refused from so many on.
    room: usize,
    /// The first rule that the driver broke.
    broken: Option<String>,
}

/// Who uses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// A command's data, by queue and identifier.
    Command(u16, u16),
    /// A submission or completion queue.
    Sq(u16),
    Cq(u16),
    /// Doorbells in memory.
    Doorbells,
}

/// The space. Buffers that the driver leaks keep this alive, and little else.
#[derive(Default)]
pub(super) struct Space(Mutex<Inner>);

impl Space {
    pub(super) fn new(room: usize) -> Arc<Space> {
        Arc::new(Space(Mutex::new(Inner { next: FIRST, room, ..Inner::default() })))
    }

    /// The controller uses memory from now on.
    pub(super) fn begin(&self, user: User, iova: u64, len: u64) {
        let mut inner = self.0.lock();
        if inner.find(iova, len as usize).is_none() {
            inner.break_rule(format!("{user:?}: {len:#x} bytes at {iova:#x} are not mapped"));
        }
        inner.used.push((user, iova, len));
    }

    /// That use has ended.
    pub(super) fn end(&self, which: impl Fn(User) -> bool) {
        self.0.lock().used.retain(|(user, ..)| !which(*user));
    }

    /// Memory that is mapped, in one piece.
    pub(super) fn window(&self, iova: u64, len: usize) -> Option<Window> {
        self.0.lock().find(iova, len)
    }

    pub(super) fn break_rule(&self, what: String) {
        self.0.lock().break_rule(what);
    }

    pub(super) fn broken(&self) -> Option<String> {
        self.0.lock().broken.clone()
    }

    /// Nobody uses any memory any more: all of it is there again.
    pub(super) fn reuse(&self) {
        self.0.lock().taken = 0;
    }

    /// The end of an input.
    pub(super) fn close(&self) {
        *self.0.lock() = Inner::default();
    }
}

impl Inner {
    fn find(&self, iova: u64, len: usize) -> Option<Window> {
        let (start, window) = self.mappings.range(..=iova).next_back()?;
        window.slice((iova - start) as usize, len).ok()
    }

    fn break_rule(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }
}

impl DmaSpace for Space {
    fn map(&self, source: DmaSource<'_>, _access: DmaAccess) -> Result<Iova, DmaError> {
        let DmaSource::Memory(window) = source else {
            return Err(DmaError::Unsupported { reason: "only memory".to_owned() });
        };
        let mut inner = self.0.lock();
        if inner.mappings.len() >= inner.room {
            return Err(DmaError::TooMany { limit: inner.room as u32 });
        }
        let iova = inner.next;
        inner.next += APART;
        inner.mappings.insert(iova, window.clone());
        Ok(Iova(iova))
    }

    fn unmap(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
        let mut inner = self.0.lock();
        let overlaps = |start: u64, bytes: u64| start < iova.0 + len && iova.0 < start + bytes;
        let user = inner.used.iter().find(|(_, start, bytes)| overlaps(*start, *bytes)).copied();
        if let Some((user, start, _)) = user {
            inner.break_rule(format!("{iova} is unmapped, and {user:?} uses {start:#x}"));
        }
        if inner.mappings.remove(&iova.0).is_none() {
            return Err(DmaError::NotMapped { iova, len });
        }
        Ok(())
    }

    fn limits(&self) -> DmaLimits {
        DmaLimits { ranges: vec![FIRST..=(1 << 48) - 1], page_size: 4096, mappings: u32::MAX }
    }

    fn allocate(&self, len: usize) -> Result<Window, DmaError> {
        let mut inner = self.0.lock();
        let len = len.next_multiple_of(4096);
        let arena = MEMORY.with(Window::clone);
        let window = arena.slice(inner.taken, len).map_err(DmaError::from)?;
        window.fill(0, len, 0).map_err(DmaError::from)?;
        inner.taken += len;
        Ok(window)
    }
}
