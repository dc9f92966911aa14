// UNSAFETY: C functions that copy between addresses, after they compared them with what there is.
#![expect(unsafe_code, reason = "the C interface of the CUDA driver")]
//! Device memory: allocation, copies, export.

use std::ffi::{c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::os::fd::IntoRawFd;
use std::sync::Arc;

use super::{calls, put};
use crate::code::{Code, Result};
use crate::context::{Context, object};
use crate::driver::{Driver, driver, misuse};
use crate::memory;
use crate::stream::{Place, Stream, Work};

const MEMORY_TYPE: c_uint = 2;
const SYNC_MEMOPS: c_uint = 6;
const IS_MANAGED: c_uint = 8;
const DEVICE_ORDINAL: c_uint = 9;
const DMA_BUF_FD: c_uint = 1;
/// CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE.
const PCIE: c_ulonglong = 1;

/// The stream of that handle. The default streams wait for others in ways that nobody should rely on.
fn stream_of(context: &Context, handle: u64) -> Result<Arc<Stream>> {
    if handle <= 2 {
        return Err(misuse(Code::INVALID_HANDLE, "a default stream: copies go on a stream of one's own"));
    }
    object(&context.streams, handle, "stream")
}

/// Puts a copy on a stream, late where the test asks for it.
fn push(
    driver: &Driver,
    context: &Context,
    stream: &Stream,
    copy: impl FnOnce() + Send + 'static,
) -> Arc<Place> {
    let delay = driver.options.copy_delay;
    let work: Work = Box::new(move || {
        std::thread::sleep(delay);
        copy();
        Ok(())
    });
    stream.push(context, false, work)
}

calls! {
    fn cuMemAlloc_v2(to: *mut u64, len: usize) {
        let driver = driver()?;
        let context = driver.current()?;
        context.note_waiting("memory is allocated");
        let address = driver.memory.allocate(context.device(), len as u64)?;
        // SAFETY: the caller's pointer.
        unsafe { put(to, address) }
    }

    /// Waits for what runs, as drivers do.
    fn cuMemFree_v2(address: u64) {
        let driver = driver()?;
        let context = driver.current()?;
        if address == 0 {
            return Ok(());
        }
        driver.memory.check_allocation(address)?;
        context.drain();
        driver.memory.free(context.device(), address)
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let driver = driver()?;
        let used = driver.memory.used(driver.current()?.device());
        // SAFETY: the caller's pointer.
        unsafe { put(free, (driver.options.memory - used) as usize) }?;
        // SAFETY: the caller's pointer.
        unsafe { put(total, driver.options.memory as usize) }
    }

    /// Of page-locked memory the bytes are read when the stream has come this far; of other memory now.
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, len: usize, stream: u64) {
        let (driver, len) = (driver()?, len as u64);
        let context = driver.current()?;
        let stream = stream_of(&context, stream)?;
        let from = from.expose_provenance() as u64;
        driver.memory.check_device(to, len)?;
        if driver.memory.check_host(from, len)? {
            // SAFETY: both ranges were checked; the caller keeps the host's until the copy is done.
            push(driver, &context, &stream, move || unsafe { memory::copy(to, from, len) });
            return Ok(());
        }
        context.note_waiting("memory that is not page-locked is copied");
        // SAFETY: the caller's bytes, readable during the call.
        let bytes = unsafe { memory::bytes(from, len) };
        push(driver, &context, &stream, move || {
            let from = bytes.as_ptr().expose_provenance() as u64;
            // SAFETY: the range was checked; the bytes are our own.
            unsafe { memory::copy(to, from, len) };
        });
        Ok(())
    }

    /// To memory that is not page-locked, the bytes are there when the call returns.
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, len: usize, stream: u64) {
        let (driver, len) = (driver()?, len as u64);
        let context = driver.current()?;
        let stream = stream_of(&context, stream)?;
        let to = to.expose_provenance() as u64;
        driver.memory.check_device(from, len)?;
        let locked = driver.memory.check_host(to, len)?;
        // SAFETY: both ranges were checked; the caller keeps the host's until the copy is done.
        let place = push(driver, &context, &stream, move || unsafe { memory::copy(to, from, len) });
        if !locked {
            context.note_waiting("memory that is not page-locked is copied to");
            place.wait();
            context.check()?;
        }
        Ok(())
    }

    fn cuMemsetD8Async(to: u64, value: c_uchar, len: usize, stream: u64) {
        let (driver, len) = (driver()?, len as u64);
        let context = driver.current()?;
        let stream = stream_of(&context, stream)?;
        driver.memory.check_device(to, len)?;
        // By a kernel of the driver's own.
        let delay = driver.options.kernel_delay;
        push(driver, &context, &stream, move || {
            std::thread::sleep(delay);
            // SAFETY: the range was checked.
            unsafe { memory::fill(to, value, len) };
        });
        Ok(())
    }

    /// Addresses that nobody knows are no mistake: callers ask whether they are known.
    fn cuPointerGetAttribute(to: *mut c_void, attribute: c_uint, address: u64) {
        let driver = driver()?;
        driver.current()?;
        let (kind, device) = driver.memory.kind_of(address).ok_or(Code::INVALID_VALUE)?;
        let value = match attribute {
            MEMORY_TYPE => kind as c_int,
            IS_MANAGED => 0,
            DEVICE_ORDINAL => device as c_int,
            _ => return Err(misuse(Code::INVALID_VALUE, &format!("attribute {attribute}"))),
        };
        // SAFETY: the caller's pointer, to an int for these attributes.
        unsafe { put(to.cast::<c_int>(), value) }
    }

    fn cuMemGetAddressRange_v2(base: *mut u64, len: *mut usize, address: u64) {
        let driver = driver()?;
        driver.current()?;
        let (start, size) = driver.memory.range_of(address).ok_or(Code::NOT_FOUND)?;
        // SAFETY: the caller's pointer.
        unsafe { put(base, start) }?;
        // SAFETY: the caller's pointer.
        unsafe { put(len, size as usize) }
    }

    fn cuPointerSetAttribute(value: *const c_void, attribute: c_uint, address: u64) {
        let driver = driver()?;
        driver.current()?;
        if attribute != SYNC_MEMOPS || value.is_null() {
            return Err(misuse(Code::INVALID_VALUE, &format!("attribute {attribute}")));
        }
        driver.memory.check_allocation(address)
    }

    fn cuMemGetHandleForAddressRange(
        to: *mut c_void,
        address: u64,
        len: usize,
        kind: c_uint,
        flags: c_ulonglong,
    ) {
        let driver = driver()?;
        driver.current()?;
        if kind != DMA_BUF_FD || flags & !PCIE != 0 {
            return Err(misuse(Code::INVALID_VALUE, &format!("kind {kind}, flags {flags:#x}")));
        }
        if driver.options.coherent && flags & PCIE == 0 {
            return Err(misuse(Code::INVALID_VALUE, "devices on PCIe do not reach a handle of this kind here"));
        }
        let file = driver.memory.export(address, len as u64)?;
        // SAFETY: the caller's pointer, to an int for this kind of handle.
        unsafe { put(to.cast::<c_int>(), file.into_raw_fd()) }
    }
}
