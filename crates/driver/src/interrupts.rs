//! Interrupt vectors, and sleeping until one fires.
//!
//! A sleeper never misses an interrupt: it takes note of how often the vector fired ([`Vector::seen`]), polls its
//! completion queue, and sleeps only as long as that number stays. The controller posts a completion before it
//! interrupts, so an interrupt that nobody saw yet either comes before the poll, which finds the completion, or after,
//! which ends the sleep. Several queues may share a vector, and several threads may sleep on it: one of them watches
//! the eventfd for all.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use warpbell_hw::{Device, InterruptError};

use crate::core::Core;
use crate::{DriverError, Waiting};

/// The longest sleep before a poll without an interrupt: what a lost interrupt costs.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// One interrupt vector that somebody listens to.
#[derive(Debug)]
pub(crate) struct Vector {
    pub(crate) number: u16,
    event: OwnedFd,
    sleepers: Mutex<Sleepers>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Sleepers {
    /// How often the vector was seen to fire.
    fired: u64,
    /// Whether a thread watches the eventfd for all.
    watched: bool,
}

impl Vector {
    fn subscribe(device: &dyn Device, number: u16) -> Result<Vector, InterruptError> {
        let event = device.interrupts().subscribe(number)?;
        // Its counter is read only after poll(2) said so, but another thread may have been faster.
        let flags = rustix::fs::fcntl_getfl(&event);
        flags
            .and_then(|flags| rustix::fs::fcntl_setfl(&event, flags | rustix::fs::OFlags::NONBLOCK))
            .map_err(|errno| InterruptError::System { vector: number, source: errno.into() })?;
        Ok(Vector { number, event, sleepers: Mutex::default(), changed: Condvar::new() })
    }

    /// How often the vector fired, to be taken before a poll for completions.
    pub(crate) fn seen(&self) -> u64 {
        self.sleepers.lock().fired
    }

    /// Sleeps until the vector has fired more often than `seen`, or `limit` has passed. True if it fired.
    pub(crate) fn sleep(&self, seen: u64, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut sleepers = self.sleepers.lock();
        loop {
            if sleepers.fired != seen {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if sleepers.watched {
                if self.changed.wait_until(&mut sleepers, end).timed_out() {
                    return sleepers.fired != seen;
                }
                continue;
            }
            sleepers.watched = true;
            drop(sleepers);
            let fired = self.watch(left);
            sleepers = self.sleepers.lock();
            sleepers.watched = false;
            sleepers.fired += u64::from(fired);
            // Also where nothing fired: one of the others takes over.
            self.changed.notify_all();
            if !fired && left.is_zero() {
                return false;
            }
        }
    }

    /// Waits for the eventfd and empties it. True if it had counted.
    fn watch(&self, limit: Duration) -> bool {
        let timeout = Timespec::try_from(limit).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let readable = poll(&mut [PollFd::new(&self.event, PollFlags::IN)], Some(&timeout));
        match readable {
            Ok(0) | Err(Errno::INTR) => false,
            Ok(_) => rustix::io::read(&self.event, &mut [0; 8]).is_ok(),
            Err(error) => {
                tracing::warn!(vector = self.number, %error, "cannot wait for interrupts");
                std::thread::sleep(limit.min(LONGEST_SLEEP));
                false
            }
        }
    }
}

/// The vectors of a controller that somebody listens to. A subscription lasts as long as the controller.
#[derive(Debug, Default)]
pub(crate) struct Vectors(Mutex<BTreeMap<u16, Arc<Vector>>>);

impl Core {
    /// Vectors that the driver may use.
    pub(crate) fn vector_count(&self) -> u16 {
        self.regs.device().interrupts().count().saturating_sub(self.quirks.vectors_less)
    }

    /// Listens to the admin completion queue's vector, which is always 0. Before the controller is enabled: some do
    /// not notice later that there is somebody to interrupt.
    pub(crate) fn listen_to_admin(&self) -> Result<(), DriverError> {
        let waiting = self.options.admin_waiting;
        let refused = |reason: String| match waiting {
            Waiting::Interrupt => Err(DriverError::NoInterrupts { device: self.name(), reason }),
            _ => {
                tracing::debug!(device = %self.name(), reason, "admin commands are polled");
                Ok(())
            }
        };
        if waiting == Waiting::Poll {
            return Ok(());
        }
        if !self.regs.clock().passes_by_itself() {
            return refused("its time passes only while somebody polls".to_owned());
        }
        if self.vector_count() == 0 {
            return refused("it has no interrupt vectors".to_owned());
        }
        match self.vector(0) {
            Ok(vector) => {
                self.admin_vector.get_or_init(|| vector);
                Ok(())
            }
            Err(error) if waiting == Waiting::Interrupt => Err(error),
            Err(error) => {
                tracing::warn!(%error, "admin commands are polled");
                Ok(())
            }
        }
    }

    /// A vector of that number, subscribed to once.
    pub(crate) fn vector(&self, number: u16) -> Result<Arc<Vector>, DriverError> {
        let (device, count) = (self.name(), self.vector_count());
        if number >= count {
            return Err(DriverError::Vector { device, vector: number, count });
        }
        let mut vectors = self.vectors.0.lock();
        if let Some(vector) = vectors.get(&number) {
            return Ok(vector.clone());
        }
        let subscribed = Vector::subscribe(&**self.regs.device(), number);
        let vector = Arc::new(subscribed.map_err(|cause| DriverError::Interrupt { device, cause })?);
        vectors.insert(number, vector.clone());
        Ok(vector)
    }

    /// The vector with the fewest queues. The admin queue keeps its own as long as there is another.
    pub(crate) fn vector_for_queue(&self) -> Result<Arc<Vector>, DriverError> {
        let count = self.vector_count();
        if count == 0 {
            let reason = "it has no interrupt vectors: poll this queue".to_owned();
            return Err(DriverError::NoInterrupts { device: self.name(), reason });
        }
        let users = |number: u16| self.vectors.0.lock().get(&number).map_or(0, Arc::strong_count);
        let number = (1.min(count - 1)..count).min_by_key(|number| users(*number));
        self.vector(number.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn vector() -> Vector {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        Vector { number: 1, event, sleepers: Mutex::default(), changed: Condvar::new() }
    }

    fn fire(vector: &Vector) {
        rustix::io::write(&vector.event, &1u64.to_ne_bytes()).unwrap();
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_vector_that_fired_before_the_sleep_ends_it() {
        let vector = vector();
        let seen = vector.seen();
        fire(&vector);
        assert!(vector.sleep(seen, LONG));
        let seen = vector.seen();
        assert!(!vector.sleep(seen, Duration::from_millis(1)), "each interrupt is seen once");
        assert!(!vector.sleep(seen, Duration::ZERO));
        assert!(vector.sleep(seen - 1, Duration::ZERO), "an interrupt that somebody else took counts");
    }

    #[test]
    fn every_sleeper_on_a_vector_wakes_up() {
        let vector = vector();
        std::thread::scope(|scope| {
            let sleepers: Vec<_> = (0..4)
                .map(|_| {
                    let seen = vector.seen();
                    let vector = &vector;
                    scope.spawn(move || vector.sleep(seen, LONG))
                })
                .collect();
            fire(&vector);
            assert!(sleepers.into_iter().all(|sleeper| sleeper.join().unwrap()));
        });
        assert_eq!(vector.seen(), 1);
    }

    #[test]
    fn a_watcher_that_gives_up_hands_over() {
        let vector = vector();
        std::thread::scope(|scope| {
            let short = scope.spawn(|| vector.sleep(0, Duration::from_millis(5)));
            let long = scope.spawn(|| vector.sleep(0, LONG));
            assert!(!short.join().unwrap());
            fire(&vector);
            assert!(long.join().unwrap());
        });
    }
}
