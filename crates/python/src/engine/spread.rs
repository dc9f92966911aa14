//! One request over several SSDs: its parts, and what became of all of them.

use std::sync::Arc;

use parking_lot::Mutex;
use warpbell::{VolumeLeft, VolumePart};

use super::progress::Promise;
use super::{Engine, Progress, Transfer};
use crate::error::{Answer, Failure};

/// A part of a request.
pub(crate) type Part = VolumePart<Failure>;

/// How the SSD whose turn it is does a part; without a transfer it is a flush.
pub(crate) type Way = (Arc<Engine>, Option<Transfer>);

struct Spread<W> {
    left: Mutex<VolumeLeft<Failure>>,
    /// It keeps memory, and goes before the end is told: whoever has waited may close the buffer.
    way: Mutex<Option<W>>,
    promise: Promise,
}

/// Sends these parts, of which there are some, each in its way.
pub(crate) fn spread<W>(parts: Vec<Part>, way: W) -> Arc<Progress>
where
    W: Fn(&Part) -> Way + Send + Sync + 'static,
{
    let progress = Arc::<Progress>::default();
    let (left, promise) = (Mutex::new(VolumeLeft::new(parts.len())), Promise(progress.clone()));
    let spread = Arc::new(Spread { left, way: Mutex::new(Some(way)), promise });
    parts.into_iter().for_each(|part| spread.send(part));
    progress
}

impl<W: Fn(&Part) -> Way + Send + Sync + 'static> Spread<W> {
    fn send(self: &Arc<Self>, part: Part) {
        let way = self.way.lock().as_ref().map(|way| way(&part));
        // It goes with the last part alone, and this is one.
        let Some((engine, transfer)) = way else { return };
        let spread = self.clone();
        engine.send_then(transfer, move |answer| {
            let answer = answer.map_err(|failure| {
                let answered = failure.is_answer();
                (failure, answered)
            });
            match part.end(answer) {
                Ok(answer) => spread.end(answer),
                Err(next) => spread.send(next),
            }
        });
    }

    /// The end is told without the lock.
    fn end(&self, answer: Answer<()>) {
        let ended = self.left.lock().end(answer);
        if let Some(answer) = ended {
            drop(self.way.lock().take());
            self.promise.0.end(answer);
        }
    }
}
