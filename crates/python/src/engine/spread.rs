//! One request over several SSDs: its parts, and what became of all of them.

use std::sync::Arc;

use parking_lot::Mutex;

use super::progress::Promise;
use super::{Engine, Progress, Transfer};
use crate::error::{Answer, Failure};

/// A transfer as one of several SSDs can do it.
pub(crate) type Way = (Arc<Engine>, Transfer);

/// What is left of a request. It ends with its last part.
struct Whole {
    state: Mutex<State>,
    promise: Promise,
}

#[derive(Default)]
struct State {
    left: usize,
    failed: Option<Failure>,
}

impl Whole {
    fn new(parts: usize) -> (Arc<Whole>, Arc<Progress>) {
        let progress = Arc::<Progress>::default();
        let state = Mutex::new(State { left: parts, failed: None });
        (Arc::new(Whole { state, promise: Promise(progress.clone()) }), progress)
    }

    /// The first failure counts. The end is told without the lock.
    fn end_part(&self, answer: Answer<()>) {
        let mut state = self.state.lock();
        state.left -= 1;
        if let Err(failure) = answer {
            state.failed.get_or_insert(failure);
        }
        let last = (state.left == 0).then(|| state.failed.take().map_or(Ok(()), Err));
        drop(state);
        if let Some(answer) = last {
            self.promise.0.end(answer);
        }
    }
}

/// Reads each part in the first way, and where the SSD fails that, in the next. There are parts.
pub(crate) fn read(parts: Vec<Vec<Way>>) -> Arc<Progress> {
    let (whole, progress) = Whole::new(parts.len());
    for ways in parts {
        read_part(ways.into_iter(), None, whole.clone());
    }
    progress
}

/// Where no way is left, the first failure counts.
fn read_part(mut ways: std::vec::IntoIter<Way>, failed: Option<Failure>, whole: Arc<Whole>) {
    let Some((engine, transfer)) = ways.next() else {
        return whole.end_part(failed.map_or(Ok(()), Err));
    };
    engine.transfer_then(transfer, move |answer| match answer {
        // An SSD that did not answer may still write to the buffer.
        Err(failure) if failure.is_answer() => read_part(ways, failed.or(Some(failure)), whole),
        // What the first replica said counts.
        answer => whole.end_part(answer.map_err(|failure| failed.unwrap_or(failure))),
    });
}

/// Does all of these, such as writes of each replica, or flushes of each SSD. There are some.
pub(crate) fn all(ways: Vec<(Arc<Engine>, Option<Transfer>)>) -> Arc<Progress> {
    let (whole, progress) = Whole::new(ways.len());
    for (engine, transfer) in ways {
        let whole = whole.clone();
        engine.send_then(transfer, move |answer| whole.end_part(answer));
    }
    progress
}
