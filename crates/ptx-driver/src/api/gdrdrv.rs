// UNSAFETY: reads and writes structures of callers, of the length that the request says.
#![expect(unsafe_code, reason = "the interface of a kernel module")]
//! The calls of `gdrdrv.h` (GDRCopy 2.6), for `tests/fake-gdrdrv`.

use std::ffi::{c_int, c_ulong, c_void};
use std::os::fd::IntoRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::gdrdrv::{self, Answer};
use crate::log::{self, Kind};

/// `_IOWR(0xDA, number, size)`.
const fn request(number: c_ulong, size: c_ulong) -> c_ulong {
    3 << 30 | size << 16 | 0xDA << 8 | number
}

const PIN: c_ulong = request(1, 40);
const UNPIN: c_ulong = request(2, 8);
// The size of a pointer, where the structures have 48 bytes.
const INFO: c_ulong = request(4, 8);
const INFO_V2: c_ulong = request(5, 8);
const ATTRIBUTE: c_ulong = request(6, 8);
const PIN_V2: c_ulong = request(7, 32);
const VERSION: c_ulong = request(255, 8);

/// A new descriptor of the node; less than 0: the negative number of an error.
pub extern "C" fn fake_gdrdrv_open() -> c_int {
    answer("gdrdrv-open", || gdrdrv::open().map(IntoRawFd::into_raw_fd)).unwrap_or_else(|errno| -errno)
}

/// A call of the node; 0, or the number of an error.
///
/// # Safety
/// `argument` is what the request says.
pub unsafe extern "C" fn fake_gdrdrv_ioctl(node: c_int, code: c_ulong, argument: *mut c_void) -> c_int {
    let (name, words) = match code {
        PIN => ("gdrdrv-pin", 5),
        UNPIN => ("gdrdrv-unpin", 1),
        INFO | INFO_V2 => ("gdrdrv-info", 6),
        ATTRIBUTE => ("gdrdrv-attribute", 1),
        PIN_V2 => ("gdrdrv-pin", 4),
        VERSION => ("gdrdrv-version", 1),
        _ => ("gdrdrv", 0),
    };
    if argument.is_null() {
        return libc::EFAULT;
    }
    // SAFETY: the caller's promise; each structure is made of whole aligned words of 8 bytes.
    let words = unsafe { std::slice::from_raw_parts_mut(argument.cast::<u64>(), words) };
    answer(name, || call(node, code, words)).err().unwrap_or(0)
}

fn call(node: c_int, code: c_ulong, words: &mut [u64]) -> Answer<()> {
    let version = gdrdrv::own_version()?;
    let since = |minor: u32| if version >= 2 << 16 | minor { Ok(()) } else { Err(unknown(code)) };
    match code {
        VERSION => {
            let (module, library) = gdrdrv::version(node)?;
            words[0] = u64::from(module) | u64::from(library) << 32;
        }
        PIN => {
            if words[2] != 0 || words[3] != 0 {
                log::note(Kind::Violation, "tokens are deprecated: the module may refuse them");
                return Err(libc::EINVAL);
            }
            words[4] = gdrdrv::pin(node, words[0], words[1], false)?;
        }
        PIN_V2 => {
            since(5)?;
            words[3] = gdrdrv::pin(node, words[0], words[1], words[2] & 1 != 0)?;
        }
        UNPIN => gdrdrv::unpin(node, words[0])?,
        INFO => {
            let kind = gdrdrv::kind(node, words[0])?;
            words[5] = u64::from(kind != 0) | u64::from(kind == 1) << 32;
        }
        INFO_V2 => {
            since(4)?;
            words[5] = gdrdrv::kind(node, words[0])?.into();
        }
        ATTRIBUTE => {
            since(5)?;
            let attribute = words[0] & 0xffff_ffff;
            words[0] = attribute | 1 << 32;
        }
        _ => return Err(unknown(code)),
    }
    Ok(())
}

fn unknown(code: c_ulong) -> c_int {
    log::note(Kind::Violation, &format!("request {code:#x} is none of this version's"));
    libc::EINVAL
}

fn answer<T>(name: &'static str, call: impl FnOnce() -> Answer<T>) -> Answer<T> {
    log::enter(name);
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        log::note(Kind::Violation, "the fake module panicked");
        Err(libc::EIO)
    });
    log::leave();
    result
}
