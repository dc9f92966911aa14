//! Doorbell registers, and the ways a store reaches them.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::{Qid, Window};

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
        let len = window.len();
        let register = window.slice(offset, 4).map_err(|_| DoorbellError::Outside { qid, offset, len })?;
        Ok(Doorbell { register, offset, sink: self.sink() })
    }
}

/// One doorbell register, as a host thread writes it.
#[derive(Clone)]
pub struct Doorbell {
    register: Window,
    offset: usize,
    sink: Option<Arc<dyn DoorbellSink>>,
}

impl Doorbell {
    /// Writes the doorbell after all earlier stores of this thread: queue entry stores before
    /// doorbell store, and queue entry loads before it too (a CQ slot may be reused at once).
    #[inline]
    pub fn ring(&self, value: u32) {
        match &self.sink {
            None => {
                fence(Ordering::AcqRel);
                self.register.store_u32(0, value, Ordering::Release);
            }
            Some(sink) => sink.ring(self.offset, value),
        }
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
    fn a_register_outside_the_page_is_named() {
        let page = Page(Window::host(4096).unwrap(), 0);
        let error = page.doorbell(Qid(512), DoorbellKind::SqTail).err().unwrap().to_string();
        assert_eq!(error, "doorbell of queue 512 at offset 0x1000: only 0x1000 bytes are mapped");
    }
}
