// UNSAFETY: C functions that write through the pointers that they are given.
#![expect(unsafe_code, reason = "the C interface of the CUDA driver")]
//! The driver itself, devices, contexts, and the words of errors.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::{calls, put, put_text};
use crate::code::{self, Code, Result};
use crate::context;
use crate::driver::{self, Driver, driver, misuse};
use crate::kernel::MOST_SHARED;
use crate::options::{DmaBuf, Options};

/// Nobody may take it for a GPU.
fn name(options: &Options) -> String {
    if !options.users {
        return "fake CUDA driver (no GPU)".to_owned();
    }
    let mut name =
        format!("PTX machine, no GPU, as of {}.{}", options.capability / 10, options.capability % 10);
    for option in options.told() {
        name += ", ";
        name += &option;
    }
    name
}

unsafe extern "C" {
    safe fn atexit(call: extern "C" fn()) -> c_int;
}

extern "C" fn at_exit() {
    driver::end();
}

/// An attribute; what a device of this kind has nothing to say to is 0.
fn attribute(driver: &Driver, number: u32) -> i32 {
    let options = &driver.options;
    match number {
        1 | 2 => 1024,
        3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65535,
        8 => 48 << 10,
        10 => 32,
        12 | 82 => 65536,
        16 => options.multiprocessors as i32,
        // CAN_MAP_HOST_MEMORY, CONCURRENT_KERNELS, UNIFIED_ADDRESSING, HOST_REGISTER_SUPPORTED
        19 | 31 | 41 | 99 => 1,
        33 => 0xff,
        34 => 0x1f,
        39 => 2048,
        40 => 2,
        50 => 0xffff,
        75 => (options.capability / 10) as i32,
        76 => (options.capability % 10) as i32,
        81 => 228 << 10,
        // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
        91 => i32::from(!options.alias),
        95 => i32::from(options.cooperative),
        97 => MOST_SHARED as i32,
        // PAGEABLE_MEMORY_ACCESS, and by the host's page tables
        88 | 100 => i32::from(options.coherent),
        106 => 32,
        111 => 1024,
        // GPU_DIRECT_RDMA_SUPPORTED, FLUSH_WRITES_OPTIONS, WRITES_ORDERING
        116 => 1,
        117 => options.flush,
        118 => options.ordering,
        124 => i32::from(options.dma_buf != DmaBuf::Absent),
        _ => 0,
    }
}

/// The highest attribute of CUDA 13.0's cuda.h.
const LAST_ATTRIBUTE: u32 = 147;

calls! {
    fn cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(misuse(Code::INVALID_VALUE, "flags must be 0"));
        }
        static AT_EXIT: std::sync::Once = std::sync::Once::new();
        AT_EXIT.call_once(|| {
            atexit(at_exit);
        });
        driver::start()
    }

    fn cuDriverGetVersion(version: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { put(version, driver()?.options.driver) }
    }

    /// Tables of functions that NVIDIA's own libraries use: NVRTC asks for one wherever it finds a driver, does without
    /// one that is refused, and crashes where it cannot ask.
    fn cuGetExportTable(table: *mut *const c_void, _id: *const [u8; 16]) {
        // SAFETY: the caller's pointer.
        unsafe { put(table, std::ptr::null()) }?;
        Err(Code::NOT_FOUND)
    }

    fn cuDeviceGetCount(count: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { put(count, driver()?.count() as c_int) }
    }

    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        driver()?.device(ordinal)?;
        // SAFETY: the caller's pointer.
        unsafe { put(device, ordinal) }
    }

    fn cuDeviceGetName(to: *mut c_char, len: c_int, device: c_int) {
        let driver = driver()?;
        driver.device(device)?;
        // SAFETY: the caller's pointer and length.
        unsafe { put_text(to, len.max(0) as usize, &name(&driver.options)) }
    }

    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        let driver = driver()?;
        let number = driver.device(device)? as u8;
        let mut bytes = if driver.options.users { *b"PTX machine    \0" } else { *b"fake driver GPU\0" };
        bytes[15] = number;
        // SAFETY: the caller's pointer, to 16 bytes.
        unsafe { put(uuid, bytes) }
    }

    fn cuDeviceGetPCIBusId(address: *mut c_char, len: c_int, device: c_int) {
        let number = driver()?.device(device)?;
        // Of a domain that no machine has.
        let text = format!("FFFF:FF:{number:02X}.0");
        // SAFETY: the caller's pointer and length.
        unsafe { put_text(address, len.max(0) as usize, &text) }
    }

    fn cuDeviceGetAttribute(value: *mut c_int, number: c_uint, device: c_int) {
        let driver = driver()?;
        driver.device(device)?;
        if number == 0 || number > LAST_ATTRIBUTE {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller's pointer.
        unsafe { put(value, attribute(driver, number)) }
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        let driver = driver()?;
        driver.device(device)?;
        // SAFETY: the caller's pointer.
        unsafe { put(bytes, driver.options.memory as usize) }
    }

    fn cuDevicePrimaryCtxRetain(to: *mut u64, device: c_int) {
        let driver = driver()?;
        let context = driver.retain(driver.device(device)?);
        // SAFETY: the caller's pointer, to a handle.
        unsafe { put(to, context.handle()) }
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        let driver = driver()?;
        driver.release(driver.device(device)?)
    }

    fn cuCtxGetCurrent(to: *mut u64) {
        driver()?;
        // SAFETY: the caller's pointer, to a handle.
        unsafe { put(to, context::current().unwrap_or(0)) }
    }

    fn cuCtxPushCurrent_v2(handle: u64) {
        if driver()?.context(handle).is_none() {
            return Err(misuse(Code::INVALID_CONTEXT, &format!("{handle:#x} is no context, or no longer")));
        }
        context::push(handle);
        Ok(())
    }

    fn cuCtxPopCurrent_v2(to: *mut u64) {
        driver()?;
        let popped = context::pop().ok_or_else(|| misuse(Code::INVALID_CONTEXT, "no context is current"))?;
        // May be null: then the caller does not want to know.
        if to.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's pointer, to a handle.
        unsafe { put(to, popped) }
    }

    fn cuFlushGPUDirectRDMAWrites(target: c_uint, scope: c_uint) {
        const CURRENT_CONTEXT: c_uint = 0;
        const SCOPES: [c_uint; 2] = [100, 200];
        let driver = driver()?;
        driver.current()?;
        if driver.options.flush & 1 == 0 {
            return Err(misuse(Code::NOT_SUPPORTED, "the device says that the host cannot flush"));
        }
        if target != CURRENT_CONTEXT || !SCOPES.contains(&scope) {
            return Err(misuse(Code::INVALID_VALUE, &format!("target {target}, scope {scope}")));
        }
        Ok(())
    }

    fn cuGetErrorName(number: c_uint, to: *mut *const c_char) {
        let name = words(number, to)?.0;
        // SAFETY: the caller's pointer.
        unsafe { put(to, name) }
    }

    fn cuGetErrorString(number: c_uint, to: *mut *const c_char) {
        let text = words(number, to)?.1;
        // SAFETY: the caller's pointer.
        unsafe { put(to, text) }
    }
}

/// Name and text of a result; for unknown ones the caller's pointer becomes null.
fn words(number: c_uint, to: *mut *const c_char) -> Result<(*const c_char, *const c_char)> {
    match code::words(number) {
        Some((name, text)) => Ok((name.as_ptr(), text.as_ptr())),
        None => {
            // SAFETY: the caller's pointer.
            unsafe { put(to, std::ptr::null()) }?;
            Err(Code::INVALID_VALUE)
        }
    }
}
