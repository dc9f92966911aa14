//! Asynchronous copies between device memory and host memory, in batches.
// UNSAFETY: lets the driver copy from and to windows that are kept until it has done so.
#![expect(unsafe_code, reason = "calls of the CUDA driver")]

use std::collections::VecDeque;
use std::sync::Arc;

use cudarc::driver::sys::{CUevent, CUevent_flags_enum};
use warpbell_hw::{CopyDirection, RemoteCopy};

use super::context::Context;
use super::memory::Allocation;
use super::stream::{PATIENCE, Stream};
use crate::GpuError;
use crate::codes::NOT_READY;

/// A copy, and what its owner calls it.
type Tagged = (RemoteCopy, u64);
/// A tag, and what became of its copy.
type Ended = (u64, Result<(), GpuError>);

/// Copies from and to one memory. Each direction has a stream of its own, as the device has engines of their own.
pub(crate) struct Copies {
    into: Lane,
    out: Lane,
    ended: VecDeque<Ended>,
    memory: Arc<Allocation>,
}

/// The copies of one direction. They end in order.
struct Lane {
    stream: Stream,
    batches: VecDeque<Batch>,
    spare: Vec<Event>,
    memory: Arc<Allocation>,
}

/// Copies that were started together, and what happens after them.
struct Batch {
    event: Event,
    copies: Vec<Tagged>,
}

/// A point in a stream.
struct Event {
    raw: CUevent,
    context: Arc<Context>,
}

// SAFETY: an event handle may be used from any thread.
unsafe impl Send for Event {}

impl Copies {
    pub(crate) fn new(memory: Arc<Allocation>) -> Result<Copies, GpuError> {
        let lane = || -> Result<Lane, GpuError> {
            let stream = memory.context().stream()?;
            Ok(Lane { stream, batches: VecDeque::new(), spare: Vec::new(), memory: memory.clone() })
        };
        Ok(Copies { into: lane()?, out: lane()?, ended: VecDeque::new(), memory })
    }

    /// Whether the copy is inside the memory.
    pub(crate) fn check(&self, copy: &RemoteCopy) -> Result<(), GpuError> {
        let at = usize::try_from(copy.at).unwrap_or(usize::MAX);
        self.memory.range(at, copy.host.len()).map(|_| ())
    }

    /// Starts copies that were checked. One that cannot be started is among those that `finished` names. After an error
    /// nothing is in flight.
    pub(crate) fn start(&mut self, copies: &mut Vec<Tagged>) -> Result<(), GpuError> {
        let into = copies.extract_if(.., |(copy, _)| copy.direction == CopyDirection::ToRemote).collect();
        let started = self.into.start(&self.memory, into, &mut self.ended);
        let out = std::mem::take(copies);
        let started = started.and_then(|()| self.out.start(&self.memory, out, &mut self.ended));
        if started.is_err() {
            for lane in [&mut self.into, &mut self.out] {
                let copies = lane.batches.drain(..).flat_map(|batch| batch.copies).collect();
                lane.let_go(copies);
            }
            self.ended.clear();
        }
        started
    }

    /// A copy that has ended.
    pub(crate) fn finished(&mut self) -> Option<Ended> {
        if self.ended.is_empty() {
            self.into.collect(&mut self.ended);
            self.out.collect(&mut self.ended);
        }
        self.ended.pop_front()
    }
}

impl Lane {
    fn start(
        &mut self,
        memory: &Allocation,
        mut copies: Vec<Tagged>,
        ended: &mut VecDeque<Ended>,
    ) -> Result<(), GpuError> {
        if copies.is_empty() {
            return Ok(());
        }
        let _current = memory.context().enter()?;
        let event = match self.spare.pop() {
            Some(event) => event,
            None => Event::new(memory.context())?,
        };
        copies.retain(|(copy, tag)| match self.copy(memory, copy) {
            Ok(()) => true,
            Err(error) => {
                ended.push_back((*tag, Err(error)));
                false
            }
        });
        if let Err(error) = event.record(&mut self.stream) {
            self.let_go(copies);
            return Err(error);
        }
        self.batches.push_back(Batch { event, copies });
        Ok(())
    }

    /// Lets go of the windows of copies that may still be in flight: once nothing is, and if that does not come to be in
    /// time, never.
    fn let_go(&mut self, copies: Vec<Tagged>) {
        if !self.stream.drain(PATIENCE) {
            tracing::error!(copies = copies.len(), "memory is left to copies that do not end");
            std::mem::forget((copies, self.memory.clone()));
        }
    }

    fn copy(&mut self, memory: &Allocation, copy: &RemoteCopy) -> Result<(), GpuError> {
        let (host, len) = (copy.host.as_ptr(), copy.host.len());
        let remote = memory.range(copy.at as usize, len)?;
        match copy.direction {
            // SAFETY: both ranges are kept until the batch has ended, or the stream is empty.
            CopyDirection::ToRemote => unsafe { self.stream.copy_in(remote, host, len) },
            // SAFETY: as above.
            CopyDirection::FromRemote => unsafe { self.stream.copy_out(host, remote, len) },
        }
    }

    /// Names the copies of batches that have ended.
    fn collect(&mut self, ended: &mut VecDeque<Ended>) {
        while let Some(batch) = self.batches.front() {
            let result = match batch.event.has_happened() {
                Ok(false) => return,
                Ok(true) => Ok(()),
                Err(error) => Err(error),
            };
            let batch = self.batches.pop_front().expect("it is the front");
            ended.extend(batch.copies.iter().map(|(_, tag)| (*tag, result.clone())));
            if result.is_err() {
                self.let_go(batch.copies);
            }
            self.spare.push(batch.event);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if !self.batches.is_empty() {
            let copies = self.batches.drain(..).flat_map(|batch| batch.copies).collect();
            self.let_go(copies);
        }
    }
}

impl Event {
    /// The caller has made the context current.
    fn new(context: &Arc<Context>) -> Result<Event, GpuError> {
        let mut raw = std::ptr::null_mut();
        let flags = CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: writes one handle.
        let made = unsafe { context.functions().cuEventCreate(&raw mut raw, flags) };
        context.outcome(made, || format!("{}: event", context.device().name_in_errors()))?;
        Ok(Event { raw, context: context.clone() })
    }

    /// The caller has made the context current.
    fn record(&self, stream: &mut Stream) -> Result<(), GpuError> {
        let context = &self.context;
        // SAFETY: stream and event are ours, of the same context.
        let result = unsafe { context.functions().cuEventRecord(self.raw, stream.handle()) };
        context.outcome(result, || format!("{}: event", context.device().name_in_errors()))
    }

    fn has_happened(&self) -> Result<bool, GpuError> {
        let context = &self.context;
        let _current = context.enter()?;
        // SAFETY: the event is ours.
        match unsafe { context.functions().cuEventQuery(self.raw) } {
            Err(failure) if failure.code() == Some(NOT_READY) => Ok(false),
            other => {
                let object = || format!("{}: copies", context.device().name_in_errors());
                context.outcome(other, object).map(|()| true)
            }
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let gone = self.context.enter().and_then(|_current| {
            // SAFETY: made by `new`, destroyed once.
            let result = unsafe { self.context.functions().cuEventDestroy_v2(self.raw) };
            self.context.outcome(result, || "event".to_owned())
        });
        if let Err(error) = gone {
            tracing::debug!(%error, "not destroyed");
        }
    }
}
