//! Streams, each with the two events that go around what runs on it.
// UNSAFETY: calls the CUDA driver with handles that it gave, and with memory that the caller keeps.
#![expect(unsafe_code, reason = "calls of the CUDA driver")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{CUevent, CUevent_flags_enum, CUstream, CUstream_flags_enum};
use warpbell_base::Time;

use super::context::Context;
use super::failure::Failure;
use super::functions::Functions;
use crate::GpuError;
use crate::codes::NOT_READY;
use crate::pause::Pause;

/// The driver's handles.
pub(super) struct RawStream {
    pub(super) stream: CUstream,
    pub(super) start: CUevent,
    pub(super) end: CUevent,
}

// SAFETY: stream and event handles may be used from any thread.
unsafe impl Send for RawStream {}

impl RawStream {
    /// The caller has made the context current.
    pub(super) fn create(context: &Context) -> Result<RawStream, GpuError> {
        let functions = context.functions();
        let flags = CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        let mut raw = RawStream {
            stream: std::ptr::null_mut(),
            start: std::ptr::null_mut(),
            end: std::ptr::null_mut(),
        };
        let object = |what: &str| format!("{}: {what}", context.device().name_in_errors());
        // SAFETY: writes one handle.
        let made = unsafe { functions.cuStreamCreate(&raw mut raw.stream, flags) };
        context.outcome(made, || object("stream"))?;
        let timed = CUevent_flags_enum::CU_EVENT_DEFAULT as u32;
        // SAFETY: writes one handle.
        let start = unsafe { functions.cuEventCreate(&raw mut raw.start, timed) };
        // SAFETY: as above.
        let end = start.and_then(|()| unsafe { functions.cuEventCreate(&raw mut raw.end, timed) });
        if let Err(error) = context.outcome(end, || object("event")) {
            raw.destroy(functions);
            return Err(error);
        }
        Ok(raw)
    }

    /// The caller has made the context current.
    pub(super) fn destroy(self, functions: &'static Functions) {
        let note = |result: Result<(), Failure>| {
            if let Err(failure) = result {
                tracing::debug!(error = %failure.error("stream".to_owned()), "not destroyed");
            }
        };
        for event in [self.start, self.end] {
            if !event.is_null() {
                // SAFETY: made by `create`, destroyed once; nothing waits for it.
                note(unsafe { functions.cuEventDestroy_v2(event) });
            }
        }
        // SAFETY: as above.
        note(unsafe { functions.cuStreamDestroy_v2(self.stream) });
    }
}

/// The longest that anything that is dropped waits for the device.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A stream of one's own. Dropped while something runs on it, it waits for that first, for a minute: what the device works
/// on must not be taken away. Whoever holds such things asks [`Stream::drain`] before, and keeps them for good where that
/// says so. [`Stream::abandon`] leaves a stream to itself.
pub(crate) struct Stream {
    /// None once it has been released.
    raw: Option<RawStream>,
    context: Arc<Context>,
    /// Something was put on it since it was last known to be empty.
    busy: bool,
    /// The stream of somebody else's that work goes on, in place of ours. The events are ours all the same.
    foreign: Option<u64>,
}

// SAFETY: calls of the driver on one stream may come from any thread; `&self` methods only query.
unsafe impl Sync for Stream {}

impl Stream {
    pub(super) fn new(raw: RawStream, context: Arc<Context>) -> Stream {
        Stream { raw: Some(raw), context, busy: false, foreign: None }
    }

    /// From now on work goes on a stream of somebody else's: 0, 1 and 2 are the default streams of `cuda.h`.
    ///
    /// # Safety
    /// `stream` is one of this context, and is not destroyed while this value lives.
    pub(crate) unsafe fn go_to(&mut self, stream: u64) {
        self.foreign = Some(stream);
    }

    /// What work goes on.
    pub(super) fn handle(&self) -> CUstream {
        self.foreign.map_or(self.raw().stream, |stream| stream as CUstream)
    }

    pub(super) fn raw(&self) -> &RawStream {
        self.raw.as_ref().expect("released in drop only")
    }

    fn object(&self, what: &str) -> String {
        format!("{}: {what}", self.context.device().name_in_errors())
    }

    /// Marks that something is about to be put on it.
    pub(super) fn use_now(&mut self) {
        self.busy = true;
    }

    /// Copies host memory to the device, some time from now.
    ///
    /// # Safety
    /// Both ranges must stay valid until the stream has come this far; the device's range must be the caller's.
    pub(super) unsafe fn copy_in(&mut self, to: u64, from: *const u8, len: usize) -> Result<(), GpuError> {
        self.busy = true;
        let _current = self.context.enter()?;
        let stream = self.handle();
        // SAFETY: the caller keeps both ranges.
        let result = unsafe { self.context.functions().cuMemcpyHtoDAsync_v2(to, from.cast(), len, stream) };
        self.context.outcome(result, || self.object(&format!("copy of {len} bytes to {to:#x}")))
    }

    /// Copies the device's memory to the host, some time from now.
    ///
    /// # Safety
    /// As for `copy_in`.
    pub(super) unsafe fn copy_out(&mut self, to: *mut u8, from: u64, len: usize) -> Result<(), GpuError> {
        self.busy = true;
        let _current = self.context.enter()?;
        let stream = self.handle();
        // SAFETY: the caller keeps both ranges.
        let result = unsafe { self.context.functions().cuMemcpyDtoHAsync_v2(to.cast(), from, len, stream) };
        self.context.outcome(result, || self.object(&format!("copy of {len} bytes from {from:#x}")))
    }

    /// Sets the device's memory, some time from now.
    ///
    /// # Safety
    /// As for `copy_in`.
    pub(super) unsafe fn fill(&mut self, to: u64, value: u8, len: usize) -> Result<(), GpuError> {
        self.busy = true;
        let _current = self.context.enter()?;
        let stream = self.handle();
        // SAFETY: the caller keeps the range.
        let result = unsafe { self.context.functions().cuMemsetD8Async(to, value, len, stream) };
        self.context.outcome(result, || self.object(&format!("fill of {len} bytes at {to:#x}")))
    }

    /// Waits for all that is on it.
    pub(crate) fn synchronize(&mut self) -> Result<(), GpuError> {
        let _current = self.context.enter()?;
        // SAFETY: the stream lives: it is ours, or `go_to` was promised so.
        let result = unsafe { self.context.functions().cuStreamSynchronize(self.handle()) };
        self.context.outcome(result, || self.object("stream"))?;
        self.busy = false;
        Ok(())
    }

    /// Waits for all that is on it, up to `limit`. False if something may still be running: what it uses must stay. After
    /// an error from which the context does not recover nothing runs any more.
    pub(crate) fn drain(&mut self, limit: Duration) -> bool {
        let started = Instant::now();
        let ended = self.busy.then(|| self.mark_end().and_then(|()| self.wait_end(started, limit)));
        let drained = match ended {
            None | Some(Ok(true)) => true,
            Some(Ok(false)) => {
                tracing::error!(stream = self.object("stream"), "not at its end after {}", Time(limit));
                false
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "a stream ended with an error");
                error.is_context_lost()
            }
        };
        self.busy &= !drained;
        drained
    }

    fn wait_end(&self, started: Instant, limit: Duration) -> Result<bool, GpuError> {
        let mut pause = Pause::default();
        while !self.has_ended()? {
            if started.elapsed() >= limit {
                return Ok(false);
            }
            pause.next();
        }
        Ok(true)
    }

    /// Notes the time on the device, before what comes next.
    pub(crate) fn mark_start(&mut self) -> Result<(), GpuError> {
        let event = self.raw().start;
        self.record(event)
    }

    /// Notes the time on the device, after what is on it now.
    pub(crate) fn mark_end(&mut self) -> Result<(), GpuError> {
        let event = self.raw().end;
        self.record(event)
    }

    fn record(&mut self, event: CUevent) -> Result<(), GpuError> {
        self.busy = true;
        let _current = self.context.enter()?;
        // SAFETY: the event is ours; the stream lives, and is of the same context.
        let result = unsafe { self.context.functions().cuEventRecord(event, self.handle()) };
        self.context.outcome(result, || match self.foreign {
            Some(stream) => self.object(&format!("stream {stream:#x}")),
            None => self.object("event"),
        })
    }

    /// Whether the end has been reached. An error is that of the device's work, or of anything before.
    pub(crate) fn has_ended(&self) -> Result<bool, GpuError> {
        let _current = self.context.enter()?;
        // SAFETY: the event is ours.
        let result = unsafe { self.context.functions().cuEventQuery(self.raw().end) };
        match result {
            Err(failure) if failure.code() == Some(NOT_READY) => Ok(false),
            other => self.context.outcome(other, || self.object("work on the device")).map(|()| true),
        }
    }

    /// Nothing runs on it any more: `has_ended` said so.
    pub(crate) fn set_idle(&mut self) {
        self.busy = false;
    }

    /// Milliseconds between start and end, both of which have been reached.
    pub(crate) fn elapsed(&self) -> Result<f32, GpuError> {
        let _current = self.context.enter()?;
        let (functions, raw) = (self.context.functions(), self.raw());
        let mut milliseconds = 0.0;
        // SAFETY: writes one number; the events are ours.
        let result = unsafe { functions.cuEventElapsedTime_v2(&raw mut milliseconds, raw.start, raw.end) };
        let result = match result {
            // SAFETY: as above.
            Err(Failure::Missing(_)) => unsafe {
                functions.cuEventElapsedTime(&raw mut milliseconds, raw.start, raw.end)
            },
            other => other,
        };
        self.context.outcome(result, || self.object("events"))?;
        Ok(milliseconds)
    }

    /// Leaves the stream, and what runs on it, to the end of the process.
    pub(crate) fn abandon(mut self) {
        self.leave();
    }

    fn leave(&mut self) {
        self.raw = None;
        // What still runs uses the context.
        std::mem::forget(self.context.clone());
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.raw.is_none() {
            return;
        }
        if !self.drain(PATIENCE) {
            return self.leave();
        }
        if let Some(raw) = self.raw.take() {
            self.context.release(raw);
        }
    }
}
