//! Blocks in memory.
// UNSAFETY: hands out slices of its own mapping, after checking their range.
#![expect(unsafe_code, reason = "the store is a raw mapping that several threads may copy from and to")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use vm_memory::VolatileSlice;

use super::ranges::Ranges;
use crate::error::SoftError;
use crate::memory::{Anonymous, prefetch_read, prefetch_write};
use warpbell_hw::Window;

/// Bytes under one lock; a whole number of blocks of any size.
const STRIPE: u64 = 64 << 10;
/// Locks of a store that is shared.
const STRIPES: usize = 64;

/// One mapping of anonymous memory.
///
/// With several pollers, copies hold the locks of the stripes they touch, one at a time: a block is never torn, as
/// the specification promises for a single logical block. With one poller there are no locks.
/// Clones are the same blocks.
#[derive(Clone, Debug)]
pub(crate) struct MemoryStore {
    memory: Anonymous,
    len: u64,
    stripes: Option<Arc<[RwLock<()>]>>,
    engine: Arc<EngineSide>,
}

/// What copy engines have to do with a store.
#[derive(Debug, Default)]
struct EngineSide {
    /// What they copy at the moment.
    ranges: Arc<Ranges>,
    /// An engine knows the pages by their physical addresses: none may be released.
    pinned: AtomicBool,
}

impl MemoryStore {
    pub(crate) fn new(len: u64, shared: bool) -> Result<MemoryStore, SoftError> {
        let memory = usize::try_from(len)
            .map_err(|_| std::io::ErrorKind::OutOfMemory.into())
            .and_then(Anonymous::new)
            .map_err(|source| SoftError::Memory { len, source })?;
        let stripes = shared.then(|| (0..STRIPES).map(|_| RwLock::new(())).collect());
        Ok(MemoryStore { memory, len, stripes, engine: Arc::default() })
    }

    /// What copy engines, and whoever wants to keep out of their way, use of it at the moment.
    pub(crate) fn ranges(&self) -> &Arc<Ranges> {
        &self.engine.ranges
    }

    /// All of it, for a copy engine to pin. From now on its pages stay where they are.
    pub(crate) fn pinnable(&self) -> Window {
        self.engine.pinned.store(true, Ordering::SeqCst);
        self.memory.window()
    }

    /// Its bytes, for a copy engine.
    pub(crate) fn window(&self) -> Window {
        self.memory.window()
    }

    /// The address of its first byte, which tells it from other stores.
    pub(crate) fn address(&self) -> usize {
        self.memory.base().as_ptr() as usize
    }

    /// Whether `other` is the same memory.
    pub(crate) fn is(&self, other: &MemoryStore) -> bool {
        self.memory.base() == other.memory.base()
    }

    /// Bytes of the store; panics if the range is outside, which the callers have excluded by block.
    #[inline]
    fn slice(&self, offset: u64, len: usize) -> VolatileSlice<'_> {
        assert!(
            offset <= self.len && len as u64 <= self.len - offset,
            "{offset}+{len} is outside {}",
            self.len
        );
        let base = self.memory.base().as_ptr().wrapping_add(offset as usize);
        // SAFETY: inside the mapping, as just asserted, which lives as long as `self`, from which the slice borrows.
        unsafe { VolatileSlice::new(base, len) }
    }

    /// Starts to load bytes into the cache. A hint: any range is allowed.
    #[inline(always)]
    pub(crate) fn prefetch(&self, offset: u64, len: usize, write: bool) {
        let address = self.memory.base().as_ptr().wrapping_add(offset as usize);
        if write { prefetch_write(address, len) } else { prefetch_read(address, len) }
    }

    /// Copies bytes out to `into`.
    #[inline]
    pub(crate) fn read(&self, offset: u64, into: VolatileSlice<'_>) {
        match &self.stripes {
            None => self.slice(offset, into.len()).copy_to_volatile_slice(into),
            Some(stripes) => each_stripe(offset, into.len(), |at, done, len, stripe| {
                let _guard = stripes[stripe].read();
                self.slice(at, len).copy_to_volatile_slice(part(into, done, len));
            }),
        }
    }

    /// Copies bytes in from `from`.
    #[inline]
    pub(crate) fn write(&self, offset: u64, from: VolatileSlice<'_>) {
        match &self.stripes {
            None => from.copy_to_volatile_slice(self.slice(offset, from.len())),
            Some(stripes) => each_stripe(offset, from.len(), |at, done, len, stripe| {
                let _guard = stripes[stripe].write();
                part(from, done, len).copy_to_volatile_slice(self.slice(at, len));
            }),
        }
    }

    pub(crate) fn read_bytes(&self, offset: u64, into: &mut [u8]) {
        each_stripe(offset, into.len(), |at, done, len, stripe| {
            let _guard = self.stripes.as_ref().map(|stripes| stripes[stripe].read());
            self.slice(at, len).copy_to(&mut into[done..done + len]);
        });
    }

    pub(crate) fn write_bytes(&self, offset: u64, from: &[u8]) {
        each_stripe(offset, from.len(), |at, done, len, stripe| {
            let _guard = self.stripes.as_ref().map(|stripes| stripes[stripe].write());
            self.slice(at, len).copy_from(&from[done..done + len]);
        });
    }

    /// Clears bytes; what fills huge pages is released to the system, if no other thread may be using it.
    pub(crate) fn zero(&self, offset: u64, len: u64) {
        let pinned = self.engine.pinned.load(Ordering::SeqCst);
        let released = match self.stripes {
            None if !pinned => self.memory.release(offset as usize, len as usize),
            _ => offset as usize..offset as usize,
        };
        self.clear(offset, released.start - offset as usize);
        self.clear(released.end as u64, (offset + len) as usize - released.end);
    }

    fn clear(&self, offset: u64, len: usize) {
        each_stripe(offset, len, |at, _, len, stripe| {
            let _guard = self.stripes.as_ref().map(|stripes| stripes[stripe].write());
            let bytes = self.slice(at, len).ptr_guard_mut();
            // SAFETY: bytes of the store; the others who use them hold no references.
            unsafe { bytes.as_ptr().write_bytes(0, len) };
        });
    }
}

/// Bytes of a slice that a stripe covers.
#[inline]
fn part(slice: VolatileSlice<'_>, done: usize, len: usize) -> VolatileSlice<'_> {
    slice.subslice(done, len).expect("stripes cover the slice and no more")
}

/// Calls `part(offset, bytes done before, bytes, lock)` for each stripe that the range touches.
fn each_stripe(offset: u64, len: usize, mut part: impl FnMut(u64, usize, usize, usize)) {
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let room = (STRIPE - at % STRIPE) as usize;
        let piece = room.min(len - done);
        part(at, done, piece, (at / STRIPE) as usize % STRIPES);
        done += piece;
    }
}
