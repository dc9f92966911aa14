//! Interrupt vectors: an eventfd each, for whoever subscribed, and how interrupts are gathered (Base 2.0, 5.27.1.6
//! and 5.27.1.7).
//!
//! Completions of I/O queues may wait for others of their vector: an interrupt comes when as many entries as the
//! aggregation threshold says were posted since the last, or when the first of them has waited for the aggregation
//! time. Those of the admin queue never wait.

mod notify;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::EventfdFlags;
use warpbell_hw::{InterruptError, Interrupts};
use warpbell_nvme::feature::InterruptCoalescing;

use notify::Notifier;

/// Most vectors of an MSI-X function.
const MAX_VECTORS: u32 = 2048;
/// The unit of the aggregation time.
const TIME_UNIT: Duration = Duration::from_micros(100);
/// No vector waits.
const NEVER: u64 = u64::MAX;

/// What waits at one vector.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// Entries posted since the last interrupt.
    entries: u32,
    /// When they have waited long enough.
    due: Option<Duration>,
    /// Coalescing Disable of Interrupt Vector Configuration.
    exempt: bool,
}

#[derive(Debug)]
struct Gathering {
    /// Entries of an interrupt.
    threshold: u32,
    /// The longest that an entry waits; zero means not at all.
    time: Duration,
    vectors: Vec<Waiting>,
}

/// Where the interrupts of a vector go.
#[derive(Debug)]
struct Event {
    fd: OwnedFd,
    /// For the client's own descriptor: a write to that may wait whenever the client wants it to.
    notifier: Option<Arc<Notifier>>,
}

impl Event {
    /// Adds one. A counter that is full already says what there is to say.
    fn add(&self) {
        if let Some(notifier) = &self.notifier {
            if let Err(error) = notifier.add(&self.fd) {
                tracing::debug!(%error, "a client's descriptor takes no interrupts: it is no eventfd");
            }
            return;
        }
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }
}

/// The vectors of a controller.
#[derive(Debug)]
pub(crate) struct Vectors {
    events: Vec<Mutex<Option<Event>>>,
    /// Whether anyone ever subscribed: most clients poll.
    used: AtomicBool,
    /// Whether interrupts are gathered.
    gathers: AtomicBool,
    gathering: Mutex<Gathering>,
    /// When the first vector has waited long enough, in nanoseconds.
    due: AtomicU64,
    /// Interrupts that came because their time did.
    timed: AtomicU64,
    /// What adds to the descriptors of clients, once there is one.
    notifier: OnceLock<Arc<Notifier>>,
}

impl Vectors {
    /// One vector for the admin queue and one for each I/O completion queue, as far as MSI-X goes.
    pub(crate) fn new(queue_pairs: u16) -> Vectors {
        let count = (u32::from(queue_pairs) + 1).min(MAX_VECTORS) as usize;
        let vectors = vec![Waiting::default(); count];
        Vectors {
            events: (0..count).map(|_| Mutex::new(None)).collect(),
            used: AtomicBool::new(false),
            gathers: AtomicBool::new(false),
            gathering: Mutex::new(Gathering { threshold: 1, time: Duration::ZERO, vectors }),
            due: AtomicU64::new(NEVER),
            timed: AtomicU64::new(0),
            notifier: OnceLock::new(),
        }
    }

    /// Counts an interrupt on a vector. Completions were posted, with release, before.
    pub(crate) fn signal(&self, vector: u16) {
        if !self.used.load(Ordering::Acquire) {
            return;
        }
        let Some(event) = self.events.get(usize::from(vector)) else { return };
        if let Some(event) = &*event.lock() {
            event.add();
        }
    }

    /// I/O completions were posted: signals now, or lets them wait. Returns whether it signalled.
    #[inline]
    pub(crate) fn completed(&self, vector: u16, entries: u32, now: impl FnOnce() -> Duration) -> bool {
        let now = !self.gathers.load(Ordering::Acquire) || self.gather(vector, entries, now());
        if now {
            self.signal(vector);
        }
        now
    }

    /// Whether entries fill an interrupt.
    #[cold]
    fn gather(&self, vector: u16, entries: u32, now: Duration) -> bool {
        let gathering = &mut *self.gathering.lock();
        let (threshold, time) = (gathering.threshold, gathering.time);
        let Some(waiting) = gathering.vectors.get_mut(usize::from(vector)) else { return false };
        if waiting.exempt {
            return true;
        }
        waiting.entries += entries;
        let full = waiting.entries >= threshold;
        if full {
            (waiting.entries, waiting.due) = (0, None);
        } else {
            waiting.due.get_or_insert(now + time);
        }
        self.publish(gathering);
        full
    }

    fn publish(&self, gathering: &Gathering) {
        let first = gathering.vectors.iter().filter_map(|waiting| waiting.due).min();
        let due = first.map_or(NEVER, |due| due.as_nanos() as u64);
        self.due.store(due, Ordering::Release);
    }

    /// When entries have waited long enough, if any wait.
    #[inline]
    pub(crate) fn due(&self) -> Option<Duration> {
        let due = self.due.load(Ordering::Acquire);
        (due != NEVER).then(|| Duration::from_nanos(due))
    }

    /// Signals the vectors whose entries have waited long enough. Returns whether there were any.
    pub(crate) fn expire(&self, now: Duration) -> bool {
        self.release(|waiting| waiting.due.is_some_and(|due| due <= now))
    }

    fn release(&self, which: impl Fn(&Waiting) -> bool) -> bool {
        let gathering = &mut *self.gathering.lock();
        let mut any = false;
        for (vector, waiting) in (0..).zip(&mut gathering.vectors) {
            if waiting.entries > 0 && which(waiting) {
                (waiting.entries, waiting.due) = (0, None);
                self.timed.fetch_add(1, Ordering::Relaxed);
                self.signal(vector);
                any = true;
            }
        }
        self.publish(gathering);
        any
    }

    /// Follows the Interrupt Coalescing feature. What waits is signalled first.
    pub(crate) fn configure(&self, feature: InterruptCoalescing) {
        self.release(|_| true);
        let mut gathering = self.gathering.lock();
        gathering.threshold = feature.threshold();
        gathering.time = TIME_UNIT * u32::from(feature.time());
        let on = gathering.threshold > 1 && !gathering.time.is_zero();
        self.gathers.store(on, Ordering::Release);
    }

    /// Whether a vector's interrupts never wait; `None` if there is no such vector.
    pub(crate) fn exempt(&self, vector: u16) -> Option<bool> {
        self.gathering.lock().vectors.get(usize::from(vector)).map(|waiting| waiting.exempt)
    }

    /// Follows the Interrupt Vector Configuration feature of a vector that there is.
    pub(crate) fn set_exempt(&self, vector: u16, exempt: bool) {
        if let Some(waiting) = self.gathering.lock().vectors.get_mut(usize::from(vector)) {
            waiting.exempt = exempt;
        }
        self.release(|waiting| waiting.exempt);
    }

    /// After a reset nothing waits, and no vector is exempt.
    pub(crate) fn reset(&self) {
        let gathering = &mut *self.gathering.lock();
        gathering.vectors.fill(Waiting::default());
        self.publish(gathering);
    }

    /// Interrupts of a vector go to the client's own `event` from now on, or nowhere.
    pub(crate) fn connect(&self, vector: u16, event: Option<OwnedFd>) -> Result<(), InterruptError> {
        let system = |source| InterruptError::System { vector, source };
        let event = match event {
            Some(fd) => Some(Event { fd, notifier: Some(self.notifier().map_err(system)?) }),
            None => None,
        };
        self.place(vector, event)
    }

    fn notifier(&self) -> std::io::Result<Arc<Notifier>> {
        if let Some(notifier) = self.notifier.get() {
            return Ok(notifier.clone());
        }
        let made = Arc::new(Notifier::new()?);
        Ok(self.notifier.get_or_init(|| made).clone())
    }

    /// Interrupts go nowhere from now on.
    pub(crate) fn disconnect(&self) {
        self.events.iter().for_each(|event| *event.lock() = None);
    }

    fn place(&self, vector: u16, event: Option<Event>) -> Result<(), InterruptError> {
        let count = self.count();
        let slot = self.events.get(usize::from(vector));
        *slot.ok_or(InterruptError::NoSuchVector { vector, count })?.lock() = event;
        self.used.store(true, Ordering::Release);
        Ok(())
    }

    /// Interrupts that came because their time did.
    pub(crate) fn timed(&self) -> u64 {
        self.timed.load(Ordering::Relaxed)
    }
}

impl Interrupts for Vectors {
    fn count(&self) -> u16 {
        self.events.len() as u16
    }

    fn subscribe(&self, vector: u16) -> Result<OwnedFd, InterruptError> {
        let system = |source| InterruptError::System { vector, source };
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = rustix::event::eventfd(0, flags).map_err(|errno| system(errno.into()))?;
        let fd = event.as_fd().try_clone_to_owned().map_err(system)?;
        self.place(vector, Some(Event { fd, notifier: None }))?;
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feature(threshold_z: u8, time: u8) -> InterruptCoalescing {
        InterruptCoalescing::new().with_thr_z(threshold_z).with_time(time)
    }

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

    #[test]
    fn a_clients_own_eventfd_counts_and_never_stops_the_controller() {
        let vectors = Vectors::new(2);
        let count = |event: &OwnedFd| {
            let mut count = [0; 8];
            rustix::io::read(event, &mut count).map(|_| u64::from_ne_bytes(count))
        };
        let event = rustix::event::eventfd(0, EventfdFlags::empty()).unwrap();
        vectors.connect(2, Some(event.try_clone().unwrap())).unwrap();
        vectors.signal(2);
        vectors.signal(2);
        assert_eq!(count(&event), Ok(2));
        // Full: one more would wait for a reader that may never come.
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        vectors.signal(2);
        assert!(count(&event).is_ok_and(|count| count >= u64::MAX - 1));
        vectors.connect(2, None).unwrap();
        vectors.signal(2);
        vectors.connect(1, Some(event.try_clone().unwrap())).unwrap();
        vectors.disconnect();
        vectors.signal(1);
        rustix::io::write(&event, &7u64.to_ne_bytes()).unwrap();
        assert_eq!(count(&event), Ok(7), "nothing else came");
        assert!(matches!(
            vectors.connect(3, None),
            Err(InterruptError::NoSuchVector { vector: 3, count: 3 })
        ));
    }

    #[test]
    fn entries_gather_until_there_are_enough_or_the_first_waited() {
        let vectors = Vectors::new(2);
        let at = Duration::from_micros;
        assert!(vectors.completed(1, 1, || at(0)), "nothing gathers at first");
        vectors.configure(feature(3, 2));
        assert!(!vectors.completed(1, 3, || at(10)));
        assert_eq!(vectors.due(), Some(at(210)));
        assert!(!vectors.completed(2, 1, || at(50)), "each vector counts for itself");
        assert!(vectors.completed(1, 1, || at(60)));
        assert_eq!(vectors.due(), Some(at(250)));
        assert!(!vectors.expire(at(249)) && vectors.expire(at(250)) && !vectors.expire(at(999)));
        assert_eq!((vectors.due(), vectors.timed()), (None, 1));
    }

    #[test]
    fn exempt_vectors_and_a_time_of_zero_wait_for_nothing() {
        let vectors = Vectors::new(2);
        vectors.configure(feature(255, 10));
        assert!(!vectors.completed(1, 1, Duration::default));
        vectors.set_exempt(1, true);
        assert_eq!((vectors.timed(), vectors.exempt(1), vectors.exempt(3)), (1, Some(true), None));
        assert!(vectors.completed(1, 1, Duration::default) && !vectors.completed(2, 1, Duration::default));
        vectors.configure(feature(255, 0));
        assert_eq!(vectors.timed(), 2, "what waited was signalled");
        assert!(vectors.completed(2, 1, Duration::default));
        vectors.configure(feature(0, 10));
        assert!(vectors.completed(2, 1, Duration::default), "one entry is enough");
        vectors.reset();
        assert_eq!(vectors.exempt(1), Some(false));
    }
}
