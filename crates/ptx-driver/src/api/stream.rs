// UNSAFETY: C functions that write through the pointers that they are given.
#![expect(unsafe_code, reason = "the C interface of the CUDA driver")]
//! Streams and events.

use std::collections::HashMap;
use std::ffi::c_uint;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{calls, put};
use crate::code::{Code, Result};
use crate::context::{self, object};
use crate::driver::{driver, misuse};
use crate::stream::{Event, Stream};

const NON_BLOCKING: c_uint = 1;
const BLOCKING_SYNC: c_uint = 1;
const DISABLE_TIMING: c_uint = 2;

/// Takes an object out of its table, once.
fn take<T>(of: &Mutex<HashMap<u64, Arc<T>>>, handle: u64, kind: &str) -> Result<Arc<T>> {
    let object = object(of, handle, kind)?;
    of.lock().remove(&handle);
    Ok(object)
}

fn elapsed(to: *mut f32, start: u64, end: u64) -> Result<()> {
    let context = driver()?.current()?;
    let start = object(&context.events, start, "event")?;
    let milliseconds = start.until(&*object(&context.events, end, "event")?)?;
    // SAFETY: the caller's pointer.
    unsafe { put(to, milliseconds) }
}

calls! {
    fn cuStreamCreate(to: *mut u64, flags: c_uint) {
        let context = driver()?.current()?;
        if flags != NON_BLOCKING {
            let text = format!("flags {flags}: a stream that waits for the default stream, which this driver has not");
            return Err(misuse(Code::INVALID_VALUE, &text));
        }
        let handle = context::handle();
        context.streams.lock().insert(handle, Stream::start(&context)?);
        // SAFETY: the caller's pointer, to a handle.
        unsafe { put(to, handle) }
    }

    /// What is on it is still done.
    fn cuStreamDestroy_v2(stream: u64) {
        let context = driver()?.current()?;
        take(&context.streams, stream, "stream")?.close();
        Ok(())
    }

    fn cuStreamSynchronize(stream: u64) {
        let context = driver()?.current()?;
        let stream = context.stream(stream)?;
        if let Some(place) = stream.last() {
            place.wait();
        }
        context.check()
    }

    fn cuEventCreate(to: *mut u64, flags: c_uint) {
        let context = driver()?.current()?;
        if flags & !(BLOCKING_SYNC | DISABLE_TIMING) != 0 {
            return Err(misuse(Code::INVALID_VALUE, &format!("flags {flags}")));
        }
        let handle = context::handle();
        context.events.lock().insert(handle, Arc::new(Event::new(flags & DISABLE_TIMING == 0)));
        // SAFETY: the caller's pointer, to a handle.
        unsafe { put(to, handle) }
    }

    fn cuEventDestroy_v2(event: u64) {
        let context = driver()?.current()?;
        take(&context.events, event, "event")?;
        Ok(())
    }

    fn cuEventRecord(event: u64, stream: u64) {
        let context = driver()?.current()?;
        let stream = context.stream(stream)?;
        object(&context.events, event, "event")?.record(&context, &stream);
        Ok(())
    }

    fn cuEventQuery(event: u64) {
        let context = driver()?.current()?;
        object(&context.events, event, "event")?.query()?;
        context.check()
    }

    fn cuEventElapsedTime(to: *mut f32, start: u64, end: u64) {
        elapsed(to, start, end)
    }

    fn cuEventElapsedTime_v2(to: *mut f32, start: u64, end: u64) {
        elapsed(to, start, end)
    }
}
