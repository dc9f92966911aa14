//! Doorbell registers, and the ways a store reaches them.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::{Qid, Window};

/// What a controller in software calls the memory that it polls as its doorbells (`/proc/PID/maps`): to kernels it is a
/// device's registers, and who runs their PTX knows it by this name.
pub const DOORBELL_MEMORY: &str = "warpbell-doorbells";

/// Which of a queue pair's two doorbells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorbellKind {
    /// The submission queue's tail.
    SqTail,
    /// The completion queue's head.
    CqHead,
}

/// How a doorbell store reaches the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorbellPath {
    /// The register page itself is mapped: a CPU or GPU store is the doorbell.
    Mapped,
    /// A shadow page that a CPU thread reads and forwards, for registers that cannot be mapped.
    Forwarded,
}

/// Why a doorbell could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorbellError {
    /// The register lies outside the mapped page.
    #[error("doorbell of {qid} at offset {offset:#x}: only {len:#x} bytes are mapped")]
    Outside {
        /// The queue.
        qid: Qid,
        /// Byte offset from the first doorbell.
        offset: usize,
        /// Bytes mapped.
        len: usize,
    },
}

/// Takes doorbell writes one by one, in place of memory. Simulations see repeated and skipped
/// values this way.
pub trait DoorbellSink: Send + Sync {
    /// A write of `value` to the doorbell at byte `offset` from the first doorbell.
    fn ring(&self, offset: usize, value: u32);
}

/// The doorbell registers of one function.
pub trait Doorbells: Send + Sync {
    /// How stores reach the controller.
    fn path(&self) -> DoorbellPath;
    /// CAP.DSTRD: doorbells are `4 << stride` bytes apart.
    fn stride(&self) -> u8;
    /// The doorbell page(s), from the doorbell of admin SQ on. A store to it of 32 bits is a doorbell
    /// write, unless there is a `sink`.
    fn window(&self) -> Window;
    /// Where present, every write must go here and not to memory.
    fn sink(&self) -> Option<Arc<dyn DoorbellSink>>;

    /// Byte offset of a doorbell in `window` (NVMe Base 2.0, 3.1.4: `(2 * QID + kind) * (4 << DSTRD)`).
    fn offset(&self, qid: Qid, kind: DoorbellKind) -> usize {
        let index = 2 * usize::from(qid.0) + usize::from(kind == DoorbellKind::CqHead);
        index * (4usize << self.stride())
    }

    /// One doorbell register, to be written by one thread at a time.
    fn doorbell(&self, qid: Qid, kind: DoorbellKind) -> Result<Doorbell, DoorbellError> {
        let (offset, window) = (self.offset(qid, kind), self.window());
        let doorbell = Doorbell::new(&window, offset);
        let doorbell = doorbell.ok_or(DoorbellError::Outside { qid, offset, len: window.len() })?;
        Ok(Doorbell { sink: self.sink(), ..doorbell })
    }
}

/// A doorbell's entries in the pages of Doorbell Buffer Config (NVMe Base 2.0, 5.8): 4 bytes each.
#[derive(Clone, Debug)]
pub struct Shadow {
    /// The shadow doorbell: the client writes it in place of the register.
    pub entry: Window,
    /// EventIdx: the controller says at which value it wants the register written too.
    pub event: Window,
}

impl Shadow {
    /// Whether a doorbell that goes from `old` to `new` passes `event` (NVMe Base 2.0, annex B.5), in 16 bits.
    #[inline]
    pub const fn crossed(event: u16, old: u16, new: u16) -> bool {
        new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
    }
}

/// One doorbell, as a host thread writes it: a register, and its shadow where there is one.
#[derive(Clone)]
pub struct Doorbell {
    register: Window,
    offset: usize,
    sink: Option<Arc<dyn DoorbellSink>>,
    shadow: Option<Shadow>,
}

impl Doorbell {
    /// The doorbell at a byte offset in the page, if that has it: memory.
    pub fn new(page: &Window, offset: usize) -> Option<Doorbell> {
        let register = page.slice(offset, 4).ok()?;
        Some(Doorbell { register, offset, sink: None, shadow: None })
    }

    /// The same doorbell, whose writes by host threads go to `sink` and not to memory. Kernels still store to memory.
    pub fn with_sink(self, sink: Arc<dyn DoorbellSink>) -> Doorbell {
        Doorbell { sink: Some(sink), ..self }
    }

    /// The same doorbell, written to its shadow first.
    pub fn with_shadow(self, shadow: Shadow) -> Doorbell {
        Doorbell { shadow: Some(shadow), ..self }
    }

    /// The shadow, if there is one.
    pub fn shadow(&self) -> Option<&Shadow> {
        self.shadow.as_ref()
    }

    /// Writes the doorbell after all earlier stores of this thread: queue entry stores before
    /// doorbell store, and queue entry loads before it too (a CQ slot may be reused at once).
    /// Returns whether the register was written: always, unless a shadow made it needless.
    #[inline]
    pub fn ring(&self, value: u32) -> bool {
        if let Some(shadow) = &self.shadow
            && !update(shadow, value)
        {
            return false;
        }
        match &self.sink {
            None => {
                fence(Ordering::AcqRel);
                self.register.store_u32(0, value, Ordering::Release);
            }
            Some(sink) => sink.ring(self.offset, value),
        }
        true
    }

    /// The register's address, for kernels. Valid while this value lives.
    pub fn as_ptr(&self) -> *mut u32 {
        self.register.as_ptr().cast()
    }

    /// Byte offset from the first doorbell.
    pub fn offset(&self) -> usize {
        self.offset
    }
}

/// Whether the register must be written too.
fn update(shadow: &Shadow, value: u32) -> bool {
    fence(Ordering::AcqRel);
    let old = shadow.entry.load_u32(0, Ordering::Relaxed);
    shadow.entry.store_u32(0, value, Ordering::Release);
    // A store before a load, which only this fence orders: otherwise both sides can miss each other.
    fence(Ordering::SeqCst);
    let event = shadow.event.load_u32(0, Ordering::Relaxed);
    Shadow::crossed(event as u16, old as u16, value as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Page(Window, u8);
    impl Doorbells for Page {
        fn path(&self) -> DoorbellPath {
            DoorbellPath::Mapped
        }
        fn stride(&self) -> u8 {
            self.1
        }
        fn window(&self) -> Window {
            self.0.clone()
        }
        fn sink(&self) -> Option<Arc<dyn DoorbellSink>> {
            None
        }
    }

    #[test]
    fn offsets_follow_the_stride() {
        let page = Page(Window::host(4096).unwrap(), 0);
        assert_eq!(page.offset(Qid(1), DoorbellKind::SqTail), 8);
        assert_eq!(page.offset(Qid(1), DoorbellKind::CqHead), 12);
        let wide = Page(Window::host(4096).unwrap(), 4);
        assert_eq!(wide.offset(Qid(1), DoorbellKind::CqHead), 3 * 64);
    }

    #[test]
    fn a_ring_is_a_store() {
        let page = Page(Window::host(4096).unwrap(), 0);
        page.doorbell(Qid(3), DoorbellKind::CqHead).unwrap().ring(17);
        assert_eq!(page.0.load_u32(28, Ordering::Relaxed), 17);
    }

    #[test]
    fn eventidx_is_crossed_by_the_values_after_it_up_to_the_new_one() {
        // (event, old, new, crossed): straight, at both ends, and around the end of a ring and of 16 bits.
        for (event, old, new, crossed) in [
            (5, 5, 6, true),
            (4, 5, 6, false),
            (6, 5, 6, false),
            (7, 5, 9, true),
            (9, 5, 9, false),
            (1000, 1000, 8, true),
            (7, 1000, 8, true),
            (8, 1000, 8, false),
            (999, 1000, 8, false),
            (0xffff, 0xffff, 0, true),
            (0xfffe, 0xffff, 0, false),
            (0, 0xfffe, 2, true),
            (3, 3, 3, false),
        ] {
            assert_eq!(Shadow::crossed(event, old, new), crossed, "event {event}, {old} to {new}");
        }
    }

    #[test]
    fn a_shadow_spares_the_register_until_its_event_is_crossed() {
        let page = Page(Window::host(4096).unwrap(), 0);
        let memory = Window::host(4096).unwrap();
        let word = |at| memory.slice(at, 4).unwrap();
        let shadow = Shadow { entry: word(0), event: word(8) };
        let doorbell = page.doorbell(Qid(1), DoorbellKind::SqTail).unwrap().with_shadow(shadow);
        assert!(doorbell.ring(1), "EventIdx 0 is passed");
        assert!(!doorbell.ring(2));
        assert_eq!((memory.load_u32(0, Ordering::Relaxed), page.0.load_u32(8, Ordering::Relaxed)), (2, 1));
        memory.store_u32(8, 2, Ordering::Relaxed);
        assert!(doorbell.ring(3));
        assert_eq!(page.0.load_u32(8, Ordering::Relaxed), 3);
    }

    #[test]
    fn a_register_outside_the_page_is_named() {
        let page = Page(Window::host(4096).unwrap(), 0);
        let error = page.doorbell(Qid(512), DoorbellKind::SqTail).err().unwrap().to_string();
        assert_eq!(error, "doorbell of queue 512 at offset 0x1000: only 0x1000 bytes are mapped");
    }
}
