//! Interrupt vectors: an eventfd each, for whoever subscribed.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::event::EventfdFlags;
use warpbell_hw::{InterruptError, Interrupts};

/// Most vectors of an MSI-X function.
const MAX_VECTORS: u32 = 2048;

/// The vectors of a controller.
#[derive(Debug)]
pub(crate) struct Vectors {
    events: Vec<Mutex<Option<OwnedFd>>>,
    /// Whether anyone ever subscribed: most clients poll.
    used: AtomicBool,
}

impl Vectors {
    /// One vector for the admin queue and one for each I/O completion queue, as far as MSI-X goes.
    pub(crate) fn new(queue_pairs: u16) -> Vectors {
        let count = (u32::from(queue_pairs) + 1).min(MAX_VECTORS);
        Vectors { events: (0..count).map(|_| Mutex::new(None)).collect(), used: AtomicBool::new(false) }
    }

    /// Counts an interrupt on a vector. Completions were posted, with release, before.
    pub(crate) fn signal(&self, vector: u16) {
        if !self.used.load(Ordering::Acquire) {
            return;
        }
        let Some(event) = self.events.get(usize::from(vector)) else { return };
        if let Some(event) = &*event.lock() {
            // A counter that is full already says what there is to say.
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }
}

impl Interrupts for Vectors {
    fn count(&self) -> u16 {
        self.events.len() as u16
    }

    fn subscribe(&self, vector: u16) -> Result<OwnedFd, InterruptError> {
        let count = self.count();
        let slot = self.events.get(usize::from(vector));
        let slot = slot.ok_or(InterruptError::NoSuchVector { vector, count })?;
        let system = |source| InterruptError::System { vector, source };
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = rustix::event::eventfd(0, flags).map_err(|errno| system(errno.into()))?;
        *slot.lock() = Some(event.as_fd().try_clone_to_owned().map_err(system)?);
        self.used.store(true, Ordering::Release);
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscriber_counts_interrupts() {
        let vectors = Vectors::new(2);
        assert_eq!(vectors.count(), 3);
        vectors.signal(1);
        let event = vectors.subscribe(1).unwrap();
        vectors.signal(1);
        vectors.signal(1);
        vectors.signal(2);
        vectors.signal(9);
        let mut count = [0; 8];
        rustix::io::read(&event, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 2);
        let error = vectors.subscribe(3).unwrap_err().to_string();
        assert_eq!(error, "interrupt vector 3: the function has 3");
    }
}
