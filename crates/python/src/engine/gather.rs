//! One request of several transfers over one queue.

use std::sync::Arc;

use parking_lot::Mutex;

use super::progress::Promise;
use super::{Engine, Progress, Transfer};
use crate::error::Answer;

/// What is left of a request.
struct Gather {
    /// Transfers that have not ended, and the first failure.
    left: Mutex<(usize, Answer<()>)>,
    promise: Promise,
}

impl Gather {
    /// The end of the last transfer is told without the lock.
    fn end(&self, answer: Answer<()>) {
        let mut left = self.left.lock();
        left.0 -= 1;
        if left.1.is_ok() {
            left.1 = answer;
        }
        let ended = (left.0 == 0).then(|| left.1.clone());
        drop(left);
        if let Some(answer) = ended {
            self.promise.0.end(answer);
        }
    }
}

impl Engine {
    /// Begins all of them: it ends when the last one has, with the first failure.
    pub(crate) fn transfer_all(&self, transfers: Vec<Transfer>) -> Arc<Progress> {
        self.begin(transfers, Arc::default())
    }

    /// The same, with what is done after the last one, before anybody hears of the end; its failure is the request's.
    pub(crate) fn transfer_all_then(
        &self,
        transfers: Vec<Transfer>,
        last: impl FnOnce() -> Answer<()> + Send + 'static,
    ) -> Arc<Progress> {
        self.begin(transfers, Arc::new(Progress::with_last(last)))
    }

    fn begin(&self, transfers: Vec<Transfer>, progress: Arc<Progress>) -> Arc<Progress> {
        if transfers.is_empty() {
            progress.end(Ok(()));
            return progress;
        }
        let left = Mutex::new((transfers.len(), Ok(())));
        let gather = Arc::new(Gather { left, promise: Promise(progress.clone()) });
        for transfer in transfers {
            let gather = gather.clone();
            self.send_then(Some(transfer), move |answer| gather.end(answer));
        }
        progress
    }
}
