//! What became of a request: set once, by the thread that drives the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::error::{Answer, Failure, Kind};

/// What goes on with the end of a request.
type Then = Box<dyn FnOnce(Answer<()>) + Send>;
/// What is part of a request, after its last command.
type Last = Box<dyn FnOnce() -> Answer<()> + Send>;

/// The end of a request, for those who wait for it.
#[derive(Default)]
pub(crate) struct Progress {
    /// Set last: whoever sees it finds the answer without the lock's owner.
    done: AtomicBool,
    answer: Mutex<Option<Answer<()>>>,
    ended: Condvar,
    last: Mutex<Option<Last>>,
    then: Mutex<Option<Then>>,
}

impl Progress {
    /// With what is done at its end, by the thread that drives the queue then: without the queue's lock.
    pub(crate) fn with_then(then: impl FnOnce(Answer<()>) + Send + 'static) -> Progress {
        Progress { then: Mutex::new(Some(Box::new(then))), ..Progress::default() }
    }

    /// With what is done before its end, by the thread that drives the queue then, unless it failed.
    pub(crate) fn with_last(last: impl FnOnce() -> Answer<()> + Send + 'static) -> Progress {
        Progress { last: Mutex::new(Some(Box::new(last))), ..Progress::default() }
    }

    /// Ends it. The first end counts.
    pub(crate) fn end(&self, answer: Answer<()>) {
        // What is not done is let go of, too.
        let last = self.last.lock().take();
        let answer = answer.and_then(|()| last.map_or(Ok(()), |last| last()));
        let mut kept = self.answer.lock();
        if kept.is_some() {
            return;
        }
        *kept = Some(answer.clone());
        self.done.store(true, Ordering::Release);
        self.ended.notify_all();
        drop(kept);
        let then = self.then.lock().take();
        if let Some(then) = then {
            then(answer);
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// How it ended, if it has.
    pub(crate) fn answer(&self) -> Option<Answer<()>> {
        self.answer.lock().clone()
    }

    /// Waits up to `limit` for the end: whether it has come.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut answer = self.answer.lock();
        while answer.is_none() {
            if self.ended.wait_until(&mut answer, end).timed_out() {
                break;
            }
        }
        answer.is_some()
    }
}

/// Somebody's duty to end a request. It ends when this is dropped in any case: nobody waits for ever.
pub(crate) struct Promise(pub(crate) Arc<Progress>);

impl Drop for Promise {
    fn drop(&mut self) {
        if !self.0.is_done() {
            self.0.end(Err(Failure::new(Kind::Closed, "ssd: was closed before this request was taken")));
        }
    }
}
