//! Hands events to whoever wants them, in order, without ever waiting for a reader.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam::channel::{Receiver, Sender, TrySendError, bounded};
use parking_lot::Mutex;

use super::SsdEvent;

/// Events that a slow reader may be behind; then it loses the oldest.
pub(crate) const EVENT_ROOM: usize = 1024;

/// A function that is called with each event.
type Callback = Arc<dyn Fn(&SsdEvent) + Send + Sync>;

/// The events of one SSD.
pub(crate) struct Events {
    sender: Sender<SsdEvent>,
    receiver: Receiver<SsdEvent>,
    /// Whether somebody has the receiver: only then is an event lost that nobody took.
    read: AtomicBool,
    lost: AtomicU64,
    callbacks: Mutex<Vec<Callback>>,
    /// What callbacks were not called with yet.
    waiting: Mutex<Vec<SsdEvent>>,
}

impl Events {
    pub(crate) fn new() -> Events {
        Events::with_room(EVENT_ROOM)
    }

    fn with_room(room: usize) -> Events {
        let (sender, receiver) = bounded(room);
        let (read, lost) = (AtomicBool::new(false), AtomicU64::new(0));
        Events { sender, receiver, read, lost, callbacks: Mutex::default(), waiting: Mutex::default() }
    }

    /// The channel. Events of before are in it, as far as there was room.
    pub(crate) fn receiver(&self) -> Receiver<SsdEvent> {
        self.read.store(true, Ordering::Relaxed);
        self.receiver.clone()
    }

    pub(crate) fn call(&self, callback: Callback) {
        self.callbacks.lock().push(callback);
    }

    /// Into the channel at once; callbacks are called by [`flush`](Self::flush).
    pub(crate) fn send(&self, event: SsdEvent) {
        if !self.callbacks.lock().is_empty() {
            self.waiting.lock().push(event.clone());
        }
        let mut event = event;
        while let Err(TrySendError::Full(back)) = self.sender.try_send(event) {
            if self.receiver.try_recv().is_ok() && self.read.load(Ordering::Relaxed) {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            event = back;
        }
    }

    /// Calls callbacks with what was sent meanwhile. The caller holds no lock that one of them might want.
    pub(crate) fn flush(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let callbacks = self.callbacks.lock().clone();
        for event in &waiting {
            callbacks.iter().for_each(|callback| call(callback, event));
        }
    }

    /// Events that readers were too slow for.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// The thread that watches the SSD goes on also where a callback panics: who else would help kernels then?
fn call(callback: &Callback, event: &SsdEvent) {
    if catch_unwind(AssertUnwindSafe(|| callback(event))).is_err() {
        tracing::error!(event = %event.kind, "a callback for events panicked");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::SsdEventKind;

    fn event(at: u64) -> SsdEvent {
        SsdEvent { at: Duration::from_secs(at), kind: SsdEventKind::ReleaseRequested }
    }

    #[test]
    fn a_slow_reader_loses_the_oldest_and_knows_how_many() {
        let events = Events::with_room(3);
        let receiver = events.receiver();
        (0..5).for_each(|at| events.send(event(at)));
        let got: Vec<u64> = receiver.try_iter().map(|event| event.at.as_secs()).collect();
        assert_eq!((got, events.lost()), (vec![2, 3, 4], 2));
    }

    #[test]
    fn what_nobody_wanted_is_not_lost() {
        let events = Events::with_room(1);
        (0..5).for_each(|at| events.send(event(at)));
        assert_eq!(events.lost(), 0);
        assert_eq!(events.receiver().try_recv().unwrap().at.as_secs(), 4);
    }

    #[test]
    fn a_callback_that_panics_stops_nobody() {
        let events = Events::with_room(3);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        events.call(Arc::new(|_| panic!("as planned")));
        events.call(Arc::new(move |event| sink.lock().push(event.at.as_secs())));
        (0..2).for_each(|at| events.send(event(at)));
        events.flush();
        assert_eq!(*seen.lock(), [0, 1]);
    }

    #[test]
    fn callbacks_see_events_in_order_and_may_add_others() {
        let events = Arc::new(Events::with_room(3));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (inner, sink) = (events.clone(), seen.clone());
        events.call(Arc::new(move |event| {
            sink.lock().push(event.at.as_secs());
            inner.call(Arc::new(|_| ()));
        }));
        (0..2).for_each(|at| events.send(event(at)));
        assert!(seen.lock().is_empty());
        events.flush();
        events.flush();
        assert_eq!(*seen.lock(), [0, 1]);
    }
}
