//! Queue memory: entries in submission and completion rings.

use std::sync::atomic::Ordering;

use warpbell_nvme::command::Sqe;
use warpbell_nvme::completion::Cqe;

use crate::Window;

/// A submission ring: `entries` (a power of two) 64-byte slots in a window.
#[derive(Clone, Debug)]
pub struct SqRing {
    window: Window,
    mask: u32,
}

impl SqRing {
    /// Bytes of a slot.
    pub const SLOT: usize = size_of::<Sqe>();

    /// A ring over the first `entries` slots of `window`. Panics if `entries` is not a power of two
    /// or the window is too small: the caller computed both.
    pub fn new(window: Window, entries: u32) -> SqRing {
        assert!(entries.is_power_of_two() && window.len() >= entries as usize * Self::SLOT);
        SqRing { window, mask: entries - 1 }
    }

    /// Writes the entry with running index `index` (slot `index` modulo the ring). Not visible to
    /// the controller before the doorbell.
    #[inline]
    pub fn write(&self, index: u32, sqe: &Sqe) {
        let words: [u64; 8] = zerocopy::transmute!(*sqe);
        self.window.write_words((index & self.mask) as usize * Self::SLOT, &words);
    }

    /// Slots in the ring.
    pub fn entries(&self) -> u32 {
        self.mask + 1
    }

    /// The memory.
    pub fn window(&self) -> &Window {
        &self.window
    }
}

/// A completion ring: `entries` (a power of two) 16-byte slots in a window.
#[derive(Clone, Debug)]
pub struct CqRing {
    window: Window,
    mask: u32,
    shift: u32,
}

impl CqRing {
    /// Bytes of a slot.
    pub const SLOT: usize = size_of::<Cqe>();

    /// A ring over the first `entries` slots of `window`, which must be zeroed. Panics if `entries`
    /// is not a power of two or the window is too small: the caller computed both.
    pub fn new(window: Window, entries: u32) -> CqRing {
        assert!(entries.is_power_of_two() && window.len() >= entries as usize * Self::SLOT);
        CqRing { window, mask: entries - 1, shift: entries.trailing_zeros() }
    }

    /// The completion with running index `index`, if the controller has posted it: its phase bit is
    /// inverted at each pass (NVMe Base 2.0, 4.2.4). The acquire load of the word with the phase bit
    /// comes before the load of the rest, and before any load of the payload.
    #[inline]
    pub fn poll(&self, index: u64) -> Option<Cqe> {
        let offset = (index as u32 & self.mask) as usize * Self::SLOT;
        let high = self.window.load_u64(offset + 8, Ordering::Acquire);
        let posted = (high >> 48) & 1 == ((index >> self.shift) & 1) ^ 1;
        posted.then(|| zerocopy::transmute!([self.window.load_u64(offset, Ordering::Relaxed), high]))
    }

    /// Slots in the ring.
    pub fn entries(&self) -> u32 {
        self.mask + 1
    }

    /// The memory.
    pub fn window(&self) -> &Window {
        &self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phase_inverts_each_pass() {
        let window = Window::host(4096).unwrap();
        let ring = CqRing::new(window.clone(), 4);
        assert!(ring.poll(0).is_none());
        window.store_u64(8, 1 << 48 | 0x7 << 32, Ordering::Release);
        assert_eq!(ring.poll(0).unwrap().cid, 7);
        assert!(ring.poll(4).is_none(), "the same entry is stale on the second pass");
        window.store_u64(8, 0x9 << 32, Ordering::Release);
        assert_eq!(ring.poll(4).unwrap().cid, 9);
    }

    #[test]
    fn entries_land_in_their_slots() {
        let ring = SqRing::new(Window::host(4096).unwrap(), 4);
        let sqe = Sqe { nsid: 0x55, ..Default::default() };
        ring.write(6, &sqe);
        assert_eq!(ring.window().load_u32(2 * 64 + 4, Ordering::Relaxed), 0x55);
    }
}
