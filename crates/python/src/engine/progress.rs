//! What became of a request: set once, by the thread that drives the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::error::{Answer, Failure, Kind};

/// The end of a request, for those who wait for it.
#[derive(Default)]
pub(crate) struct Progress {
    /// Set last: whoever sees it finds the answer without the lock's owner.
    done: AtomicBool,
    answer: Mutex<Option<Answer<()>>>,
    ended: Condvar,
}

impl Progress {
    /// Ends it. The first end counts.
    pub(crate) fn end(&self, answer: Answer<()>) {
        let mut kept = self.answer.lock();
        if kept.is_none() {
            *kept = Some(answer);
            self.done.store(true, Ordering::Release);
            self.ended.notify_all();
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
