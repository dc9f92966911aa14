//! The mock's clock and DMA space.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_hw::*;

use super::{Event, Mock};

/// A clock that only `pause` moves, by at least a microsecond, though it may claim more.
#[derive(Default)]
pub struct VirtualClock(AtomicU64, pub AtomicBool, Mutex<Option<Meanwhile>>);

/// What somebody else does meanwhile.
type Meanwhile = Box<dyn FnMut() + Send>;

impl VirtualClock {
    /// Does something in each pause from now on, on the thread that pauses.
    pub fn meanwhile(&self, act: impl FnMut() + Send + 'static) {
        *self.2.lock() = Some(Box::new(act));
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
    fn pause(&self, hint: Duration) {
        self.0.fetch_add(hint.as_nanos().max(1000) as u64, Ordering::Relaxed);
        // Taken out: what it does may pause, too.
        let act = self.2.lock().take();
        if let Some(mut act) = act {
            act();
            self.2.lock().get_or_insert(act);
        }
    }
    fn passes_by_itself(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }
}

/// Mappings by their first address. Notes each unmapping, and those of memory in use.
pub struct MockDma {
    mappings: Mutex<BTreeMap<u64, Window>>,
    mock: Weak<Mock>,
    next: AtomicU64,
    /// Mappings removed while a queue of the controller lay in them.
    pub violations: Mutex<Vec<u64>>,
    /// Whether rings and buffers share mappings.
    pub coalesces: AtomicBool,
    /// The most mappings.
    pub limit: AtomicU32,
}

impl MockDma {
    pub fn new(mock: Weak<Mock>) -> MockDma {
        let (mappings, violations) = (Mutex::default(), Mutex::default());
        let (next, coalesces) = (AtomicU64::new(0x10_0000), AtomicBool::new(false));
        let limit = AtomicU32::new(u32::MAX);
        MockDma { mappings, mock, next, violations, coalesces, limit }
    }

    /// The memory at an address, and the offset in it.
    pub fn find(&self, iova: u64) -> (Window, usize) {
        let mappings = self.mappings.lock();
        let (base, window) = mappings.range(..=iova).next_back().expect("mapped");
        (window.clone(), (iova - base) as usize)
    }

    pub fn mapped(&self) -> usize {
        self.mappings.lock().len()
    }

    pub fn violations(&self) -> Vec<u64> {
        self.violations.lock().clone()
    }
}

impl DmaSpace for MockDma {
    fn map(&self, source: DmaSource<'_>, _access: DmaAccess) -> Result<Iova, DmaError> {
        let DmaSource::Memory(window) = source else {
            return Err(DmaError::Unsupported { reason: "files".to_owned() });
        };
        let limit = self.limits().mappings;
        if self.mapped() >= limit as usize {
            return Err(DmaError::TooMany { limit });
        }
        let iova = self.next.fetch_add((window.len() as u64).next_multiple_of(1 << 20), Ordering::Relaxed);
        self.mappings.lock().insert(iova, window.clone());
        Ok(Iova(iova))
    }

    fn unmap(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
        if let Some(mock) = self.mock.upgrade() {
            mock.note(Event::Unmap(iova.0));
            if mock.state().in_use(iova.0, len) {
                self.violations.lock().push(iova.0);
            }
        }
        self.mappings.lock().remove(&iova.0);
        Ok(())
    }

    fn coalesces(&self) -> bool {
        self.coalesces.load(Ordering::Relaxed)
    }

    fn limits(&self) -> DmaLimits {
        DmaLimits {
            ranges: vec![0..=u64::MAX],
            page_size: 4096,
            mappings: self.limit.load(Ordering::Relaxed),
        }
    }
}
