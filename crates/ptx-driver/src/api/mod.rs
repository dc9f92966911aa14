// UNSAFETY: writes results to where C callers want them; the modules below export C functions.
#![expect(unsafe_code, reason = "the C interface of the CUDA driver")]
//! The C functions, with the signatures and numbers of cuda.h.

pub mod device;
pub mod gdrdrv;
pub mod host;
pub mod launch;
pub mod memory;
pub mod module;
pub mod stream;

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::code::{Code, Result};
use crate::driver::misuse;
use crate::log::{self, Kind};

/// Functions by their own names: what the body returns becomes the number that C sees.
macro_rules! calls {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As cuda.h says.
            #[expect(non_snake_case, reason = "the driver's own names")]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> u32 {
                $crate::api::answer(stringify!($name), || $body)
            }
        )*

        /// What this file has.
        pub(super) const FOUND: &[(&str, super::Address)] =
            &[$((stringify!($name), super::Address($name as *const ()))),*];
    };
}
use calls;

/// Where a function is.
#[derive(Clone, Copy)]
struct Address(*const ());

// SAFETY: functions stay where they are, and may be called by any thread.
unsafe impl Sync for Address {}

/// The functions of all files.
fn functions() -> impl Iterator<Item = &'static (&'static str, Address)> {
    [device::FOUND, host::FOUND, launch::FOUND, memory::FOUND, module::FOUND, stream::FOUND]
        .into_iter()
        .flatten()
}

/// The functions by name, as `dlsym` finds them in a driver's library.
pub fn function(name: &str) -> Option<*const ()> {
    functions().find(|(known, _)| *known == name).map(|(_, address)| address.0)
}

/// The functions' names.
pub fn names() -> Vec<&'static str> {
    functions().map(|(name, _)| *name).collect()
}

/// Runs a call. A panic is a mistake of the fake driver's, and never crosses into C.
fn answer(name: &'static str, call: impl FnOnce() -> Result<()>) -> u32 {
    log::enter(name);
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        log::note(Kind::Violation, "the driver panicked");
        Err(Code::UNKNOWN)
    });
    log::leave();
    result.map_or_else(|code| code.0, |()| 0)
}

/// Writes a result.
///
/// # Safety
/// `to` is null or valid for writing.
unsafe fn put<T>(to: *mut T, value: T) -> Result<()> {
    if to.is_null() {
        return Err(misuse(Code::INVALID_VALUE, "no place for the result"));
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes text with a zero at its end into `len` bytes, cut off where it is longer.
///
/// # Safety
/// `to` is null or valid for writing `len` bytes.
unsafe fn put_text(to: *mut c_char, len: usize, text: &str) -> Result<()> {
    if to.is_null() || len == 0 {
        return Err(misuse(Code::INVALID_VALUE, "no place for the text"));
    }
    let bytes: Vec<u8> = text.bytes().take(len - 1).chain([0]).collect();
    // SAFETY: at most `len` bytes, by the caller's promise.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

/// Reads a text.
///
/// # Safety
/// `from` is null or a text that ends in zero.
unsafe fn text(from: *const c_char) -> Result<String> {
    if from.is_null() {
        return Err(misuse(Code::INVALID_VALUE, "no text"));
    }
    // SAFETY: not null, and the caller's promise.
    let text = unsafe { CStr::from_ptr(from) };
    Ok(text.to_string_lossy().into_owned())
}
