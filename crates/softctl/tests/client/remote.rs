//! Memory without a CPU pointer, as a test double: only its engine copies, late, and in any order.
//!
//! *Polled*: copies end after so many looks at their queue as a seed says, so that a stepped controller repeats a run.
//! *Threaded*: a thread copies what all queues have submitted, in any order.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use warpbell_hw::{AccessError, CopyDirection, CopyQueue, RemoteCopy, RemoteMemory, Window};

/// The longest copy that goes by words.
const SHREDDED: usize = 4096;

/// What the engine is told to do.
#[derive(Debug, Default)]
pub struct Knobs {
    /// Page-locking is refused.
    pub no_pins: AtomicBool,
    /// Copies of up to a page go by words of 4 bytes, in any order, and others see what is there in between.
    pub shred: AtomicBool,
    /// Copies read what they copy once more before they end.
    pub twice: AtomicBool,
    /// Copies that are submitted do not end.
    pub hold: AtomicBool,
    /// So many of the next copies fail.
    pub fail: AtomicU32,
    /// So many of the next batches are refused.
    pub refuse_batches: AtomicU32,
    /// There are no queues.
    pub no_queues: AtomicBool,
    /// A length to claim in place of the true one, if not 0.
    pub claims: AtomicU64,
    /// The memory is its owner's again: whatever is copied now is an offence.
    pub closed: AtomicBool,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    pub batches: AtomicU64,
    pub copies: AtomicU64,
    /// The most copies of one batch.
    pub largest: AtomicU64,
    pub queues: AtomicU64,
    pub queues_dropped: AtomicU64,
    /// Pieces of host memory that were page-locked.
    pub pins: AtomicU64,
    pub threads: Mutex<BTreeSet<String>>,
    pub offences: Mutex<Vec<String>>,
}

struct Pending {
    queue: u64,
    tag: u64,
    copy: RemoteCopy,
    looks: u32,
    /// Words that are still to be copied, where a copy goes by words.
    words: Option<Vec<usize>>,
    /// Whether it goes on for the second time.
    again: bool,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    pending: Vec<Pending>,
    ended: Vec<(u64, u64, Result<(), AccessError>)>,
    random: u64,
}

struct Inner {
    state: Mutex<State>,
    changed: Condvar,
    knobs: Knobs,
    seen: Seen,
    threaded: bool,
    stop: AtomicBool,
}

/// The memory.
#[derive(Clone)]
pub struct Double(Arc<Inner>);

impl fmt::Debug for Double {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Double")
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn offence(&self, what: String) {
        self.seen.offences.lock().unwrap().push(what);
    }

    fn take(counter: &AtomicU32) -> bool {
        counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }

    /// Ends one copy, or goes on with it.
    fn end(&self, state: &mut State, at: usize) {
        if self.knobs.shred.load(Ordering::SeqCst) && state.copy_word(at) {
            return;
        }
        let one = &mut state.pending[at];
        if self.knobs.twice.load(Ordering::SeqCst) && !std::mem::replace(&mut one.again, true) {
            one.words = None;
            return;
        }
        let Pending { queue, tag, copy, words, .. } = state.pending.swap_remove(at);
        let (start, len) = (copy.at as usize, copy.host.len());
        if self.knobs.closed.load(Ordering::SeqCst) {
            self.offence(format!("{len} bytes at {start:#x} are copied after the memory was unmapped"));
        }
        let direction = copy.direction;
        let result = if Inner::take(&self.knobs.fail) {
            let reason = "told to fail".to_owned();
            Err(AccessError::Copy { direction, at: copy.at, len: len as u64, reason })
        } else if len <= SHREDDED && len.is_multiple_of(4) && words.is_some() {
            Ok(())
        } else if direction == CopyDirection::ToRemote {
            copy.host.read(0, &mut state.bytes[start..start + len]).unwrap();
            Ok(())
        } else {
            copy.host.write(0, &state.bytes[start..start + len]).unwrap();
            Ok(())
        };
        state.ended.push((queue, tag, result));
        self.changed.notify_all();
    }

    fn run(&self) {
        let mut state = self.lock();
        while !self.stop.load(Ordering::SeqCst) {
            if state.pending.is_empty() || self.knobs.hold.load(Ordering::SeqCst) {
                state = self.changed.wait_timeout(state, Duration::from_millis(1)).unwrap().0;
                continue;
            }
            let at = state.random() as usize % state.pending.len();
            self.end(&mut state, at);
            if state.random().is_multiple_of(16) {
                drop(state);
                std::thread::yield_now();
                state = self.lock();
            }
        }
    }
}

impl State {
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.random >> 33
    }

    /// Copies a word of a short copy; false if none is left.
    fn copy_word(&mut self, at: usize) -> bool {
        let choice = self.random() as usize;
        let Pending { copy, words, .. } = &mut self.pending[at];
        let (start, len) = (copy.at as usize, copy.host.len());
        let words = words.get_or_insert_with(|| (0..if len > SHREDDED { 0 } else { len / 4 }).collect());
        if words.is_empty() {
            return false;
        }
        let offset = words.swap_remove(choice % words.len()) * 4;
        let remote = &mut self.bytes[start + offset..start + offset + 4];
        match copy.direction {
            CopyDirection::ToRemote => copy.host.read(offset, remote).unwrap(),
            CopyDirection::FromRemote => copy.host.write(offset, remote).unwrap(),
        }
        !words.is_empty()
    }
}

impl Double {
    fn new(len: usize, seed: u64, threaded: bool) -> Double {
        let state = State { bytes: vec![0; len], random: seed, ..State::default() };
        let inner = Inner {
            state: Mutex::new(state),
            changed: Condvar::new(),
            knobs: Knobs::default(),
            seen: Seen::default(),
            threaded,
            stop: AtomicBool::new(false),
        };
        Double(Arc::new(inner))
    }

    /// Copies end when their queue is looked at.
    pub fn polled(len: usize, seed: u64) -> Double {
        Double::new(len, seed, false)
    }

    /// Copies end when a thread has done them.
    pub fn threaded(len: usize, seed: u64) -> Double {
        let double = Double::new(len, seed, true);
        let inner = double.0.clone();
        std::thread::spawn(move || inner.run());
        double
    }

    /// As suits a controller.
    pub fn for_device(stepped: bool, len: usize, seed: u64) -> Double {
        if stepped { Double::polled(len, seed) } else { Double::threaded(len, seed) }
    }

    pub fn knobs(&self) -> &Knobs {
        &self.0.knobs
    }

    pub fn seen(&self) -> &Seen {
        &self.0.seen
    }

    pub fn hold(&self, hold: bool) {
        self.0.knobs.hold.store(hold, Ordering::SeqCst);
    }

    /// The memory, past the engine.
    pub fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        self.0.lock().bytes[at..at + len].to_vec()
    }

    pub fn set(&self, at: usize, bytes: &[u8]) {
        self.0.lock().bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Copies that were submitted and have not ended.
    pub fn in_flight(&self) -> usize {
        self.0.lock().pending.len()
    }

    pub fn assert_clean(&self) {
        let offences = self.0.seen.offences.lock().unwrap();
        assert!(offences.is_empty(), "{offences:#?}");
    }

    /// Forgets offences: a test that lets a queue be dropped expects them.
    pub fn drop_quietly(&self) {
        self.0.lock().pending.clear();
    }

    /// Ends the thread, if there is one.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

impl RemoteMemory for Double {
    fn len(&self) -> u64 {
        match self.0.knobs.claims.load(Ordering::SeqCst) {
            0 => self.0.lock().bytes.len() as u64,
            claimed => claimed,
        }
    }

    fn queue(&self) -> Result<Box<dyn CopyQueue>, AccessError> {
        if self.0.knobs.no_queues.load(Ordering::SeqCst) {
            return Err(AccessError::Engine { reason: "told to have no queues".to_owned() });
        }
        let id = self.0.seen.queues.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Queue { inner: self.0.clone(), id, batch: Vec::new() }))
    }

    fn pin(&self, host: &Window) -> Result<Box<dyn Any + Send + Sync>, AccessError> {
        if self.0.knobs.no_pins.load(Ordering::SeqCst) {
            return Err(AccessError::Pin { len: host.len(), reason: "told to refuse".to_owned() });
        }
        self.0.seen.pins.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(host.clone()))
    }
}

struct Queue {
    inner: Arc<Inner>,
    id: u64,
    batch: Vec<(u64, RemoteCopy)>,
}

impl CopyQueue for Queue {
    fn push(&mut self, copy: RemoteCopy, tag: u64) -> Result<(), AccessError> {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        self.inner.seen.threads.lock().unwrap().insert(thread);
        let (at, len) = (copy.at, copy.host.len() as u64);
        let size = self.inner.lock().bytes.len() as u64;
        if len == 0 || at.checked_add(len).is_none_or(|end| end > size) {
            self.inner.offence(format!("{len} bytes at {at:#x} leave a memory of {size}"));
            let reason = "outside the memory".to_owned();
            return Err(AccessError::Copy { direction: copy.direction, at, len, reason });
        }
        self.batch.push((tag, copy));
        Ok(())
    }

    fn submit(&mut self) -> Result<(), AccessError> {
        let batch = std::mem::take(&mut self.batch);
        let (inner, mut state) = (&self.inner, self.inner.lock());
        if Inner::take(&inner.knobs.refuse_batches) {
            state.pending.retain(|one| one.queue != self.id);
            state.ended.retain(|one| one.0 != self.id);
            return Err(AccessError::Engine { reason: "told to refuse a batch".to_owned() });
        }
        inner.seen.batches.fetch_add(1, Ordering::SeqCst);
        inner.seen.copies.fetch_add(batch.len() as u64, Ordering::SeqCst);
        inner.seen.largest.fetch_max(batch.len() as u64, Ordering::SeqCst);
        for (tag, copy) in batch {
            let looks = state.random() as u32 % 8;
            state.pending.push(Pending { queue: self.id, tag, copy, looks, words: None, again: false });
        }
        inner.changed.notify_all();
        Ok(())
    }

    fn finished(&mut self) -> Option<(u64, Result<(), AccessError>)> {
        let (inner, mut state) = (&self.inner, self.inner.lock());
        if !inner.threaded && !inner.knobs.hold.load(Ordering::SeqCst) {
            let mine = |one: &Pending| one.queue == self.id;
            match state.pending.iter().rposition(|one| mine(one) && one.looks == 0) {
                Some(at) => inner.end(&mut state, at),
                None => state.pending.iter_mut().filter(|one| mine(one)).for_each(|one| one.looks -= 1),
            }
        }
        let at = state.ended.iter().position(|(queue, ..)| *queue == self.id)?;
        let (_, tag, result) = state.ended.remove(at);
        Some((tag, result))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.inner.seen.queues_dropped.fetch_add(1, Ordering::SeqCst);
        let in_flight = self.inner.lock().pending.iter().filter(|one| one.queue == self.id).count();
        if in_flight > 0 {
            // A real queue waits; the controller must not need that.
            self.inner.offence(format!("a queue is dropped with {in_flight} copies in flight"));
        }
    }
}
