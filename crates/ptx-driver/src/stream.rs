//! Work in order, and events that tell how far it has come.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::code::{Code, Result};
use crate::context::{Context, Fault};
use crate::driver::misuse;

/// A place in a stream: reached or not, and when.
#[derive(Default)]
pub(crate) struct Place {
    reached: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Place {
    pub(crate) fn reached(&self) -> Option<Instant> {
        *self.reached.lock()
    }

    pub(crate) fn wait(&self) {
        let mut reached = self.reached.lock();
        while reached.is_none() {
            self.changed.wait(&mut reached);
        }
    }

    fn reach(&self) {
        *self.reached.lock() = Some(Instant::now());
        self.changed.notify_all();
    }
}

/// What a stream does; a failure ends the context.
pub(crate) type Work = Box<dyn FnOnce() -> std::result::Result<(), Fault> + Send>;

struct Item {
    work: Work,
    kernel: bool,
    place: Arc<Place>,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    last: Option<Arc<Place>>,
    closed: bool,
}

/// A queue with a thread that works through it.
#[derive(Default)]
pub(crate) struct Stream {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Stream {
    pub(crate) fn start(context: &Arc<Context>) -> Result<Arc<Stream>> {
        let stream = Arc::new(Stream::default());
        let (own, context) = (stream.clone(), context.clone());
        let thread = std::thread::Builder::new().name("fake-cuda".to_owned());
        match thread.spawn(move || own.run(&context)) {
            Ok(_) => Ok(stream),
            Err(_) => Err(Code::OPERATING_SYSTEM),
        }
    }

    /// Puts work behind what is there; the place after it.
    pub(crate) fn push(&self, context: &Context, kernel: bool, work: Work) -> Arc<Place> {
        let place = Arc::new(Place::default());
        context.begin(kernel);
        let mut queue = self.queue.lock();
        queue.items.push_back(Item { work, kernel, place: place.clone() });
        queue.last = Some(place.clone());
        self.changed.notify_all();
        place
    }

    /// The place after all that is on it.
    pub(crate) fn last(&self) -> Option<Arc<Place>> {
        self.queue.lock().last.clone()
    }

    /// Takes no more; ends when all is done.
    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.changed.notify_all();
    }

    fn next(&self) -> Option<Item> {
        let mut queue = self.queue.lock();
        loop {
            match queue.items.pop_front() {
                Some(item) => return Some(item),
                None if queue.closed => return None,
                None => self.changed.wait(&mut queue),
            }
        }
    }

    fn run(&self, context: &Context) {
        while let Some(Item { work, kernel, place }) = self.next() {
            // After a fault nothing more is done.
            if context.check().is_ok()
                && let Err(fault) = work()
            {
                context.fail(fault);
            }
            context.finish(kernel);
            place.reach();
        }
    }
}

/// An event: the place in a stream that it was last recorded at.
pub(crate) struct Event {
    timed: bool,
    place: Mutex<Option<Arc<Place>>>,
}

impl Event {
    pub(crate) fn new(timed: bool) -> Event {
        Event { timed, place: Mutex::default() }
    }

    pub(crate) fn record(&self, context: &Context, stream: &Stream) {
        *self.place.lock() = Some(stream.push(context, false, Box::new(|| Ok(()))));
    }

    /// Whether what it captured has ended; an event that was never recorded captures nothing.
    pub(crate) fn query(&self) -> Result<()> {
        match &*self.place.lock() {
            Some(place) if place.reached().is_none() => Err(Code::NOT_READY),
            _ => Ok(()),
        }
    }

    /// Milliseconds from this event to `end`.
    pub(crate) fn until(&self, end: &Event) -> Result<f32> {
        if !self.timed || !end.timed {
            return Err(misuse(Code::INVALID_HANDLE, "an event without timing"));
        }
        let place = |event: &Event| {
            let place = event.place.lock().clone();
            place.ok_or_else(|| misuse(Code::INVALID_HANDLE, "an event that was not recorded"))
        };
        let (from, to) = (place(self)?, place(end)?);
        let (Some(from), Some(to)) = (from.reached(), to.reached()) else { return Err(Code::NOT_READY) };
        let forward = to.saturating_duration_since(from).as_secs_f64();
        Ok(((forward - from.saturating_duration_since(to).as_secs_f64()) * 1e3) as f32)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn work_runs_in_order_and_events_tell_how_far_it_came() {
        let context = Arc::new(Context::new(0));
        let stream = Stream::start(&context).unwrap();
        let (go, gate) = channel::<()>();
        let (before, after) = (Event::new(true), Event::new(true));
        assert!(before.query().is_ok(), "never recorded: nothing to wait for");
        before.record(&context, &stream);
        stream.push(&context, true, Box::new(move || gate.recv().map_err(|_| unreachable!())));
        after.record(&context, &stream);
        assert_eq!((after.query(), before.until(&after)), (Err(Code::NOT_READY), Err(Code::NOT_READY)));
        assert_eq!(context.kernels(), 1);
        go.send(()).unwrap();
        stream.last().unwrap().wait();
        assert!(after.query().is_ok() && before.until(&after).unwrap() >= 0.0);
        assert!(after.until(&before).unwrap() <= 0.0);
        stream.close();
    }

    #[test]
    fn a_fault_stays_and_nothing_is_done_after_it() {
        let context = Arc::new(Context::new(0));
        let stream = Stream::start(&context).unwrap();
        let fault = Fault { code: Code::ILLEGAL_ADDRESS, text: "test".to_owned() };
        stream.push(&context, true, Box::new(move || Err(fault)));
        let (done, seen) = channel::<()>();
        let last = stream.push(&context, false, Box::new(move || done.send(()).map_err(|_| unreachable!())));
        last.wait();
        assert_eq!(context.check(), Err(Code::ILLEGAL_ADDRESS));
        assert!(seen.recv().is_err(), "work after a fault is dropped");
        stream.close();
    }
}
