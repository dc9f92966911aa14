//! Preloaded (`LD_PRELOAD`) into a process, this plays GDRCopy's kernel module: `/dev/gdrdrv` opens, and its calls go to
//! the fake CUDA driver that the process has loaded, as the module's go to the driver of the GPU. All else goes to the
//! system.
// UNSAFETY: stands in for two functions of the C library.
#![expect(unsafe_code, reason = "functions of the C library by their own names")]

use std::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

const NODE: &CStr = c"/dev/gdrdrv";
/// Descriptors of the node that a process may have at a time.
const NODES: usize = 64;
/// Those that are open, or were: a number that was closed and is another file now is taken for the node's until it is
/// opened again, which no test does.
static OPEN: [AtomicI32; NODES] = [const { AtomicI32::new(-1) }; NODES];

/// A function of the fake CUDA driver, if the process has it.
fn of_the_driver(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: looks for a library that is loaded already, and keeps it.
    let driver = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    if driver.is_null() {
        return None;
    }
    // SAFETY: a handle that was just given out.
    let function = unsafe { libc::dlsym(driver, name.as_ptr()) };
    (!function.is_null()).then_some(function)
}

fn failed(errno: c_int) -> c_int {
    // SAFETY: it takes nothing.
    let own = unsafe { libc::__errno_location() };
    // SAFETY: this thread's own.
    unsafe { *own = errno };
    -1
}

fn open_node() -> c_int {
    let Some(function) = of_the_driver(c"fake_gdrdrv_open") else { return failed(libc::ENOENT) };
    // SAFETY: the fake driver's function has this signature.
    let open: unsafe extern "C" fn() -> c_int = unsafe { std::mem::transmute(function) };
    // SAFETY: it takes nothing.
    let fd = unsafe { open() };
    if fd < 0 {
        return failed(-fd);
    }
    let free =
        OPEN.iter().find(|at| at.compare_exchange(-1, fd, Ordering::AcqRel, Ordering::Relaxed).is_ok());
    if free.is_some() || OPEN.iter().any(|at| at.load(Ordering::Acquire) == fd) {
        fd
    } else {
        failed(libc::EMFILE)
    }
}

fn result(result: c_long) -> c_int {
    // `syscall` has set errno.
    result as c_int
}

unsafe fn open_any(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: callers of `open` give a string.
    if !path.is_null() && unsafe { CStr::from_ptr(path) } == NODE {
        return open_node();
    }
    // SAFETY: what the caller asks the system for.
    result(unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags | libc::O_LARGEFILE, mode) })
}

/// `open(2)`.
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { open_any(path, flags, mode) }
}

/// `open(2)`, for large files.
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { open_any(path, flags, mode) }
}

/// `ioctl(2)`.
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if fd >= 0 && OPEN.iter().any(|at| at.load(Ordering::Acquire) == fd) {
        let Some(function) = of_the_driver(c"fake_gdrdrv_ioctl") else { return failed(libc::ENODEV) };
        // SAFETY: the fake driver's function has this signature.
        let call: unsafe extern "C" fn(c_int, c_ulong, *mut c_void) -> c_int =
            unsafe { std::mem::transmute(function) };
        // SAFETY: the caller's promise: the argument is what the request reads and writes.
        let errno = unsafe { call(fd, request, argument) };
        return if errno == 0 { 0 } else { failed(errno) };
    }
    // SAFETY: what the caller asks the system for.
    result(unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) })
}
